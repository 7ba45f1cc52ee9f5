//! `wo-wal verify`, `stat` and `trim`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;

use common::{Place, long_lines};
use serde_json::Value;

fn json(place: &Place, command: &str) -> Value {
    serde_json::from_slice(&place.run(command, &["--json"]).succeeded().stdout).unwrap()
}

#[test]
fn verify_counts_what_is_there() {
    let place = Place::with_lines(&long_lines(400));
    let found = json(&place, "verify");
    assert_eq!(found["sound"], true);
    assert_eq!(found["records"], 400);
    assert_eq!(found["batches"], 400);
    assert_eq!((&found["first_lsn"], &found["last_lsn"]), (&1.into(), &400.into()));
    assert_eq!(found["payload_bytes"], long_lines(400).len() - 400);
    assert_eq!(found["segments"], place.segments().len());
    assert_eq!(found["closed_cleanly"], true);
    assert_eq!(found["torn_tail_bytes"], 0);
    let text = place.run("verify", &[]).succeeded();
    assert!(text.text().contains("sound") && text.text().contains("400, LSN 1 to 400"), "{}", text.text());
}

#[test]
fn verify_of_an_empty_log() {
    let found = json(&Place::with_lines(b""), "verify");
    assert_eq!((&found["sound"], &found["records"]), (&true.into(), &0.into()));
    assert_eq!(found["first_lsn"], Value::Null);
}

#[test]
fn verify_names_the_damaged_file_and_says_so_in_json_too() {
    let place = Place::with_lines(&long_lines(400));
    let damaged = place.segments()[1].clone();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[30_000] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let ran = place.run("verify", &["--json"]);
    let file = damaged.to_str().unwrap();
    assert!(ran.failed_with(65).contains(file), "{}", ran.stderr);
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["sound"], false);
    assert!(found["damage"].as_str().unwrap().contains(file));
    assert!((1..400).contains(&found["records"].as_u64().unwrap()), "{found}");
    assert!(place.run("verify", &[]).text().contains("DAMAGED"));
}

/// The header of the last segment was damaged, and 400 sound records were called 0 records in 0 segments.
#[test]
fn verify_gives_no_counts_of_a_log_that_cannot_be_opened() {
    let place = Place::with_lines(&long_lines(400));
    let damaged = place.segments().pop().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[10] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let ran = place.run("verify", &["--json"]);
    ran.failed_with(65);
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["sound"], false);
    assert!(found["damage"].as_str().unwrap().contains(damaged.to_str().unwrap()), "{found}");
    for unread in ["records", "payload_bytes", "segments", "closed_cleanly", "torn_tail_bytes"] {
        assert_eq!(found.get(unread), None, "{found}");
    }
    let text = place.run("verify", &[]);
    assert!(text.text().contains("DAMAGED") && !text.text().contains("records: "), "{}", text.text());
}

#[test]
fn cat_prints_what_precedes_the_damage() {
    let place = Place::with_lines(&long_lines(400));
    let damaged = place.segments()[1].clone();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[30_000] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let ran = place.cat(&[]);
    ran.failed_with(65);
    assert!(!ran.stdout.is_empty() && long_lines(400).starts_with(&ran.stdout));
}

#[test]
fn stat_says_what_a_log_looks_like() {
    let place = Place::with_lines(&long_lines(400));
    let stat = json(&place, "stat");
    assert_eq!(stat["format_version"], wo_wal::FORMAT_VERSION);
    assert_eq!((&stat["oldest_lsn"], &stat["durable_lsn"]), (&1.into(), &400.into()));
    assert_eq!(stat["records"], 400);
    assert_eq!(stat["closed_cleanly"], true);
    let segments = stat["segments"].as_array().unwrap();
    assert_eq!(segments.len(), place.segments().len());
    assert_eq!(segments[0]["first_lsn"], 1);
    assert_eq!(stat["segment_bytes"], segments.len() * (64 << 10));
    assert!(stat["disk_bytes"].as_u64().unwrap() >= 400_000);
    let text = place.run("stat", &[]).succeeded();
    assert!(text.text().contains("oldest LSN 1, durable LSN 400"), "{}", text.text());
}

#[test]
fn trim_drops_whole_segments_and_keeps_the_rest() {
    let place = Place::with_lines(&long_lines(400));
    let ran = place.run("trim", &["--up-to", "200"]).succeeded();
    let (before, after) = ran.text().split_once('\n').unwrap();
    assert_eq!(before, "oldest LSN before: 1");
    let oldest: usize = after.trim_end().strip_prefix("oldest LSN after:  ").unwrap().parse().unwrap();
    assert!((2..=201).contains(&oldest), "{oldest}");
    let dropped_bytes = long_lines(oldest - 1).len();
    assert!(place.cat(&[]).succeeded().stdout == long_lines(400)[dropped_bytes..]);
    assert_eq!(json(&place, "verify")["first_lsn"], oldest);
}

#[test]
fn a_trim_beyond_the_last_record_is_a_usage_error_and_drops_nothing() {
    let place = Place::with_lines(&long_lines(200));
    assert!(place.run("trim", &["--up-to", "201"]).failed_with(2).contains("LSN, 200"));
    assert!(place.cat(&[]).succeeded().stdout == long_lines(200));
}

#[test]
fn a_log_goes_on_after_everything_was_trimmed() {
    let place = Place::with_lines(&long_lines(400));
    place.run("trim", &["--up-to", "400"]).succeeded();
    assert_eq!(place.cat(&[]).succeeded().text(), "");
    assert_eq!(place.append(&["--acks"], b"a\n").succeeded().text(), "401\t1\n");
    assert_eq!(place.cat(&["--format", "lsn"]).succeeded().text(), "401\ta\n");
}

#[test]
fn a_trim_makes_no_segment_larger_than_those_that_are_there() {
    let place = Place::with_lines(&long_lines(400));
    place.run("trim", &["--up-to", "400"]).succeeded();
    for segment in place.segments() {
        assert_eq!(fs::metadata(&segment).unwrap().len(), 64 << 10, "{}", segment.display());
    }
}
