//! What a sandbox or a limit takes away after the strategy was made: the barrier is finished by plain calls, and counted.
#![allow(unsafe_code, reason = "filters, limits and identities have no safe interface")]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wo_wal::strategy::testing::entry_bytes;
use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};

use crate::again;
use crate::raw_ring::RawRing;
use crate::ring::{FORMS, create, errno_of, pattern, ring, temporary_directory};

const NOBODY: u32 = 65534;
const CANCELED: i32 = -125;
const BYTES: usize = 10_000;

/// From now on this thread, and no other, gets EPERM from these system calls.
fn refuse(calls: &[libc::c_long]) {
    const LOAD_NUMBER: libc::sock_filter = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const ALLOW: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let answer = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::EPERM.cast_unsigned() };
    let mut filter = vec![LOAD_NUMBER];
    for &call in calls {
        // Equal: the next one, which refuses; else over it.
        filter.push(libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: u32::try_from(call).unwrap() });
        filter.push(answer);
    }
    filter.push(ALLOW);
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions outlive the call, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let installed = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn a_thread_that_may_not_enter_is_assisted_and_others_are_not() {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        let dir = temporary_directory();
        let file = create(dir.path());
        let bytes = pattern(10_000);
        assert_eq!(errno_of(&uring, &file, 0, &bytes), 0);
        std::thread::scope(|scope| {
            let filtered = || {
                refuse(&[libc::SYS_io_uring_enter]);
                for round in 1..4 {
                    assert_eq!(errno_of(&uring, &file, round * 10_000, &bytes), 0, "{form:?}");
                    assert_eq!(uring.assisted_barriers(), round, "{form:?}");
                }
            };
            scope.spawn(filtered).join().unwrap();
        });
        assert_eq!(errno_of(&uring, &file, 40_000, &bytes), 0);
        assert_eq!(uring.assisted_barriers(), 3, "{form:?}");
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), bytes.repeat(5));
    }
}

#[test]
fn what_a_refused_enter_left_in_its_ring_never_reaches_the_file() {
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    std::thread::scope(|scope| {
        let filtered = || {
            refuse(&[libc::SYS_io_uring_enter]);
            assert_eq!(errno_of(&uring, &file, 0, b"left behind"), 0);
        };
        scope.spawn(filtered).join().unwrap();
    });
    assert_eq!(uring.assisted_barriers(), 1);
    file.write_all_at(b"written now", 0).unwrap();
    // Had the ring been kept, this would submit its old WRITE as well.
    assert_eq!(errno_of(&uring, &file, 11, b"!"), 0);
    assert_eq!(uring.assisted_barriers(), 1, "this thread has a ring");
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"written now!");
}

#[test]
fn a_call_that_can_have_no_ring_is_assisted() {
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    std::thread::scope(|scope| {
        let filtered = || {
            refuse(&[libc::SYS_io_uring_enter, libc::SYS_io_uring_setup]);
            for round in 0..3 {
                assert_eq!(errno_of(&uring, &file, round * 5, b"bytes"), 0);
                assert_eq!(uring.assisted_barriers(), round + 1);
            }
        };
        scope.spawn(filtered).join().unwrap();
    });
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"bytes".repeat(3));
}

#[test]
fn a_refused_set_up_says_which_call_and_what_it_answered() {
    let failure = std::thread::spawn(|| {
        refuse(&[libc::SYS_io_uring_setup]);
        Uring::new().map(drop).unwrap_err()
    });
    let failure = failure.join().unwrap();
    assert_eq!((failure.call, failure.source.raw_os_error()), ("io_uring_setup", Some(libc::EPERM)));
    assert_eq!(failure.to_string(), "io_uring_setup: Operation not permitted (os error 1)");
    let error = std::io::Error::from(failure);
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_thread_that_has_never_submitted_is_assisted_where_no_worker_can_start() {
    if let Some(dir) = again::directory() {
        let Some(cut) = without_workers(&dir) else { return };
        assert!(cut.iter().all(|results| *results == (CANCELED, CANCELED)), "the control: {cut:?}");
        return again::say("done");
    }
    if rustix::process::geteuid().is_root() {
        let test = "refusals::a_thread_that_has_never_submitted_is_assisted_where_no_worker_can_start";
        again::run(test, temporary_directory().path(), &[]);
    } else {
        crate::skip::announce("only root can become another user, and RLIMIT_NPROC does not bind root");
    }
}

/// XFS overwrites without a worker: the WRITE is whole, and only its FSYNC is canceled.
#[test]
fn an_fsync_that_alone_needs_a_worker_is_assisted_where_none_can_start() {
    match again::directory() {
        Some(dir) => {
            let Some(cut) = without_workers(&dir.join("mnt")) else { return };
            let whole = (i32::try_from(BYTES).unwrap(), CANCELED);
            assert!(cut.contains(&whole), "the control: no FSYNC alone was canceled, only {cut:?}");
            again::say("done");
        }
        None if again::has("mkfs.xfs") => {
            let test = "refusals::an_fsync_that_alone_needs_a_worker_is_assisted_where_none_can_start";
            again::run_mounted(test, &again::loop_mount("xfs", 320));
        }
        None => {}
    }
}

fn limit_processes(current: Option<u64>) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(Resource::Nproc, Rlimit { current, maximum }).unwrap();
}

/// As an ordinary user who has as many processes as it may: a ring has made barriers, and then another thread leads.
/// Returns what a bare ring gets there.
fn without_workers(dir: &Path) -> Option<Vec<(i32, i32)>> {
    let file = create(dir);
    let old = vec![0; BYTES * 3];
    file.write_all_at(&old, 0).unwrap();
    // SAFETY: changes the identity of every thread of this process, none of which relies on it.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
    let mut bare = Vec::new();
    for form in FORMS {
        let uring = ring(form)?;
        assert_eq!((errno_of(&uring, &file, 0, &old), uring.assisted_barriers()), (0, 0));
        let bytes = pattern(BYTES);
        std::thread::scope(|scope| {
            let new_thread = || {
                limit_processes(Some(1));
                for round in 0..3 {
                    assert_eq!(errno_of(&uring, &file, round * BYTES as u64, &bytes), 0, "{form:?}");
                }
                bare_chains(&file, &old[..BYTES])
            };
            let joined = scope.spawn(new_thread).join();
            limit_processes(getrlimit(Resource::Nproc).maximum);
            bare.extend(joined.unwrap());
        });
        let mut written = vec![0; BYTES];
        file.read_exact_at(&mut written, 2 * BYTES as u64).unwrap();
        assert!(written == bytes, "{form:?}");
        // A WRITE with DSYNC can do without a worker on some file systems.
        let assisted = uring.assisted_barriers();
        assert!(assisted == 3 || (assisted < 3 && form == Form::Dsync), "{form:?}: {assisted}");
    }
    Some(bare)
}

/// What a bare ring gets for the strategy's entries, several times.
fn bare_chains(file: &File, bytes: &[u8]) -> Vec<(i32, i32)> {
    let mut ring = RawRing::new(8).unwrap();
    let mut chain = || {
        // A WRITE that has to change the file's times needs a worker on XFS, too; right behind another it does not.
        file.write_all_at(bytes, 0).unwrap();
        let completions = ring.run(&entry_bytes(Form::Linked, Extent::new(file.as_fd(), 0, bytes), 1));
        (completions[0].res, completions[1].res)
    };
    (0..5).map(|_| chain()).collect()
}
