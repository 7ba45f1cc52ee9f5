//! Short writes and errors, on real file systems. `docs/ring-layout.md` has the matrix.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wo_wal::strategy::testing::entry_bytes;
use wo_wal::strategy::{Extent, Form, SyncStrategy};

use crate::again;
use crate::raw_ring::RawRing;
use crate::ring::{FORMS, create, errno_of, pattern, ring, temporary_directory};

const EBADF: i32 = 9;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const CANCELED: i32 = -125;

#[test]
fn a_descriptor_that_cannot_be_written_is_an_error() {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        let dir = temporary_directory();
        create(dir.path());
        let read_only = File::open(dir.path().join("file")).unwrap();
        assert_eq!(errno_of(&uring, &read_only, 0, b"bytes"), EBADF, "{form:?}");
        assert_eq!(uring.assisted_barriers(), 0);
    }
}

#[test]
#[allow(unsafe_code, reason = "a descriptor number that nobody has is what the test is about")]
fn a_closed_descriptor_is_an_error() {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        // SAFETY: the number is above every limit of open files, so it names no file that could go away.
        let closed = unsafe { BorrowedFd::borrow_raw(i32::MAX - 1) };
        let error = uring.persist(Extent::new(closed, 0, b"bytes")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EBADF), "{form:?}");
    }
}

/// Lets files grow to so many bytes, and no further: a write beyond is first short and then an error.
#[allow(unsafe_code, reason = "without it the limit's signal would end the process")]
fn limit_files(bytes: u64) {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum }).unwrap();
}

/// Writes 4096 bytes without a sync, then asks for 8192 behind them where the limit leaves room for 4096. Returns how
/// often a bare ring's linked FSYNC ran behind the short WRITE.
fn short_writes_at_the_limit(dir: &Path) -> Option<usize> {
    let uring = [ring(FORMS[0])?, ring(FORMS[1])?];
    let mut bare = RawRing::new(8).unwrap();
    limit_files(8192);
    let bytes = pattern(8192);
    let mut ran = 0;
    for round in 0..100 {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("file"));
        let file = file.unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        if round % 2 == 0 {
            let entries = entry_bytes(Form::Linked, Extent::new(file.as_fd(), 4096, &bytes), 1);
            let completions = bare.run(&entries);
            assert_eq!(completions[0].res, 4096, "the control: a true short write");
            assert!([0, CANCELED].contains(&completions[1].res));
            ran += usize::from(completions[1].res == 0);
        } else {
            for uring in &uring {
                assert_eq!(errno_of(uring, &file, 4096, &bytes), EFBIG, "{uring:?}");
                assert_eq!(uring.assisted_barriers(), 0);
            }
            assert_eq!(file.metadata().unwrap().len(), 8192);
        }
    }
    Some(ran)
}

#[test]
fn a_short_write_is_never_taken_for_a_whole_one() {
    let Some(_dir) = again::directory() else {
        let dir = temporary_directory();
        again::run("errors::a_short_write_is_never_taken_for_a_whole_one", dir.path(), &[]);
        return;
    };
    let dir = temporary_directory();
    if short_writes_at_the_limit(dir.path()).is_some() {
        again::say("done");
    }
}

#[test]
fn a_short_write_on_xfs_is_not_taken_for_a_whole_one_although_the_fsync_runs() {
    let Some(dir) = again::directory() else {
        if again::has("mkfs.xfs") {
            let test = "errors::a_short_write_on_xfs_is_not_taken_for_a_whole_one_although_the_fsync_runs";
            again::run_mounted(test, &again::loop_mount("xfs", 320));
        }
        return;
    };
    if let Some(ran) = short_writes_at_the_limit(&dir.join("mnt")) {
        assert!(ran > 0, "the control: the FSYNC never ran behind a short WRITE, so this test shows nothing");
        again::say("done");
    }
}

/// Asks for more than the file system has, and again for what it has.
fn full_disk(dir: &Path, bytes: &[u8]) {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        let file = create(dir);
        assert_eq!(errno_of(&uring, &file, 0, bytes), ENOSPC, "{form:?}");
        assert_eq!(uring.assisted_barriers(), 0, "{form:?}");
        std::fs::remove_file(dir.join("file")).unwrap();
        drop(file);
        let file = create(dir);
        assert_eq!(errno_of(&uring, &file, 0, &bytes[..1000]), 0, "{form:?}");
        std::fs::remove_file(dir.join("file")).unwrap();
        again::say("done");
    }
}

#[test]
fn a_full_tmpfs_is_an_error() {
    let Some(dir) = again::directory() else {
        let script = "mkdir \"$DIR/mnt\" && mount -t tmpfs -o size=1M tmpfs \"$DIR/mnt\"";
        again::run_mounted("errors::a_full_tmpfs_is_an_error", script);
        return;
    };
    full_disk(&dir.join("mnt"), &pattern(2 << 20));
}

#[test]
fn a_full_ext4_is_an_error() {
    match again::directory() {
        Some(dir) => full_disk(&dir.join("mnt"), &pattern(20 << 20)),
        None if again::has("mkfs.ext4") => {
            again::run_mounted("errors::a_full_ext4_is_an_error", &again::loop_mount("ext4", 16));
        }
        None => {}
    }
}

#[test]
fn a_full_xfs_is_an_error() {
    match again::directory() {
        Some(dir) => full_disk(&dir.join("mnt"), &pattern(60 << 20)),
        None if again::has("mkfs.xfs") => {
            let nearly_full = "fallocate -l 200M \"$DIR/mnt/others\"";
            let script = format!("{} && {nearly_full}", again::loop_mount("xfs", 320));
            again::run_mounted("errors::a_full_xfs_is_an_error", &script);
        }
        None => {}
    }
}

#[test]
fn a_failed_barrier_does_not_spoil_the_next() {
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    let read_only = File::open(dir.path().join("file")).unwrap();
    for round in 0..50 {
        assert_eq!(errno_of(&uring, &read_only, 0, b"bytes"), EBADF);
        assert_eq!(errno_of(&uring, &file, round * 5, b"bytes"), 0);
    }
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"bytes".repeat(50));
}
