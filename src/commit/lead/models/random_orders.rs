//! Longer lives of more threads, in random orders: `WO_WAL_ORDERS` says how many of each kind,
//! `WO_WAL_SEED` which; the same seed gives the same orders.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::spawn;
use shuttle::{Config, MaxSteps, Runner};

use super::rig::{BarrierFault, PANIC, RECORD, Rig, Setting, is_final};
use crate::Lsn;
use crate::commit::Stage;
use crate::error::{Error, Result};
use crate::frame::{BLOCK_BYTES, record_bytes};
use crate::options::Cohort;

const ORDERS: u64 = 2000;
const WRITERS: usize = 6;
const CALLS: usize = 3;
/// Changes of priority in one order, where priorities decide.
const PRIORITY_CHANGES: usize = 3;
/// More steps than any of these lives takes.
const STEPS_MAX: usize = 1_000_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs the body in many orders, half of them with threads picked by coin, half with few changes of who comes first.
fn in_random_orders(what: &str, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let seed = variable("WO_WAL_SEED").unwrap_or(1);
    let orders = variable("WO_WAL_ORDERS").unwrap_or(ORDERS);
    let count = usize::try_from(orders.div_ceil(2)).expect("fewer orders than that");
    run(RandomScheduler::new_from_seed(seed, count), &body);
    run(PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, count), &body);
    println!("{what}: {} random orders, seed {seed}", 2 * count);
}

fn run(scheduler: impl Scheduler + 'static, body: &Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    let body = Arc::clone(body);
    Runner::new(scheduler, config).run(move || body());
}

/// What a writer does: one of the calls of the log, by coin.
fn call(rig: &Rig) -> Option<Result<Lsn>> {
    match thread_rng().gen_range(0..10) {
        0..3 => Some(rig.append()),
        3 => Some(rig.append_large()),
        4 => Some(rig.submit(Stage::Blocking).and_then(|ticket| rig.wait(ticket))),
        5 => Some(rig.sync()),
        6 => rig.submit(Stage::Blocking).map(drop).err().map(Err),
        7 => match rig.submit(Stage::NonBlocking) {
            Err(Error::WouldBlock) => None,
            other => Some(other.and_then(|ticket| rig.wait(ticket))),
        },
        8 => match rig.submit(Stage::Blocking) {
            Ok(ticket) => {
                rig.look(&ticket);
                let other = ticket.clone();
                let waiting = rig.clone();
                let waiter = spawn(move || unless_it_panics(|| waiting.wait(other)));
                let mine = unless_it_panics(|| rig.wait(ticket));
                let others = waiter.join().expect("a waiter that ends in order");
                if let (Some(mine), Some(others)) = (&mine, &others) {
                    assert_eq!(mine.is_ok(), others.is_ok(), "two answers to one record");
                }
                mine.or(others)
            }
            Err(error) => Some(Err(error)),
        },
        _ => {
            let trimmed = rig.commit.trim(rig.commit.durable_lsn());
            trimmed.err().map(Err)
        }
    }
}

/// `None` where the barrier that the call led has panicked.
fn unless_it_panics<T>(call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Some(result),
        Err(panic) if panic.downcast_ref() == Some(&PANIC) => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// A writer's life. A panic in a barrier that it leads ends one call; the next one is answered all the same.
fn writer(rig: &Rig) -> Vec<Result<Lsn>> {
    (0..CALLS).filter_map(|_| unless_it_panics(|| call(rig)).flatten()).collect()
}

fn life(setting: Setting, closes_early: bool) {
    let rig = Rig::new(setting);
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let rig = rig.clone();
            spawn(move || writer(&rig))
        })
        .collect();
    if closes_early {
        let _ = unless_it_panics(|| rig.commit.close());
    }
    let results: Vec<_> =
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer that ends in order")).collect();
    for result in &results {
        let accepted = match result {
            Ok(_) => true,
            Err(Error::Closed) => closes_early,
            Err(_) => is_final(result) && setting.fault.is_some(),
        };
        assert!(accepted, "{result:?}");
    }
    let _ = unless_it_panics(|| rig.commit.close());
    rig.judge_end(&results);
}

/// Every life draws its barriers in flight, its room and its fault.
fn any_setting(fault: Option<BarrierFault>) -> Setting {
    let mut rng = thread_rng();
    let one = record_bytes(RECORD.len() as u64);
    Setting {
        in_flight: rng.gen_range(1..4),
        staged_bytes: [one, 3 * one, 1 << 20][rng.gen_range(0..3)],
        fault: fault.map(|fault| (rng.gen_range(0..6), fault)),
        // Two records and the two empty groups, or more than all of them need.
        room_bytes: [256, 512, BLOCK_BYTES][rng.gen_range(0..3)],
        has_next: rng.gen_bool(0.5),
        prepares_ahead: rng.gen_bool(0.5),
        cohort: if rng.gen_bool(0.7) { Cohort::Full } else { Cohort::Greedy },
    }
}

#[test]
fn p10_six_writers_are_answered() {
    in_random_orders("six writers", || life(any_setting(None), false));
}

#[test]
fn p06_six_writers_are_answered_when_a_barrier_fails() {
    in_random_orders("six writers, a barrier fails", || life(any_setting(Some(BarrierFault::Fails)), false));
}

#[test]
fn p10_six_writers_are_answered_when_a_barrier_panics() {
    in_random_orders("six writers, a barrier panics", || {
        life(any_setting(Some(BarrierFault::Panics)), false)
    });
}

#[test]
fn p10_six_writers_are_answered_when_the_log_is_closed() {
    in_random_orders("six writers, one closes", || life(any_setting(None), true));
}

#[test]
fn p06_six_writers_are_answered_when_a_barrier_fails_and_the_log_is_closed() {
    let fault = Some(BarrierFault::Fails);
    in_random_orders("six writers, a barrier fails, one closes", move || life(any_setting(fault), true));
}

/// Barriers of writers that append again as soon as they are acked, in all orders together.
fn barriers_of_a_closed_loop(cohort: Cohort) -> u64 {
    const WRITERS: usize = 4;
    let barriers = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&barriers);
    in_random_orders(&format!("a closed loop, {cohort:?}"), move || {
        let rig = Rig::new(Setting { cohort, ..Setting::default() });
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let rig = rig.clone();
                spawn(move || (0..CALLS).map(|_| rig.append()).collect::<Vec<_>>())
            })
            .collect();
        let results: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer that ends in order"))
            .collect();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        rig.judge_end(&results);
        counted.fetch_add(rig.commit.stats().barriers, Ordering::Relaxed);
    });
    barriers.load(Ordering::Relaxed)
}

/// That the rule of `cohort` reaches the leaders. How much it saves here says nothing: time is the model's.
#[test]
fn writers_that_are_waited_for_share_more_barriers() {
    let full = barriers_of_a_closed_loop(Cohort::Full);
    let greedy = barriers_of_a_closed_loop(Cohort::Greedy);
    println!("{full} barriers with the full cohort, {greedy} without");
    assert!(full < greedy, "{full} barriers, {greedy} where nobody is waited for");
}
