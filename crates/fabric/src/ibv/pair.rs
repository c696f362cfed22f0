//! Queue pairs: reliable connections between two adapters.

use super::abi::*;
use super::device::{Domain, Queue, Registered};
use super::{Error, code, last};
use rustix::io::Errno;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Bytes that a small message is asked to have room for within its work request.
const INLINE: u32 = 128;
/// Time that passes before something is sent again: 4.096 µs × 2^17, about half a second. A shorter one lets emulated adapters on a busy machine
/// repeat what is only late.
const TIMEOUT: u8 = 17;
/// Times that something is sent again before the peer counts as gone: under four seconds in all. (Seven would mean for ever to Soft-RoCE.)
const RETRIES: u8 = 6;
/// For ever: a receiver that has no room now is behind, not gone.
const RETRIES_WITHOUT_ROOM: u8 = 7;
/// How long a receiver without room asks the sender to wait: 0.64 ms.
const WAIT_FOR_ROOM: u8 = 12;
const HOP_LIMIT: u8 = 64;

/// What a peer may do at all; with which memory, its registration says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It sends messages.
    Nothing,
    /// It also writes: a ring.
    Writes,
    /// It also reads: regions.
    WritesAndReads,
}

/// How much work a pair has room for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sizes {
    pub sends: u32,
    pub receives: u32,
}

/// What a peer must know of a pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub number: u32,
    pub sequence: u32,
    pub lid: u16,
    pub mtu: u8,
    pub reads_in: u8,
    pub reads_out: u8,
    pub gid: [u8; 16],
}

/// Bytes of an [`Endpoint`] as it is told.
pub(crate) const ENDPOINT_BYTES: usize = 32;

impl Endpoint {
    pub fn encode(&self) -> [u8; ENDPOINT_BYTES] {
        let mut out = [0; ENDPOINT_BYTES];
        out[..4].copy_from_slice(&self.number.to_le_bytes());
        out[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8..10].copy_from_slice(&self.lid.to_le_bytes());
        out[10..13].copy_from_slice(&[self.mtu, self.reads_in, self.reads_out]);
        out[16..].copy_from_slice(&self.gid);
        out
    }

    /// `None` if it cannot be one.
    pub fn decode(from: &[u8; ENDPOINT_BYTES]) -> Option<Endpoint> {
        let word = |at: usize| u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        let mut gid = [0; 16];
        gid.copy_from_slice(&from[16..]);
        let endpoint = Endpoint {
            number: word(0),
            sequence: word(4),
            lid: u16::from_le_bytes([from[8], from[9]]),
            mtu: from[10],
            reads_in: from[11],
            reads_out: from[12],
            gid,
        };
        let sane = endpoint.number < 1 << 24
            && endpoint.sequence < 1 << 24
            && (1..=5).contains(&endpoint.mtu)
            && endpoint.reads_in > 0
            && endpoint.reads_out > 0
            && from[13..16] == [0; 3];
        sane.then_some(endpoint)
    }
}

/// A range of the peer's memory, with its key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub address: u64,
    pub key: u32,
}

/// A range of registered memory of this side.
#[derive(Copy, Clone)]
pub(crate) struct Piece<'a> {
    pub memory: &'a Registered,
    pub offset: u64,
    pub bytes: u32,
}

impl Piece<'_> {
    fn element(&self) -> Result<ibv_sge, Error> {
        let memory = self.memory.memory();
        let inside = self.offset.checked_add(self.bytes.into()).is_some_and(|end| end <= memory.len());
        if !inside {
            return Err(Error::System { what: "a range outside of registered memory", source: Errno::FAULT });
        }
        Ok(ibv_sge {
            addr: memory.address() + self.offset,
            length: self.bytes,
            lkey: self.memory.local_key(),
        })
    }
}

/// A read that is to be posted together with others.
#[derive(Copy, Clone)]
pub(crate) struct Read {
    id: u64,
    element: ibv_sge,
    remote: Remote,
}

impl Read {
    /// `id` comes back with its completion.
    pub fn new(id: u64, into: Piece<'_>, from: Remote) -> Result<Read, Error> {
        Ok(Read { id, element: into.element()?, remote: from })
    }
}

/// What can be posted.
#[derive(Copy, Clone)]
pub(crate) enum Work<'a> {
    /// A message into whatever the peer posted to receive.
    Send(Piece<'a>),
    /// Into the peer's memory.
    Write(Piece<'a>, Remote),
    /// The same, with a completion at the peer.
    WriteAndTell(Piece<'a>, Remote),
    /// From the peer's memory.
    Read(Piece<'a>, Remote),
}

/// One end of a reliable connection.
pub(crate) struct Pair {
    raw: NonNull<ibv_qp>,
    domain: Arc<Domain>,
    _sends: Arc<Queue>,
    _receives: Arc<Queue>,
    inline: u32,
    sequence: u32,
    post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> i32,
    post_recv: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> i32,
}

// SAFETY: libibverbs's objects may be used from any thread; it locks inside.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl Pair {
    /// A pair that can receive once [`Pair::connect`] has told it from whom. `sequence`: the number of its first packet, at random.
    pub fn new(
        domain: &Arc<Domain>,
        sends: &Arc<Queue>,
        receives: &Arc<Queue>,
        sizes: Sizes,
        sequence: u32,
        reach: Reach,
    ) -> Result<Pair, Error> {
        let device = &domain.device;
        let mut raw = null_mut();
        for inline in [INLINE, 0] {
            let cap = ibv_qp_cap {
                max_send_wr: sizes.sends,
                max_recv_wr: sizes.receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline,
            };
            let mut wanted = ibv_qp_init_attr {
                qp_context: null_mut(),
                send_cq: sends.raw.as_ptr(),
                recv_cq: receives.raw.as_ptr(),
                srq: null_mut(),
                cap,
                qp_type: IBV_QPT_RC,
                sq_sig_all: 0,
            };
            // SAFETY: domain and queues are alive, and stay so while the pair is, which holds them.
            raw = unsafe { (device.library.create_qp)(domain.raw.as_ptr(), &mut wanted) };
            if !raw.is_null() {
                let raw = NonNull::new(raw).ok_or_else(|| last("ibv_create_qp"))?;
                return Pair::prepare(
                    raw,
                    domain,
                    sends,
                    receives,
                    wanted.cap.max_inline_data,
                    sequence,
                    reach,
                );
            }
        }
        debug_assert!(raw.is_null());
        Err(last("ibv_create_qp"))
    }

    fn prepare(
        raw: NonNull<ibv_qp>,
        domain: &Arc<Domain>,
        sends: &Arc<Queue>,
        receives: &Arc<Queue>,
        inline: u32,
        sequence: u32,
        reach: Reach,
    ) -> Result<Pair, Error> {
        // SAFETY: the context is open; the driver has filled its table.
        let ops = unsafe { &domain.device.context.as_ref().ops };
        let (Some(post_send), Some(post_recv)) = (ops.post_send, ops.post_recv) else {
            // SAFETY: just made.
            unsafe { (domain.device.library.destroy_qp)(raw.as_ptr()) };
            return Err(Error::System { what: "a driver without queue pairs", source: Errno::NOTSUP });
        };
        let (domain, _sends, _receives) = (domain.clone(), sends.clone(), receives.clone());
        let sequence = sequence & 0xff_ffff;
        let pair = Pair { raw, domain, _sends, _receives, inline, sequence, post_send, post_recv };
        let reach = match reach {
            Reach::Nothing => 0,
            Reach::Writes => IBV_ACCESS_REMOTE_WRITE,
            Reach::WritesAndReads => IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
        };
        let mut state = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: pair.domain.device.port.number,
            qp_access_flags: reach as u32,
            ..ibv_qp_attr::default()
        };
        pair.modify(&mut state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)?;
        Ok(pair)
    }

    /// What the peer must know.
    pub fn endpoint(&self) -> Endpoint {
        let device = &self.domain.device;
        Endpoint {
            // SAFETY: the library's structure lives until the pair is destroyed.
            number: unsafe { self.raw.as_ref() }.qp_num,
            sequence: self.sequence,
            lid: device.port.lid,
            mtu: device.port.mtu as u8,
            reads_in: device.reads_in,
            reads_out: device.reads_out,
            gid: device.port.gid.raw,
        }
    }

    /// Connects: from now on it receives from, and sends to, that peer.
    pub fn connect(&self, peer: &Endpoint) -> Result<(), Error> {
        let (port, device) = (&self.domain.device.port, &self.domain.device);
        let global = port.gid.raw != [0; 16];
        let mut state = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: port.mtu.min(peer.mtu.into()),
            dest_qp_num: peer.number,
            rq_psn: peer.sequence,
            max_dest_rd_atomic: device.reads_in.min(peer.reads_out),
            min_rnr_timer: WAIT_FOR_ROOM,
            ah_attr: ibv_ah_attr {
                grh: ibv_global_route {
                    dgid: ibv_gid { raw: peer.gid },
                    sgid_index: port.gid_index,
                    hop_limit: HOP_LIMIT,
                    ..ibv_global_route::default()
                },
                dlid: peer.lid,
                is_global: global.into(),
                port_num: port.number,
                ..ibv_ah_attr::default()
            },
            ..ibv_qp_attr::default()
        };
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut state, mask)?;
        let mut state = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: self.sequence,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_WITHOUT_ROOM,
            max_rd_atomic: device.reads_out.min(peer.reads_in),
            ..ibv_qp_attr::default()
        };
        let mask = IBV_QP_STATE
            | IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut state, mask)
    }

    /// Ends the connection: all that was posted completes, as flushed, and nothing is received any more.
    pub fn fail(&self) -> Result<(), Error> {
        self.modify(&mut ibv_qp_attr { qp_state: IBV_QPS_ERR, ..ibv_qp_attr::default() }, IBV_QP_STATE)
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: i32) -> Result<(), Error> {
        // SAFETY: the pair is alive; the library reads the fields that the mask names.
        code("ibv_modify_qp", unsafe {
            (self.domain.device.library.modify_qp)(self.raw.as_ptr(), attributes, mask)
        })
    }

    /// Posts work; `id` comes back with its completion.
    pub fn post(&self, id: u64, work: Work<'_>) -> Result<(), Error> {
        let (opcode, piece, remote) = match work {
            Work::Send(piece) => (IBV_WR_SEND, piece, None),
            Work::Write(piece, remote) => (IBV_WR_RDMA_WRITE, piece, Some(remote)),
            Work::WriteAndTell(piece, remote) => (IBV_WR_RDMA_WRITE_WITH_IMM, piece, Some(remote)),
            Work::Read(piece, remote) => return self.post_reads(&[Read::new(id, piece, remote)?]),
        };
        let mut element = piece.element()?;
        let inline = if piece.bytes <= self.inline { IBV_SEND_INLINE } else { 0 };
        let remote = remote.unwrap_or(Remote { address: 0, key: 0 });
        let mut request = request(id, opcode, &mut element, remote, IBV_SEND_SIGNALED | inline);
        let mut bad = null_mut();
        // What was stored to the piece comes before the adapter is told of it.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: the pair is alive; the request and its element live through the call, which copies them; the element is within
        // registered memory, which the driver copies now (inline) or the adapter checks later.
        code("ibv_post_send", unsafe { (self.post_send)(self.raw.as_ptr(), &mut request, &mut bad) })
    }

    /// Posts reads with one call; they are carried out in their order. Only the last one completes, or the first that fails, and then each after it.
    ///
    /// # Errors
    /// Some of them may have been posted all the same.
    pub fn post_reads(&self, reads: &[Read]) -> Result<(), Error> {
        let mut elements: Vec<ibv_sge> = reads.iter().map(|read| read.element).collect();
        let one = |(read, element): (&Read, _)| request(read.id, IBV_WR_RDMA_READ, element, read.remote, 0);
        let mut requests: Vec<ibv_send_wr> = reads.iter().zip(&mut elements).map(one).collect();
        let Some(last) = requests.last_mut() else { return Ok(()) };
        last.send_flags = IBV_SEND_SIGNALED;
        let (first, count) = (requests.as_mut_ptr(), requests.len());
        for i in 1..count {
            // SAFETY: both are within the vector, which neither grows nor moves any more.
            unsafe { (*first.add(i - 1)).next = first.add(i) };
        }
        let mut bad = null_mut();
        // SAFETY: the pair is alive; requests and elements live through the call, which copies them; whether what the elements name is registered
        // memory, as it was when they were made, the adapter checks before it writes there.
        code("ibv_post_send", unsafe { (self.post_send)(self.raw.as_ptr(), first, &mut bad) })
    }

    /// Posts room for one message, or for one "tell" (`None`).
    pub fn post_receive(&self, id: u64, into: Option<Piece<'_>>) -> Result<(), Error> {
        let mut element = into.map(|piece| piece.element()).transpose()?;
        let mut request = ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            num_sge: element.is_some().into(),
            sg_list: element.as_mut().map_or(null_mut(), std::ptr::from_mut),
        };
        let mut bad = null_mut();
        // SAFETY: as for `post`.
        code("ibv_post_recv", unsafe { (self.post_recv)(self.raw.as_ptr(), &mut request, &mut bad) })
    }
}

fn request(id: u64, opcode: u32, element: &mut ibv_sge, remote: Remote, flags: u32) -> ibv_send_wr {
    ibv_send_wr {
        wr_id: id,
        next: null_mut(),
        sg_list: element,
        num_sge: 1,
        opcode,
        send_flags: flags,
        imm_data: 0,
        rdma: ibv_send_wr_rdma { remote_addr: remote.address, rkey: remote.key, rest: [0; 5] },
        qp_type: 0,
        bind_or_tso: [0; 6],
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made by `new`, once.
        unsafe { (self.domain.device.library.destroy_qp)(self.raw.as_ptr()) };
    }
}
