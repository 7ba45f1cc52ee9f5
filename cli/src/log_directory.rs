//! Is there a log in a directory? Asked before anything is opened that would create one.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// True for the name of a segment: 20 digits and `.wal`.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.strip_suffix(".wal")
        .is_some_and(|digits| digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How often a directory is listed: a listing may miss each name that a writer adds or removes while it runs.
const LISTINGS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(5);

/// Ok when the directory holds a log, whatever its state.
pub(crate) fn require_log(dir: &Path) -> Result<(), Failure> {
    for _ in 1..LISTINGS {
        match look_into(dir)? {
            Seen::Log => return Ok(()),
            Seen::LockOnly => thread::sleep(PAUSE),
            Seen::Nothing => break,
        }
    }
    if matches!(look_into(dir)?, Seen::Log) {
        return Ok(());
    }
    Err(Failure::io(format!(
        "{}: there is no log in this directory; check the path ('wo-wal append' creates a log)",
        dir.display()
    )))
}

/// What a listing shows.
enum Seen {
    Log,
    /// A writer is at work, or there was one before the first segment had its name.
    LockOnly,
    Nothing,
}

fn look_into(dir: &Path) -> Result<Seen, Failure> {
    let mut seen = Seen::Nothing;
    for entry in fs::read_dir(dir).map_err(|source| no_directory(dir, &source))? {
        let name = entry.map_err(|source| Failure::at("list", dir, &source))?.file_name();
        if name.to_str().is_some_and(is_segment_name) {
            return Ok(Seen::Log);
        }
        if name == "LOCK" {
            seen = Seen::LockOnly;
        }
    }
    Ok(seen)
}

fn no_directory(dir: &Path, source: &io::Error) -> Failure {
    match source.kind() {
        io::ErrorKind::NotFound => Failure::io(format!(
            "{}: there is no such directory; check the path ('wo-wal append' creates a log)",
            dir.display()
        )),
        _ => Failure::at("list", dir, source),
    }
}

/// How a log ends, in words.
pub(crate) fn describe_end(closed_cleanly: bool, torn_tail_bytes: u64) -> String {
    match (closed_cleanly, torn_tail_bytes) {
        (true, 0) => "closed cleanly".to_owned(),
        (_, 0) => {
            "not marked as closed: a writer is at work, was killed, or left no record to vouch for".to_owned()
        }
        (_, bytes) => {
            format!("torn: at least {bytes} bytes that were never acknowledged follow the last record")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_segment_name, require_log};

    #[test]
    fn only_a_segment_is_taken_for_one() {
        assert!(is_segment_name("00000000000000000001.wal"));
        for other in ["1.wal", "00000000000000000001.tmp", "0000000000000000000a.wal", "spare.tmp", "LOCK"] {
            assert!(!is_segment_name(other), "{other}");
        }
    }

    /// A listing next to a writer that trims may show its lock and not one of its segments.
    #[test]
    fn a_directory_with_a_lock_is_looked_into_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("LOCK"), b"").unwrap();
        assert!(require_log(dir.path()).is_err());
        std::thread::scope(|scope| {
            let looker = scope.spawn(|| require_log(dir.path()));
            std::fs::write(dir.path().join("00000000000000000007.wal"), b"").unwrap();
            assert!(looker.join().unwrap().is_ok());
        });
    }
}
