//! P7: what open serves is durable.

use rustix::io::Errno;

use crate::support::env::{Env, for_each_disk, payloads};
use crate::support::sim::{Fault, Sim};

/// After a failed sync the page cache holds what the disk does not. A process that opens the log then reads it, so it must
/// be made durable before it is served.
#[test]
fn p07_a_tail_that_only_the_page_cache_had_is_made_durable() {
    let mut served = 0;
    for seed in 0..80 {
        for max_in_flight in [1, 2] {
            let sim = Sim::new(seed);
            let env = Env::simulated(&sim, max_in_flight);
            let wal = env.open();
            wal.append(b"acked").unwrap();
            sim.fail_after(1, Fault { errno: Errno::IO, lasting: false });
            wal.append(&[7; 2000]).unwrap_err();
            drop(wal);
            sim.kill();
            let wal = env.open();
            let first = payloads(&wal);
            served += first.len() - 1;
            sim.power_cut(seed);
            drop(wal);
            assert_eq!(payloads(&env.open()), first, "seed {seed}");
        }
    }
    assert!(served > 0, "the page cache never held a whole record");
}

#[test]
fn p07_a_second_crash_right_after_recovery_changes_nothing() {
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 2);
        let wal = env.open();
        for _ in 0..5 {
            wal.append(&vec![b'A'; 30_000]).unwrap();
        }
        // Its write or its sync is the last call.
        sim.crash_after(seed % 2);
        wal.append(&[b'B'; 3000]).unwrap_err();
        drop(wal);
        if seed % 3 == 0 {
            sim.kill();
        } else {
            sim.power_cut(seed);
        }
        let wal = env.open();
        let first = payloads(&wal);
        for again in 0..3 {
            sim.power_cut(seed + again);
            let reopened = env.open();
            assert_eq!(payloads(&reopened), first, "seed {seed}");
        }
        drop(wal);
    }
}

/// The process that named a segment may have died before it synced the directory.
#[test]
fn p07_the_names_of_the_files_are_made_durable_too() {
    let mut call = 0;
    while dies_in(call) {
        call += 1;
    }
    assert!(call > 10, "rotations make more calls than {call}");
}

/// The process dies in this call; the next one appends a few records more, into whichever segment, before the power goes.
/// False when no call was left to die in.
fn dies_in(call: u64) -> bool {
    let sim = Sim::new(call);
    let env = Env::simulated(&sim, 1);
    // One caller, so that the number of a call says which one it is.
    let wal = env.open_with(env.options().prepares_ahead(false)).unwrap().0;
    sim.crash_after(call);
    let acked = (0..6).take_while(|_| wal.append(&vec![b'A'; 20_000]).is_ok()).count();
    drop(wal);
    let died = sim.fault_happened();
    sim.kill();
    for more in 1..4 {
        let sim = sim.copy();
        let wal = Env::simulated(&sim, 1).open();
        let served = payloads(&wal);
        assert!(served.len() >= acked);
        for _ in 0..more {
            wal.append(&vec![b'B'; 20_000]).unwrap();
        }
        let expected = payloads(&wal);
        assert!(expected.starts_with(&served));
        sim.crash();
        drop(wal);
        for seed in 0..6 {
            let sim = sim.copy();
            sim.power_cut(seed);
            let env = Env::simulated(&sim, 1);
            let opened = env.open_with(env.options());
            let (wal, _) = opened.unwrap_or_else(|error| panic!("died in call {call}, {more} more: {error}"));
            assert_eq!(payloads(&wal).len(), expected.len(), "died in call {call}, {more} more");
        }
    }
    died
}

#[test]
fn p07_a_clean_close_leaves_no_record_to_rewrite() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"one").unwrap();
        wal.close().unwrap();
        let (wal, recovery) = env.open_with(env.options()).unwrap();
        assert!(recovery.closed_cleanly);
        // The closing group itself: no later group vouches for it.
        assert_eq!((recovery.cut_bytes, recovery.rewritten_groups), (0, 1));
        drop(wal);
    });
}
