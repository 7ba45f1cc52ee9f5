//! Every order of the steps of two or three threads, up to a bound of preemptions: `LOOM_MAX_PREEMPTIONS`, 3 without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread::{JoinHandle, spawn};

use super::super::Flight;
use super::rig::{BarrierFault, RECORD, Rig, Setting, is_final};
use crate::Lsn;
use crate::commit::Stage;
use crate::error::{Error, Result};
use crate::frame::{GROUP_HEADER_BYTES, record_bytes};
use crate::options::Cohort;

const PREEMPTIONS: usize = 3;
/// More steps than any of these models takes in one order.
const STEPS_MAX: usize = 10_000;

fn in_every_order(what: &str, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model.max_branches = STEPS_MAX;
    let orders = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&orders);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    println!("{what}: {} orders", orders.load(Ordering::Relaxed));
}

fn appending(rig: &Rig) -> JoinHandle<Result<Lsn>> {
    let rig = rig.clone();
    spawn(move || rig.append())
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("a thread that ends in order")
}

fn room_for_records(count: u64) -> u64 {
    GROUP_HEADER_BYTES + count * record_bytes(RECORD.len() as u64)
}

/// Three writers append at the same time, this thread is one of them.
fn three_append(what: &str, setting: Setting) {
    in_every_order(what, move || {
        let rig = Rig::new(setting);
        let others = [appending(&rig), appending(&rig)];
        let mine = rig.append();
        let mut results = vec![mine];
        results.extend(others.map(joined));
        if setting.fault.is_none() {
            assert!(results.iter().all(Result::is_ok), "{results:?}");
            assert_eq!(rig.commit.durable_lsn(), Lsn::new(3));
        }
        rig.judge_end(&results);
    });
}

#[test]
fn p10_three_writers_share_barriers_and_all_are_answered() {
    three_append("three append", Setting::default());
}

#[test]
fn p10_three_writers_are_answered_where_nobody_is_waited_for() {
    three_append("three append, greedy", Setting { cohort: Cohort::Greedy, ..Setting::default() });
}

/// Who comes back is waited for, with a time limit that is reached early, late or never.
#[test]
fn p10_writers_that_come_back_are_waited_for_and_answered() {
    in_every_order("two append twice", || {
        let rig = Rig::new(Setting::default());
        let twice = |rig: &Rig| [rig.append(), rig.append()];
        let other = {
            let rig = rig.clone();
            spawn(move || twice(&rig))
        };
        let mut results = twice(&rig).to_vec();
        results.extend(joined(other));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        rig.judge_end(&results);
    });
}

#[test]
fn p10_three_writers_with_two_barriers_in_flight_are_answered() {
    three_append("three append, two in flight", Setting { in_flight: 2, ..Setting::default() });
}

#[test]
fn p06_the_first_barrier_fails_and_all_are_answered() {
    let fault = Some((0, BarrierFault::Fails));
    three_append("three append, the first barrier fails", Setting { fault, ..Setting::default() });
}

#[test]
fn p06_the_second_barrier_fails_and_all_are_answered() {
    let fault = Some((1, BarrierFault::Fails));
    three_append("three append, the second barrier fails", Setting { fault, ..Setting::default() });
}

#[test]
fn p06_one_of_two_barriers_in_flight_fails() {
    for number in 0..2 {
        let fault = Some((number, BarrierFault::Fails));
        let setting = Setting { in_flight: 2, fault, ..Setting::default() };
        three_append("three append, one of two in flight fails", setting);
    }
}

#[test]
fn p10_a_rotation_between_appends_leaves_nobody_behind() {
    // One record, then the reserve for two empty groups.
    let room_bytes = room_for_records(1) + 2 * GROUP_HEADER_BYTES;
    let setting = Setting { room_bytes, has_next: true, ..Setting::default() };
    three_append("three append, rotating", setting);
}

/// What a panic in a barrier leaves to the drop guard, without the panic: a group is taken and nobody settles it.
#[test]
fn p10_a_leader_that_is_gone_leaves_an_error_to_everybody() {
    in_every_order("a leader is gone", || {
        let rig = Rig::new(Setting::default());
        let others = [appending(&rig), appending(&rig)];
        let mine = rig.submit(Stage::Blocking);
        let mut state = rig.commit.lock();
        if state.can_lead()
            && let Some(taken) = state.ledger.take()
        {
            rig.fails_from(&taken);
            let slot = state.take_slot();
            let flight = Flight { commit: &rig.commit, taken: Some(taken), slot };
            rig.commit.leave(state);
            drop(flight);
        } else {
            rig.commit.leave(state);
        }
        let mut results = vec![mine.and_then(|ticket| rig.wait(ticket))];
        results.extend(others.map(joined));
        rig.judge_end(&results);
    });
}

#[test]
fn p10_what_was_submitted_without_a_leader_becomes_durable_with_a_sync() {
    in_every_order("submitted and dropped, then a sync", || {
        let rig = Rig::new(Setting::default());
        let dropping = {
            let rig = rig.clone();
            spawn(move || rig.submit(Stage::Blocking).map(drop))
        };
        let other = appending(&rig);
        let synced = rig.sync();
        assert!(joined(dropping).is_ok());
        let results = [synced, joined(other), rig.sync()];
        assert_eq!(rig.commit.durable_lsn(), Lsn::new(2));
        rig.judge_end(&results);
    });
}

#[test]
fn p10_three_wait_for_one_ticket_and_one_polls_it_before() {
    in_every_order("three wait for one ticket, one polls it before", || {
        let rig = Rig::new(Setting::default());
        let ticket = rig.submit(Stage::Blocking).expect("room");
        let waiting = [ticket.clone(), ticket.clone()].map(|ticket| {
            let rig = rig.clone();
            spawn(move || rig.wait(ticket))
        });
        rig.look(&ticket);
        let mut results = vec![rig.wait(ticket)];
        results.extend(waiting.map(joined));
        assert!(results.iter().all(|result| *result.as_ref().expect("an ack") == Lsn::FIRST), "{results:?}");
        rig.judge_end(&results);
    });
}

/// The bound on what is staged makes a submitter lead, or wait for whoever does.
#[test]
fn p10_submitters_stop_at_the_bound_and_go_on() {
    in_every_order("submitters at the bound", || {
        let staged_bytes = record_bytes(RECORD.len() as u64);
        let rig = Rig::new(Setting { staged_bytes, ..Setting::default() });
        let others = [0, 1].map(|_| {
            let rig = rig.clone();
            spawn(move || rig.submit(Stage::Blocking))
        });
        let mine = rig.submit(Stage::Blocking).expect("room, in the end");
        let mut results = vec![rig.wait(mine)];
        for ticket in others.map(joined) {
            results.push(rig.wait(ticket.expect("room, in the end")));
        }
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        rig.judge_end(&results);
    });
}

#[test]
fn p10_close_answers_everybody() {
    in_every_order("two append, one closes", || {
        let rig = Rig::new(Setting::default());
        let others = [appending(&rig), appending(&rig)];
        rig.commit.close().expect("a close without a failure");
        let results = others.map(joined);
        for result in &results {
            assert!(matches!(result, Ok(_) | Err(Error::Closed)), "{result:?}");
        }
        let acked = results.iter().filter(|result| result.is_ok()).count() as u64;
        assert_eq!(rig.commit.durable_lsn(), Lsn::new(acked), "refused, and durable all the same");
        rig.judge_end(&results);
    });
}

#[test]
fn p10_two_close_while_a_barrier_fails() {
    in_every_order("one appends, two close, the barrier fails", || {
        let rig = Rig::new(Setting { fault: Some((0, BarrierFault::Fails)), ..Setting::default() });
        let other = appending(&rig);
        let closing = {
            let rig = rig.clone();
            spawn(move || rig.commit.close())
        };
        let closed = rig.commit.close();
        assert_eq!(closed.is_ok(), joined(closing).is_ok(), "two answers to one close");
        let result = joined(other);
        assert!(is_final(&result), "{result:?}");
        assert_eq!(closed.is_ok(), matches!(result, Err(Error::Closed)), "{closed:?} after {result:?}");
        rig.judge_end(&[result]);
    });
}
