//! What is not a log of this version is refused with an error of its own, and nothing is deleted or changed.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::collections::BTreeMap;
use std::path::Path;

use wo_wal::{Error, Wal};

const FIRST: &str = "00000000000000000001.wal";

fn log() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().segment_bytes(64 * 1024).open(dir.path()).unwrap();
    wal.append(b"record").unwrap();
    wal.close().unwrap();
    dir
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// Opens what `spoil` made of a log; the directory must stay as it is.
fn refused(spoil: impl FnOnce(&Path)) -> Error {
    let dir = log();
    spoil(dir.path());
    let before = files(dir.path());
    let error = Wal::open(dir.path()).map(drop).unwrap_err();
    assert!(files(dir.path()) == before, "the refusal ({error}) changed the directory");
    error
}

#[test]
fn a_foreign_file_under_a_segments_name_is_not_a_segment() {
    let error = refused(|dir| std::fs::write(dir.join(FIRST), b"somebody else's notes").unwrap());
    assert!(matches!(error, Error::NotASegment { .. }), "{error}");
}

#[test]
fn an_empty_file_under_a_segments_name_is_damage() {
    let error = refused(|dir| std::fs::write(dir.join(FIRST), b"").unwrap());
    assert!(matches!(error, Error::Corrupt { what: "the file is empty", .. }), "{error}");
}

#[test]
fn a_half_made_segment_is_damage() {
    let error = refused(|dir| {
        let bytes = std::fs::read(dir.join(FIRST)).unwrap();
        std::fs::write(dir.join(FIRST), &bytes[..30_000]).unwrap();
    });
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn i11_a_newer_version_is_named() {
    let error = refused(|dir| {
        let mut bytes = std::fs::read(dir.join(FIRST)).unwrap();
        bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(dir.join(FIRST), bytes).unwrap();
        // Files on the way to a name are the newer version's own.
        std::fs::write(dir.join("next.tmp"), b"on its way").unwrap();
    });
    assert!(matches!(error, Error::UnsupportedVersion { found: 7, .. }), "{error}");
}

#[test]
fn i02_files_that_are_not_the_logs_stay_as_they_are() {
    let dir = log();
    for name in ["notes.txt", "foreign.wal", "1.wal", "mine.tmp"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let (wal, _) = Wal::options().segment_bytes(64 * 1024).open(dir.path()).unwrap();
    for _ in 0..20 {
        wal.append(&vec![1; 30_000]).unwrap();
    }
    wal.trim(wal.durable_lsn()).unwrap();
    wal.close().unwrap();
    let files = files(dir.path());
    for name in ["notes.txt", "foreign.wal", "1.wal", "mine.tmp"] {
        assert_eq!(files.get(name).map(Vec::as_slice), Some(name.as_bytes()));
    }
}

/// A directory in which not even root may create a file.
#[test]
#[cfg(target_os = "linux")]
fn a_directory_without_write_permission_is_an_io_error_that_names_the_file() {
    match Wal::open("/proc/self") {
        Err(Error::Io { path, .. }) => assert!(path.starts_with("/proc/self"), "{}", path.display()),
        other => panic!("{other:?}"),
    }
}
