//! Reading a log on media that cannot be written to (bug report I09: a log that could not even be read there, because a
//! file had to be created first).

#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![cfg(target_os = "linux")]

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use support::skip::skip;
use wo_wal::{Error, Lsn, Reader, Wal};

fn mount(arguments: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).arg(at).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Takes the mount away, also from a test that failed.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// A log that was not closed is copied to the media, which then become read-only.
fn a_log_is_read_on(mount_arguments: &[&str]) {
    let media = tempfile::tempdir().unwrap();
    if let Err(reason) = mount(mount_arguments, media.path()) {
        skip!("cannot mount: {reason}");
    }
    let _mounted = Mounted(media.path());
    let source = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().segment_bytes(64 << 10).open(source.path()).unwrap();
    wal.append(b"one").unwrap();
    wal.append(b"two").unwrap();
    for entry in fs::read_dir(source.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), media.path().join(entry.file_name())).unwrap();
    }
    mount(&["-o", "remount,ro"], media.path()).unwrap();

    let (reader, recovery) = Reader::open(media.path()).unwrap();
    assert_eq!((recovery.last, recovery.closed_cleanly), (Lsn::new(2), false));
    let records: Vec<_> = reader.replay(..).unwrap().map(|record| record.unwrap().payload).collect();
    assert_eq!(records, [b"one", b"two"]);
    assert!(matches!(Wal::open(media.path()), Err(Error::Io { .. })));
}

#[test]
fn i09_a_log_is_read_on_a_tmpfs_that_is_read_only() {
    a_log_is_read_on(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"]);
}

#[test]
fn i09_a_log_is_read_on_an_ext4_that_is_read_only() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
    if !made.is_ok_and(|status| status.success()) {
        skip!("mkfs.ext4 does not run");
    }
    a_log_is_read_on(&["-o", "loop", image.to_str().unwrap()]);
}
