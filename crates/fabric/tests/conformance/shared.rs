//! What holds for shared memory only: a client can read, and there is no way to more.

use crate::world::{READ, REGION_BYTES, WRITE, World};
use kintsugidb_fabric::{Access, Error, Export, Fabric, Mapping};
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Everything that a process could try to write a file that it was handed. Names what worked.
fn ways_to_write(fd: BorrowedFd<'_>) -> Vec<&'static str> {
    let mut worked = Vec::new();
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let reopened = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    for fd in std::iter::once(fd).chain(reopened.as_ref().ok().map(std::os::fd::AsFd::as_fd)) {
        let mut attempt = |what, ok: bool| {
            if ok {
                worked.push(what);
            }
        };
        attempt("pwrite", rustix::io::pwrite(fd, b"gotcha", 0).is_ok());
        attempt("truncate", rustix::fs::ftruncate(fd, 4096).is_ok());
        attempt("grow", rustix::fs::ftruncate(fd, 2 * REGION_BYTES).is_ok());
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        attempt("punch a hole", rustix::fs::fallocate(fd, punch, 0, 4096).is_ok());
        attempt("add a seal", rustix::fs::fcntl_add_seals(fd, SealFlags::WRITE).is_ok());
        for protection in [ProtFlags::WRITE, ProtFlags::READ | ProtFlags::WRITE] {
            // SAFETY: a mapping of its own, at an address that the kernel picks; never touched.
            let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, protection, MapFlags::SHARED, fd, 0) };
            attempt("mmap for writing", mapped.is_ok());
        }
        // SAFETY: as above.
        let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, fd, 0) };
        if let Ok(at) = mapped {
            // SAFETY: the mapping from above; only its protection is asked to change.
            let raised = unsafe { mprotect(at, 4096, MprotectFlags::READ | MprotectFlags::WRITE) };
            attempt("mprotect", raised.is_ok());
        }
    }
    worked
}

#[test]
fn a_client_can_never_write_a_region_that_it_may_read() {
    let pair = World::new(Fabric::Shm).pair();
    let region = pair.client.connection.direct(READ).unwrap();
    assert_eq!(ways_to_write(region.fd().unwrap()), [""; 0]);
    let mut first = [1; 8];
    pair.memory.read.load_bytes(0, &mut first).unwrap();
    assert_eq!(first, [0; 8]);
    // The owner still can.
    pair.memory.read.store_bytes(0, b"the gold").unwrap();
    region.load_bytes(0, &mut first).unwrap();
    assert_eq!(&first, b"the gold");
    assert!(region.store_bytes(0, b"x").is_err());
    // The canary: on a region that is handed out for writing, the same attempts succeed.
    let writable = pair.client.connection.direct(WRITE).unwrap();
    let worked = ways_to_write(writable.fd().unwrap());
    assert!(worked.contains(&"pwrite") && worked.contains(&"mmap for writing"), "{worked:?}");
    assert!(!worked.contains(&"truncate"), "a region can never shrink");
}

#[test]
fn a_region_that_could_be_written_is_not_handed_out_for_reading() {
    let world = World::new(Fabric::Shm);
    let unsealed = Arc::new(Mapping::create(4096).unwrap());
    assert!(matches!(unsealed.descriptor(false), Err(Error::Unsafe(_))));
    let mut listener = world.listen();
    let address = listener.address();
    let client = std::thread::spawn(move || kintsugidb_fabric::connect(&address, &crate::world::options()));
    let mut gate = crate::world::gate(vec![Export { id: 1, access: Access::Read, memory: unsealed }]);
    while !client.is_finished() {
        assert!(listener.accept(&mut gate).unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(matches!(client.join().unwrap(), Err(Error::Refused(_))));
}

#[test]
fn a_file_that_could_shrink_is_not_mapped() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 8192).unwrap();
    let clone = || file.try_clone().unwrap();
    assert!(matches!(Mapping::map(clone(), 8192, false), Err(Error::Unsafe(_))));
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(Mapping::map(clone(), 8192, false).is_ok());
    for wrong in [0, 7, 8193, 16384, u64::MAX] {
        assert!(Mapping::map(clone(), wrong, false).is_err(), "{wrong}");
    }
}
