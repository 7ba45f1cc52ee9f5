//! P2: replay is a prefix of what was appended, every acked record in it.

use std::time::Duration;

use wo_wal::{Error, Wal};

use crate::support::env::{Env, for_each_disk, lsn, payloads, replay_all};
use crate::support::sim::Sim;

#[test]
fn p02_replay_returns_records_in_order_from_any_lsn() {
    for_each_disk(|env| {
        let wal = env.open();
        for number in 1..=300_u32 {
            // Over several segments.
            wal.append(&[&number.to_le_bytes()[..], &[7; 1000]].concat()).unwrap();
        }
        assert!(env.segments().len() > 3);
        for from in [1, 2, 150, 300] {
            let lsns: Vec<_> =
                wal.replay(lsn(from)..).unwrap().map(|record| record.unwrap().lsn.get()).collect();
            assert_eq!(lsns, (from..=300).collect::<Vec<_>>());
        }
        assert_eq!(wal.replay(lsn(301)..).unwrap().count(), 0);
        assert_eq!(wal.replay(lsn(20)..=lsn(22)).unwrap().count(), 3);
        for (number, record) in (1..=300_u32).zip(replay_all(&wal)) {
            assert!(record.ends_batch);
            assert_eq!(record.payload[..4], number.to_le_bytes());
        }
    });
}

/// Records that a reader is reading stay readable when a trim drops them and their file is used again.
#[test]
fn p02_a_replay_goes_on_when_a_trim_drops_its_records() {
    for_each_disk(|env| {
        let wal = env.open();
        for number in 0..30_u8 {
            wal.append(&[number; 9000]).unwrap();
        }
        let mut replay = wal.replay(..).unwrap();
        assert_eq!(replay.next().unwrap().unwrap().payload, [0; 9000]);
        wal.trim(wal.durable_lsn()).unwrap();
        for _ in 0..30 {
            wal.append(&[99; 9000]).unwrap();
            wal.trim(wal.durable_lsn()).unwrap();
        }
        assert!(matches!(wal.replay(lsn(1)..), Err(Error::Trimmed { .. })));
        for expected in 1..30_u8 {
            assert_eq!(replay.next().unwrap().unwrap().payload, [expected; 9000]);
        }
        assert!(replay.next().is_none());
    });
}

/// What a crash leaves of the group that was in flight may end at any byte; that is never an error.
#[test]
fn p02_a_chop_at_every_byte_of_the_unacked_tail_is_a_clean_cut() {
    for max_in_flight in [1, 2] {
        let sim = Sim::new(1);
        let env = Env::simulated(&sim, max_in_flight);
        let (before, after) = with_a_group_in_flight(&sim, &env);
        let segment = env.segments()[0].clone();
        let changed = |(index, (old, new)): (usize, (&u8, &u8))| (old != new).then_some(index);
        let both = || before.iter().zip(&after).enumerate();
        let first = both().find_map(changed).expect("the group changed something");
        let end = both().filter_map(changed).next_back().expect("the group changed something") + 1;
        for chop in first..end {
            let chopped = [&after[..chop], &before[chop..]].concat();
            env.replace(&segment, &chopped);
            let wal = env.open_with(env.options()).unwrap_or_else(|error| panic!("{chop}: {error}")).0;
            assert_eq!(payloads(&wal), [b"acked"], "chopped at {chop}");
            assert_eq!(wal.append(b"after").unwrap(), lsn(2));
            drop(wal);
            sim.kill();
        }
    }
}

/// The segment before and after the write of a group that nobody acks.
fn with_a_group_in_flight(sim: &Sim, env: &Env) -> (Vec<u8>, Vec<u8>) {
    let wal = env.open();
    wal.append(b"acked").unwrap();
    let segment = env.segments()[0].clone();
    let before = env.read(&segment);
    sim.gate().close();
    std::thread::scope(|scope| {
        // Padding at the end of a record is zero, so the last record fills its 8 bytes.
        let in_flight = scope.spawn(|| wal.append_batch([&b"never acked, of some length"[..], b"12345678"]));
        sim.gate().wait_until_held(1);
        sim.crash();
        in_flight.join().unwrap().unwrap_err();
    });
    let after = env.read(&segment);
    drop(wal);
    sim.kill();
    (before, after)
}

#[test]
fn p02_several_torn_groups_in_flight_leave_no_hole() {
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 2);
        let wal = env.open();
        wal.append(b"acked").unwrap();
        leave_two_groups_in_flight(&sim, &wal);
        drop(wal);
        sim.power_cut(seed);
        let recovered = payloads(&env.open());
        let given: [&[u8]; 3] = [b"acked", &[1; 3000], &[2; 3000]];
        assert!(!recovered.is_empty() && given.starts_with(&slices(&recovered)), "seed {seed}");
    }
}

/// A new log said that its oldest record was the one after those that were staged, and a replay from record 1 on, of
/// somebody who follows the log from its start, was told that they had been trimmed.
#[test]
fn p02_a_new_log_starts_with_its_first_record_also_while_that_is_staged() {
    for_each_disk(|env| {
        let wal = env.open();
        let tickets = [wal.submit(b"first").unwrap(), wal.submit(b"second").unwrap()];
        assert_eq!(wal.oldest_lsn(), lsn(1));
        assert_eq!(wal.replay(lsn(1)..).unwrap().count(), 0, "nothing is durable yet");
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!(wal.oldest_lsn(), lsn(1));
        assert_eq!(wal.replay(lsn(1)..).unwrap().count(), 2);
    });
}

fn slices(records: &[Vec<u8>]) -> Vec<&[u8]> {
    records.iter().map(Vec::as_slice).collect()
}

fn leave_two_groups_in_flight(sim: &Sim, wal: &Wal) {
    sim.gate().close();
    std::thread::scope(|scope| {
        scope.spawn(|| wal.append(&[1; 3000]).unwrap_err());
        sim.gate().wait_until_held(1);
        scope.spawn(|| wal.append(&[2; 3000]).unwrap_err());
        sim.gate().wait_until_held(2);
        sim.crash();
    });
}

/// A log whose first segment has no room for a third record like the two in it. Two barriers may be in flight.
fn before_the_seal(seed: u64) -> (Sim, Env, Wal, Vec<u8>) {
    let sim = Sim::new(seed);
    let env = Env::simulated(&sim, 2);
    let wal = env.open();
    let record = vec![b'A'; 25_000];
    wal.append(&record).unwrap();
    wal.append(&record).unwrap();
    (sim, env, wal, record)
}

/// The first group of the oldest segment says where LSN and chain go on, so a segment stays until the one behind it holds
/// a group that is durable.
#[test]
fn p02_a_trim_keeps_the_segment_before_one_without_a_durable_group() {
    for seed in 0..20 {
        let (sim, env, wal, record) = before_the_seal(seed);
        std::thread::scope(|scope| {
            sim.gate().close();
            let third = scope.spawn(|| wal.append(&record).unwrap_err());
            // The seal, and then the first group of the next segment.
            sim.gate().wait_until_held(1);
            sim.gate().release(0);
            sim.gate().wait_until_held(1);
            wal.trim(wal.durable_lsn()).unwrap();
            sim.crash();
            third.join().unwrap();
        });
        drop(wal);
        sim.power_cut(seed);
        let opened = env.open_with(env.options());
        let (wal, _) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(wal.durable_lsn() >= lsn(2), "seed {seed}");
    }
}

/// While a seal is in flight nothing goes to the next segment: without the seal a group there would stand behind a hole.
#[test]
fn p02_the_next_segment_waits_for_the_seal() {
    for seed in 0..20 {
        let (sim, env, wal, record) = before_the_seal(seed);
        std::thread::scope(|scope| {
            sim.gate().close();
            for writer in 1..3 {
                let (wal, record) = (&wal, &record);
                scope.spawn(move || wal.append(record).unwrap_err());
                // The second writer finds the seal under way. It comes to the gate only if it does not wait for it.
                sim.gate().wait_until_held_for(writer, Duration::from_millis(20));
            }
            if sim.gate().held() > 1 {
                sim.gate().release(1);
                sim.gate().wait_until_held_for(2, Duration::from_millis(20));
            }
            sim.crash();
        });
        drop(wal);
        sim.power_cut(seed);
        let opened = env.open_with(env.options());
        let (wal, _) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(wal.durable_lsn() >= lsn(2), "seed {seed}");
    }
}

/// A trim removes one name after the other, each for good before the next one goes: cut off anywhere, it leaves no gap in
/// the numbers.
#[test]
fn p02_a_trim_that_is_cut_off_anywhere_leaves_no_gap() {
    let mut call = 0;
    while trim_is_cut_off_in(call) {
        call += 1;
    }
    assert!(call > 5, "several removals make more calls than {call}");
}

/// False when no call was left to be cut off in.
fn trim_is_cut_off_in(call: u64) -> bool {
    let sim = Sim::new(call);
    let env = Env::simulated(&sim, 1);
    let wal = env.open_with(env.options().prepares_ahead(false)).unwrap().0;
    for _ in 0..10 {
        wal.append(&vec![b'A'; 25_000]).unwrap();
    }
    sim.crash_after(call);
    let result = wal.trim(lsn(8));
    let died = sim.fault_happened();
    assert!(died || result.is_ok());
    sim.crash();
    drop(wal);
    for seed in 0..12 {
        let sim = sim.copy();
        sim.power_cut(seed);
        let env = Env::simulated(&sim, 1);
        let opened = env.open_with(env.options());
        let (wal, _) = opened.unwrap_or_else(|error| panic!("call {call}, seed {seed}: {error}"));
        assert_eq!(wal.durable_lsn(), lsn(10), "call {call}, seed {seed}");
    }
    died
}
