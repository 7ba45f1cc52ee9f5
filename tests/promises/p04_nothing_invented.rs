//! P4: nothing is replayed that was not appended in this history at that place.
//!
//! Dead records are those that an open has cut. They lie in the file until they are overwritten, and new records that look
//! just like them must not bring them back. Three mechanisms see to that, and each alone leaves a way: session ids, zeros
//! over the next header's place, and the rewrite of the unproven tail.

use crate::support::env::{Env, for_each_disk, lsn, payloads};
use crate::support::oracle::Oracle;
use crate::support::sim::Sim;

type Batch = Vec<Vec<u8>>;

fn records(kinds: &str) -> Batch {
    // Larger than a sector, so that a power cut can part them.
    kinds.bytes().map(|kind| vec![kind; 600]).collect()
}

/// Two groups in flight are cut off in every way that the seeds give; then the same records, or others, are appended, and
/// that is cut off as well.
fn two_lives(first_life: [&str; 2], second_life: [&str; 2], ack_first: bool) {
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 2);
        let mut oracle = Oracle::default();
        let outcome = (|| {
            one_life(&sim, &env, &mut oracle, first_life, false)?;
            sim.power_cut(seed);
            one_life(&sim, &env, &mut oracle, second_life, ack_first)?;
            sim.power_cut(seed + 1000);
            one_life(&sim, &env, &mut oracle, ["", ""], false)?;
            sim.power_cut(seed + 2000);
            one_life(&sim, &env, &mut oracle, ["", ""], false)
        })();
        if let Err(finding) = outcome {
            panic!("{first_life:?} then {second_life:?}, seed {seed}: {finding}\n{}", sim.trace());
        }
    }
}

fn one_life(
    sim: &Sim,
    env: &Env,
    oracle: &mut Oracle,
    batches: [&str; 2],
    ack_first: bool,
) -> Result<(), String> {
    let (wal, recovery) = env.open_with(env.options()).map_err(|error| error.to_string())?;
    oracle.opened(&wal, &recovery)?;
    let [first, second] = batches.map(records);
    let mut next = lsn(wal.durable_lsn().get() + 1);
    if ack_first && !first.is_empty() {
        oracle.given(next, &first);
        oracle.acked(*wal.append_batch(&first).map_err(|error| error.to_string())?.end())?;
        next = lsn(next.get() + first.len() as u64);
    }
    let in_flight: Vec<_> = [(!ack_first).then_some(first), Some(second)].into_iter().flatten().collect();
    sim.gate().close();
    std::thread::scope(|scope| {
        for (held, batch) in (1..).zip(in_flight.iter().filter(|batch| !batch.is_empty())) {
            oracle.given(next, batch);
            next = lsn(next.get() + batch.len() as u64);
            let wal = &wal;
            scope.spawn(move || wal.append_batch(batch).unwrap_err());
            sim.gate().wait_until_held(held);
        }
        sim.crash();
    });
    Ok(())
}

#[test]
fn p04_a_dead_group_behind_an_identical_new_one_stays_dead() {
    two_lives(["A", "A"], ["A", ""], true);
    two_lives(["A", "A"], ["A", ""], false);
    two_lives(["A", "AB"], ["A", ""], true);
    two_lives(["A", "BA"], ["A", "AA"], true);
}

#[test]
fn p04_new_records_do_not_complete_a_dead_header() {
    two_lives(["BA", ""], ["AA", ""], false);
    two_lives(["AB", ""], ["A", ""], false);
    two_lives(["ABA", ""], ["BBA", ""], false);
    two_lives(["AA", ""], ["A", ""], false);
}

#[test]
fn p04_other_records_in_the_place_of_dead_ones() {
    two_lives(["A", "A"], ["B", ""], true);
    two_lives(["A", "A"], ["A", "B"], true);
    two_lives(["A", "AB"], ["A", "A"], false);
}

/// Old files are used again with their old bytes in them.
#[test]
fn p04_nothing_comes_back_from_a_recycled_file() {
    for_each_disk(|env| {
        let record = vec![b'A'; 5000];
        for life in 0..4 {
            let wal = env.open();
            let before = wal.durable_lsn();
            for _ in 0..40 {
                wal.append(&record).unwrap();
            }
            wal.trim(wal.durable_lsn()).unwrap();
            wal.append(&record).unwrap();
            assert_eq!(wal.durable_lsn(), lsn(before.get() + 41));
            env.power_cut(life);
            drop(wal);
            let wal = env.open();
            assert_eq!(wal.durable_lsn(), lsn(before.get() + 41));
            let replayed = payloads(&wal);
            assert_eq!(replayed.len() as u64, wal.durable_lsn().get() - wal.oldest_lsn().get() + 1);
            assert!(replayed.iter().all(|payload| *payload == record));
        }
    });
}

/// What an open has cut stays cut, although its bytes are still in the file.
#[test]
fn p04_what_an_open_has_cut_never_returns() {
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 1);
        let mut oracle = Oracle::default();
        for life in 0..5 {
            one_life(&sim, &env, &mut oracle, ["AAA", ""], false)
                .unwrap_or_else(|finding| panic!("seed {seed}, life {life}: {finding}"));
            if life % 2 == 0 { sim.kill() } else { sim.power_cut(seed + life) }
        }
    }
}
