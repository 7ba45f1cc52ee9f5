//! `WO_IO`, unset and with each word, where a ring can be had and where it cannot.

use std::path::Path;

use serial_test::parallel;
use wo_wal::{Error, Source, WO_IO, Wal};

use crate::again;
use crate::cases::{has_ring, make_log};
use crate::conditions::refused;

const TEST: &str = "variable::each_word_does_what_it_says";

/// What a child with this value of the variable says about its log, or its error.
fn child(value: Option<&str>, dir: &Path) -> String {
    let mut command = again::command(TEST, dir, &[]);
    match value {
        Some(value) => command.env(WO_IO, value),
        None => command.env_remove(WO_IO),
    };
    again::outcome(&mut command).map(|said| said.join("\n")).unwrap_or_default()
}

fn say_selection(dir: &Path) {
    let open = || match Wal::open(dir) {
        Ok((wal, _)) => {
            wal.append(b"x").unwrap();
            let selection = wal.strategy();
            let source = match selection.source {
                Source::Env => "by the environment",
                Source::Auto => "by itself",
                _ => "by somebody else",
            };
            format!("{} {source}: {}", selection.strategy, selection.reason)
        }
        Err(Error::StrategyUnavailable { reason, .. }) => format!("unavailable: {reason}"),
        Err(other) => format!("error: {other}"),
    };
    let filtered = dir.file_name().unwrap() == "filtered";
    again::say(&if filtered { refused(libc::SYS_io_uring_setup, libc::EPERM, open) } else { open() });
}

#[test]
#[parallel]
fn each_word_does_what_it_says() {
    if let Some(dir) = again::directory() {
        return say_selection(&dir);
    }
    if !has_ring() {
        return;
    }
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [free, filtered] = ["free", "filtered"].map(|name| root.path().join(name));
    make_log(&free);
    make_log(&filtered);
    let by_itself =
        "uring by itself: uring, because a write and its barrier went through the ring in this directory";
    for (value, with_ring, without) in [
        (None, by_itself, "fsync by itself: fsync, because io_uring_setup returned EPERM ("),
        (Some(""), by_itself, "fsync by itself: fsync, because io_uring_setup returned EPERM ("),
        (Some("auto"), by_itself, "fsync by itself: fsync, because io_uring_setup returned EPERM ("),
        (
            Some("uring"),
            "uring by the environment: uring, because the environment variable WO_IO asks for it",
            "unavailable: uring, which the environment variable WO_IO asks for, cannot be had: io_uring_setup returned",
        ),
        (
            Some("fsync"),
            "fsync by the environment: fsync, because the environment variable WO_IO asks for it",
            "fsync by the environment: fsync, because the environment variable WO_IO asks for it",
        ),
        (
            Some("epoll"),
            "fsync by the environment: fsync, because the environment variable WO_IO asks for it",
            "fsync by the environment: fsync, because the environment variable WO_IO asks for it",
        ),
        (
            Some("io_uring"),
            "error: WO_IO is \"io_uring\"; it must be auto, uring, fsync or epoll",
            "error: WO_IO is \"io_uring\"; it must be auto, uring, fsync or epoll",
        ),
    ] {
        for (dir, expected) in [(&free, with_ring), (&filtered, without)] {
            let said = child(value, dir);
            assert!(said.starts_with(expected), "{value:?} in {}: {said}", dir.display());
        }
    }
}
