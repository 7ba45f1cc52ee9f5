//! What happens in a life, one step at a time.

use std::fmt::Debug;
use std::time::Duration;

use rustix::io::Errno;
use wo_wal::{Error, Lsn, Result, Ticket, Wal};

use super::history::Event;
use super::run::{Callers, Life, Run};
use crate::support::oracle::Verdict;
use crate::support::sim::Fault;

/// Long enough for a barrier to reach the gate. A shorter wait would only make the schedule a tamer one.
const NUDGE: Duration = Duration::from_millis(20);

impl Run {
    pub(super) fn step(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        match self.rng.below(100) {
            0..40 => self.append(wal),
            60..80 if self.callers == Callers::Several => self.overlapping(wal),
            40..80 => self.several_submitted(wal),
            80..90 => self.trim(wal),
            90..95 => {
                self.neighbour();
                Ok(Life::GoesOn)
            }
            95..98 => self.oracle.running(wal).map(|()| Life::GoesOn).or_else(|finding| {
                // A replay may meet the end of its process.
                if self.sim.fault_happened() { Ok(Life::Ends) } else { Err(finding) }
            }),
            _ => self.close(wal),
        }
    }

    fn batch(&mut self) -> Vec<Vec<u8>> {
        let records = self.rng.pick(&[1, 1, 1, 2, 3]);
        let jumbo = self.rng.percent(4);
        if jumbo {
            self.note("jumbo");
        }
        let mut record = || {
            let bytes = self.rng.pick(&[0, 8, 8, 30, 440, 4000, 20_000]);
            let bytes = if jumbo { usize::try_from(self.segment_bytes).expect("small") } else { bytes };
            vec![self.rng.pick(self.kinds); bytes]
        };
        (0..records).map(|_| record()).collect()
    }

    fn append(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let batch = self.batch();
        let first = Self::next_lsn(wal);
        let answer = self.answered(wal.append_batch(&batch));
        match answer {
            Ok(lsns) => {
                if *lsns.start() != first {
                    return Err(format!("LSN {} where {first} was next", lsns.start()));
                }
                self.oracle.given(first, &batch);
                self.ack(*lsns.end())
            }
            Err(error) => self.failed(wal, &error, first, &batch),
        }
    }

    /// Every answer goes into the history.
    fn answered<T: Debug>(&mut self, answer: Result<T>) -> Result<T> {
        self.history.note(|| Event::Answer(format!("{answer:?}")));
        answer
    }

    /// Nothing is staged between the steps, so the next record comes right after the last durable one.
    fn next_lsn(wal: &Wal) -> Lsn {
        Lsn::new(wal.durable_lsn().get() + 1)
    }

    fn ack(&mut self, up_to: Lsn) -> std::result::Result<Life, String> {
        self.ever_acked = true;
        self.count("acks", up_to.get().saturating_sub(self.oracle.top_acked().get()));
        self.oracle.acked(up_to).map(|()| Life::GoesOn)
    }

    /// An error needs a reason: a disk that may be full, or a fault.
    fn check_error(&self, error: &Error) -> Verdict {
        let full = matches!(error, Error::StorageFull { .. }) && !self.roomy;
        if full || self.sim.fault_happened() {
            return Ok(());
        }
        Err(format!("an error without a reason: {error:?}"))
    }

    /// What is allowed when a call fails. `batch` may be in the log afterwards, from `first` on, unless the error says that
    /// the log goes on without it.
    fn failed(
        &mut self,
        wal: &Wal,
        error: &Error,
        first: Lsn,
        batch: &[Vec<u8>],
    ) -> std::result::Result<Life, String> {
        self.check_error(error)?;
        if is_passing(error) {
            self.note("passing error");
            return Ok(Life::GoesOn);
        }
        self.oracle.given(first, batch);
        self.poisoned(wal)
    }

    /// Errors are final: nothing is acked any more and the watermark stands still.
    fn poisoned(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        self.note("poisoned");
        let durable = wal.durable_lsn();
        if let Ok(lsn) = wal.append(b"A") {
            return Err(format!("LSN {lsn} was acked after a failure"));
        }
        if wal.sync().is_ok() || wal.durable_lsn() != durable {
            return Err("a sync was answered with Ok after a failure".to_owned());
        }
        Ok(Life::Ends)
    }

    /// Batches that share a barrier, or several.
    fn several_submitted(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let mut tickets = Vec::new();
        let mut first = Self::next_lsn(wal);
        for _ in 0..self.rng.below(5) {
            let batch = self.batch();
            let answer = wal.submit_batch(&batch);
            let _ = self.answered(answer.as_ref().map(Ticket::lsns).map_err(Clone::clone));
            match answer {
                Ok(ticket) => {
                    self.oracle.given(ticket_first(&ticket, first)?, &batch);
                    first = Lsn::new(ticket.lsn().get() + 1);
                    tickets.push(ticket);
                }
                Err(error) => {
                    if self.failed(wal, &error, first, &batch)? == Life::Ends {
                        return Ok(Life::Ends);
                    }
                }
            }
        }
        if self.rng.percent(5) {
            // Dropped unanswered: whether its records are durable is open.
            self.sim.crash();
            return Ok(Life::Ends);
        }
        let settled = if self.rng.percent(50) { wal.sync() } else { wait_all(tickets) };
        match self.answered(settled) {
            Ok(_) => self.ack(Lsn::new(first.get() - 1)),
            Err(error) => {
                self.check_error(&error)?;
                self.poisoned(wal)
            }
        }
    }

    /// Barriers that are held between write and sync, several at once where the strategy allows it, and then let go,
    /// failed, or cut off.
    fn overlapping(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let batches = [self.batch(), self.batch(), self.batch()];
        let writers = 2 + self.rng.index(2);
        let in_flight = self.max_in_flight;
        let trim_up_to = self.rng.percent(30).then(|| self.oracle.top_acked());
        self.oracle.trimming(trim_up_to.unwrap_or_default());
        self.sim.gate().close();
        let (results, trimmed) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (held, batch) in (1..).zip(&batches[..writers]) {
                threads.push(scope.spawn(move || {
                    let ticket = wal.submit_batch(batch)?;
                    let lsns = ticket.lsns();
                    Ok((lsns, ticket.wait()))
                }));
                if held <= in_flight {
                    self.sim.gate().wait_until_held_for(held, NUDGE);
                }
            }
            let trim = trim_up_to.map(|up_to| scope.spawn(move || wal.trim(up_to)));
            if trim.is_some() && self.rng.percent(50) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.let_go();
            let results = threads.into_iter().map(|thread| thread.join().expect("a writer panicked"));
            (results.collect(), trim.map(|trim| trim.join().expect("a trim panicked")))
        });
        if let Some(Err(error)) = trimmed {
            self.check_error(&error)?;
        }
        self.judge_overlapping(wal, &batches, results)
    }

    fn let_go(&mut self) {
        match self.rng.below(20) {
            0 => {
                self.sim.crash();
                self.note("crash at the gate");
            }
            1 => self.sim.fail_after(0, Fault { errno: Errno::IO, lasting: false }),
            2 => self.sim.fail_after(1, Fault { errno: Errno::NOSPC, lasting: false }),
            _ => {}
        }
        let held = self.sim.gate().held();
        if held > 1 {
            self.note("two at the gate");
        }
        if held > 0 {
            self.sim.gate().release(self.rng.index(held));
        }
        self.sim.gate().open();
    }

    fn judge_overlapping(
        &mut self,
        wal: &Wal,
        batches: &[Vec<Vec<u8>>],
        results: Vec<Result<(std::ops::RangeInclusive<Lsn>, Result<Lsn>)>>,
    ) -> std::result::Result<Life, String> {
        let mut top = Lsn::ZERO;
        let mut failed = false;
        for (result, batch) in results.into_iter().zip(batches) {
            match result {
                Ok((lsns, outcome)) => {
                    self.oracle.given(*lsns.start(), batch);
                    match outcome {
                        Ok(lsn) => top = top.max(lsn),
                        Err(error) => {
                            self.check_error(&error)?;
                            self.note("failed at the gate");
                            failed = true;
                        }
                    }
                }
                Err(error) => {
                    self.check_error(&error)?;
                    failed |= !is_passing(&error);
                }
            }
        }
        self.ack(top)?;
        if failed { self.poisoned(wal) } else { Ok(Life::GoesOn) }
    }

    fn trim(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let durable = wal.durable_lsn().get();
        let up_to = Lsn::new(if self.rng.percent(50) { durable } else { self.rng.below(durable + 1) });
        self.oracle.trimming(up_to);
        match self.answered(wal.trim(up_to)) {
            Ok(()) => self.append_after_full_trim(wal, up_to),
            Err(error) => self.check_error(&error).map(|()| Life::Ends),
        }
    }

    /// After a trim of everything an ordinary batch finds room, whatever the neighbour holds.
    fn append_after_full_trim(&mut self, wal: &Wal, up_to: Lsn) -> std::result::Result<Life, String> {
        if up_to != wal.durable_lsn() || !self.ever_acked {
            return Ok(Life::GoesOn);
        }
        if self.sim.free_bytes() == 0 {
            self.note("trimmed to the end without a free byte");
        }
        // Fits an ordinary segment, and the small spare only where that is as large.
        let record_bytes = usize::try_from(self.segment_bytes / 3 * 2).expect("small");
        let batch = vec![vec![b'A'; record_bytes]];
        let first = Self::next_lsn(wal);
        let answer = self.answered(wal.append_batch(&batch));
        match answer {
            Ok(lsns) => {
                self.oracle.given(first, &batch);
                self.ack(*lsns.end())
            }
            Err(Error::StorageFull { .. }) if !self.sim.fault_happened() => {
                Err("stuck: no room for a batch after everything was trimmed".to_owned())
            }
            Err(error) => self.failed(wal, &error, first, &batch),
        }
    }

    fn close(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        match self.answered(wal.close()) {
            Ok(()) => {
                self.note("closed");
                Ok(Life::Ends)
            }
            Err(error) => self.check_error(&error).map(|()| Life::Ends),
        }
    }
}

fn ticket_first(ticket: &Ticket, expected: Lsn) -> std::result::Result<Lsn, String> {
    let first = *ticket.lsns().start();
    if first == expected { Ok(first) } else { Err(format!("LSN {first} where {expected} was next")) }
}

/// The call did nothing, and the log goes on.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::StorageFull { .. } | Error::Io { .. })
}

fn wait_all(tickets: Vec<Ticket>) -> Result<Lsn> {
    let mut last = Lsn::ZERO;
    for ticket in tickets {
        last = last.max(ticket.wait()?);
    }
    Ok(last)
}
