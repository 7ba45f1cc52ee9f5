//! A filter of system calls, as containers have them, on one thread.

use std::path::Path;

use serial_test::parallel;

use crate::cases::{falls_back, has_ring, in_child, make_log, probe_says, ring_works};
use crate::conditions::refused;

const EINTR: i32 = 4;

/// Every errno that Linux has a name for, and those between.
const ERRNOS: std::ops::RangeInclusive<i32> = 1..=133;

/// A case for each errno, on four threads at once: most of the time goes into waiting for the disk.
fn for_each_errno(dir: &Path, case: impl Fn(&Path, i32) + Sync) {
    const THREADS: usize = 4;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (dir, case) = (dir.join(thread.to_string()), &case);
            scope.spawn(move || {
                make_log(&dir);
                ERRNOS.skip(thread).step_by(THREADS).for_each(|errno| case(&dir, errno));
            });
        }
    });
}

#[test]
#[parallel]
fn io_uring_setup_refused_with_any_errno() {
    in_child("seccomp::io_uring_setup_refused_with_any_errno", |dir| {
        for_each_errno(dir, |dir, errno| {
            // Making the ring and mapping it is one step, and both can be short of memory.
            let call = if errno == libc::ENOMEM { "io_uring_setup or mmap" } else { "io_uring_setup" };
            refused(libc::SYS_io_uring_setup, errno, || {
                falls_back(dir, call, errno);
                probe_says(dir, call, errno);
            });
        });
    });
}

#[test]
#[parallel]
fn io_uring_enter_refused_with_any_errno() {
    in_child("seccomp::io_uring_enter_refused_with_any_errno", |dir| {
        if !has_ring() {
            return;
        }
        // EINTR says that a signal came, and the call is made again.
        for_each_errno(dir, |dir, errno| {
            if errno != EINTR {
                refused(libc::SYS_io_uring_enter, errno, || {
                    falls_back(dir, "io_uring_enter", errno);
                    probe_says(dir, "io_uring_enter", errno);
                });
            }
        });
    });
}

#[test]
#[parallel]
fn io_uring_register_refused_takes_nothing_away() {
    in_child("seccomp::io_uring_register_refused_takes_nothing_away", |dir| {
        if has_ring() {
            refused(libc::SYS_io_uring_register, libc::EPERM, || ring_works(dir));
        }
    });
}

#[test]
#[parallel]
fn a_filter_on_one_thread_takes_nothing_from_another() {
    in_child("seccomp::a_filter_on_one_thread_takes_nothing_from_another", |dir| {
        if !has_ring() {
            return;
        }
        make_log(dir);
        refused(libc::SYS_io_uring_setup, libc::EPERM, || falls_back(dir, "io_uring_setup", libc::EPERM));
        ring_works(dir);
        // A success is remembered, which must not hide a later refusal.
        refused(libc::SYS_io_uring_setup, libc::ENOSYS, || falls_back(dir, "io_uring_setup", libc::ENOSYS));
    });
}
