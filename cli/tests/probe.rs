//! `wo-wal probe`, and what other commands say about the strategy.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{Place, Ran, is_root, run, skip, wo_wal};
use serde_json::Value;
use wo_wal::WO_IO;

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    names
}

fn probe(dir: &Path, io: &str, options: &[&str]) -> Ran {
    let mut command = wo_wal();
    run(command.arg("probe").arg(dir).args(options).env(WO_IO, io), b"")
}

fn json(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Whether this machine gives rings: what a probe says that nobody steers.
fn has_ring() -> bool {
    let place = Place::new();
    json(&probe(place.root(), "auto", &["--json"]).succeeded())["strategy"] == "uring"
}

/// The command under a filter that refuses the ring; `None`, and a skip, where that cannot be had.
fn refused(test: &str, io: &str, dir: &Path, options: &[&str]) -> Option<Ran> {
    if Command::new("strace").arg("-V").output().is_err() {
        skip(test, "strace is not installed");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=io_uring_setup:error=EPERM"]);
    command.args([env!("CARGO_BIN_EXE_wo-wal"), "probe"]).arg(dir).args(options).env(WO_IO, io);
    Some(run(&mut command, b""))
}

#[test]
fn a_probe_says_what_would_run_and_why_and_leaves_nothing_behind() {
    let place = Place::with_lines(b"a\n");
    let before = names(&place.log());
    let found = json(&probe(&place.log(), "auto", &["--json"]).succeeded());
    let strategy = found["strategy"].as_str().unwrap();
    assert!(strategy == "uring" || strategy == "fsync", "{found}");
    assert!(found["reason"].as_str().unwrap().starts_with(&format!("{strategy}, because ")), "{found}");
    assert_eq!(found["source"], "auto", "{found}");
    assert_ne!(found["file_system"], "");
    let text = probe(&place.log(), "auto", &[]).succeeded();
    assert!(text.text().contains(&format!("\nstrategy:    {strategy}, because ")), "{}", text.text());
    for check in found["checks"].as_array().unwrap() {
        let line = format!("\ncheck:       {}: ", check["name"].as_str().unwrap());
        assert!(text.text().contains(&line), "{}", text.text());
    }
    assert_eq!(names(&place.log()), before);
}

#[test]
fn the_cost_of_each_strategy_is_measured() {
    let place = Place::new();
    let found = json(&probe(place.root(), "", &["--json"]).succeeded());
    let costs = found["barriers"].as_array().unwrap();
    let strategies = if found["strategy"] == "uring" { &["fsync", "uring"][..] } else { &["fsync"] };
    let expected: Vec<_> =
        [256, 4096].iter().flat_map(|bytes| strategies.iter().map(move |name| (*name, *bytes))).collect();
    let measured: Vec<_> = costs
        .iter()
        .map(|cost| (cost["strategy"].as_str().unwrap(), cost["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(measured, expected);
    for cost in costs {
        assert_eq!(cost["barriers"], 200);
        let [p50, p99] = ["p50_nanos", "p99_nanos"].map(|name| cost[name].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99, "{cost}");
    }
}

#[test]
fn fsync_is_probed_without_a_ring() {
    for word in ["fsync", "epoll"] {
        let place = Place::new();
        let found = json(&probe(place.root(), word, &["--json"]).succeeded());
        assert_eq!((&found["strategy"], &found["source"]), (&"fsync".into(), &"env".into()));
        assert_eq!(found["checks"].as_array().unwrap().len(), 1, "{found}");
        assert!(found["barriers"].as_array().unwrap().iter().all(|cost| cost["strategy"] == "fsync"));
    }
}

#[test]
fn a_refused_ring_is_named_with_its_errno() {
    let test = "a_refused_ring_is_named_with_its_errno";
    let place = Place::new();
    let Some(ran) = refused(test, "auto", place.root(), &["--json"]) else { return };
    let found = json(&ran.succeeded());
    assert_eq!(found["strategy"], "fsync");
    assert!(found["reason"].as_str().unwrap().contains("io_uring_setup returned EPERM"), "{found}");
    let failed = &found["checks"][1];
    assert_eq!((&failed["name"], &failed["passed"]), (&"io_uring_setup".into(), &false.into()));
    assert_eq!((&failed["errno"], &failed["errno_name"]), (&1.into(), &"EPERM".into()));
    let Some(text) = refused(test, "auto", place.root(), &[]) else { return };
    assert!(text.text().contains("\ncheck:       io_uring_setup: errno 1, "), "{}", text.text());
}

#[test]
fn a_ring_that_is_asked_for_and_refused_is_status_2_after_the_report() {
    let test = "a_ring_that_is_asked_for_and_refused_is_status_2_after_the_report";
    let place = Place::new();
    let Some(ran) = refused(test, "uring", place.root(), &["--json"]) else { return };
    let error = ran.failed_with(2);
    assert!(error.contains("WO_IO") && error.contains("io_uring_setup returned EPERM"), "{error}");
    assert_eq!(json(&ran)["strategy"], "none");
    // The same as a log says.
    if has_ring() {
        assert_eq!(json(&probe(place.root(), "uring", &["--json"]).succeeded())["strategy"], "uring");
    }
}

#[test]
fn a_word_that_means_nothing_is_status_2() {
    let place = Place::new();
    let ran = probe(place.root(), "uringg", &[]);
    assert!(ran.failed_with(2).contains("auto, uring, fsync or epoll"), "{}", ran.stderr);
}

#[test]
fn a_directory_that_cannot_be_probed_is_status_74() {
    let place = Place::new();
    let missing = place.root().join("missing");
    assert!(probe(&missing, "", &[]).failed_with(74).contains("missing"));
    assert!(!missing.exists());
}

#[test]
fn verify_and_stat_name_the_strategy() {
    let place = Place::with_lines(b"a\n");
    let before = names(&place.log());
    for (io, expected) in [
        ("fsync", "fsync, because the environment variable WO_IO asks for it"),
        ("nonsense", "none, because WO_IO is \"nonsense\""),
    ] {
        for command in ["verify", "stat"] {
            let ran = run(place.command(command, &["--json"]).env(WO_IO, io), b"").succeeded();
            let reason = json(&ran)["strategy_reason"].as_str().unwrap().to_owned();
            assert!(reason.starts_with(expected), "{command}: {reason}");
            let text = run(place.command(command, &[]).env(WO_IO, io), b"").succeeded();
            assert!(text.text().contains(&format!("\nstrategy: {expected}")), "{}", text.text());
        }
    }
    assert_eq!(names(&place.log()), before);
}

/// As an ordinary user, who may read the log and not write to it.
#[test]
fn verify_and_stat_say_nothing_about_the_strategy_where_they_cannot_write() {
    let test = "verify_and_stat_say_nothing_about_the_strategy_where_they_cannot_write";
    if !is_root() {
        return skip(test, "needs root, to become another user");
    }
    let place = Place::with_lines(b"a\n");
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
    // The other user may not be able to reach where the command was built.
    let program = place.root().join("wo-wal");
    fs::copy(env!("CARGO_BIN_EXE_wo-wal"), &program).unwrap();
    for command in ["verify", "stat"] {
        let mut line = Command::new("setpriv");
        line.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        let ran = run(line.arg(command).arg(place.log()).arg("--json"), b"").succeeded();
        assert_eq!(json(&ran)["strategy"], Value::Null, "{command}");
    }
}
