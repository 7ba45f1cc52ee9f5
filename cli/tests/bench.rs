//! `wo-wal bench`: rows that are verified, in a table, as JSON and as an image; and what it refuses to measure.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use common::{Place, Ran, Running, run, skip, wo_wal};
use serde_json::Value;
use wo_wal::WO_IO;

const KEYS: [&str; 14] = [
    "workload",
    "strategy",
    "cohort",
    "threads",
    "record_bytes",
    "records_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "records_per_barrier",
    "barriers_per_s",
    "cpu_us_per_record",
    "verified",
];
const SIGINT: i32 = 2;

/// The command with its shortest trials, wherever temporary files are.
fn quick(dir: &Path, options: &[&str]) -> Command {
    let mut command = wo_wal();
    command.arg("bench").arg(dir).args(["--quick", "--allow-tmpfs"]).args(options).env(WO_IO, "");
    command
}

fn rows(ran: &Ran) -> Vec<Value> {
    ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The different values of a key.
fn values(rows: &[Value], key: &str) -> BTreeSet<String> {
    rows.iter().map(|row| row[key].to_string().trim_matches('"').to_owned()).collect()
}

fn strings<const N: usize>(strings: [&str; N]) -> BTreeSet<String> {
    strings.map(str::to_owned).into()
}

/// The strategies that a log could have there.
fn strategies(dir: &Path) -> BTreeSet<String> {
    let mut command = wo_wal();
    let probed = run(command.arg("probe").arg(dir).arg("--json").env(WO_IO, ""), b"").succeeded();
    let found: Value = serde_json::from_slice(&probed.stdout).unwrap();
    if found["strategy"] == "uring" { strings(["fsync", "uring"]) } else { strings(["fsync"]) }
}

fn assert_nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_workload_gives_verified_rows_for_every_strategy_and_leaves_nothing_behind() {
    let place = Place::new();
    let found = strategies(place.root());
    let ran = run(&mut quick(place.root(), &["--json", "--rate", "2000"]), b"").succeeded();
    let rows = rows(&ran);
    for strategy in &found {
        let of_strategy: Vec<Value> =
            rows.iter().filter(|row| row["strategy"] == strategy.as_str()).cloned().collect();
        let workloads = strings([
            "closed",
            "open",
            "batch",
            "recovery",
            "rotation",
            "mixed-append",
            "mixed-read",
            "apart-read",
        ]);
        assert_eq!(values(&of_strategy, "workload"), workloads, "{strategy}");
    }
    assert_eq!(values(&rows, "strategy"), found);
    for row in &rows {
        assert_eq!(row["verified"], true, "{row}");
        assert!(KEYS.iter().all(|key| row.get(key).is_some()), "{row}");
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("records_per_s") > 0.0 && number("cpu_us_per_record") > 0.0, "{row}");
        let times = ["p50_us", "p99_us", "p999_us", "max_us"].map(number);
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
    }
    assert_nothing_is_left(place.root());
}

#[test]
fn what_barriers_were_shared_by_and_wrote_is_counted() {
    let place = Place::new();
    let options = ["--json", "--workload", "closed,batch", "--threads", "1,4", "--batch", "50"];
    let ran = run(&mut quick(place.root(), &options), b"").succeeded();
    for row in rows(&ran) {
        let number = |key: &str| row[key].as_f64().unwrap();
        let sharers = if row["workload"] == "batch" { 50.0 } else { number("threads") };
        let (mean, largest) = (number("records_per_barrier"), number("records_per_barrier_max"));
        assert!(0.0 < mean && mean <= largest && largest <= sharers, "{row}");
        let per_barrier = number("records_per_s") / number("barriers_per_s");
        assert!((per_barrier / mean - 1.0).abs() < 0.001, "{row}");
        // A record of 256 bytes has a header of 8.
        assert!(number("written_per_appended_byte") >= 264.0 / 256.0, "{row}");
    }
}

#[test]
fn the_table_has_a_line_for_each_variant() {
    let place = Place::new();
    let options = ["--workload", "closed", "--threads", "2", "--cohort", "both", "--strategy", "fsync"];
    let ran = run(&mut quick(place.root(), &options), b"").succeeded();
    let lines: Vec<Vec<&str>> = ran.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{}", ran.text());
    assert_eq!(lines[0][..4], ["workload", "threads", "by", "cohort"]);
    assert_eq!(lines[1][..4], ["closed", "2", "fsync", "full"]);
    assert_eq!(lines[2][..4], ["closed", "2", "fsync", "greedy"]);
    assert!(lines[1..].iter().all(|line| line.last() == Some(&"yes")), "{}", ran.text());
}

#[test]
fn records_arrive_at_the_rate_that_was_asked_for() {
    let place = Place::new();
    let options =
        ["--json", "--workload", "open", "--rate", "500,50%", "--strategy", "fsync", "--workers", "8"];
    let ran = run(&mut quick(place.root(), &options), b"").succeeded();
    let rows = rows(&ran);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["rate_per_s"], 500.0);
    let capacity = ran.summary("capacity:").split(' ').next().unwrap().parse::<f64>().unwrap();
    let half = rows[1]["rate_per_s"].as_f64().unwrap();
    assert!((half - capacity / 2.0).abs() <= 1.0, "{half} of {capacity}");
    assert_eq!(values(&rows, "threads"), strings(["8"]));
}

#[test]
fn the_plot_shows_each_strategy() {
    let place = Place::new();
    let path = place.root().join("closed.svg");
    // Longer than the image: nothing of it may stay.
    fs::write(&path, "of yesterday ".repeat(10_000)).unwrap();
    let found = strategies(place.root());
    let mut command = quick(place.root(), &["--workload", "closed", "--threads", "1,4", "--plot"]);
    run(command.arg(&path), b"").succeeded();
    let image = fs::read_to_string(&path).unwrap();
    assert!(image.starts_with("<svg") && image.trim_end().ends_with("</svg>"), "{image}");
    for text in ["Durable records per second", "p99 of an append"] {
        assert!(image.contains(text), "{text}");
    }
    for strategy in found {
        // A legend in each of the two panels.
        assert_eq!(image.matches(&format!("{strategy}, full cohort")).count(), 2, "{strategy}");
    }
}

#[test]
fn a_plot_that_cannot_be_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let path = place.root().join("missing").join("closed.svg");
    let ran = run(quick(place.root(), &["--plot"]).arg(&path), b"");
    assert!(ran.failed_with(74).contains("closed.svg"), "{}", ran.stderr);
    assert!(ran.stdout.is_empty());
    let ran = run(&mut quick(place.root(), &["--workload", "batch", "--plot", "batch.svg"]), b"");
    assert!(ran.failed_with(2).contains("--workload closed"), "{}", ran.stderr);
    assert_nothing_is_left(place.root());
}

/// It was emptied when the run began, so a run that failed or was interrupted took it along.
#[test]
fn a_plot_that_is_there_stays_where_a_run_fails() {
    let place = Place::new();
    let path = place.root().join("closed.svg");
    fs::write(&path, "of yesterday").unwrap();
    let mut command = quick(place.root(), &["--workload", "closed", "--segment-bytes", "1", "--plot"]);
    let ran = run(command.arg(&path), b"");
    assert!(ran.failed_with(2).contains("segment_bytes is 1"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "of yesterday");
}

/// Syncs cost nothing there, so a figure would be one of something else.
#[test]
fn a_directory_in_memory_is_refused() {
    let test = "a_directory_in_memory_is_refused";
    let shared_memory = Path::new("/dev/shm");
    let named = Command::new("stat").args(["-f", "-c", "%T"]).arg(shared_memory).output();
    if !named.is_ok_and(|named| named.stdout == b"tmpfs\n") {
        return skip(test, "/dev/shm is not a tmpfs");
    }
    let dir = tempfile::tempdir_in(shared_memory).unwrap();
    let options = ["--quick", "--workload", "closed", "--threads", "1"];
    let bench = |more: &[&str]| run(wo_wal().arg("bench").arg(dir.path()).args(options).args(more), b"");
    let ran = bench(&[]);
    assert!(ran.failed_with(2).contains("--allow-tmpfs"), "{}", ran.stderr);
    assert!(ran.stdout.is_empty());
    bench(&["--allow-tmpfs"]).succeeded();
    assert_nothing_is_left(dir.path());
}

#[test]
fn the_environment_and_the_command_line_say_which_strategies() {
    let place = Place::new();
    let options = ["--json", "--workload", "batch"];
    let ran = run(quick(place.root(), &options).env(WO_IO, "fsync"), b"").succeeded();
    assert_eq!(values(&rows(&ran), "strategy"), strings(["fsync"]));
    let ran = run(quick(place.root(), &["--strategy", "uring"]).env(WO_IO, "fsync"), b"");
    assert!(ran.failed_with(2).contains("uring cannot be had here"), "{}", ran.stderr);
    for strategy in strategies(place.root()) {
        let ran = run(quick(place.root(), &options).args(["--strategy", &strategy]), b"").succeeded();
        assert_eq!(values(&rows(&ran), "strategy"), strings([&strategy]));
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    let place = Place::new();
    for options in [
        ["--record-bytes", "15"],
        ["--record-bytes", "17M"],
        ["--seconds", "0"],
        ["--rate", "fast"],
        ["--threads", "0"],
        ["--workload", "sleep"],
        ["--segment-bytes", "1K"],
    ] {
        let ran = run(&mut quick(place.root(), &options), b"");
        ran.failed_with(2);
    }
    let missing = place.root().join("missing");
    assert!(run(&mut quick(&missing, &[]), b"").failed_with(74).contains("missing"));
    assert_nothing_is_left(place.root());
}

/// While writers append one record after the other, and while they wait for records that arrive in minutes.
#[test]
fn an_interrupted_run_ends_by_the_signal_and_leaves_nothing_behind() {
    for workload in [["--workload", "closed"], ["--workload", "open"]] {
        let options = ["--seconds", "3600", "--rate", "0.002", "--strategy", "fsync"];
        interrupt(&[workload.as_slice(), &options].concat());
    }
}

fn interrupt(options: &[&str]) {
    let place = Place::new();
    let mut running = Running::start(&mut quick(place.root(), options));
    running.stdin = None;
    // Its directory is there once it listens.
    while fs::read_dir(place.root()).unwrap().next().is_none() {
        assert!(running.child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.signal("INT");
    assert_eq!(running.wait().status.signal(), Some(SIGINT));
    assert_nothing_is_left(place.root());
}

#[test]
fn a_reader_that_has_gone_ends_the_run_quietly() {
    let place = Place::new();
    let options = ["--json", "--workload", "closed", "--strategy", "fsync", "--threads", "1,1,1,1,1,1"];
    let mut running = Running::start(&mut quick(place.root(), &options));
    assert!(running.read_line().contains("closed"));
    running.stdout = None;
    let ran = running.wait();
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("wo-wal:"), "{}", ran.stderr);
    assert_nothing_is_left(place.root());
}
