//! Limits of an ordinary user.

use std::sync::mpsc;

use rustix::io::Errno;
use rustix::process::Resource;
use serial_test::parallel;
use wo_wal::{Error, Io};

use crate::cases::{falls_back, has_ring, in_child, make_log, names, options, probe_says, ring_works};
use crate::conditions::{become_nobody, directory_of_nobody, is_root, limit};

#[test]
#[parallel]
fn no_locked_memory() {
    in_child("limits::no_locked_memory", |_| {
        if !is_root("become an ordinary user") || !has_ring() {
            return;
        }
        let dir = directory_of_nobody();
        become_nobody();
        make_log(dir.path());
        ring_works(dir.path());
        limit(Resource::Memlock, 0);
        let selection = falls_back(dir.path(), "io_uring_setup or mmap", libc::ENOMEM);
        assert!(selection.reason.contains("RLIMIT_MEMLOCK, which is 0 bytes"), "{selection:?}");
        probe_says(dir.path(), "io_uring_setup or mmap", libc::ENOMEM);
    });
}

#[test]
#[parallel]
fn no_process_for_a_worker_at_the_self_test() {
    in_child("limits::no_process_for_a_worker_at_the_self_test", |_| {
        if !is_root("become an ordinary user") || !has_ring() {
            return;
        }
        let dir = directory_of_nobody();
        become_nobody();
        make_log(dir.path());
        limit(Resource::Nproc, 0);
        let selection = falls_back(dir.path(), "the chain of WRITE and FSYNC", libc::ECANCELED);
        assert!(selection.reason.contains("RLIMIT_NPROC"), "{selection:?}");
        probe_says(dir.path(), "the chain of WRITE and FSYNC", libc::ECANCELED);
    });
}

/// Workers belong to the thread that submits, so a self-test on one thread says nothing about the next.
#[test]
#[parallel]
fn no_process_for_a_worker_after_the_self_test() {
    in_child("limits::no_process_for_a_worker_after_the_self_test", |_| {
        if !is_root("become an ordinary user") || !has_ring() {
            return;
        }
        let dir = directory_of_nobody();
        become_nobody();
        let (wal, _) = options(Io::Uring).open(dir.path()).unwrap();
        wal.append(b"through the ring").unwrap();
        assert_eq!(wal.stats().assisted_barriers, 0);
        let (go, wait) = mpsc::channel::<()>();
        let appender = std::thread::spawn({
            let wal = wal.clone();
            move || {
                wait.recv().unwrap();
                let before = wal.stats().barriers;
                // More than fit in a segment: no thread can start to prepare the next one either.
                for number in 0..100_u8 {
                    wal.append(&[number; 1000]).unwrap();
                }
                wal.stats().barriers - before
            }
        });
        limit(Resource::Nproc, 0);
        go.send(()).unwrap();
        let barriers = appender.join().unwrap();
        let stats = wal.stats();
        assert!(barriers >= 100 && stats.assisted_barriers == barriers, "{barriers} barriers, {stats:?}");
        assert_eq!(wal.strategy().strategy, "uring", "the choice does not change while the log is open");
        wal.close().unwrap();
        let (wal, _) = options(Io::Fsync).open(dir.path()).unwrap();
        let records: Vec<_> = wal.replay(..).unwrap().map(|record| record.unwrap().payload).collect();
        let expected = std::iter::once(b"through the ring".to_vec());
        assert!(records.into_iter().eq(expected.chain((0..100).map(|number| vec![number; 1000]))));
    });
}

/// With every number of descriptors from none to enough: the log opens, or says that there are too few, or that there is
/// none for a ring; and it was not harmed.
#[test]
#[parallel]
fn too_few_descriptors() {
    in_child("limits::too_few_descriptors", |dir| {
        if !has_ring() {
            return;
        }
        make_log(dir);
        let before = names(dir);
        let open_already = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
        let enough = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(1024);
        let mut refused_rings = 0;
        let mut opened = [false, false];
        for free in 0..20 {
            for (io, opened) in [Io::Auto, Io::Uring].into_iter().zip(&mut opened) {
                limit(Resource::Nofile, open_already + free);
                let outcome = options(io).open(dir);
                limit(Resource::Nofile, enough);
                match outcome {
                    Ok((wal, _)) => {
                        *opened = true;
                        wal.append(b"there were enough").unwrap();
                    }
                    Err(Error::Io { source, .. }) => {
                        assert_eq!(source.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
                        assert!(!*opened, "more descriptors are not worse: {io:?}, {free}");
                    }
                    Err(Error::StrategyUnavailable { reason, .. }) if io == Io::Uring => {
                        assert!(reason.contains(" returned EMFILE ("), "{reason}");
                        assert!(reason.contains("RLIMIT_NOFILE, which is "), "{reason}");
                        refused_rings += 1;
                    }
                    Err(other) => panic!("{io:?} with {free} descriptors: {other:?}"),
                }
                assert_eq!(names(dir), before, "something was left behind");
            }
        }
        assert!(refused_rings > 0 && opened == [true, true], "{refused_rings} {opened:?}");
        ring_works(dir);
    });
}
