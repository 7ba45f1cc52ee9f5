//! Few descriptors, however long the log is (bug report G03: too many open files).

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use wo_wal::{Reader, Wal};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_log_of_many_segments_needs_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Wal::options().segment_bytes(64 * 1024);
    let (wal, _) = options().open(dir.path()).unwrap();
    for _ in 0..300 {
        wal.append(&vec![7; 30_000]).unwrap();
    }
    drop(wal);
    let before = open_descriptors();
    let (wal, _) = options().open(dir.path()).unwrap();
    assert!(wal.stats().segments > 100, "{}", wal.stats().segments);
    let mut replay = wal.replay(..).unwrap();
    let mut most = 0;
    while replay.next_ref().unwrap().is_some() {
        most = most.max(open_descriptors());
    }
    let (reader, _) = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.replay(..).unwrap().count(), 300);
    assert!(most.max(open_descriptors()) < before + 12, "{most} descriptors, {before} before");
}

#[test]
fn a_replay_reads_on_after_a_trim_took_the_names_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().segment_bytes(64 * 1024).open(dir.path()).unwrap();
    for number in 0..100_u32 {
        wal.append(&number.to_le_bytes().repeat(5000)).unwrap();
    }
    let mut replay = wal.replay(..).unwrap();
    assert_eq!(replay.next().unwrap().unwrap().payload[..4], 0_u32.to_le_bytes());
    wal.trim(wal.durable_lsn()).unwrap();
    // What was trimmed must not be rewritten while it is read.
    for _ in 0..100 {
        wal.append(&vec![0xff; 20_000]).unwrap();
    }
    for number in 1..100_u32 {
        assert_eq!(replay.next().unwrap().unwrap().payload, number.to_le_bytes().repeat(5000));
    }
    assert!(replay.next().is_none());
}
