//! System calls, counted from outside: one `io_uring_enter` is one barrier.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wo_wal::Wal;
use wo_wal::strategy::{Form, SyncStrategy};

use crate::again;
use crate::ring::{create, errno_of, ring, temporary_directory};

const CALLS: &str = "trace=io_uring_setup,io_uring_enter,io_uring_register,fdatasync,fsync,pwrite64,pwritev2";

/// Runs a test again and counts its system calls of these kinds.
fn counted(test: &str, step: u32) -> Option<BTreeMap<String, u64>> {
    if !again::can_trace() {
        return None;
    }
    let dir = temporary_directory();
    std::fs::create_dir(dir.path().join(step.to_string())).unwrap();
    let trace = dir.path().join("trace");
    again::run(test, dir.path(), &["strace", "-f", "-c", "-o", trace.to_str().unwrap(), "-e", CALLS])?;
    let table = std::fs::read_to_string(&trace).unwrap();
    // % time, seconds, usecs/call, calls, errors if any, name
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    Some(
        rows.filter_map(|cells| {
            let calls = cells.get(3)?.parse().ok()?;
            Some(((*cells.last()?).to_owned(), calls))
        })
        .collect(),
    )
}

fn calls(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0)
}

/// In the child: how many steps it is to take, and where.
fn steps(dir: &Path) -> u64 {
    let mut names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find_map(|name| name.parse().ok()).unwrap()
}

#[test]
fn a_barrier_is_one_enter_and_nothing_else() {
    let test = "enter_count::a_barrier_is_one_enter_and_nothing_else";
    let Some(dir) = again::directory() else {
        for barriers in [1, 100] {
            let Some(counts) = counted(test, barriers) else { return };
            assert_eq!(calls(&counts, "io_uring_enter"), 2 * u64::from(barriers), "{counts:?}");
            assert_eq!(calls(&counts, "io_uring_setup"), 2, "{counts:?}");
            for name in ["fdatasync", "fsync", "pwrite64", "pwritev2", "io_uring_register"] {
                assert_eq!(calls(&counts, name), 0, "{name}: {counts:?}");
            }
        }
        return;
    };
    for form in crate::ring::FORMS {
        let Some(uring) = ring(form) else { return };
        let file = create(&dir);
        for barrier in 0..steps(&dir) {
            assert_eq!(errno_of(&uring, &file, barrier * 100, &[1; 100]), 0);
        }
        std::fs::remove_file(dir.join("file")).unwrap();
    }
    again::say("done");
}

#[test]
fn a_batch_of_many_records_is_one_enter() {
    let test = "enter_count::a_batch_of_many_records_is_one_enter";
    let Some(dir) = again::directory() else {
        let Some(few) = counted(test, 5) else { return };
        let Some(more) = counted(test, 35) else { return };
        assert_eq!(calls(&more, "io_uring_enter") - calls(&few, "io_uring_enter"), 30, "{few:?} {more:?}");
        assert_eq!(calls(&more, "fdatasync"), calls(&few, "fdatasync"), "{few:?} {more:?}");
        return;
    };
    let Some(uring) = ring(Form::Linked) else { return };
    let uring = Arc::new(uring);
    let (wal, _) = Wal::options().strategy(uring.clone()).open(dir.join("log")).unwrap();
    for _ in 0..steps(&dir) {
        wal.append_batch([[7; 100]; 64]).unwrap();
    }
    wal.close().unwrap();
    assert_eq!(uring.assisted_barriers(), 0);
    again::say("done");
}

#[test]
fn a_thread_that_may_not_enter_hardly_tries() {
    let test = "enter_count::a_thread_that_may_not_enter_hardly_tries";
    if let Some(dir) = again::directory() {
        let Some(uring) = ring(Form::Linked) else { return };
        let file = create(&dir);
        for barrier in 0..100 {
            assert_eq!(errno_of(&uring, &file, barrier * 100, &[1; 100]), 0);
        }
        assert_eq!(uring.assisted_barriers(), 100);
        return again::say("done");
    }
    if !again::can_trace() {
        return;
    }
    let dir = temporary_directory();
    let trace = dir.path().join("trace");
    let refused = "inject=io_uring_enter:error=EPERM";
    let wrapper =
        ["strace", "-f", "-o", trace.to_str().unwrap(), "-e", "trace=io_uring_enter", "-e", refused];
    if again::run(test, dir.path(), &wrapper).is_some() {
        // Attempts at barriers 1, 3, 7, 15, 31 and 63 of 100.
        let attempts = std::fs::read_to_string(&trace).unwrap().matches("(INJECTED)").count();
        assert_eq!(attempts, 6);
    }
}

/// `docs/ring-layout.md`, "Calls".
#[test]
fn the_calls_have_the_documented_arguments() {
    let test = "enter_count::the_calls_have_the_documented_arguments";
    if let Some(dir) = again::directory() {
        let file = create(&dir);
        for form in crate::ring::FORMS {
            let Some(uring) = ring(form) else { return };
            assert_eq!(errno_of(&uring, &file, 0, b"bytes"), 0);
        }
        return again::say("done");
    }
    if !again::can_trace() {
        return;
    }
    let dir = temporary_directory();
    let trace = dir.path().join("trace");
    let calls = "trace=io_uring_setup,io_uring_enter,io_uring_register";
    if again::run(test, dir.path(), &["strace", "-f", "-o", trace.to_str().unwrap(), "-e", calls]).is_none() {
        return;
    }
    let trace = std::fs::read_to_string(&trace).unwrap();
    // Without the thread's number, the descriptor's and the kernel's answers.
    let calls = trace.lines().filter_map(|line| Some(line.split_once("io_uring_")?.1));
    let calls: Vec<&str> = calls.map(|call| call.split_once(", ").map_or(call, |(_, rest)| rest)).collect();
    assert_eq!(calls.len(), 4, "{trace}");
    assert!(trace.contains("io_uring_setup(8, {flags=0, "), "{trace}");
    assert_eq!(calls[1], "2, 2, IORING_ENTER_GETEVENTS, NULL, 0) = 2", "{trace}");
    assert_eq!(calls[3], "1, 1, IORING_ENTER_GETEVENTS, NULL, 0) = 1", "{trace}");
}
