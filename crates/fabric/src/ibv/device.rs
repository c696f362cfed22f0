//! Devices, protection domains, registered memory, completion queues.

use super::abi::*;
use super::library::{Library, library};
use super::{Error, Missing, code, last};
use crate::Mapping;
use rustix::io::Errno;
use std::ffi::CStr;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Addresses of a port that are looked at.
const GIDS: i32 = 256;
/// Ports of a device that are looked at.
const PORTS: u8 = 8;

/// An open device and the port of it that is used.
pub(crate) struct Device {
    pub(super) library: &'static Library,
    pub(super) context: NonNull<ibv_context>,
    pub(super) port: Port,
    /// Reads that may be under way at once on a connection, as target and as initiator.
    pub(super) reads_in: u8,
    pub(super) reads_out: u8,
}

/// A port, and its address that is used.
#[derive(Copy, Clone)]
pub(super) struct Port {
    pub number: u8,
    pub lid: u16,
    pub mtu: u32,
    pub max_message: u32,
    pub ethernet: bool,
    pub gid: ibv_gid,
    pub gid_index: u8,
}

// SAFETY: libibverbs's objects may be used from any thread; it locks inside.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// How well an address fits; larger is better.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Fit {
    Any,
    Routable,
    Wanted,
}

/// The IPv6 form of a network address, which is its port's GID.
fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Device {
    /// Opens the device whose port has this network address; any active one if there is none such.
    pub fn open(near: Option<IpAddr>) -> Result<Arc<Device>, Error> {
        let library = library()?;
        let mut count = 0;
        // SAFETY: the library writes the count and returns a list that ends with a null pointer, or null.
        let list = unsafe { (library.get_device_list)(&mut count) };
        if list.is_null() {
            return Err(no_device().into());
        }
        let mut best: Option<(Fit, Device)> = None;
        let mut problem = if count == 0 { no_device() } else { Missing::Port(String::new()) };
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` entries, and is freed below.
            let opened = unsafe { open_one(library, *list.add(at), near) };
            match opened {
                Ok((fit, device)) => {
                    if best.as_ref().is_none_or(|(other, _)| fit > *other) {
                        best = Some((fit, device));
                    }
                }
                Err(missing) => problem = missing,
            }
        }
        // SAFETY: the list came from the library; devices that are open stay.
        unsafe { (library.free_device_list)(list) };
        match best {
            Some((_, device)) => Ok(Arc::new(device)),
            None => Err(problem.into()),
        }
    }

    /// Bytes of the largest message or access.
    pub fn max_message(&self) -> u64 {
        self.port.max_message.into()
    }
}

/// Why the list of devices is empty: there is none, or none that can be driven from here.
fn no_device() -> Missing {
    let names = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    match names("/sys/class/infiniband").as_slice() {
        [] => Missing::Device,
        devices => Missing::Driver(devices.join(", ")),
    }
}

/// # Safety
/// `device` is from the library's list, which has not been freed.
unsafe fn open_one(
    library: &'static Library,
    device: *mut ibv_device,
    near: Option<IpAddr>,
) -> Result<(Fit, Device), Missing> {
    // SAFETY: the device is from the list (the caller); its name is a C string in it.
    let name = unsafe { CStr::from_ptr((library.get_device_name)(device)) }.to_string_lossy().into_owned();
    // SAFETY: as above.
    let context = unsafe { (library.open_device)(device) };
    let Some(context) = NonNull::new(context) else {
        let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        return Err(Missing::Permission { device: name, source: Errno::from_raw_os_error(code) });
    };
    let port = Port {
        number: 0,
        lid: 0,
        mtu: 0,
        max_message: 0,
        ethernet: false,
        gid: ibv_gid::default(),
        gid_index: 0,
    };
    let mut open = Device { library, context, port, reads_in: 1, reads_out: 1 };
    // SAFETY: all fields are numbers.
    let mut limits: ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, and the structure has the size that the library fills.
    if unsafe { (library.query_device)(context.as_ptr(), &mut limits) } == 0 {
        open.reads_in = limits.max_qp_rd_atom.clamp(1, 16) as u8;
        open.reads_out = limits.max_qp_init_rd_atom.clamp(1, 16) as u8;
    }
    let mut best: Option<(Fit, Port)> = None;
    for number in 1..=limits.phys_port_cnt.clamp(1, PORTS) {
        let Some((fit, port)) = open.look_at(number, near) else { continue };
        if best.as_ref().is_none_or(|(other, _)| fit > *other) {
            best = Some((fit, port));
        }
    }
    let (fit, port) = best.ok_or(Missing::Port(format!(" (looked at {name})")))?;
    open.port = port;
    Ok((fit, open))
}

impl Device {
    /// A port, if it is active, with the best of its addresses.
    fn look_at(&self, number: u8, near: Option<IpAddr>) -> Option<(Fit, Port)> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the context is open; the structure is at least as large as what the exported function fills.
        let asked = unsafe { (self.library.query_port)(self.context.as_ptr(), number, &mut attributes) };
        if asked != 0 || attributes.state != IBV_PORT_ACTIVE {
            return None;
        }
        let mut port = Port {
            number,
            lid: attributes.lid,
            mtu: attributes.active_mtu,
            max_message: attributes.max_msg_sz,
            ethernet: attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
            gid: ibv_gid::default(),
            gid_index: 0,
        };
        let mut best = None;
        for index in 0..attributes.gid_tbl_len.clamp(0, GIDS) {
            let mut gid = ibv_gid::default();
            // SAFETY: the context is open; the library fills sixteen bytes.
            let asked = unsafe { (self.library.query_gid)(self.context.as_ptr(), number, index, &mut gid) };
            if asked != 0 || gid.raw == [0; 16] || (port.ethernet && !self.is_routed(number, index)) {
                continue;
            }
            let fit = if near.is_some_and(|near| gid_of(near) == gid.raw) {
                Fit::Wanted
            } else if gid.raw[..2] == [0xfe, 0x80] {
                Fit::Any
            } else {
                Fit::Routable
            };
            if best.is_none_or(|(other, _, _)| fit > other) {
                best = Some((fit, gid, index));
            }
        }
        match best {
            Some((fit, gid, index)) => {
                (port.gid, port.gid_index) = (gid, index as u8);
                Some((fit, port))
            }
            // InfiniBand does without, by local identifiers.
            None if !port.ethernet => Some((Fit::Any, port)),
            None => None,
        }
    }

    /// Whether an address of an Ethernet port stands for RoCE version 2 (over UDP), which is what passes routers.
    fn is_routed(&self, port: u8, index: i32) -> bool {
        let Some(query) = self.library.query_gid_ex else { return true };
        let mut entry = ibv_gid_entry::default();
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: the context is open, and the library is told the size of what it fills.
        let asked = unsafe { query(self.context.as_ptr(), port.into(), index as u32, &mut entry, 0, size) };
        asked == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened by `open_one`; everything that was made of it holds an `Arc` of it, and is gone.
        unsafe { (self.library.close_device)(self.context.as_ptr()) };
    }
}

/// A protection domain: memory and queue pairs that belong together.
pub(crate) struct Domain {
    pub(super) raw: NonNull<ibv_pd>,
    pub(super) device: Arc<Device>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Domain {}
// SAFETY: as for `Device`.
unsafe impl Sync for Domain {}

impl Domain {
    pub fn new(device: &Arc<Device>) -> Result<Arc<Domain>, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.library.alloc_pd)(device.context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_alloc_pd"))?;
        Ok(Arc::new(Domain { raw, device: device.clone() }))
    }

    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made by `new`; what belongs to it holds an `Arc` of it, and is gone.
        unsafe { (self.device.library.dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// Who may do what with registered memory, besides this side's adapter reading it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// This side's adapter may write it: a buffer.
    Local,
    /// The peer may read it.
    RemoteRead,
    /// The peer may write it: a ring.
    RemoteWrite,
    /// The peer may do both.
    RemoteReadWrite,
}

/// Memory that the adapter may reach. All of its pages are in memory, and locked there, for as long as this lives.
pub(crate) struct Registered {
    raw: NonNull<ibv_mr>,
    domain: Arc<Domain>,
    memory: Option<Arc<Mapping>>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Registered {}
// SAFETY: as for `Device`.
unsafe impl Sync for Registered {}

impl Registered {
    pub fn new(domain: &Arc<Domain>, memory: &Arc<Mapping>, rights: Rights) -> Result<Registered, Error> {
        let access = match rights {
            Rights::Local => IBV_ACCESS_LOCAL_WRITE,
            Rights::RemoteRead => IBV_ACCESS_REMOTE_READ,
            Rights::RemoteWrite => IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
            Rights::RemoteReadWrite => {
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
            }
        };
        if access & IBV_ACCESS_LOCAL_WRITE != 0 && !memory.writable() {
            return Err(Error::System {
                what: "registering memory that is mapped for reading",
                source: Errno::ACCESS,
            });
        }
        must_fit(memory)?;
        // SAFETY: the range is mapped, and stays so while this lives, which holds the mapping; if it is to be written, it is
        // writable. It is read and written through atomics only, for which the adapter is one more writer of words.
        let raw = unsafe {
            (domain.device.library.reg_mr)(
                domain.raw.as_ptr(),
                memory.address() as *mut libc::c_void,
                memory.len() as usize,
                access,
            )
        };
        let raw = NonNull::new(raw).ok_or_else(|| refused(memory.len()))?;
        Ok(Registered { raw, domain: domain.clone(), memory: Some(memory.clone()) })
    }

    pub fn memory(&self) -> &Mapping {
        match &self.memory {
            Some(memory) => memory,
            None => unreachable!("it is taken out by `drop` only"),
        }
    }
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the library's structure lives until it is deregistered.
        unsafe { self.raw.as_ref() }.lkey
    }
    /// What a peer names it by.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.raw.as_ref() }.rkey
    }
}

/// Registering brings every page of a sparse file into memory; the system would sooner kill somebody than refuse.
fn must_fit(memory: &Mapping) -> Result<(), Missing> {
    let Some(stat) = memory.fd().and_then(|fd| rustix::fs::fstat(fd).ok()) else { return Ok(()) };
    let there = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let needed = memory.len().saturating_sub(there);
    match available() {
        Some(available) if needed > available => {
            Err(Missing::Memory { bytes: memory.len(), needed, available })
        }
        _ => Ok(()),
    }
}

/// Bytes that can still be had, as the system estimates.
fn available() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn refused(bytes: u64) -> Error {
    let Error::System { what, source } = last("ibv_reg_mr") else { return last("ibv_reg_mr") };
    if source != Errno::NOMEM && source != Errno::PERM {
        return Error::System { what, source };
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = match limit {
        Some(limit) => format!("this process may lock {limit} bytes of memory (ulimit -l)"),
        None => "this process may lock any amount of memory, so memory itself is short".to_owned(),
    };
    Missing::Locked { bytes, limit, source }.into()
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered by `new`, once.
        let gone = unsafe { (self.domain.device.library.dereg_mr)(self.raw.as_ptr()) };
        if gone != 0 {
            // The adapter may still reach it: never unmapped, then.
            std::mem::forget(self.memory.take());
        }
    }
}

/// What makes sleeping for completions possible: its descriptor becomes readable.
pub(crate) struct Channel {
    raw: NonNull<ibv_comp_channel>,
    device: Arc<Device>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Channel {}
// SAFETY: as for `Device`.
unsafe impl Sync for Channel {}

impl Channel {
    pub fn new(device: &Arc<Device>) -> Result<Arc<Channel>, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.library.create_comp_channel)(device.context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_create_comp_channel"))?;
        let channel = Channel { raw, device: device.clone() };
        rustix::io::ioctl_fionbio(channel.fd(), true)
            .or_else(|_| rustix::fs::fcntl_setfl(channel.fd(), rustix::fs::OFlags::NONBLOCK))
            .map_err(|source| Error::System { what: "making a completion channel non-blocking", source })?;
        Ok(Arc::new(channel))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }

    /// Takes an event, if one has come: of which queue it is. Does not block.
    pub fn event(&self) -> Option<Event> {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel is alive; the library writes two pointers.
        if unsafe { (self.device.library.get_cq_event)(self.raw.as_ptr(), &mut queue, &mut context) } != 0 {
            return None;
        }
        // SAFETY: the queue of the event; it cannot have been destroyed before its events are acknowledged.
        unsafe { (self.device.library.ack_cq_events)(queue, 1) };
        Some(Event(queue))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `new`; its queues hold an `Arc` of it, and are gone.
        unsafe { (self.device.library.destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

/// That something has completed.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Event(*mut ibv_cq);

/// A completion queue.
pub(crate) struct Queue {
    pub(super) raw: NonNull<ibv_cq>,
    channel: Arc<Channel>,
    poll: unsafe extern "C" fn(*mut ibv_cq, i32, *mut ibv_wc) -> i32,
    arm: unsafe extern "C" fn(*mut ibv_cq, i32) -> i32,
}

// SAFETY: as for `Device`.
unsafe impl Send for Queue {}
// SAFETY: as for `Device`.
unsafe impl Sync for Queue {}

/// How a piece of work ended.
pub(crate) type Ended = ibv_wc;

impl Queue {
    /// With room for so many completions. A full queue is fatal to its pairs, so it must have room for all their work.
    pub fn new(channel: &Arc<Channel>, entries: u32) -> Result<Arc<Queue>, Error> {
        let device = &channel.device;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: context and channel are alive.
        let raw = unsafe {
            (device.library.create_cq)(device.context.as_ptr(), entries, null_mut(), channel.raw.as_ptr(), 0)
        };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_create_cq"))?;
        // SAFETY: the context is open; the driver has filled its table.
        let ops = unsafe { &device.context.as_ref().ops };
        match (ops.poll_cq, ops.req_notify_cq) {
            (Some(poll), Some(arm)) => Ok(Arc::new(Queue { raw, channel: channel.clone(), poll, arm })),
            _ => {
                // SAFETY: just made.
                unsafe { (device.library.destroy_cq)(raw.as_ptr()) };
                Err(Error::System { what: "a driver without completions", source: Errno::NOTSUP })
            }
        }
    }

    /// Fetches completions. Does not block.
    pub fn poll(&self, into: &mut [Ended]) -> Result<usize, Error> {
        let room = i32::try_from(into.len()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive, and `into` has room for so many.
        let count = unsafe { (self.poll)(self.raw.as_ptr(), room, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| Error::System { what: "ibv_poll_cq", source: Errno::IO })
    }

    /// Whether an event is of this queue.
    pub fn has(&self, event: Event) -> bool {
        self.raw.as_ptr() == event.0
    }

    /// Lets the next completion make the channel readable. What came before must be polled for after this.
    pub fn arm(&self) -> Result<(), Error> {
        // SAFETY: the queue is alive.
        code("ibv_req_notify_cq", unsafe { (self.arm)(self.raw.as_ptr(), 0) })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Waits until all events are acknowledged, which `Channel::event` does at once.
        // SAFETY: made by `new`; its pairs hold an `Arc` of it, and are gone.
        unsafe { (self.channel.device.library.destroy_cq)(self.raw.as_ptr()) };
    }
}
