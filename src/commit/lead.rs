//! The ledger among threads: who stages, who leads, who sleeps, and who is told what.
//!
//! There is no thread of the log's own on this path. A thread that waits for a record leads, as soon as it may ([`cohort`]
//! says when): it takes the first staged group, makes it durable without holding a lock, settles it, and hands the lead to
//! one waiter of the next group, where there is one already, before it returns. Everybody else sleeps on the event of its
//! group.
//!
//! [`cohort`]: super::cohort
//!
//! Lock order: `files` before `state`. `state` is never held while a strategy, the caller's iterator or a file operation
//! runs. `files` is held during file operations, and by a trim also during the barriers of the empty groups it needs.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::events::{Event, GroupEvents};
use super::ledger::{GroupNumber, Ledger, Step, TakenGroup};
use super::provide::{Preparer, Request};
use super::state::{State, StateGuard};
use crate::Lsn;
use crate::error::{Error, Result};
use crate::options::{Cohort, OnFailure};
use crate::planted::{Fault, planted};
use crate::segment::{BarrierFiles, Segment, SegmentStore, segment_name};
use crate::strategy::{Extent, SyncStrategy, process_mark};
use crate::sync::{AtomicBool, AtomicU64, Instant, Mutex, Ordering, PoisonError};

/// The largest [`SyncStrategy::max_in_flight`] that is made use of.
pub(crate) const IN_FLIGHT_MAX: usize = 8;

/// The exit status of [`OnFailure::Abort`]: `EX_IOERR`.
const ABORT_STATUS: i32 = 74;

/// Group commit: one for each open log, shared by all handles, tickets and replays.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The process that opened the log. Compared by every call, every barrier and every drop.
    pub(super) process: u32,
    /// The directory, for messages.
    dir: PathBuf,
    pub(super) strategy: Arc<dyn SyncStrategy>,
    on_failure: OnFailure,
    pub(super) state: Mutex<State>,
    /// The files besides those in use; held during file operations, never on the path from record to ack.
    pub(super) files: Mutex<SegmentStore>,
    pub(super) preparer: Preparer,
    /// The ledger's durable LSN. Written under `state` (`Release`) before the group's event is raised, so a woken follower
    /// reads its own outcome here (`Acquire`) without a lock.
    pub(super) durable_lsn: AtomicU64,
    /// Set under `state` (`Release`) when the log is poisoned, before all events are raised.
    pub(super) failed: AtomicBool,
    pub(super) groups: GroupEvents,
    /// Raised when somebody who waits for room, for a file or for the close should look again.
    pub(super) progress: Event,
    pub(super) this: Weak<Commit>,
}

/// What [`Commit::new`] is made of.
#[derive(Debug)]
pub(crate) struct CommitParts {
    pub(crate) strategy: Arc<dyn SyncStrategy>,
    pub(crate) on_failure: OnFailure,
    pub(crate) cohort: Cohort,
    pub(crate) ledger: Ledger,
    /// The files of the ledger's segments, in the same order.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    /// Of the active segment and those behind it.
    pub(crate) barrier_files: VecDeque<BarrierFiles>,
    pub(crate) files: SegmentStore,
    pub(crate) dir: PathBuf,
}

impl Commit {
    pub(crate) fn new(parts: CommitParts) -> Arc<Self> {
        let durable_lsn = parts.ledger.durable_lsn();
        let state = State::new(parts.ledger, parts.cohort, parts.segments, parts.barrier_files);
        Arc::new_cyclic(|this| Commit {
            process: process_mark(),
            dir: parts.dir,
            strategy: parts.strategy,
            on_failure: parts.on_failure,
            state: Mutex::new(state),
            files: Mutex::new(parts.files),
            preparer: Preparer::default(),
            durable_lsn: AtomicU64::new(durable_lsn.get()),
            failed: AtomicBool::new(false),
            groups: GroupEvents::default(),
            progress: Event::default(),
            this: this.clone(),
        })
    }

    // ---- lead

    /// Does the next step for what is staged.
    pub(super) fn lead<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        match state.ledger.next_step() {
            Step::Nothing => state,
            Step::Seal => {
                let taken = state.ledger.take_empty(true, false);
                self.carry(state, taken)
            }
            Step::Write => match state.ledger.take() {
                Some(taken) => self.carry(state, taken),
                None => state,
            },
        }
    }

    /// An empty group, by a caller that has made sure that nothing is in flight.
    pub(super) fn write_empty<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        sealed: bool,
        closed: bool,
    ) -> StateGuard<'a> {
        let taken = state.ledger.take_empty(sealed, closed);
        self.carry(state, taken)
    }

    /// Takes a group through its barrier, without the lock, and settles it.
    fn carry<'a>(&'a self, mut state: StateGuard<'a>, taken: TakenGroup) -> StateGuard<'a> {
        state.gathering.end();
        let slot = state.take_slot();
        // Groups are taken for the active segment only.
        let files = state.barrier_files.front().cloned();
        state.wakes.progress = true;
        if state.ledger.wants_next().is_some() && !state.next_requested {
            state.next_requested = true;
            state.request.get_or_insert(Request::Ahead);
            state.wakes.preparer = true;
        }
        if planted(Fault::AckBeforeBarrier) || planted(Fault::SealNotAwaited) && state.ledger.is_sealing() {
            self.settle(&mut state, taken.number, slot, Ok(Duration::ZERO));
        }
        let mut flight = Flight { commit: self, taken: Some(taken), slot };
        self.leave(state);

        let started = Instant::now();
        let outcome = flight.persist(files.as_ref());
        let took = started.elapsed();
        // Perhaps the last reference, if another group has sealed the segment: closing a file is a file operation.
        drop(files);
        let mut state = self.lock();
        if let Some(taken) = flight.taken.take() {
            if outcome.is_ok() {
                let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                state.stats.barriers += 1;
                state.stats.barrier_nanos = state.stats.barrier_nanos.saturating_add(nanos);
                state.stats.written_bytes += taken.buffer.bytes.len() as u64;
            }
            self.settle(&mut state, taken.number, slot, outcome.map(|()| took));
            state.ledger.keep_buffer(taken.buffer);
        }
        state
    }

    fn barrier_failure(&self, segment_number: u64, source: std::io::Error) -> Error {
        Error::io("make durable", self.dir.join(segment_name(segment_number)), source)
    }

    /// The one place where a barrier's outcome, how long it took or why it failed, turns into acks or errors.
    fn settle(&self, state: &mut State, number: GroupNumber, slot: usize, outcome: Result<Duration>) {
        state.busy_slots &= !(1 << slot);
        state.wakes.progress = true;
        let active = state.ledger.active_index();
        let failure = outcome.as_ref().err().cloned();
        let took = outcome.as_ref().copied().unwrap_or_default();
        let settled = state.ledger.settle(number, outcome.map(|_| ()));
        if let Some(failure) = failure {
            self.announce_failure(state, &failure);
        }
        if state.ledger.active_index() != active {
            state.stats.rotations += 1;
            state.wakes.sealed = state.barrier_files.pop_front();
            state.next_requested = false;
        }
        self.durable_lsn.store(state.ledger.durable_lsn().get(), Ordering::Release);
        let Some(settled) = settled else { return };
        state.stats.count(&settled);
        if state.ledger.is_landed() {
            let waiting = state.ledger.staged_waiters();
            state.gathering.begin(&settled, waiting, took, Instant::now());
        }
        if settled.waiters.asleep > 0 {
            let (first, last) = state.wakes.settled.unwrap_or((settled.first, settled.last));
            state.wakes.settled = Some((first.min(settled.first), last.max(settled.last)));
        }
    }

    /// Poisons the log for a failure outside a barrier, and returns the error that everybody gets.
    pub(super) fn poison(&self, state: &mut State, cause: Error) -> Error {
        state.ledger.fail(cause.clone());
        self.announce_failure(state, &cause);
        state.ledger.poison().cloned().unwrap_or(cause)
    }

    /// Makes a failure known to everybody who sleeps.
    fn announce_failure(&self, state: &mut State, cause: &Error) {
        state.lead_offered = false;
        state.wakes.everybody = true;
        if self.failed.swap(true, Ordering::Release) {
            return;
        }
        state.wakes.failure = Some((state.ledger.durable_lsn(), cause.clone()));
    }

    /// Says what has failed, and ends the process if that was asked for. Without a lock: a logger, or what runs at the end
    /// of a process, may call the log. A logger that panics, or standard error that takes nothing, is no reason to leave
    /// others asleep or the process running.
    fn tell_failure(&self, durable_lsn: Lsn, cause: &Error) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            log::error!("write-ahead log poisoned after LSN {durable_lsn}: {cause}");
        }));
        if self.on_failure == OnFailure::Abort {
            let _ = writeln!(
                std::io::stderr(),
                "wo-wal: a durability barrier failed and the log was opened to end the process then. Everything up to LSN \
                 {durable_lsn} is durable; records after it may or may not be in the log, which shows when it is opened \
                 again. Cause: {cause}"
            );
            std::process::exit(ABORT_STATUS);
        }
    }

    // ---- the lock and the wake-ups

    pub(super) fn lock(&self) -> StateGuard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock: offers the lead to a sleeper if something can be done, then wakes everybody who is to be woken.
    /// Every path that may have changed what can be led, or who waits, gives up the lock here, so the lead is never lost.
    pub(super) fn leave(&self, mut state: StateGuard<'_>) {
        state.offer_lead();
        let wakes = std::mem::take(&mut state.wakes);
        let progress = (wakes.progress || wakes.everybody) && state.progress_waiters > 0;
        drop(state);
        drop(wakes.sealed);
        if let Some((durable_lsn, cause)) = &wakes.failure {
            self.tell_failure(*durable_lsn, cause);
        }
        if let Some(number) = wakes.leader {
            self.groups.of(number).offer_lead();
            self.groups.of(number).wake_one();
        }
        if wakes.everybody {
            for event in self.groups.all() {
                event.raise();
                event.wake_all();
            }
        } else if let Some((first, last)) = wakes.settled {
            for number in first..=last {
                self.groups.of(number).raise();
                self.groups.of(number).wake_all();
            }
        }
        if progress {
            self.progress.raise();
            self.progress.wake_all();
        }
        if wakes.preparer {
            self.wake_preparer();
        }
    }
}

/// A group between take and settle. Whatever ends the barrier, also a panic, settles the group: nobody is left asleep.
struct Flight<'a> {
    commit: &'a Commit,
    /// Taken out when the group is settled in order.
    taken: Option<TakenGroup>,
    slot: usize,
}

impl Flight<'_> {
    /// The barrier, through the slot's own description.
    fn persist(&self, files: Option<&BarrierFiles>) -> Result<()> {
        // A caller's iterator, or a strategy, may have forked since the call compared.
        if self.commit.is_forked() {
            return Err(Error::Forked);
        }
        let slot = if planted(Fault::DescriptionShared) { 0 } else { self.slot };
        let (Some(file), Some(taken)) = (files.and_then(|files| files.get(slot)), &self.taken) else {
            return Err(Error::config("a group was taken for a segment that is not open"));
        };
        let extent = Extent::new(file.as_fd(), taken.offset, &taken.buffer.bytes);
        let mut persisted = self.commit.strategy.persist(extent);
        if planted(Fault::BarrierRepeated) && persisted.is_err() {
            persisted = self.commit.strategy.persist(extent);
        }
        persisted.map_err(|source| self.commit.barrier_failure(taken.segment_number, source))
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        let mut state = self.commit.lock();
        let panicked = std::io::Error::other("the strategy panicked");
        let cause = self.commit.barrier_failure(taken.segment_number, panicked);
        self.commit.settle(&mut state, taken.number, self.slot, Err(cause));
        self.commit.leave(state);
    }
}

#[cfg(all(test, any(wo_wal_loom, wo_wal_shuttle)))]
mod models;
