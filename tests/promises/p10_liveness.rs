//! P10: every call and every ticket gets an answer.

use std::cell::RefCell;
use std::sync::mpsc;

use rustix::io::Errno;
use wo_wal::{Error, Lsn, Result, Ticket, Wal};

use crate::support::env::{for_each_disk, lsn, payloads};
use crate::support::gate::PATIENCE;

/// Runs something that must end; a test that hangs says what hung.
pub(crate) fn answered<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer: {what}"))
}

fn in_background<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    receiver
}

fn answer<T>(what: &str, receiver: &mpsc::Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer: {what}"))
}

#[test]
fn p10_a_leader_that_panics_leaves_nobody_waiting() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        control.gate.close();
        control.panic_after(0);
        let submitted = wal.submit(b"submitted").unwrap();
        let append = |writer: u8| {
            let wal = wal.clone();
            in_background(move || {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wal.append(&[writer; 10])))
            })
        };
        // It stands at the gate before anybody can lead a second barrier, so it is the one that panics.
        let leader = append(0);
        control.gate.wait_until_held(1);
        let writers: Vec<_> = std::iter::once(leader).chain((1..6).map(append)).collect();
        control.gate.open();
        let answers: Vec<_> = writers.iter().map(|writer| answer("an append", writer)).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1, "the leader's own panic");
        assert!(answers.iter().flatten().all(|answer| matches!(answer, Err(Error::Poisoned { .. }))));
        assert!(matches!(answered("a ticket", || submitted.wait()), Err(Error::Poisoned { .. })));
        assert_eq!(wal.durable_lsn(), lsn(1));
        let closing = wal.clone();
        assert!(answered("close", move || closing.close()).is_err());
    });
}

/// Whoever sleeps until the others of its cohort are back once slept on when they were not: it took itself for somebody
/// else who would look at the clock.
#[test]
fn p10_a_writer_whose_cohort_does_not_come_back_goes_on_without_it() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        for round in 0..20_u8 {
            control.gate.close();
            let append = |writer: u8| {
                let wal = wal.clone();
                in_background(move || wal.append(&[round, writer]))
            };
            // Three threads that append once: each barrier releases writers that never come back.
            let first = append(0);
            control.gate.wait_until_held(1);
            let others = [append(1), append(2)];
            control.gate.open();
            for writer in [first].iter().chain(&others) {
                answer("an append", writer).unwrap();
            }
        }
        assert_eq!(wal.durable_lsn(), lsn(60));
    });
}

#[test]
fn p10_reads_return_while_a_barrier_hangs() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        let closed = control.gate.closed();
        let appending = wal.clone();
        let appended = in_background(move || appending.append(b"hanging"));
        control.gate.wait_until_held(1);
        let reading = wal.clone();
        let read = answered("a replay", move || {
            reading.replay(..).unwrap().map(|record| record.unwrap().payload).collect::<Vec<_>>()
        });
        assert_eq!(read, [b"acked"]);
        let asking = wal.clone();
        let (durable, records) =
            answered("questions", move || (asking.durable_lsn(), asking.stats().records));
        assert_eq!((durable, records), (lsn(1), 1));
        drop(closed);
        answer("the append", &appended).unwrap();
    });
}

/// The closing group is led by `close` itself. Its panic used to leave the log closing for ever: the next close, and the
/// drop of the last handle, waited for a closer that was gone.
#[test]
fn p10_a_close_whose_barrier_panics_leaves_nobody_waiting() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        control.panic_after(0);
        let closing = wal.clone();
        let first = answered("the close that panics", move || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| closing.close()))
        });
        assert!(first.is_err(), "the panic reaches whoever closed");
        let again = wal.clone();
        let second = answered("the close after it", move || again.close());
        assert!(matches!(second, Err(Error::Poisoned { .. })), "{second:?}");
        answered("the drop", move || drop(wal));
        assert_eq!(payloads(&env.open()), [b"acked"], "the lock is free");
    });
}

/// The directory was not released before the next close, or the last drop.
#[test]
fn p10_a_close_whose_barrier_panics_releases_the_directory() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        let ticket = wal.submit(b"submitted").unwrap();
        control.panic_after(0);
        let closing = wal.clone();
        let closed = answered("the close that panics", move || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| closing.close()))
        });
        assert!(closed.is_err(), "the panic reaches whoever closed");
        assert!(matches!(answered("a ticket", || ticket.wait()), Err(Error::Poisoned { .. })));
        assert_eq!(payloads(&env.open())[0], b"acked", "the directory is free although the handle is there");
        drop(wal);
    });
}

#[test]
fn p10_close_answers_every_ticket_and_every_writer() {
    for_each_disk(|env| {
        let wal = env.open();
        let writers: Vec<_> = (0..4_u8)
            .map(|writer| {
                let wal = wal.clone();
                in_background(move || {
                    let mut acked = 0_u64;
                    loop {
                        match wal.append(&[writer; 300]) {
                            Ok(_) => acked += 1,
                            Err(Error::Closed) => return acked,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                })
            })
            .collect();
        while wal.durable_lsn() < lsn(50) {
            std::thread::yield_now();
        }
        // A ticket may come too late for the close.
        let tickets: Vec<Ticket> = (0..5).map_while(|_| wal.submit(b"ticket").ok()).collect();
        wal.close().unwrap();
        let submitted = tickets.len() as u64;
        for ticket in tickets {
            answered("a ticket", || ticket.wait()).unwrap();
        }
        let acked: u64 = writers.iter().map(|writer| answer("a writer", writer)).sum();
        let durable = wal.durable_lsn();
        drop(wal);
        let wal = env.open();
        assert_eq!(wal.durable_lsn(), durable);
        assert_eq!(durable.get(), acked + submitted, "an ack for each record in the log");
    });
}

#[test]
fn p10_dropping_the_log_answers_its_tickets() {
    for_each_disk(|env| {
        let wal = env.open();
        let first = wal.submit(b"first").unwrap();
        let second = wal.submit(b"second").unwrap();
        drop(wal);
        assert_eq!(answered("a ticket", || second.wait()).unwrap(), lsn(2));
        assert_eq!(first.outcome().unwrap().unwrap(), lsn(1));
        assert_eq!(payloads(&env.open()), [&b"first"[..], b"second"]);
    });
}

#[test]
fn p10_every_call_on_a_closed_log_is_answered() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"acked").unwrap();
        wal.close().unwrap();
        assert!(matches!(wal.append(b"x"), Err(Error::Closed)));
        assert!(matches!(wal.append_batch([b"x"]), Err(Error::Closed)));
        assert!(matches!(wal.submit(b"x"), Err(Error::Closed)));
        assert!(matches!(wal.try_submit(b"x"), Err(Error::Closed)));
        assert!(matches!(wal.trim(lsn(1)), Err(Error::Closed)));
        wal.close().expect("closing twice is fine");
        assert_eq!(wal.durable_lsn(), lsn(1));
        let again = env.open();
        assert_eq!(payloads(&again), [b"acked"], "close has released the lock");
    });
}

#[test]
fn p10_waiting_for_what_is_not_there_is_answered() {
    for_each_disk(|env| {
        let wal = env.open();
        assert_eq!(wal.sync().unwrap(), Lsn::ZERO);
        wal.wait(Lsn::ZERO).unwrap();
        assert!(matches!(wal.wait(lsn(1)), Err(Error::Config { .. })), "LSN 1 was not given out");
        wal.append(b"x").unwrap();
        assert_eq!(wal.sync().unwrap(), lsn(1));
        wal.trim(lsn(1000)).unwrap();
        assert_eq!(wal.replay(..).unwrap().count() as u64, 2 - wal.oldest_lsn().get());
    });
}

/// The bound on staged bytes stops submitters; one of them leads, so they all go on.
#[test]
fn p10_submitters_at_the_bound_get_on() {
    for_each_disk(|env| {
        let (wal, _) = env.open_with(env.options().max_staged_bytes(64 << 10)).unwrap();
        let writers: Vec<_> = (0..4_u8)
            .map(|writer| {
                let wal = wal.clone();
                in_background(move || -> Result<()> {
                    for _ in 0..100 {
                        let _unwatched = wal.submit(&[writer; 5000])?;
                    }
                    Ok(())
                })
            })
            .collect();
        for writer in &writers {
            answer("a submitter", writer).unwrap();
        }
        assert_eq!(wal.sync().unwrap(), lsn(400));
        assert_eq!(payloads(&wal).len(), 400);
    });
}

#[test]
fn p10_try_submit_never_waits() {
    for_each_disk(|env| {
        let control = {
            let (wal, control) = env.open_steered();
            drop(wal);
            control
        };
        let steered = crate::support::steered::Steered::new(env.strategy(), control.clone());
        let options = env.options_with(std::sync::Arc::new(steered)).max_staged_bytes(64 << 10);
        let (wal, _) = env.open_with(options).unwrap();
        control.gate.close();
        let leader = in_background({
            let wal = wal.clone();
            move || wal.append(b"held")
        });
        control.gate.wait_until_held(1);
        let mut tickets = Vec::new();
        let full = answered("try_submit", {
            let wal = wal.clone();
            move || {
                let refused = loop {
                    match wal.try_submit(&[1; 5000]) {
                        Ok(ticket) => tickets.push(ticket),
                        Err(error) => break error,
                    }
                };
                (refused, tickets)
            }
        });
        assert!(matches!(full.0, Error::WouldBlock), "{:?}", full.0);
        assert!(!full.1.is_empty());
        control.gate.open();
        answer("the leader", &leader).unwrap();
        for ticket in full.1 {
            answered("a ticket", || ticket.wait()).unwrap();
        }
    });
}

#[test]
fn p10_a_failure_answers_those_who_wait_for_room() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        control.gate.close();
        control.fail_after(0, Errno::IO);
        let writers: Vec<_> = (0..6_u8)
            .map(|writer| {
                let wal = wal.clone();
                in_background(move || -> Result<Lsn> {
                    loop {
                        // More than two segments: some wait for a rotation behind the held barrier.
                        wal.append(&vec![writer; 40_000])?;
                    }
                })
            })
            .collect();
        control.gate.wait_until_held(1);
        control.gate.open();
        for writer in &writers {
            assert!(matches!(answer("a writer", writer), Err(Error::Poisoned { .. })));
        }
    });
}

#[test]
fn p10_writers_over_many_rotations_all_get_answers() {
    for_each_disk(|env| {
        let wal = env.open();
        let writers: Vec<_> = (0..6_u8)
            .map(|writer| {
                let wal = wal.clone();
                in_background(move || -> Result<()> {
                    for number in 0..20_usize {
                        wal.append(&vec![writer; 500 * number])?;
                    }
                    Ok(())
                })
            })
            .collect();
        for writer in &writers {
            answer("a writer", writer).unwrap();
        }
        assert_eq!(wal.durable_lsn(), lsn(120));
        check_counters(&wal);
    });
}

fn check_counters(wal: &Wal) {
    let stats = wal.stats();
    assert_eq!(stats.records, 120);
    assert!(stats.groups <= stats.records && stats.barriers >= stats.groups);
    assert!(stats.largest_group_records >= 1);
}

/// An engine kept what a thread had not written yet in a thread-local, and appended it as a batch when the thread ended. The
/// log's own thread-local was gone by then; using it was a panic, and in such a place the end of the process.
#[test]
fn p10_a_thread_may_append_and_close_at_its_very_end() {
    struct AtEnd(Option<Wal>, mpsc::Sender<Result<u64>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let wal = self.0.take().unwrap();
            let answer = wal.append_batch([b"last", b"word"]).map(|lsns| lsns.end().get());
            let answer = answer.and_then(|last| wal.close().map(|()| last));
            let _ = self.1.send(answer);
        }
    }
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    for_each_disk(|env| {
        let wal = env.open();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // The first that is used is the last that goes.
            AT_END.set(Some(AtEnd(Some(wal.clone()), sender)));
            wal.append_batch([b"first"]).unwrap();
        });
        assert_eq!(answer("what the thread did at its end", &receiver).unwrap(), 3);
        assert_eq!(payloads(&env.open()), [&b"first"[..], b"last", b"word"]);
    });
}
