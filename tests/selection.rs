//! Which strategy an open log says it uses. The environment is that of the test command: `WO_IO` unset, `fsync` or
//! `uring`.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use wo_wal::strategy::{Fsync, Uring};
use wo_wal::{Error, Io, Source, WO_IO, Wal};

fn variable() -> Option<String> {
    std::env::var(WO_IO).ok().filter(|value| !value.is_empty())
}

#[test]
fn the_selection_says_who_chose_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(dir.path()).unwrap();
    let selection = wal.strategy();
    match variable().as_deref() {
        Some("fsync" | "epoll") => {
            assert_eq!((selection.strategy.as_str(), selection.source), ("fsync", Source::Env));
        }
        Some("uring") => assert_eq!((selection.strategy.as_str(), selection.source), ("uring", Source::Env)),
        _ => {
            let expected = if Uring::new().is_ok() { "uring" } else { "fsync" };
            assert_eq!((selection.strategy.as_str(), selection.source), (expected, Source::Auto));
        }
    }
    assert!(selection.reason.starts_with(&selection.strategy), "{}", selection.reason);
    assert!(!selection.file_system.is_empty());
}

#[test]
fn the_option_counts_where_the_variable_is_not_set() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().io(Io::Fsync).open(dir.path()).unwrap();
    let selection = wal.strategy();
    match variable().as_deref() {
        None => assert_eq!((selection.strategy.as_str(), selection.source), ("fsync", Source::Options)),
        Some("auto") => assert_eq!(selection.source, Source::Auto),
        Some(_) => assert_eq!(selection.source, Source::Env),
    }
}

#[test]
fn an_object_is_used_as_it_is_and_the_variable_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().strategy(Fsync::new()).io(Io::Uring).open(dir.path()).unwrap();
    assert_eq!((wal.strategy().strategy.as_str(), wal.strategy().source), ("fsync", Source::Object));
}

#[test]
fn opening_leaves_nothing_of_the_self_test_behind() {
    let dir = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    drop(Wal::open(dir.path()).unwrap());
    let before = names();
    let lock_before = std::fs::read(dir.path().join("LOCK")).unwrap();
    drop(Wal::open(dir.path()).unwrap());
    drop(wo_wal::probe(dir.path()).unwrap());
    assert_eq!(names(), before);
    assert_eq!(std::fs::read(dir.path().join("LOCK")).unwrap(), lock_before);
}

#[test]
fn a_word_that_means_nothing_is_an_error_that_lists_the_words() {
    // Set in a child: the environment of this process is read by other tests at the same time.
    if variable().as_deref() == Some("nonsense") {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        match Wal::open(&new) {
            Err(Error::Config { what, .. }) if !new.exists() => println!("refused: {what}"),
            other => panic!("{other:?}"),
        }
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["a_word_that_means_nothing_is_an_error_that_lists_the_words", "--exact", "--nocapture"])
        .env(WO_IO, "nonsense")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success() && output.contains("refused: WO_IO is \"nonsense\""), "{output}");
    assert!(["auto", "uring", "fsync", "epoll"].iter().all(|word| output.contains(word)), "{output}");
}
