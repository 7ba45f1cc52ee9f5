//! The read-only open next to a writer at work.

#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use wo_wal::{Error, Extent, Lsn, Reader, SyncStrategy, Wal};

/// Barriers that only write, and may overlap: nothing crashes here, and the log changes as fast as it can.
#[derive(Debug)]
struct WriteOnly;

impl SyncStrategy for WriteOnly {
    fn name(&self) -> &'static str {
        "write-only"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let mut written = 0;
        while written < extent.bytes().len() {
            let offset = extent.offset() + written as u64;
            written += rustix::io::pwrite(extent.file(), &extent.bytes()[written..], offset)?;
        }
        Ok(())
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        NonZeroUsize::new(3).unwrap()
    }
}

/// Says of itself which bytes it has, so that a mixture of two records shows.
fn payload(seed: u64) -> Vec<u8> {
    let length = usize::try_from(seed * 37 % 300).unwrap();
    let mut payload = seed.to_le_bytes().to_vec();
    payload.resize(8 + length, u8::try_from(seed % 251).unwrap());
    payload
}

fn is_a_payload(bytes: &[u8]) -> bool {
    let (seed, _) = bytes.split_first_chunk().unwrap();
    bytes == payload(u64::from_le_bytes(*seed))
}

/// Opens the log once and holds what it shows against what had been acknowledged before. True unless the writer trimmed
/// the log while it was read.
fn open_and_replay(dir: &Path, acked: &AtomicU64) -> bool {
    let acked_before = acked.load(Ordering::Acquire);
    let (reader, recovery) = Reader::open(dir).unwrap();
    assert!(recovery.last.get() >= acked_before, "an acked record is not there");
    let mut expected = recovery.oldest;
    for record in reader.replay(..).unwrap() {
        match record {
            Ok(record) => {
                assert_eq!(record.lsn, expected);
                assert!(is_a_payload(&record.payload), "record {expected}");
                expected = Lsn::new(expected.get() + 1);
            }
            Err(Error::Trimmed { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(expected.get(), recovery.last.get() + 1);
    true
}

#[test]
fn p01_p02_a_reader_next_to_a_writer_sees_a_prefix_with_every_acked_record_and_never_damage() {
    const RECORDS: u64 = 20_000;
    const THREADS: u64 = 3;
    let dir = tempfile::tempdir().unwrap();
    let options = Wal::options().segment_bytes(64 << 10).strategy(WriteOnly);
    let (wal, _) = options.open(dir.path()).unwrap();
    let (acked, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let (acked, ended, wal, dir) = (&acked, &ended, &wal, &dir);
    let (whole, cut_short) = thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for number in 0..RECORDS / THREADS {
                        let lsn = wal.append(&payload(number * THREADS + thread)).unwrap();
                        acked.fetch_max(lsn.get(), Ordering::AcqRel);
                        if number % 100 == 99 {
                            wal.trim(Lsn::new(lsn.get().saturating_sub(300))).unwrap();
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            let mut replays = [0, 0];
            while !ended.load(Ordering::Acquire) {
                replays[usize::from(open_and_replay(dir.path(), acked))] += 1;
            }
            (replays[1], replays[0])
        });
        for writer in writers {
            writer.join().unwrap();
        }
        ended.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    println!("{whole} replays to the end, {cut_short} ended by a trim");
    assert!(whole > 0);
    wal.close().unwrap();
    let (_, recovery) = Reader::open(dir.path()).unwrap();
    assert!(recovery.closed_cleanly && recovery.oldest > Lsn::FIRST);
    assert_eq!(recovery.last.get(), acked.load(Ordering::Acquire));
}

/// Files and directories without write permission, as on read-only media. The superuser may write all the same, so the
/// directory is compared as well.
#[test]
fn i09_a_directory_without_write_permission_is_read_and_not_changed() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(dir.path()).unwrap();
    wal.append(b"record").unwrap();
    wal.close().unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    };
    let before: Vec<_> = names().into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    for path in names() {
        fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
    let (reader, recovery) = Reader::open(dir.path()).unwrap();
    assert_eq!(recovery.last, Lsn::FIRST);
    let records: Vec<_> = reader.replay(..).unwrap().map(|record| record.unwrap().payload).collect();
    assert_eq!(records, [b"record"]);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let after: Vec<_> = names().into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    assert!(before == after);
}
