//! Exit statuses, and the one line that says why.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Place, Running, is_root, long_lines, numbered, run, skip, wo_wal};

#[test]
fn help_and_version_are_fine() {
    let version = run(wo_wal().arg("--version"), b"").succeeded();
    assert_eq!(version.text(), concat!("wo-wal ", env!("CARGO_PKG_VERSION"), "\n"));
    for command in ["append", "cat", "verify", "stat", "trim", "probe", "bench"] {
        let help = run(wo_wal().args([command, "--help"]), b"").succeeded();
        assert!(help.text().contains("Example"), "{}", help.text());
    }
    assert!(run(wo_wal().arg("--help"), b"").succeeded().text().contains("Exit status"));
}

#[test]
fn a_command_line_that_makes_no_sense_is_status_2() {
    let place = Place::with_lines(b"a\n");
    let log = place.log();
    let log = log.to_str().unwrap();
    for line in [
        &["append"][..],
        &["frobnicate", log],
        &["append", log, "--threads", "0"],
        &["append", log, "--threads", "many"],
        &["append", log, "--segment-bytes", "1T"],
        &["append", log, "--segment-bytes", "1"],
        &["cat", log, "--format", "xml"],
        &["cat", log, "--from", "0"],
        &["trim", log],
    ] {
        let ran = run(wo_wal().args(line), b"");
        ran.failed_with(2);
        assert_eq!(ran.stderr.lines().count(), 1, "{line:?}: {}", ran.stderr);
    }
}

#[test]
fn no_command_at_all_shows_the_help_and_is_status_2() {
    let ran = run(&mut wo_wal(), b"");
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stderr.contains("Usage:"), "{}", ran.stderr);
}

#[test]
fn a_size_out_of_range_creates_nothing() {
    let place = Place::new();
    place.append(&["--segment-bytes", "1"], b"a\n").failed_with(2);
    assert!(!place.log().exists());
}

#[test]
fn damage_is_status_65_for_every_command() {
    let place = Place::with_lines(&numbered(100));
    let segment = &place.segments()[0];
    let mut bytes = fs::read(segment).unwrap();
    bytes[10] ^= 1;
    fs::write(segment, bytes).unwrap();
    for command in [&["cat"][..], &["verify"], &["stat"], &["append"], &["trim", "--up-to", "1"]] {
        let ran = place.run(command[0], &command[1..]);
        assert!(ran.failed_with(65).contains(segment.to_str().unwrap()), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_missing_segment_is_status_65() {
    let place = Place::with_lines(&long_lines(200));
    fs::remove_file(&place.segments()[1]).unwrap();
    assert!(place.cat(&[]).failed_with(65).contains("00000000000000000002.wal"));
}

#[test]
fn a_foreign_file_is_status_65() {
    let place = Place::with_lines(b"a\n");
    fs::write(&place.segments()[0], b"not a segment, but a text of some length").unwrap();
    assert!(place.run("stat", &[]).failed_with(65).contains("not a segment"));
}

#[test]
fn a_path_that_cannot_be_a_log_is_status_74() {
    let place = Place::new();
    fs::write(place.log(), b"a file").unwrap();
    for command in [&["cat"][..], &["append"], &["trim", "--up-to", "1"]] {
        let ran = place.run(command[0], &command[1..]);
        assert!(ran.failed_with(74).contains(place.log().to_str().unwrap()), "{}", ran.stderr);
    }
}

#[test]
fn a_log_that_is_open_for_writing_is_status_75() {
    let place = Place::new();
    let mut appender = Running::start(&mut place.command("append", &["--acks"]));
    appender.write(b"a\n");
    assert_eq!(appender.read_line(), "1\t1\n");
    for command in [&["append"][..], &["trim", "--up-to", "1"]] {
        let ran = place.run(command[0], &command[1..]);
        assert!(ran.failed_with(75).contains(place.log().to_str().unwrap()), "{}", ran.stderr);
    }
    place.cat(&[]).succeeded();
}

#[test]
fn a_file_size_limit_is_status_74() {
    let place = Place::new();
    // The signal that comes with the limit is ignored, so that the call fails instead.
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" append \"$1\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_wo-wal")]).arg(place.log());
    run(&mut command, b"a\n").failed_with(74);
}

#[test]
fn more_segments_than_files_may_be_open_are_no_problem() {
    // A record of this size fills a segment.
    let lines = format!("{}\n", "x".repeat(60_000)).repeat(80);
    let place = Place::with_lines(lines.as_bytes());
    assert!(place.segments().len() >= 80);
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -n 32; exec \"$0\" cat \"$1\"", env!("CARGO_BIN_EXE_wo-wal")])
        .arg(place.log());
    assert!(run(&mut command, b"").succeeded().stdout == lines.as_bytes());
}

/// A small file system in memory, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "none"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A mount that stays behind is seen by the directory that cannot be removed.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_status_74_and_a_trim_makes_room() {
    let test = "a_full_disk_is_status_74_and_a_trim_makes_room";
    if !is_root() {
        return skip(test, "needs root, to mount a small file system");
    }
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(place.root()) else {
        return skip(test, "a tmpfs cannot be mounted here");
    };
    let options = ["--acks", "--threads", "4", "--segment-bytes", "64K"];
    let ran = place.append(&options, &long_lines(10_000));
    let error = ran.failed_with(74);
    assert!(error.contains("no space left") && error.contains("trim"), "{error}");
    let acked = ran.text().lines().count();
    assert!(acked > 100, "{acked}");
    assert!(ran.summary("durable:").starts_with(&format!("{acked} records")), "{}", ran.stderr);
    assert_eq!(place.cat(&[]).succeeded().text().lines().count(), acked);
    place.run("trim", &["--up-to", &acked.to_string()]).succeeded();
    place.append(&options, &numbered(100)).succeeded();
}
