//! `wo-wal cat`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Place, Running, is_root, long_lines, numbered, run, skip};
use serde_json::{Value, json};

#[test]
fn a_range_of_records() {
    let place = Place::with_lines(b"a\nb\nc\nd\n");
    assert_eq!(place.cat(&["--from", "2", "--to", "3"]).succeeded().text(), "b\nc\n");
    assert_eq!(place.cat(&["--from", "3"]).succeeded().text(), "c\nd\n");
    assert_eq!(place.cat(&["--to", "1"]).succeeded().text(), "a\n");
    assert_eq!(place.cat(&["--from", "4", "--to", "9"]).succeeded().text(), "d\n");
    assert_eq!(place.cat(&["--from", "5"]).succeeded().text(), "");
}

#[test]
fn a_range_the_wrong_way_round_is_a_usage_error() {
    let place = Place::with_lines(b"a\nb\n");
    assert!(place.cat(&["--from", "2", "--to", "1"]).failed_with(2).contains("--from 2"));
}

#[test]
fn a_record_below_the_oldest_is_a_usage_error_that_names_the_oldest() {
    let place = Place::with_lines(&long_lines(200));
    place.run("trim", &["--up-to", "180"]).succeeded();
    let first = place.cat(&["--format", "lsn"]).succeeded();
    let oldest = first.text().split_once('\t').unwrap().0.to_owned();
    assert_ne!(oldest, "1");
    let ran = place.cat(&["--from", "1"]);
    assert!(ran.failed_with(2).contains(&format!("LSN {oldest}")), "{}", ran.stderr);
}

#[test]
fn json_lines_say_everything_about_a_record() {
    let place = Place::with_lines(b"say \"hi\"\t\xe2\x82\xac\n\xff\x00\n\n");
    let printed = place.cat(&["--format", "json"]).succeeded();
    let lines: Vec<Value> = printed.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({"lsn": 1, "ends_batch": true, "payload": "say \"hi\"\t\u{20ac}"}),
            json!({"lsn": 2, "ends_batch": true, "payload_hex": "ff00"}),
            json!({"lsn": 3, "ends_batch": true, "payload": ""}),
        ]
    );
}

#[test]
fn hexadecimal_lines() {
    let place = Place::with_lines(b"\x00\xffA\n\n");
    assert_eq!(place.cat(&["--format", "hex"]).succeeded().text(), "1\t00ff41\n2\t\n");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    // More than a pipe and a buffer take.
    let place = Place::with_lines(&long_lines(1000));
    let mut reader = Running::start(&mut place.command("cat", &[]));
    assert_eq!(reader.read_line().as_bytes(), long_lines(1));
    drop(reader.stdout.take());
    assert_eq!(reader.wait().succeeded().stderr, "");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::with_lines(b"a\n");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command("cat", &[]).stdout(full).output().unwrap();
    assert!(common::Ran::from(output).failed_with(74).contains("standard output"));
}

#[test]
fn a_directory_that_is_not_there_is_an_error_and_stays_away() {
    let place = Place::new();
    for command in [&["cat"][..], &["verify"], &["stat"], &["trim", "--up-to", "1"]] {
        let ran = place.run(command[0], &command[1..]);
        assert!(ran.failed_with(74).contains("no such directory"), "{}", ran.stderr);
        assert!(!place.log().exists());
    }
}

#[test]
fn a_directory_without_a_log_is_an_error_and_stays_empty() {
    let place = Place::new();
    fs::create_dir(place.log()).unwrap();
    for command in [&["cat"][..], &["verify"], &["stat"], &["trim", "--up-to", "1"]] {
        let ran = place.run(command[0], &command[1..]);
        assert!(ran.failed_with(74).contains("no log in this directory"), "{}", ran.stderr);
        assert_eq!(fs::read_dir(place.log()).unwrap().count(), 0);
    }
}

#[test]
fn reading_changes_no_file() {
    let place = Place::with_lines(&numbered(100));
    let state = || -> Vec<(std::ffi::OsString, Vec<u8>, std::time::SystemTime)> {
        let mut files: Vec<_> = fs::read_dir(place.log())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let changed = entry.metadata().unwrap().modified().unwrap();
                (entry.file_name(), fs::read(entry.path()).unwrap(), changed)
            })
            .collect();
        files.sort();
        files
    };
    let before = state();
    for command in ["cat", "verify", "stat"] {
        place.run(command, &[]).succeeded();
    }
    assert!(state() == before);
}

#[test]
fn another_user_reads_a_directory_that_nobody_may_write() {
    let test = "another_user_reads_a_directory_that_nobody_may_write";
    if !is_root() {
        return skip(test, "needs root, to become another user");
    }
    let place = Place::with_lines(b"a\nb\n");
    // The target directory may lie where another user may not look.
    let binary = place.root().join("wo-wal");
    fs::copy(env!("CARGO_BIN_EXE_wo-wal"), &binary).unwrap();
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(place.root(), 0o755);
    allow(&place.log(), 0o555);
    for entry in fs::read_dir(place.log()).unwrap() {
        allow(&entry.unwrap().path(), 0o444);
    }
    let as_nobody = |command: &str| {
        let mut line = Command::new("setpriv");
        line.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        line.arg(&binary).arg(command).arg(place.log());
        line
    };
    if as_nobody("--version").output().is_err() {
        return skip(test, "there is no setpriv");
    }
    assert_eq!(run(&mut as_nobody("cat"), b"").succeeded().text(), "a\nb\n");
    assert!(run(&mut as_nobody("verify"), b"").succeeded().text().contains("sound"));
    assert!(run(&mut as_nobody("stat"), b"").succeeded().text().contains("closed cleanly"));
    run(&mut as_nobody("append"), b"c\n").failed_with(74);
}

#[test]
fn a_log_can_be_read_while_it_is_written() {
    let place = Place::new();
    let mut appender = Running::start(&mut place.command("append", &["--acks"]));
    appender.write(b"a\nb\n");
    appender.stdin.as_mut().unwrap().flush().unwrap();
    assert_eq!(appender.read_line() + &appender.read_line(), "1\t1\n2\t2\n");
    assert_eq!(place.cat(&[]).succeeded().text(), "a\nb\n");
    assert!(place.run("stat", &[]).succeeded().text().contains("not marked as closed"));
}
