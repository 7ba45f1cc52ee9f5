//! P7: what open serves is durable.

use rustix::io::Errno;

use crate::support::env::{Env, for_each_disk, lsn, payloads};
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

/// A trim renamed segment 1, to make the next segment of its file, and its process was killed before the directory sync.
/// The open that followed renamed the file once more, to keep it, and only then synced the directory. A power cut there
/// that let the second change through, and not the first, left the file under both names: the log began with segment 1
/// again and had it as a file to use again, and the next rotation wrote over records that replay had just served.
#[test]
fn p07_names_are_durable_before_open_changes_any() {
    let sim = Sim::new(1);
    let env = Env::simulated(&sim, 1);
    let wal = env.open_with(env.options().prepares_ahead(false)).unwrap().0;
    for number in 0..4 {
        wal.append(&vec![number; 40_000]).unwrap();
    }
    // The spare is there, and no next segment: the first removed file becomes it.
    let renamed = (0..20).find_map(|call| {
        let copy = sim.copy();
        let env = Env::simulated(&copy, 1);
        let wal = env.open_with(env.options().prepares_ahead(false)).unwrap().0;
        copy.crash_after(call);
        let _ = wal.trim(lsn(1));
        drop(wal);
        (copy.undecided() == [2] && copy.names().contains(&"next.tmp".to_owned())).then_some(copy)
    });
    let killed = renamed.expect("a trim that has renamed a segment and not synced the directory");
    killed.kill();
    for call in 0..20 {
        let copy = killed.copy();
        copy.crash_after(call);
        let env = Env::simulated(&copy, 1);
        drop(env.open_with(env.options().prepares_ahead(false)));
        for outcome in outcomes(copy.undecided().len()) {
            let cut = copy.copy();
            cut.power_cut_with(&outcome);
            check_nothing_is_overwritten(&cut, call, &outcome);
        }
    }
}

/// All combinations of so many changes, made or not.
fn outcomes(changes: usize) -> Vec<Vec<usize>> {
    (0..1_usize << changes).map(|bits| (0..changes).map(|change| bits >> change & 1).collect()).collect()
}

fn check_nothing_is_overwritten(sim: &Sim, call: u64, outcome: &[usize]) {
    let env = Env::simulated(sim, 1);
    let wal = env.open_with(env.options().prepares_ahead(false)).unwrap().0;
    let served = payloads(&wal);
    for _ in 0..3 {
        wal.append(&vec![9; 40_000]).unwrap();
    }
    let after = wal.replay(..).unwrap().map(|record| record.map(|record| record.payload));
    let after = after.collect::<wo_wal::Result<Vec<_>>>();
    let after = after.unwrap_or_else(|error| panic!("cut in call {call}, names {outcome:?}: {error}"));
    assert_eq!(after[..served.len()], served, "cut in call {call}, names {outcome:?}");
}
