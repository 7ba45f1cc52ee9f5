//! Plain system calls that are interrupted, or that the system does not have. Cases of `docs/known-failures.md`.

use std::path::Path;

use rustix::io::Errno;
use serial_test::parallel;
use wo_wal::{Error, WO_IO, Wal};

use crate::again;

/// A child with the strategy `fsync` in which some calls are refused, not executed; what it said.
fn injected(test: &str, call: &str, injection: &str) -> Option<Vec<String>> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let trace = dir.path().join("trace");
    let (calls, injection) = (format!("trace={call}"), format!("inject={call}:{injection}"));
    let wrapper = ["strace", "-f", "-qq", "-o", trace.to_str().unwrap(), "-e", &calls, "-e", &injection];
    let said = again::outcome(again::command(test, dir.path(), &wrapper).env(WO_IO, "fsync"))?;
    let injected = std::fs::read_to_string(&trace).unwrap().matches("(INJECTED)").count();
    assert!(injected > 0, "the control: no {call} was refused");
    Some(said)
}

/// In the child: rotations, a trim, a close, and all of it read again.
fn live(dir: &Path) {
    let open = || Wal::options().segment_bytes(64 << 10).open(dir.join("log")).unwrap().0;
    let wal = open();
    for number in 0..20_u8 {
        wal.append(&vec![number; 20_000]).unwrap();
    }
    wal.trim(wal.durable_lsn()).unwrap();
    for number in 20..30_u8 {
        wal.append(&vec![number; 20_000]).unwrap();
    }
    wal.close().unwrap();
    drop(wal);
    let records: Vec<_> = open().replay(..).unwrap().map(|record| record.unwrap()).collect();
    assert_eq!(records.last().unwrap().lsn.get(), 30);
    assert!(records.iter().all(|record| u64::from(record.payload[0]) + 1 == record.lsn.get()));
    again::say("all of it");
}

#[test]
#[parallel]
fn i07_interrupted_calls_are_made_again() {
    let test = "injected::i07_interrupted_calls_are_made_again";
    if let Some(dir) = again::directory() {
        return live(&dir);
    }
    if again::can_trace() {
        for call in ["fallocate", "pwrite64", "fdatasync", "fsync"] {
            let _ = injected(test, call, "error=EINTR:when=1+2");
        }
        // The first ones are the program loader's, which does not make them again.
        let _ = injected(test, "pread64", "error=EINTR:when=7+2");
    }
}

#[test]
#[parallel]
fn i15_where_nothing_can_be_reserved_zeros_hold_the_place() {
    let test = "injected::i15_where_nothing_can_be_reserved_zeros_hold_the_place";
    if let Some(dir) = again::directory() {
        live(&dir);
        for entry in std::fs::read_dir(dir.join("log")).unwrap().map(Result::unwrap) {
            use std::os::unix::fs::MetadataExt;
            let metadata = entry.metadata().unwrap();
            assert!(metadata.blocks() * 512 >= metadata.len(), "{entry:?} has a hole");
        }
        return;
    }
    if again::can_trace() {
        let _ = injected(test, "fallocate", "error=EOPNOTSUPP");
    }
}

/// Open makes a barrier of its own, so nothing is ever staged where barriers cannot be made.
#[test]
#[parallel]
fn d10_a_system_without_the_sync_is_refused_at_open() {
    let test = "injected::d10_a_system_without_the_sync_is_refused_at_open";
    if let Some(dir) = again::directory() {
        let Err(Error::Io { source, .. }) = Wal::open(dir.join("log")) else { panic!("it opens") };
        assert_eq!(source.raw_os_error(), Some(Errno::NOSYS.raw_os_error()));
        return again::say("refused");
    }
    if again::can_trace() {
        let _ = injected(test, "fdatasync", "error=ENOSYS");
    }
}
