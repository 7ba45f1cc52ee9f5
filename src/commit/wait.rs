//! What callers do: stage, wait, and lead where nobody else does.

use std::sync::Arc;

use super::Item;
use super::cohort;
use super::lead::Commit;
use super::ledger::{Admission, GroupNumber};
use super::provide::Request;
use super::state::{Phase, StateGuard, Stats};
use crate::Lsn;
use crate::error::{Error, Result};
use crate::planted::{Fault, planted};
use crate::segment::Segment;
use crate::strategy::process_mark;
use crate::sync::{Instant, Ordering};

/// Whether a call may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may, and it leads where nobody else does.
    Blocking,
    /// It gives [`Error::WouldBlock`] instead.
    NonBlocking,
}

/// The LSNs an item was given, and its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    group: GroupNumber,
}

/// The first and the last record to be read, and the segments that hold them, oldest first.
#[derive(Debug)]
pub(crate) struct RangeOfSegments {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
}

/// How a sleep ended.
enum Woken {
    Durable,
    Failed,
    Leader,
    TimeIsUp,
}

impl Commit {
    // ---- questions

    /// Every call starts with this, before it touches a lock: a forked child has a copy of the memory, locked or not, and
    /// shares the files.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_mark()
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn::new(self.durable_lsn.load(Ordering::Acquire))
    }

    pub(crate) fn oldest_lsn(&self) -> Lsn {
        self.lock().ledger.oldest_lsn()
    }

    /// What became of a record: `None` while it waits.
    pub(crate) fn outcome(&self, lsn: Lsn) -> Option<Result<()>> {
        if lsn <= self.durable_lsn() {
            return Some(Ok(()));
        }
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        let state = self.lock();
        if lsn <= state.ledger.durable_lsn() {
            return Some(Ok(()));
        }
        state.ledger.poison().map(|poison| Err(poison.clone()))
    }

    /// The segments that hold the records of a range, and the range as `resolve` makes it of the oldest and the last
    /// durable LSN. In one step, so that no trim comes in between.
    pub(crate) fn segments_for(
        &self,
        resolve: impl FnOnce(Lsn, Lsn) -> Result<(Lsn, Lsn)>,
    ) -> Result<RangeOfSegments> {
        let state = self.lock();
        let ahead = planted(Fault::ReplayAheadOfBarrier).then(|| state.ledger.staged_lsn());
        let (first, last) = resolve(state.ledger.oldest_lsn(), ahead.unwrap_or(state.ledger.durable_lsn()))?;
        let notes = state.ledger.segments();
        let starts_by =
            |lsn: Lsn| notes.iter().rposition(|note| note.first_lsn.is_some_and(|first| first <= lsn));
        let segments = match (starts_by(first), starts_by(last)) {
            (Some(start), Some(end)) if start <= end => state.segments.range(start..=end).cloned().collect(),
            _ => Vec::new(),
        };
        Ok(RangeOfSegments { segments, first, last })
    }

    pub(crate) fn stats(&self) -> Stats {
        // Before the lock: a strategy of the caller's may ask the log something.
        let assisted_barriers = self.strategy.assisted_barriers();
        let state = self.lock();
        let mut stats = state.stats.clone();
        stats.assisted_barriers = assisted_barriers;
        stats.staged_bytes = state.ledger.staged_bytes();
        stats.segments = state.segments.len() as u64;
        stats.segment_bytes = state.segments.iter().map(|segment| segment.capacity_bytes).sum();
        stats
    }

    // ---- stage

    /// Gives the item its LSNs. The log decides about room before it gives out a number. The caller has just
    /// [compared](Self::check_process) the process.
    pub(crate) fn submit(&self, item: &Item<'_>, stage: Stage) -> Result<Staged> {
        let (state, staged) = self.stage(self.lock(), item, stage)?;
        self.leave(state);
        Ok(staged)
    }

    /// Stages the item, as [`submit`](Self::submit) does, and waits until it is durable.
    pub(crate) fn append(&self, item: &Item<'_>) -> Result<Staged> {
        let (state, staged) = self.stage(self.lock(), item, Stage::Blocking)?;
        self.await_durable(state, staged.last_lsn, staged.group)?;
        Ok(staged)
    }

    fn stage<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        item: &Item<'_>,
        stage: Stage,
    ) -> Result<(StateGuard<'a>, Staged)> {
        loop {
            if let Err(error) = state.check_open() {
                self.leave(state);
                return Err(error);
            }
            if !state.ledger.has_lsns_for(item.record_count()) {
                self.leave(state);
                return Err(Error::config("the LSNs of this log are used up"));
            }
            match state.ledger.admit(item.encoded_bytes()) {
                Admission::Room { segment_number } => {
                    let (first_lsn, group) = state.ledger.stage(segment_number, item);
                    let last_lsn = state.ledger.staged_lsn();
                    return Ok((state, Staged { first_lsn, last_lsn, group }));
                }
                Admission::Wait if stage == Stage::Blocking => state = self.progress(state),
                Admission::Needs(_) if stage == Stage::Blocking => {
                    self.leave(state);
                    self.provide(item.encoded_bytes())?;
                    state = self.lock();
                }
                Admission::Wait => {
                    self.leave(state);
                    return Err(Error::WouldBlock);
                }
                Admission::Needs(_) => {
                    // What could not be had for a smaller item cannot be had for this one; a larger one's failure says nothing.
                    let failure = state
                        .request_failure
                        .take_if(|(failed_bytes, _)| *failed_bytes <= item.encoded_bytes())
                        .map(|(_, error)| error);
                    if failure.is_none() {
                        state.request = Some(Request::For { item_bytes: item.encoded_bytes() });
                    }
                    self.leave(state);
                    if failure.is_none() && !self.wake_preparer() {
                        // Better late than never: there is no thread to do it.
                        self.serve_request();
                    }
                    return Err(failure.unwrap_or(Error::WouldBlock));
                }
            }
        }
    }

    // ---- wait

    /// Waits until every record up to `lsn` is durable.
    pub(crate) fn wait(&self, lsn: Lsn) -> Result<()> {
        self.check_process()?;
        if lsn <= self.durable_lsn() {
            return Ok(());
        }
        let state = self.lock();
        if lsn > state.ledger.durable_lsn()
            && state.ledger.poison().is_none()
            && lsn > state.ledger.staged_lsn()
        {
            let last = state.ledger.staged_lsn();
            self.leave(state);
            return Err(Error::config(format!("LSN {lsn} has not been given out; the last one is {last}")));
        }
        let group = state.ledger.group_of(lsn).unwrap_or_default();
        self.await_durable(state, lsn, group)
    }

    /// Waits until everything staged so far is durable.
    pub(crate) fn sync(&self) -> Result<Lsn> {
        self.check_process()?;
        let state = self.lock();
        let lsn = state.ledger.staged_lsn();
        let group = state.ledger.group_of(lsn).unwrap_or_default();
        if !matches!(state.phase, Phase::Closing { .. })
            && let Err(error) = state.check_open()
        {
            self.leave(state);
            return Err(error);
        }
        self.await_durable(state, lsn, group)?;
        Ok(lsn)
    }

    /// Leads where nobody does, else sleeps, until the record is durable or never will be.
    fn await_durable<'a>(&'a self, mut state: StateGuard<'a>, lsn: Lsn, group: GroupNumber) -> Result<()> {
        let mut waits = false;
        let mut sleeps = false;
        loop {
            if lsn <= state.ledger.durable_lsn() {
                self.leave(state);
                break;
            }
            if let Some(poison) = state.ledger.poison() {
                let poison = poison.clone();
                self.leave(state);
                return Err(poison);
            }
            if !waits {
                state.add_waiter(group, self.identity());
                waits = true;
            }
            if state.can_lead() {
                state = self.lead(state);
                continue;
            }
            let Ok(until) = state.keep_time() else { continue };
            if !sleeps {
                state.ledger.add_sleeper(group);
                sleeps = true;
            }
            self.leave(state);
            match self.sleep(lsn, group, until) {
                Woken::Durable => break,
                Woken::Failed => state = self.lock(),
                Woken::TimeIsUp => {
                    state = self.lock();
                    // Perhaps another one's promise; then there are two for a while.
                    state.gathering.has_timekeeper = false;
                }
                Woken::Leader => {
                    state = self.lock();
                    state.lead_offered = false;
                }
            }
        }
        if waits {
            cohort::note_release(self.identity(), group);
        }
        Ok(())
    }

    /// Tells this log from others as long as it is open.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Sleeps on the group's event. Takes no lock.
    fn sleep(&self, lsn: Lsn, group: GroupNumber, until: Option<Instant>) -> Woken {
        let event = self.groups.of(group);
        loop {
            let seen = event.seen();
            if lsn <= self.durable_lsn() {
                return Woken::Durable;
            }
            if self.failed.load(Ordering::Acquire) {
                return Woken::Failed;
            }
            if event.claim_lead(seen) {
                return Woken::Leader;
            }
            if !event.wait(seen, until) {
                return Woken::TimeIsUp;
            }
        }
    }

    /// Leads where that helps, else sleeps until something has changed.
    pub(super) fn progress<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        if state.can_lead_early() {
            return self.lead(state);
        }
        state.progress_waiters += 1;
        let seen = self.progress.seen();
        self.leave(state);
        self.progress.wait(seen, None);
        let mut state = self.lock();
        state.progress_waiters -= 1;
        state
    }
}
