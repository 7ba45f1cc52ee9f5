//! What reaches the kernel, counted from outside.

use std::collections::BTreeMap;
use std::path::Path;

use serial_test::parallel;
use wo_wal::{WO_IO, Wal};

use crate::again;
use crate::cases::has_ring;

const CALLS: &str = "trace=io_uring_setup,io_uring_enter,io_uring_register,fdatasync";

/// The system calls of a child with this value of the variable, and what it said.
fn traced(test: &str, value: &str) -> Option<(BTreeMap<String, u64>, Vec<String>)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let trace = dir.path().join("trace");
    let wrapper = ["strace", "-f", "-qq", "-o", trace.to_str().unwrap(), "-e", CALLS];
    let said = again::outcome(again::command(test, dir.path(), &wrapper).env(WO_IO, value))?;
    let mut counts = BTreeMap::new();
    // "1234 io_uring_enter(5, 2, 2, ...": the rest of a call that was interrupted by another has no name in front.
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        if let Some((name, _)) = call {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    Some((counts, said))
}

fn count(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0)
}

/// Opens, appends from several threads, rotates, trims, closes, opens again; says how many barriers there were.
fn live(dir: &Path) {
    let open = || Wal::options().segment_bytes(64 << 10).open(dir.join("log")).unwrap().0;
    let wal = open();
    let before = wal.stats().barriers;
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let wal = &wal;
            scope.spawn(move || {
                for _ in 0..50 {
                    wal.append(&[writer; 1000]).unwrap();
                }
            });
        }
    });
    wal.append_batch([[9; 100]; 64]).unwrap();
    wal.trim(wal.durable_lsn()).unwrap();
    let stats = wal.stats();
    assert!(stats.groups > before && stats.assisted_barriers == 0, "{stats:?}");
    wal.close().unwrap();
    again::say(&wal.stats().barriers.to_string());
    drop(wal);
    drop(open());
}

#[test]
#[parallel]
fn fsync_makes_no_call_to_io_uring() {
    let test = "system_calls::fsync_makes_no_call_to_io_uring";
    if let Some(dir) = again::directory() {
        return live(&dir);
    }
    if !again::has("strace") || !has_ring() {
        return;
    }
    let Some((calls, _)) = traced(test, "fsync") else { return };
    for name in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert_eq!(count(&calls, name), 0, "{calls:?}");
    }
    assert!(count(&calls, "fdatasync") > 0, "{calls:?}");
    let Some((calls, _)) = traced(test, "uring") else { return };
    assert!(
        count(&calls, "io_uring_setup") > 0 && count(&calls, "io_uring_enter") > 50,
        "the control: {calls:?}"
    );
}

/// The barriers that the log counts are the kernel's, no more and no fewer: so many records share one.
#[test]
#[parallel]
fn counted_barriers_are_those_that_the_kernel_sees() {
    let test = "system_calls::counted_barriers_are_those_that_the_kernel_sees";
    if let Some(dir) = again::directory() {
        return count_barriers(&dir);
    }
    if !again::has("strace") || !has_ring() {
        return;
    }
    for (value, call, others) in
        [("uring", "io_uring_enter", "fdatasync"), ("fsync", "fdatasync", "io_uring_enter")]
    {
        let Some((calls, said)) = traced(test, value) else { return };
        let counted: u64 = said[0].parse().unwrap();
        // One more than a hundred, for the batch.
        assert!(counted >= 101, "{counted}");
        let outside = count(&calls, call);
        assert_eq!(outside - counted, said[1].parse::<u64>().unwrap(), "{value}: {calls:?}, {said:?}");
        assert_eq!(count(&calls, others), 0, "{value}: {calls:?}");
    }
}

/// Says how many barriers the log counts, and how many were made beside them: the self-test's and what open makes
/// durable again.
fn count_barriers(dir: &Path) {
    let (wal, _) = Wal::open(dir.join("log")).unwrap();
    for _ in 0..100 {
        wal.append(b"alone").unwrap();
    }
    wal.append_batch([[9; 100]; 64]).unwrap();
    wal.close().unwrap();
    again::say(&wal.stats().barriers.to_string());
    let self_tests = u64::from(wal.strategy().strategy == "uring");
    let at_open = 1;
    again::say(&(self_tests + at_open).to_string());
}

/// A new log's directory has a name that survives, and so have the names in it: both directories are synced.
#[test]
#[parallel]
fn p01_the_name_of_a_new_log_is_synced_in_its_parent() {
    let test = "system_calls::p01_the_name_of_a_new_log_is_synced_in_its_parent";
    if let Some(dir) = again::directory() {
        drop(Wal::open(dir.join("log")).unwrap());
        return again::say("done");
    }
    if !again::has("strace") {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let trace = dir.path().join("trace");
    let wrapper = ["strace", "-f", "-qq", "-y", "-o", trace.to_str().unwrap(), "-e", "trace=fsync"];
    let Some(_) = again::run(test, dir.path(), &wrapper) else { return };
    let trace = std::fs::read_to_string(&trace).unwrap();
    for synced in [dir.path().to_owned(), dir.path().join("log")] {
        let synced = format!("<{}>", synced.display());
        assert!(trace.lines().any(|line| line.contains(&synced)), "{synced} was not synced:\n{trace}");
    }
}
