//! What must hold in every case.

use std::ffi::OsString;
use std::path::Path;

use wo_wal::strategy::Uring;
use wo_wal::{Error, Io, Lsn, Options, Selection, Source, WO_IO, Wal};

use crate::again;

/// Runs the body in a child without `WO_IO`, with a directory: the parent runs the test again, and is done.
pub(crate) fn in_child(test: &str, body: impl FnOnce(&Path)) {
    if let Some(dir) = again::directory() {
        body(&dir);
        return again::say("done");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    again::outcome(again::command(test, dir.path(), &[]).env_remove(WO_IO));
}

/// Whether this machine gives rings where nobody interferes; announces the skip if not.
pub(crate) fn has_ring() -> bool {
    match Uring::new() {
        Ok(_) => true,
        Err(failure) => {
            crate::skip::announce(&failure.to_string());
            false
        }
    }
}

pub(crate) fn options(io: Io) -> Options {
    Wal::options().segment_bytes(64 << 10).io(io)
}

/// Makes a log of one record.
pub(crate) fn make_log(dir: &Path) {
    let (wal, _) = options(Io::Fsync).open(dir).unwrap();
    wal.append(b"first").unwrap();
    wal.close().unwrap();
}

pub(crate) fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    names
}

/// The ring is refused here by this call with this errno: what each request leads to, in a directory with a log.
pub(crate) fn falls_back(dir: &Path, call: &str, errno: i32) -> Selection {
    let before = names(dir);
    let (wal, recovery) = options(Io::Auto).open(dir).unwrap();
    let selection = wal.strategy().clone();
    assert_eq!((selection.strategy.as_str(), selection.source), ("fsync", Source::Auto), "{selection:?}");
    let why = selection.reason.strip_prefix("fsync, because ").unwrap_or_else(|| panic!("{selection:?}"));
    says_why(why, call, errno);
    assert_eq!(wal.append(b"next").unwrap(), Lsn::new(recovery.last.get() + 1));
    assert_eq!(wal.stats().assisted_barriers, 0, "fsync needs no assistance");
    wal.close().unwrap();
    drop(wal);

    unavailable(dir, why);
    assert_eq!(names(dir), before, "something was left behind");
    let (wal, recovery) = options(Io::Fsync).open(dir).unwrap();
    assert_eq!(wal.strategy().strategy, "fsync");
    assert_eq!(wal.replay(..).unwrap().count() as u64, recovery.last.get());
    selection
}

/// The probe for people finds the same.
pub(crate) fn probe_says(dir: &Path, call: &str, errno: i32) {
    let before = names(dir);
    let probe = wo_wal::probe(dir).unwrap();
    assert_eq!(probe.selection.strategy, "fsync");
    says_why(&probe.selection.reason, call, errno);
    let failed: Vec<_> = probe.checks.iter().filter(|check| !check.passed).collect();
    assert_eq!((failed.len(), failed[0].errno), (1, Some(errno)), "{probe:?}");
    assert_eq!(names(dir), before, "something was left behind");
}

/// Asking for the ring is an error at open that says why, also where there is no log yet.
fn unavailable(dir: &Path, why: &str) {
    let new = tempfile::tempdir_in(dir).unwrap();
    for dir in [dir, new.path()] {
        match options(Io::Uring).open(dir) {
            Err(Error::StrategyUnavailable { reason, .. }) => {
                assert_eq!(reason, format!("uring, which the program asks for, cannot be had: {why}"));
            }
            other => panic!("{other:?}"),
        }
    }
    // The lock's file is never removed: somebody may wait for it.
    assert_eq!(names(new.path()), ["LOCK"]);
    let (wal, _) = options(Io::Auto).open(new.path()).unwrap();
    assert_eq!(wal.append(b"after all").unwrap(), Lsn::FIRST);
}

fn says_why(text: &str, call: &str, errno: i32) {
    let said = std::io::Error::from_raw_os_error(errno).to_string();
    let meaning = said.split(" (os error").next().unwrap();
    assert!(text.contains(&format!("{call} returned ")), "no {call} in: {text}");
    assert!(text.contains(meaning), "no {meaning} in: {text}");
    assert!(text.contains("; likely cause: "), "no cause in: {text}");
}

/// Nothing refuses the ring here: what each request leads to.
pub(crate) fn ring_works(dir: &Path) {
    for (io, source) in [(Io::Auto, Source::Auto), (Io::Uring, Source::Options)] {
        let (wal, _) = options(io).open(dir).unwrap();
        assert_eq!((wal.strategy().strategy.as_str(), wal.strategy().source), ("uring", source), "{wal:?}");
        wal.append(b"through the ring").unwrap();
        assert_eq!(wal.stats().assisted_barriers, 0);
        wal.close().unwrap();
    }
}
