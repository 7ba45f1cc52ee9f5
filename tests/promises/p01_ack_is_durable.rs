//! P1: an ack means durable, and nothing is seen before its barrier.

use wo_wal::{Error, Lsn, Result, Wal};

use crate::child::Process;
use crate::p10_liveness::answered;
use crate::support::env::{Env, for_each_disk, lsn, payloads};
use crate::support::gate::Gate;
use crate::support::oracle::Oracle;
use crate::support::sim::Sim;

#[test]
fn p01_acked_records_survive_a_power_cut() {
    for_each_disk(|env| {
        let wal = env.open();
        let first = wal.append(b"one").unwrap();
        let batch = wal.append_batch([b"two", b"six"]).unwrap();
        let ticket = wal.submit(b"ten").unwrap();
        assert_eq!(ticket.wait().unwrap(), lsn(4));
        assert_eq!((first, batch), (lsn(1), lsn(2)..=lsn(3)));
        env.power_cut(1);
        drop(wal);
        let expected: [&[u8]; 4] = [b"one", b"two", b"six", b"ten"];
        assert_eq!(payloads(&env.open()), expected);
    });
}

#[test]
fn p01_a_sync_covers_every_submitted_record() {
    for_each_disk(|env| {
        let wal = env.open();
        let tickets: Vec<_> = (0..20_u8).map(|byte| wal.submit(&[byte; 50]).unwrap()).collect();
        assert_eq!(wal.sync().unwrap(), lsn(20));
        assert!(tickets.iter().all(|ticket| ticket.outcome().is_some_and(|outcome| outcome.is_ok())));
        env.power_cut(2);
        drop(wal);
        assert_eq!(payloads(&env.open()).len(), 20);
    });
}

#[test]
fn p01_wait_returns_once_the_record_is_durable() {
    for_each_disk(|env| {
        let wal = env.open();
        let _unwatched = wal.submit(b"a").unwrap();
        let second = wal.submit(b"b").unwrap().lsn();
        wal.wait(second).unwrap();
        assert_eq!(wal.durable_lsn(), second);
        env.power_cut(3);
        drop(wal);
        assert_eq!(payloads(&env.open()), [b"a", b"b"]);
    });
}

/// A record that stands at the gate is staged, written, perhaps even on the disk, but not acked: nobody may see it.
#[test]
fn p01_nothing_is_visible_before_its_barrier() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"seen").unwrap();
        check_invisible_while_held(&wal, &control.gate);
    });
}

#[test]
fn p01_nothing_is_visible_between_write_and_sync() {
    let sim = Sim::new(1);
    let wal = Env::simulated(&sim, 1).open();
    wal.append(b"seen").unwrap();
    check_invisible_while_held(&wal, sim.gate());
}

fn check_invisible_while_held(wal: &Wal, gate: &Gate) {
    let closed = gate.closed();
    let ticket = wal.submit(b"not yet").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wal.wait(lsn(2)));
        gate.wait_until_held(1);
        assert_eq!(wal.durable_lsn(), lsn(1));
        assert_eq!(payloads(wal), [b"seen"]);
        assert!(ticket.outcome().is_none());
        assert!(!waiter.is_finished());
        drop(closed);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(ticket.outcome().unwrap().unwrap(), lsn(2));
    assert_eq!(payloads(wal), [&b"seen"[..], b"not yet"]);
}

/// With two groups in flight, the later one finishing first acks nothing.
#[test]
fn p01_acks_stay_in_order_whatever_finishes_first() {
    let sim = Sim::new(1);
    let wal = Env::simulated(&sim, 2).open();
    let [first, second] = with_the_second_of_two_finished(&sim, &wal, || {
        assert_eq!(wal.durable_lsn(), lsn(0));
        assert!(payloads(&wal).is_empty());
    });
    assert_eq!((first.unwrap(), second.unwrap()), (lsn(1), lsn(2)));
}

/// If the earlier one then fails, the later one is not acked, although its own barrier returned Ok.
#[test]
fn p01_a_group_is_not_acked_when_an_earlier_one_fails() {
    let sim = Sim::new(1);
    let wal = Env::simulated(&sim, 2).open();
    for answer in with_the_second_of_two_finished(&sim, &wal, || sim.crash()) {
        assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
    }
    assert_eq!(wal.durable_lsn(), lsn(0));
    // Nothing is in flight any more, so this has nothing to wait for.
    answered("close", move || wal.close()).unwrap_err();
}

/// Holds the barriers of two groups, lets the second one finish, does what the test wants, and lets the first one go.
fn with_the_second_of_two_finished(sim: &Sim, wal: &Wal, then: impl FnOnce()) -> [Result<Lsn>; 2] {
    std::thread::scope(|scope| {
        let closed = sim.gate().closed();
        let first = scope.spawn(|| wal.append(b"first"));
        sim.gate().wait_until_held(1);
        let second = scope.spawn(|| wal.append(b"second"));
        sim.gate().wait_until_held(2);
        sim.gate().release(1);
        // A barrier is counted when its group is settled.
        while wal.stats().barriers == 0 {
            std::thread::yield_now();
        }
        then();
        drop(closed);
        [first, second].map(|writer| writer.join().unwrap())
    })
}

/// Crash, open, append, crash, open: what was recovered does not spoil what comes after it.
#[test]
fn p01_records_acked_after_a_recovery_survive_the_next_crash() {
    for_each_disk(|env| {
        let mut oracle = Oracle::default();
        for life in 0..6_u8 {
            let (wal, recovery) = env.open_with(env.options()).unwrap();
            oracle.opened(&wal, &recovery).unwrap();
            for record in 0..3_u16 {
                // Every second record ends up unacked, in a group that the crash may tear.
                let payload = vec![vec![b'A'; usize::from(record) * 300]];
                let next = lsn(wal.durable_lsn().get() + 1);
                oracle.given(next, &payload);
                oracle.acked(wal.append(&payload[0]).unwrap()).unwrap();
            }
            if let Some(sim) = env.sim() {
                sim.crash_after(u64::from(life % 2));
                let torn = vec![vec![b'A'; 2000]];
                oracle.given(lsn(wal.durable_lsn().get() + 1), &torn);
                wal.append(&torn[0]).unwrap_err();
            }
            env.power_cut(u64::from(life));
        }
    });
}

/// A daemon closed its standard streams and opened nothing in their place. The log's files got their numbers, and what the
/// program then printed went over the beginning of a segment: the log could not be opened any more.
#[test]
fn p01_what_a_program_prints_does_not_end_up_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Process::start("close standard streams", directory.path(), 0);
    assert_eq!(child.end().0.code(), Some(0));
    let (wal, _) = Wal::open(directory.path()).unwrap();
    assert_eq!(payloads(&wal), [&b"acked"[..], b"acked as well"]);
}
