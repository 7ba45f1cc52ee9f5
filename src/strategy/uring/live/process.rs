//! Which process this is, without a system call: every call of the log compares it, and a system call costs more than
//! staging a record.
#![allow(unsafe_code, reason = "maps a page that the kernel wipes in a forked child; see the folder's rules")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The page that begins with the mark of the process that reads it, or with 0 where nobody has asked in this process yet.
/// Null before the first question, [`NO_PAGE`] where no page is wiped. Not a cell that one thread fills while others
/// wait: a fork meanwhile would leave the child waiting for a thread that it does not have.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// Its address says that pages are not wiped: by kernels before 4.14, and by emulators.
static NO_PAGE: AtomicU32 = AtomicU32::new(0);
/// The next mark. A child inherits it, so every mark that is made there is higher than those of its ancestors.
static NEXT_MARK: AtomicU32 = AtomicU32::new(1);

/// A number that tells the calling process from the one that it was forked from, and from that one's ancestors. Not
/// their ids, which may be the same: in a new process-id namespace a child of process 1 is process 1, and ids are used
/// again. A process that shares its parent's memory, as after `vfork`, has its mark too. Where the kernel wipes no pages it
/// is the process id after all.
pub(crate) fn process_mark() -> u32 {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        page = publish(wiped_on_fork().unwrap_or(ptr::from_ref(&NO_PAGE).cast_mut()));
    }
    if ptr::eq(page, &raw const NO_PAGE) {
        return std::process::id();
    }
    // SAFETY: rule 8. The page is aligned, holds zeros, which are a value of the type, and is not unmapped once it is
    // published. What the kernel wipes is the child's copy, before anything runs there.
    let mark = unsafe { &*page };
    // Acquire: whoever knows a mark must have `NEXT_MARK` behind it, for its children to inherit.
    match mark.load(Ordering::Acquire) {
        0 => {
            let next = NEXT_MARK.fetch_add(1, Ordering::Relaxed);
            mark.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire)
                .map_or_else(|first| first, |_| next)
        }
        mark => mark,
    }
}

/// Makes it the page of all threads, unless another thread was faster.
fn publish(page: *mut AtomicU32) -> *mut AtomicU32 {
    match PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => page,
        Err(first) => {
            if !ptr::eq(page, &raw const NO_PAGE) {
                // SAFETY: rule 8. This thread mapped the page just now, and nobody else knows of it.
                let _ = unsafe { munmap(page.cast(), rustix::param::page_size()) };
            }
            first
        }
    }
}

/// A page of zeros that is zeros again in every forked child.
fn wiped_on_fork() -> Option<*mut AtomicU32> {
    let page_bytes = rustix::param::page_size();
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
    Some(page.cast())
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
