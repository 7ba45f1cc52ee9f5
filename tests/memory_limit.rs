//! A log much larger than memory replays in constant memory (bug reports F07 and G04: out of memory at replay, restart,
//! and again).

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wo_wal::{Lsn, Reader, Wal};

const CHILD: &str = "WO_WAL_TEST_MEMORY_LIMIT_DIR";
const LOG_BYTES: u64 = 2 << 30;
const LIMIT_BYTES: u64 = 128 << 20;
const RECORD_BYTES: usize = 64 * 1024;
const RECORDS: u64 = LOG_BYTES / RECORD_BYTES as u64;

#[test]
fn a_2_gib_log_replays_within_128_mib() {
    if let Ok(dir) = std::env::var(CHILD) {
        replay_within_limit(&dir);
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    write_log(dir.path());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["a_2_gib_log_replays_within_128_mib", "--exact", "--nocapture"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && output.contains("replayed everything twice"),
        "{output}\n{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn write_log(dir: &std::path::Path) {
    let (wal, _) = Wal::open(dir).unwrap();
    for number in 0..RECORDS {
        let _ = wal.submit(&payload(number)).unwrap();
    }
    wal.close().unwrap();
}

fn payload(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(RECORD_BYTES / 8)
}

fn replay_within_limit(dir: &str) {
    let pages: u64 =
        std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
    let limit = pages * rustix::param::page_size() as u64 + LIMIT_BYTES;
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(limit), maximum }).unwrap();
    // The control: more than the limit cannot be had.
    assert!(Vec::<u8>::new().try_reserve_exact(usize::try_from(LIMIT_BYTES).unwrap()).is_err());

    let (reader, _) = Reader::open(dir).unwrap();
    check(reader.replay(..).unwrap());
    let (wal, _) = Wal::open(dir).unwrap();
    check(wal.replay(..).unwrap());
    println!("replayed everything twice");
}

fn check(mut replay: wo_wal::Replay) {
    let mut records = 0_u64;
    while let Some(record) = replay.next_ref().unwrap() {
        assert_eq!(record.lsn, Lsn::new(records + 1));
        assert_eq!(record.payload[..8], records.to_le_bytes());
        records += 1;
    }
    assert_eq!(records, RECORDS);
}
