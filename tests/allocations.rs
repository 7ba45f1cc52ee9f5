//! In steady state an append allocates nothing. Counted per thread, so that the test harness does not disturb.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use wo_wal::Wal;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator unchanged; a test needs an allocator of its own to count.
#[allow(unsafe_code, reason = "the allocator interface is unsafe; this one only counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(what: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    what();
    ALLOCATIONS.get() - before
}

#[test]
fn no_allocation_per_append_in_steady_state() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(dir.path()).unwrap();
    let record = [7; 256];
    let batch = [record; 10];
    let rounds = || {
        for _ in 0..50 {
            wal.append(&record).unwrap();
            wal.append_batch(batch).unwrap();
            for _ in 0..20 {
                let _ = wal.submit(&record).unwrap();
            }
            wal.submit(&record).unwrap().wait().unwrap();
            wal.sync().unwrap();
        }
    };
    rounds();
    assert_eq!(count(rounds), 0, "allocations in 50 rounds of append, append_batch, submit, wait and sync");
    // The control: a replay allocates, so the counter counts.
    assert!(count(|| assert_eq!(wal.replay(..).unwrap().count(), 3200)) > 0);
}

#[test]
fn lending_replay_allocates_nothing_per_record() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(dir.path()).unwrap();
    for _ in 0..2000 {
        let _ = wal.submit(&[7; 256]).unwrap();
    }
    wal.sync().unwrap();
    let allocations = count(|| {
        let mut replay = wal.replay(..).unwrap();
        let mut records = 0;
        while replay.next_ref().unwrap().is_some() {
            records += 1;
        }
        assert_eq!(records, 2000);
    });
    assert!(allocations < 50, "{allocations} allocations for 2000 records");
}
