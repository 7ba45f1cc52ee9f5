//! A process that is out of descriptors for a moment: calls may fail then, and the log goes on afterwards.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wo_wal::{Error, Wal};

/// Descriptors are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: hard }).unwrap();
    alone
}

/// Takes every descriptor but so many, until it is dropped.
fn all_descriptors_but(free: usize) -> Vec<File> {
    let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len() - free);
    taken
}

fn is_out_of_descriptors(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()))
}

/// With one descriptor free, the next segment could be created and then not be opened for its header. Its file stayed, with
/// all its space.
#[test]
fn a_segment_that_cannot_be_made_for_lack_of_descriptors_costs_an_append_and_not_the_log() {
    let _alone = alone();
    for free in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let (wal, _) = Wal::options().segment_bytes(64 << 10).open(dir.path()).unwrap();
        let taken = all_descriptors_but(free);
        // More than one segment: the second append needs a file.
        for _ in 0..3 {
            if let Err(error) = wal.append(&vec![7; 60_000]) {
                assert!(is_out_of_descriptors(&error), "{free} free: {error:?}");
            }
        }
        drop(taken);
        wal.append(b"small").unwrap();
        wal.close().unwrap();
        let left_over = ["next.tmp", "replacement.tmp"].map(|name| dir.path().join(name).exists());
        assert_eq!(left_over, [false; 2], "{free} free");
        let (wal, _) = Wal::options().segment_bytes(64 << 10).open(dir.path()).unwrap();
        wal.append(&vec![8; 60_000]).unwrap();
    }
}

/// A trim takes the name of a file that a replay has yet to open. It opens it for the replay first, and where that
/// failed, the log was poisoned.
#[test]
fn a_trim_beside_a_replay_that_lacks_descriptors_fails_and_the_log_goes_on() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().segment_bytes(64 << 10).open(dir.path()).unwrap();
    // More than the thread that prepares segments may give back meanwhile.
    for _ in 0..20 {
        wal.append(&vec![7; 50_000]).unwrap();
    }
    let replay = wal.replay(..).unwrap();
    let taken = all_descriptors_but(0);
    let error = wal.trim(wal.durable_lsn()).unwrap_err();
    assert!(is_out_of_descriptors(&error), "{error:?}");
    drop(taken);
    wal.trim(wal.durable_lsn()).unwrap();
    assert_eq!(wal.append(b"after").unwrap().get(), 21);
    assert_eq!(replay.map(|record| record.unwrap().payload).collect::<Vec<_>>(), vec![vec![7; 50_000]; 20]);
}
