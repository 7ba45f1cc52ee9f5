//! A ring by bare system calls, with a mirror of the kernel's structures: what the document and the strategy are compared
//! with. It shares nothing with the crate that the strategy is built on.
#![allow(unsafe_code, reason = "system calls and mapped memory that no safe interface offers")]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "the mappings are pages, and every offset into them is checked"
)]
#![allow(dead_code, reason = "compiled into more than one test program")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const OFF_SQ_RING: i64 = 0;
pub(crate) const OFF_CQ_RING: i64 = 0x800_0000;
pub(crate) const OFF_SQES: i64 = 0x1000_0000;
pub(crate) const FEAT_SINGLE_MMAP: u32 = 1;
const ENTER_GETEVENTS: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Params {
    pub(crate) sq_entries: u32,
    pub(crate) cq_entries: u32,
    pub(crate) flags: u32,
    pub(crate) sq_thread_cpu: u32,
    pub(crate) sq_thread_idle: u32,
    pub(crate) features: u32,
    pub(crate) wq_fd: u32,
    pub(crate) resv: [u32; 3],
    pub(crate) sq_off: SqOffsets,
    pub(crate) cq_off: CqOffsets,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SqOffsets {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) ring_mask: u32,
    pub(crate) ring_entries: u32,
    pub(crate) flags: u32,
    pub(crate) dropped: u32,
    pub(crate) array: u32,
    pub(crate) resv1: u32,
    pub(crate) user_addr: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CqOffsets {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) ring_mask: u32,
    pub(crate) ring_entries: u32,
    pub(crate) overflow: u32,
    pub(crate) cqes: u32,
    pub(crate) flags: u32,
    pub(crate) resv1: u32,
    pub(crate) user_addr: u64,
}

/// A submission queue entry, as WRITE and FSYNC use it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sqe {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) ioprio: u16,
    pub(crate) fd: i32,
    pub(crate) off: u64,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) op_flags: u32,
    pub(crate) user_data: u64,
    pub(crate) buf_index: u16,
    pub(crate) personality: u16,
    pub(crate) file_index: u32,
    pub(crate) addr3: u64,
    pub(crate) pad: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cqe {
    pub(crate) user_data: u64,
    pub(crate) res: i32,
    pub(crate) flags: u32,
}

/// `io_uring_setup`, without mapping anything.
pub(crate) fn setup(entries: u32, params: &mut Params) -> io::Result<OwnedFd> {
    // SAFETY: `params` is the kernel's structure by its size and fields, which the tests of the document check.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, ptr::from_mut(params)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).expect("a descriptor")) })
}

#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, offset: i64, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), bytes })
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        let offset = offset as usize;
        assert!(
            offset + 4 <= self.bytes && offset.is_multiple_of(4),
            "offset {offset} is outside its region"
        );
        // SAFETY: inside the mapping and aligned, by the assertion; the kernel changes it only as an atomic would.
        unsafe { &*self.start.add(offset).cast::<AtomicU32>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; nothing borrowed from it is left.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Maps a region and gives it up again: whether the kernel knows it.
pub(crate) fn map(fd: &OwnedFd, offset: i64, bytes: usize) -> io::Result<()> {
    Mapping::new(fd, offset, bytes).map(drop)
}

/// A small ring, flags 0.
#[derive(Debug)]
pub(crate) struct RawRing {
    pub(crate) params: Params,
    pub(crate) sq_bytes: usize,
    pub(crate) cq_bytes: usize,
    /// Both queues: the kernels that these tests run on map them at once.
    queues: Mapping,
    sqes: Mapping,
    fd: OwnedFd,
}

impl RawRing {
    pub(crate) fn new(entries: u32) -> io::Result<Self> {
        let mut params = Params::default();
        let fd = setup(entries, &mut params)?;
        assert_ne!(params.features & FEAT_SINGLE_MMAP, 0, "a kernel before 5.4");
        let sq_bytes = params.sq_off.array as usize + params.sq_entries as usize * 4;
        let cq_bytes = params.cq_off.cqes as usize + params.cq_entries as usize * size_of::<Cqe>();
        let queues = Mapping::new(&fd, OFF_SQ_RING, sq_bytes.max(cq_bytes))?;
        let sqes = Mapping::new(&fd, OFF_SQES, params.sq_entries as usize * size_of::<Sqe>())?;
        let ring = RawRing { params, sq_bytes, cq_bytes, queues, sqes, fd };
        for index in 0..params.sq_entries {
            ring.word(params.sq_off.array + index * 4).store(index, Ordering::Relaxed);
        }
        Ok(ring)
    }

    /// A word of the queues' region.
    pub(crate) fn word(&self, offset: u32) -> &AtomicU32 {
        self.queues.word(offset)
    }

    /// The bytes of an entry as they stand in the mapping.
    pub(crate) fn entry(&self, index: u32) -> [u8; 64] {
        assert!((index as usize + 1) * 64 <= self.sqes.bytes);
        // SAFETY: inside the mapping; the kernel does not change entries.
        unsafe { self.sqes.start.add(index as usize * 64).cast::<[u8; 64]>().read() }
    }

    /// Publishes the entries, submits and waits in one call, and returns as many completions, in their order.
    ///
    /// What the entries name must stay as it is until this returns.
    pub(crate) fn run(&mut self, entries: &[[u8; 64]]) -> Vec<Cqe> {
        let tail_word = self.word(self.params.sq_off.tail);
        let mut tail = tail_word.load(Ordering::Relaxed);
        for entry in entries {
            let index = tail & (self.params.sq_entries - 1);
            // SAFETY: inside the mapping, by the mask; the kernel has taken what was there, for every call takes all.
            unsafe { self.sqes.start.add(index as usize * 64).cast::<[u8; 64]>().write(*entry) };
            tail = tail.wrapping_add(1);
        }
        tail_word.store(tail, Ordering::Release);
        let count = u32::try_from(entries.len()).expect("a few entries");
        let mut submit = count;
        let mut completions = Vec::new();
        while completions.len() < entries.len() {
            self.enter(submit, count - u32::try_from(completions.len()).expect("a few"));
            submit = 0;
            completions.extend(self.reap());
        }
        completions
    }

    fn enter(&self, submit: u32, wait_for: u32) {
        let (fd, none) = (self.fd.as_raw_fd(), ptr::null::<u8>());
        // SAFETY: no pointer is given; the caller of `run` keeps alive what the entries name.
        let done = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, fd, submit, wait_for, ENTER_GETEVENTS, none, 0)
        };
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        assert!(done == i64::from(submit) || (submit == 0 && interrupted), "io_uring_enter gave {done}");
    }

    fn reap(&mut self) -> Vec<Cqe> {
        let offsets = self.params.cq_off;
        let tail = self.word(offsets.tail).load(Ordering::Acquire);
        let mut head = self.word(offsets.head).load(Ordering::Relaxed);
        let mut completions = Vec::new();
        while head != tail {
            let index = head & (self.params.cq_entries - 1);
            let offset = offsets.cqes as usize + index as usize * size_of::<Cqe>();
            assert!(
                offset + size_of::<Cqe>() <= self.queues.bytes && offset.is_multiple_of(align_of::<Cqe>())
            );
            // SAFETY: inside the mapping and aligned, by the assertion; the acquired tail says that the kernel has written it.
            completions.push(unsafe { self.queues.start.add(offset).cast::<Cqe>().read() });
            head = head.wrapping_add(1);
        }
        self.word(offsets.head).store(head, Ordering::Release);
        completions
    }
}
