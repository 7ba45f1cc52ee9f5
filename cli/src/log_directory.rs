//! Is there a log in a directory? Asked before anything is opened that would create one.

use std::fs;
use std::io;
use std::path::Path;

use crate::failure::Failure;

/// True for the name of a segment: 20 digits and `.wal`.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.strip_suffix(".wal")
        .is_some_and(|digits| digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Ok when the directory holds a log, whatever its state.
pub(crate) fn require_log(dir: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(dir).map_err(|source| no_directory(dir, &source))?;
    for entry in entries {
        let entry = entry.map_err(|source| Failure::at("list", dir, &source))?;
        if entry.file_name().to_str().is_some_and(is_segment_name) {
            return Ok(());
        }
    }
    Err(Failure::io(format!(
        "{}: there is no log in this directory; check the path ('wo-wal append' creates a log)",
        dir.display()
    )))
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
        (_, 0) => "not marked as closed: a writer is at work, was killed, or only trimmed".to_owned(),
        (_, bytes) => {
            format!("torn: at least {bytes} bytes that were never acknowledged follow the last record")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_segment_name;

    #[test]
    fn only_a_segment_is_taken_for_one() {
        assert!(is_segment_name("00000000000000000001.wal"));
        for other in ["1.wal", "00000000000000000001.tmp", "0000000000000000000a.wal", "spare.tmp", "LOCK"] {
            assert!(!is_segment_name(other), "{other}");
        }
    }
}
