//! `wo-wal cat --follow`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Place, Running, long_lines};

#[test]
fn records_are_printed_as_they_become_durable() {
    let place = Place::with_lines(b"a\n");
    let mut follower = Running::start(&mut place.command("cat", &["--follow", "--format", "lsn"]));
    assert_eq!(follower.read_line(), "1\ta\n");
    let mut appender = Running::start(&mut place.command("append", &["--acks"]));
    for (line, number) in [("b\n", 2), ("c\n", 3), ("d\n", 4)] {
        appender.write(line.as_bytes());
        assert_eq!(appender.read_line(), format!("{number}\t{}\n", number - 1));
        assert_eq!(follower.read_line(), format!("{number}\t{line}"));
    }
}

#[test]
fn an_empty_log_is_followed_from_its_first_record() {
    let place = Place::with_lines(b"");
    let mut follower = Running::start(&mut place.command("cat", &["--follow"]));
    place.append(&[], b"a\n").succeeded();
    assert_eq!(follower.read_line(), "a\n");
}

#[test]
fn nothing_is_skipped_or_repeated_over_many_segments_and_openings() {
    let place = Place::with_lines(b"");
    let mut follower = Running::start(&mut place.command("cat", &["--follow", "--to", "400"]));
    let input = long_lines(400);
    for part in input.chunks(input.len() / 4 + 1) {
        place.append(&["--segment-bytes", "64K"], part).succeeded();
    }
    assert!(place.segments().len() > 4);
    // A part may end inside a line, which makes two records of it.
    let printed = follower.read_to_end();
    follower.wait().succeeded();
    let all = place.cat(&["--to", "400"]).succeeded();
    assert!(printed.as_bytes() == all.stdout);
}

#[test]
fn the_last_record_asked_for_ends_it() {
    let place = Place::with_lines(b"a\nb\nc\n");
    let ran = place.cat(&["--follow", "--to", "2"]).succeeded();
    assert_eq!(ran.text(), "a\nb\n");
}

#[test]
fn a_start_that_is_not_there_yet_is_waited_for() {
    let place = Place::with_lines(b"a\n");
    let mut follower = Running::start(&mut place.command("cat", &["--follow", "--from", "3", "--to", "3"]));
    place.append(&[], b"b\nc\nd\n").succeeded();
    assert_eq!(follower.read_to_end(), "c\n");
    follower.wait().succeeded();
}

#[test]
fn a_closed_pipe_ends_it_while_nothing_happens() {
    let place = Place::with_lines(b"a\n");
    let mut follower = Running::start(&mut place.command("cat", &["--follow"]));
    assert_eq!(follower.read_line(), "a\n");
    drop(follower.stdout.take());
    assert_eq!(follower.wait().succeeded().stderr, "");
}

#[test]
fn a_log_that_was_replaced_by_a_shorter_one_is_an_error() {
    let place = Place::with_lines(b"a\nb\n");
    let mut follower = Running::start(&mut place.command("cat", &["--follow"]));
    assert_eq!(follower.read_line() + &follower.read_line(), "a\nb\n");
    let other = Place::with_lines(b"c\n");
    std::fs::rename(place.log(), place.root().join("old")).unwrap();
    std::fs::rename(other.log(), place.log()).unwrap();
    let ran = follower.wait();
    ran.failed_with(74);
}

#[test]
fn a_trim_past_the_position_is_an_error_that_says_where_to_go_on() {
    let place = Place::with_lines(b"a\n");
    let mut follower = Running::start(&mut place.command("cat", &["--follow"]));
    assert_eq!(follower.read_line(), "a\n");
    // Asleep, it cannot keep up.
    follower.signal("STOP");
    place.append(&["--segment-bytes", "64K"], &long_lines(200)).succeeded();
    place.run("trim", &["--up-to", "180"]).succeeded();
    follower.signal("CONT");
    let ran = follower.wait();
    assert!(ran.failed_with(74).contains("start there"), "{}", ran.stderr);
}
