//! `wo-wal append`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;

use common::{Place, Running, ignore_closed_pipe, numbered, run, sorted_lines};

/// A file that every checkout has.
fn real_file() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap()
}

#[test]
fn a_real_file_comes_back_byte_for_byte() {
    let place = Place::new();
    place.append(&[], &real_file()).succeeded();
    assert_eq!(place.cat(&[]).succeeded().stdout, real_file());
}

#[test]
fn eight_writers_lose_and_repeat_no_line() {
    let (place, file) = (Place::new(), real_file());
    place.append(&["--threads", "8"], &file).succeeded();
    let printed = place.cat(&[]).succeeded().stdout;
    assert_eq!(sorted_lines(&printed), sorted_lines(&file));
}

#[test]
fn every_byte_value_is_kept() {
    let place = Place::new();
    let mut input: Vec<u8> = (0..=255).filter(|&byte| byte != b'\n').collect();
    input.push(b'\n');
    place.append(&[], &input).succeeded();
    assert_eq!(place.cat(&[]).succeeded().stdout, input);
}

#[test]
fn an_empty_line_is_an_empty_record() {
    let place = Place::new();
    place.append(&[], b"\n\na\n\n").succeeded();
    assert_eq!(place.cat(&["--format", "lsn"]).succeeded().text(), "1\t\n2\t\n3\ta\n4\t\n");
}

#[test]
fn a_last_line_without_newline_counts() {
    let place = Place::new();
    place.append(&[], b"a\nb").succeeded();
    assert_eq!(place.cat(&[]).succeeded().text(), "a\nb\n");
}

#[test]
fn no_input_makes_an_empty_log() {
    let place = Place::new();
    let ran = place.append(&[], b"").succeeded();
    assert_eq!(ran.summary("durable:"), "0 records, 0 bytes");
    assert_eq!(place.cat(&[]).succeeded().text(), "");
}

#[test]
fn a_second_append_goes_on_behind_the_first() {
    let place = Place::with_lines(b"a\nb\n");
    let ran = place.append(&["--acks"], b"c\n").succeeded();
    assert_eq!(ran.text(), "3\t1\n");
    assert_eq!(place.cat(&[]).succeeded().text(), "a\nb\nc\n");
}

#[test]
fn each_ack_names_the_line_that_has_become_the_record() {
    let place = Place::new();
    let ran = place.append(&["--acks", "--threads", "8"], &numbered(500)).succeeded();
    let printed = place.cat(&["--format", "lsn"]).succeeded();
    let records: BTreeMap<&str, &str> =
        printed.text().lines().map(|line| line.split_once('\t').unwrap()).collect();
    let acks: Vec<(&str, &str)> = ran.text().lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert_eq!(acks.len(), 500);
    for (lsn, number) in acks {
        assert_eq!(records[lsn], format!("record {number}"));
    }
}

#[test]
fn an_ack_is_printed_while_the_input_is_still_open() {
    let place = Place::new();
    let mut appender = Running::start(&mut place.command("append", &["--acks"]));
    for (line, ack) in [("a\n", "1\t1\n"), ("b\n", "2\t2\n")] {
        appender.write(line.as_bytes());
        assert_eq!(appender.read_line(), ack);
    }
}

#[test]
fn every_record_acked_before_a_kill_is_there() {
    let place = Place::new();
    for round in 0..5 {
        let mut appender = Running::start(
            &mut place.command("append", &["--acks", "--threads", "8", "--segment-bytes", "64K"]),
        );
        let mut stdin = appender.stdin.take().unwrap();
        let feeder = thread::spawn(move || {
            for number in 1..1_000_000 {
                if stdin.write_all(format!("round {round} line {number}\n").as_bytes()).is_err() {
                    return;
                }
            }
        });
        let mut acks: String = (0..200 + 100 * round).map(|_| appender.read_line()).collect();
        appender.child.kill().unwrap();
        appender.child.wait().unwrap();
        acks.push_str(&appender.read_to_end());
        feeder.join().unwrap();

        let printed = place.cat(&["--format", "lsn"]).succeeded();
        let records: BTreeMap<&str, &str> =
            printed.text().lines().map(|line| line.split_once('\t').unwrap()).collect();
        assert!(acks.ends_with('\n'));
        for (lsn, number) in acks.lines().map(|line| line.split_once('\t').unwrap()) {
            assert_eq!(records.get(lsn), Some(&format!("round {round} line {number}").as_str()), "LSN {lsn}");
        }
    }
}

#[test]
fn a_closed_ack_pipe_ends_quietly_and_hides_no_record() {
    let place = Place::new();
    let mut appender = Running::start(&mut place.command("append", &["--acks", "--threads", "4"]));
    let mut stdin = appender.stdin.take().unwrap();
    let feeder = thread::spawn(move || ignore_closed_pipe(stdin.write_all(&numbered(100_000))));
    let ack = appender.read_line();
    drop(appender.stdout.take());
    let ran = appender.wait().succeeded();
    feeder.join().unwrap();
    assert!(!ran.stderr.contains("wo-wal: "), "{}", ran.stderr);
    let lsn = ack.split_once('\t').unwrap().0;
    assert_ne!(place.cat(&["--from", lsn, "--to", lsn]).succeeded().text(), "");
    assert!(place.run("stat", &[]).succeeded().text().contains("closed cleanly"));
}

#[test]
fn a_stop_does_not_wait_for_a_writer_that_waits_for_input() {
    let place = Place::new();
    let mut appender = Running::start(&mut place.command("append", &["--acks", "--threads", "2"]));
    drop(appender.stdout.take());
    appender.write(b"a\n");
    appender.stdin.as_mut().unwrap().flush().unwrap();
    let stdin = appender.stdin.take();
    appender.wait().succeeded();
    drop(stdin);
    assert_eq!(place.cat(&[]).succeeded().text(), "a\n");
}

/// Ctrl-C ended it on the spot, and nobody was told how far it had got.
#[test]
fn an_interrupted_append_says_what_is_durable_closes_the_log_and_ends_by_the_signal() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let place = Place::new();
        let mut appender = Running::start(&mut place.command("append", &["--acks", "--threads", "2"]));
        appender.write(b"a\nb\n");
        assert!(!appender.read_line().is_empty() && !appender.read_line().is_empty());
        appender.signal(name);
        let ran = appender.wait();
        assert_eq!(ran.status.signal(), Some(number), "{}", ran.stderr);
        assert_eq!(ran.summary("durable:"), "2 records, 2 bytes, LSN 1 to 2");
        assert!(place.run("stat", &[]).succeeded().text().contains("closed cleanly"));
    }
}

/// `nohup`, and shells for what they run in the background, have signals ignored.
#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let place = Place::new();
    let script = "trap '' HUP; exec \"$0\" append \"$1\" --acks";
    let mut command = Command::new("bash");
    let mut appender =
        Running::start(command.args(["-c", script, env!("CARGO_BIN_EXE_wo-wal")]).arg(place.log()));
    // Where the first one is listened to, the second one ends it.
    for (line, ack) in [("a\n", "1\t1\n"), ("b\n", "2\t2\n"), ("c\n", "3\t3\n")] {
        appender.write(line.as_bytes());
        assert_eq!(appender.read_line(), ack);
        appender.signal("HUP");
    }
    appender.stdin = None;
    let ran = appender.wait().succeeded();
    assert_eq!(ran.summary("durable:"), "3 records, 3 bytes, LSN 1 to 3");
}

#[test]
fn acks_that_cannot_be_written_are_an_error_and_the_records_are_counted() {
    let place = Place::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = place.command("append", &["--acks"]);
    let mut child = command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    ignore_closed_pipe(child.stdin.take().unwrap().write_all(b"a\nb\n"));
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    assert!(ran.failed_with(74).contains("standard output"));
    assert_eq!(ran.summary("durable:"), "1 records, 1 bytes, LSN 1 to 1");
    assert_eq!(place.cat(&[]).succeeded().text(), "a\n");
}

#[test]
fn a_line_longer_than_a_record_is_named_and_those_before_it_are_durable() {
    let place = Place::new();
    let mut input = b"a\nb\n".to_vec();
    input.resize(input.len() + (16 << 20) + 1, b'x');
    input.extend_from_slice(b"\nc\n");
    let ran = place.append(&[], &input);
    assert!(ran.failed_with(2).contains("input line 3"), "{}", ran.stderr);
    assert_eq!(place.cat(&[]).succeeded().text(), "a\nb\n");
}

#[test]
fn a_line_of_the_largest_size_is_a_record() {
    let place = Place::new();
    let mut input = vec![b'x'; 16 << 20];
    input.push(b'\n');
    place.append(&[], &input).succeeded();
    assert!(place.cat(&[]).succeeded().stdout == input);
}

#[test]
fn the_summary_says_what_was_done() {
    let place = Place::new();
    let ran = place.append(&["--threads", "4"], &numbered(100)).succeeded();
    assert_eq!(ran.summary("durable:"), "100 records, 892 bytes, LSN 1 to 100");
    let strategy = ran.summary("strategy:");
    let named = ["fsync, because ", "uring, because "].iter().any(|start| strategy.starts_with(start));
    assert!(named, "which one, depends on the kernel; it says why: {strategy}");
    let barriers = ran.summary("barriers:");
    let (count, per_barrier) = barriers.split_once(", ").unwrap();
    assert!((1..=100).contains(&count.parse().unwrap()), "{barriers}");
    assert!(per_barrier.ends_with(" records per barrier"), "{barriers}");
    assert!(ran.summary("time:").ends_with(" records/s"), "{}", ran.stderr);
    assert!(ran.summary("append:").starts_with("p50 "), "{}", ran.stderr);
    assert!(ran.summary("append:").contains(", p99 "), "{}", ran.stderr);
}

#[test]
fn the_segment_size_is_that_which_was_asked_for() {
    let place = Place::new();
    place.append(&["--segment-bytes", "128K"], b"a\n").succeeded();
    assert_eq!(fs::metadata(&place.segments()[0]).unwrap().len(), 128 << 10);
}

#[test]
fn an_input_that_cannot_be_read_is_an_error() {
    let place = Place::new();
    let directory = fs::File::open(place.root()).unwrap();
    let output = place.command("append", &[]).stdin(directory).output().unwrap();
    assert!(common::Ran::from(output).failed_with(74).contains("read standard input"));
}

#[test]
fn no_progress_bar_where_nobody_watches() {
    let place = Place::new();
    let ran = run(&mut place.command("append", &[]), &numbered(500)).succeeded();
    assert!(!ran.stderr.contains('\r') && !ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
}
