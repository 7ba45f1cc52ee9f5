//! The directory of a log is the one that was opened, also when its path leads to another one later.
#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::path::Path;

use serial_test::serial;
use wo_wal::{Lsn, Wal};

fn open(dir: &Path) -> Wal {
    Wal::options().segment_bytes(64 << 10).open(dir).unwrap().0
}

/// Appends over several segments; returns the last record.
fn go_on(wal: &Wal) -> Lsn {
    for _ in 0..6 {
        wal.append(&vec![b'A'; 30_000]).unwrap();
    }
    wal.durable_lsn()
}

/// Opens the log again and reads it all.
fn assert_holds(dir: &Path, last: Lsn) {
    let wal = open(dir);
    let lsns: Vec<_> = wal.replay(..).unwrap().map(|record| record.unwrap().lsn).collect();
    assert_eq!((lsns.len() as u64, lsns.last()), (last.get(), Some(&last)), "{}", dir.display());
}

/// A daemon opened its log by a relative path and then changed its own directory, as daemons do. The next segments were
/// made where the path led now: the log could not be opened any more, its acknowledged records among what was missing,
/// and another log that lived there had its segments replaced.
#[test]
#[serial]
fn p01_a_program_that_changes_its_directory_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (here, there) = (root.path().join("here"), root.path().join("there"));
    std::fs::create_dir(&here).unwrap();
    let others_last = go_on(&open(&there.join("wal")));
    std::env::set_current_dir(&here).unwrap();
    let wal = open(Path::new("wal"));
    std::env::set_current_dir(&there).unwrap();
    let last = go_on(&wal);
    wal.close().unwrap();
    std::env::set_current_dir("/").unwrap();
    assert_holds(&here.join("wal"), last);
    assert_holds(&there.join("wal"), others_last);
}

/// The same, where somebody moves the directory away, and another process starts a new log in its place.
#[test]
fn p01_a_directory_that_is_moved_keeps_its_log() {
    let root = tempfile::tempdir().unwrap();
    let (place, moved) = (root.path().join("wal"), root.path().join("moved"));
    let wal = open(&place);
    wal.append(b"first").unwrap();
    std::fs::rename(&place, &moved).unwrap();
    let others_last = go_on(&open(&place));
    let last = go_on(&wal);
    wal.trim(Lsn::FIRST).unwrap();
    assert_eq!(wal.replay(..).unwrap().flatten().count() as u64, last.get());
    wal.close().unwrap();
    assert_holds(&moved, last);
    assert_holds(&place, others_last);
}
