//! Opening a log reads what was written, not what is only reserved for it.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use wo_wal::{Reader, Wal};

/// The bytes that this thread has read so far, from caches or not.
fn read_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

/// The search behind the end once asked where there is data and read pieces of a fixed size from there: a piece went into
/// the reserved space, and the kernel read further ahead. From then on those blocks, in the cache, counted as data, at
/// last the whole segment. 64 MiB were read for three records.
#[test]
fn the_reserved_rest_of_a_segment_is_not_read_however_often_the_log_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Wal::options().segment_bytes(64 << 20);
    drop(options().open(dir.path()).unwrap());
    for number in 1..=20_u64 {
        let before = read_bytes();
        let (wal, _) = options().open(dir.path()).unwrap();
        let read = read_bytes() - before;
        assert!(read < 4 << 20, "open {number} read {read} bytes");
        wal.append(b"record").unwrap();
        // Dropped without a close in every other round, so that there is an end to search behind.
        if number % 2 == 0 {
            wal.close().unwrap();
        }
    }
    let before = read_bytes();
    let (reader, _) = Reader::open(dir.path()).unwrap();
    let read = read_bytes() - before;
    assert!(read < 4 << 20, "a reader read {read} bytes");
    assert_eq!(reader.replay(..).unwrap().count(), 20);
}
