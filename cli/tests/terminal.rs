//! `wo-wal append` on a terminal, which `script` plays.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use common::{Place, numbered, skip};

/// What a person sees, who runs `append` with these options on a file of 300 lines; `None` where `script` is missing.
fn seen_on_a_terminal(place: &Place, options: &str) -> Option<String> {
    let input = place.root().join("input");
    fs::write(&input, numbered(300)).unwrap();
    let line = format!(
        "'{}' append '{}' {options} < '{}'",
        env!("CARGO_BIN_EXE_wo-wal"),
        place.log().display(),
        input.display()
    );
    let typescript = place.root().join("typescript");
    let ran = Command::new("script").args(["-qec", &line]).arg(&typescript).output().ok()?;
    assert!(ran.status.success());
    let seen = String::from_utf8(ran.stdout).unwrap();
    assert!(seen.contains("durable:  300 records"), "{seen}");
    Some(seen)
}

#[test]
fn a_progress_bar_on_a_terminal() {
    match seen_on_a_terminal(&Place::new(), "") {
        Some(seen) => assert!(seen.contains("records durable, "), "{seen}"),
        None => skip("a_progress_bar_on_a_terminal", "there is no command named script"),
    }
}

#[test]
fn no_progress_bar_among_acks() {
    match seen_on_a_terminal(&Place::new(), "--acks") {
        Some(seen) => {
            assert!(!seen.contains("records durable, "), "{seen}");
            assert!(seen.starts_with("1\t1\r\n2\t2\r\n"), "{seen}");
        }
        None => skip("no_progress_bar_among_acks", "there is no command named script"),
    }
}
