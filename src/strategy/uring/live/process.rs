//! The process id without a system call: every call of the log compares it, and a system call costs more than staging a
//! record.
#![allow(unsafe_code, reason = "maps a page that the kernel wipes in a forked child; see the folder's rules")]

use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::sync::OnceCell;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The id of the process that reads it, or 0 where nobody has asked in this process yet. `None` where pages are not wiped:
/// by kernels before 4.14, and by emulators.
static MARK: OnceCell<Option<&'static AtomicU32>> = OnceCell::new();

/// The id of the calling process, also right after a fork.
pub(crate) fn process_id() -> u32 {
    let Some(mark) = MARK.get_or_init(wiped_on_fork) else { return std::process::id() };
    // Relaxed: the word tells nothing about other memory, and in one process only one value is ever stored.
    match mark.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            mark.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// A zero in a page that is zeros again in every forked child.
fn wiped_on_fork() -> Option<&'static AtomicU32> {
    let page_bytes = NonZeroUsize::new(rustix::param::page_size())?.get();
    // SAFETY: rule 8. The kernel chooses the place, so nothing is mapped over.
    let page = unsafe {
        mmap_anonymous(ptr::null_mut(), page_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }
    .ok()?;
    // An emulator may say Ok to any advice and heed none (QEMU's for user programs once did). A kernel refuses to make a
    // hole in a file where there is none.
    // SAFETY: rule 8. The page was mapped just now, and nobody else knows of it.
    let heeds_advice = unsafe { madvise(page, page_bytes, Advice::LinuxRemove) }.is_err();
    // SAFETY: as above.
    if !heeds_advice || unsafe { madvise(page, page_bytes, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above; it is not used any more.
        let _ = unsafe { munmap(page, page_bytes) };
        return None;
    }
    // SAFETY: rule 8. The page is aligned, holds zeros, which are a value of the type, and is never unmapped. What the
    // kernel wipes is the child's copy, before anything runs there.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

#[cfg(test)]
mod tests {
    use super::wiped_on_fork;

    /// Else each record would cost a system call, and nobody would notice.
    #[test]
    fn a_kernel_with_rings_wipes_pages() {
        assert!(wiped_on_fork().is_some());
    }
}
