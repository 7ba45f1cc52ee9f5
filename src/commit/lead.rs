//! The ledger among threads: who stages, who leads, who sleeps, and who is told what.
//!
//! There is no thread of the log's own on this path. The first thread that waits for a record leads: it takes the first
//! staged group, makes it durable without holding a lock, settles it, and hands the lead to one waiter of the next group
//! before it returns. Everybody else sleeps on the event of its group.
//!
//! Lock order: `files` before `state`. No lock is held while a strategy, the caller's iterator or a file operation runs,
//! except `files` for file operations.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use super::Item;
use super::events::{Event, GroupEvents};
use super::ledger::{Admission, GroupNumber, Ledger, Step, TakenGroup};
use super::provide::{Preparer, Request};
use crate::Lsn;
use crate::error::{Error, Result};
use crate::options::OnFailure;
use crate::segment::{BarrierFiles, Segment, SegmentStore, segment_name};
use crate::strategy::{Extent, SyncStrategy};

/// The largest [`SyncStrategy::max_in_flight`] that is made use of.
pub(crate) const IN_FLIGHT_MAX: usize = 8;

/// The exit status of [`OnFailure::Abort`]: `EX_IOERR`.
const ABORT_STATUS: i32 = 74;

/// Group commit: one for each open log, shared by all handles, tickets and replays.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The process that opened the log. Compared by every call, every lead and every drop.
    process: u32,
    /// The directory, for messages.
    dir: PathBuf,
    strategy: Arc<dyn SyncStrategy>,
    on_failure: OnFailure,
    pub(super) state: Mutex<State>,
    /// The files besides those in use; held during file operations, never on the path from record to ack.
    pub(super) files: Mutex<SegmentStore>,
    pub(super) preparer: Preparer,
    /// The ledger's durable LSN. Written under `state` (`Release`) before the group's event is raised, so a woken follower
    /// reads its own outcome here (`Acquire`) without a lock.
    durable_lsn: AtomicU64,
    /// Set under `state` (`Release`) when the log is poisoned, before all events are raised.
    failed: AtomicBool,
    groups: GroupEvents,
    /// Raised when somebody who waits for room, for a file or for the close should look again.
    progress: Event,
    pub(super) this: Weak<Commit>,
}

/// What [`Commit::new`] is made of.
#[derive(Debug)]
pub(crate) struct CommitParts {
    pub(crate) strategy: Arc<dyn SyncStrategy>,
    pub(crate) on_failure: OnFailure,
    pub(crate) ledger: Ledger,
    /// The files of the ledger's segments, in the same order.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    /// Of the active segment and those behind it.
    pub(crate) barrier_files: VecDeque<BarrierFiles>,
    pub(crate) files: SegmentStore,
    pub(crate) dir: PathBuf,
}

/// Everything that the state lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) ledger: Ledger,
    /// The files of the ledger's segments, in the same order.
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// The descriptions for barriers of the active segment, and of the prepared next one. A leader holds a reference while
    /// its barrier is in flight, so rotation does not close a file under it.
    pub(super) barrier_files: VecDeque<BarrierFiles>,
    /// The lead has been offered to a sleeper that has not claimed it yet; nobody else may lead meanwhile.
    lead_offered: bool,
    /// Threads that sleep on `progress`.
    progress_waiters: usize,
    /// A bit for each slot, set while a barrier is in flight in it.
    busy_slots: u8,
    pub(super) phase: Phase,
    /// What the preparer is to do next.
    pub(super) request: Option<Request>,
    /// The next segment has been asked for, or could not be had; asked again after a rotation or a trim.
    pub(super) next_requested: bool,
    /// What the preparer could not do for a caller that does not wait.
    pub(super) request_failure: Option<Error>,
    pub(super) stats: Stats,
    /// Wake-ups that are due when the lock is released.
    wakes: Wakes,
}

pub(super) type StateGuard<'a> = MutexGuard<'a, State>;

/// Whether the log is open.
#[derive(Debug)]
pub(super) enum Phase {
    Open,
    /// Somebody closes it: nothing is staged any more.
    Closing,
    Closed(Result<()>),
}

#[derive(Debug, Default)]
struct Wakes {
    /// A waiter of this group is to lead.
    leader: Option<GroupNumber>,
    /// These groups are settled.
    settled: Option<(GroupNumber, GroupNumber)>,
    progress: bool,
    everybody: bool,
    preparer: bool,
}

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

/// Counters since the open.
///
/// `records / barriers` is what group commit is about: how many records share a barrier.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records made durable.
    pub records: u64,
    /// Groups of records made durable.
    pub groups: u64,
    /// Barriers that returned Ok: one for each group, and one for each seal, close and trim that needed one.
    pub barriers: u64,
    /// Time spent in barriers, in nanoseconds. Barriers in flight at the same time count each.
    pub barrier_nanos: u64,
    /// Records of the largest group.
    pub largest_group_records: u64,
    /// Bytes handed to barriers: records, headers and padding.
    pub written_bytes: u64,
    /// Rotations into a next segment.
    pub rotations: u64,
    /// Segments that were not ready in time, or had to be larger, and were made by the caller that needed them.
    pub inline_prepares: u64,
    /// Bytes of records that wait for a barrier now.
    pub staged_bytes: u64,
    /// Segments in use now, the prepared one included.
    pub segments: u64,
    /// Bytes of the segments in use now.
    pub segment_bytes: u64,
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
}

impl Commit {
    pub(crate) fn new(parts: CommitParts) -> Arc<Self> {
        let durable_lsn = parts.ledger.durable_lsn();
        let state = State {
            ledger: parts.ledger,
            segments: parts.segments,
            barrier_files: parts.barrier_files,
            lead_offered: false,
            progress_waiters: 0,
            busy_slots: 0,
            phase: Phase::Open,
            request: None,
            next_requested: false,
            request_failure: None,
            stats: Stats::default(),
            wakes: Wakes::default(),
        };
        Arc::new_cyclic(|this| Commit {
            process: std::process::id(),
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

    // ---- questions

    /// Every call starts with this, before it touches a lock: a forked child has a copy of the memory, locked or not, and
    /// shares the files.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
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
        let (first, last) = resolve(state.ledger.oldest_lsn(), state.ledger.durable_lsn())?;
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
        let state = self.lock();
        let mut stats = state.stats.clone();
        stats.staged_bytes = state.ledger.staged_bytes();
        stats.segments = state.segments.len() as u64;
        stats.segment_bytes = state.segments.iter().map(|segment| segment.capacity_bytes).sum();
        stats
    }

    // ---- stage

    /// Gives the item its LSNs. The log decides about room before it gives out a number.
    pub(crate) fn submit(&self, item: &Item<'_>, stage: Stage) -> Result<Staged> {
        self.check_process()?;
        let (state, staged) = self.stage(self.lock(), item, stage)?;
        self.leave(state);
        Ok(staged)
    }

    /// Stages the item and waits until it is durable.
    pub(crate) fn append(&self, item: &Item<'_>) -> Result<Staged> {
        self.check_process()?;
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
                    let failure = state.request_failure.take();
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
        if !matches!(state.phase, Phase::Closing)
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
        let mut registered = false;
        loop {
            if lsn <= state.ledger.durable_lsn() {
                self.leave(state);
                return Ok(());
            }
            if let Some(poison) = state.ledger.poison() {
                let poison = poison.clone();
                self.leave(state);
                return Err(poison);
            }
            if state.can_lead() {
                state = self.lead(state);
                continue;
            }
            if !registered {
                state.ledger.add_waiter(group);
                registered = true;
            }
            self.leave(state);
            match self.sleep(lsn, group) {
                Woken::Durable => return Ok(()),
                Woken::Failed => state = self.lock(),
                Woken::Leader => {
                    state = self.lock();
                    state.lead_offered = false;
                }
            }
        }
    }

    /// Sleeps on the group's event. Takes no lock.
    fn sleep(&self, lsn: Lsn, group: GroupNumber) -> Woken {
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
            event.wait(seen);
        }
    }

    /// Leads where that helps, else sleeps until something has changed.
    pub(super) fn progress<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        if state.can_lead() {
            return self.lead(state);
        }
        state.progress_waiters += 1;
        let seen = self.progress.seen();
        self.leave(state);
        self.progress.wait(seen);
        let mut state = self.lock();
        state.progress_waiters -= 1;
        state
    }

    // ---- lead

    /// Does the next step for what is staged.
    fn lead<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
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
        let slot = state.take_slot();
        // Groups are taken for the active segment only.
        let files = state.barrier_files.front().cloned();
        state.wakes.progress = true;
        if state.ledger.wants_next().is_some() && !state.next_requested {
            state.next_requested = true;
            state.request.get_or_insert(Request::Ahead);
            state.wakes.preparer = true;
        }
        self.leave(state);

        let mut flight = Flight { commit: self, taken: Some(taken), slot };
        let started = Instant::now();
        let outcome = match (files.as_ref().and_then(|files| files.get(slot)), &flight.taken) {
            (Some(file), Some(taken)) => self
                .strategy
                .persist(Extent::new(file.as_fd(), taken.offset, &taken.buffer.bytes))
                .map_err(|source| self.barrier_failure(taken.segment_number, source)),
            _ => Err(Error::config("a group was taken for a segment that is not open")),
        };
        let barrier_nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        if let Some(taken) = flight.taken.take() {
            if outcome.is_ok() {
                state.stats.count(&taken, barrier_nanos);
            }
            self.settle(&mut state, taken.number, slot, outcome);
            state.ledger.keep_buffer(taken.buffer);
        }
        state
    }

    fn barrier_failure(&self, segment_number: u64, source: std::io::Error) -> Error {
        Error::io("make durable", self.dir.join(segment_name(segment_number)), source)
    }

    /// The one place where a barrier's outcome turns into acks or errors.
    fn settle(&self, state: &mut State, number: GroupNumber, slot: usize, outcome: Result<()>) {
        state.busy_slots &= !(1 << slot);
        state.wakes.progress = true;
        let active = state.ledger.active_index();
        let failure = outcome.as_ref().err().cloned();
        let settled = state.ledger.settle(number, outcome);
        if let Some(failure) = failure {
            self.announce_failure(state, &failure);
        }
        if state.ledger.active_index() != active {
            state.stats.rotations += 1;
            state.barrier_files.pop_front();
            state.next_requested = false;
        }
        self.durable_lsn.store(state.ledger.durable_lsn().get(), Ordering::Release);
        if let Some(settled) = settled.filter(|settled| settled.awaited) {
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
        let durable_lsn = state.ledger.durable_lsn();
        log::error!("write-ahead log poisoned after LSN {durable_lsn}: {cause}");
        if self.on_failure == OnFailure::Abort {
            eprintln!(
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
    /// Every path that gives up the lock comes through here, so the lead is never lost.
    pub(super) fn leave(&self, mut state: StateGuard<'_>) {
        state.offer_lead();
        let wakes = std::mem::take(&mut state.wakes);
        let progress = (wakes.progress || wakes.everybody) && state.progress_waiters > 0;
        drop(state);
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

impl State {
    pub(super) fn check_open(&self) -> Result<()> {
        match (&self.phase, self.ledger.poison()) {
            (Phase::Open, None) => Ok(()),
            (Phase::Open, Some(poison)) => Err(poison.clone()),
            _ => Err(Error::Closed),
        }
    }

    fn can_lead(&self) -> bool {
        !self.lead_offered && self.ledger.next_step() != Step::Nothing
    }

    fn offer_lead(&mut self) {
        if !self.can_lead() {
            return;
        }
        if let Some(number) = self.ledger.awaited_group() {
            self.lead_offered = true;
            self.wakes.leader = Some(number);
        } else {
            // Nobody waits for these records; somebody may wait for the room they take.
            self.wakes.progress = true;
        }
    }

    /// Makes those who wait for room, for a file or for the close look again.
    pub(super) fn note_progress(&mut self) {
        self.wakes.progress = true;
    }

    fn take_slot(&mut self) -> usize {
        // The ledger has at most `IN_FLIGHT_MAX` groups in flight, so there is one.
        let slot = (self.busy_slots.trailing_ones() as usize).min(IN_FLIGHT_MAX - 1);
        self.busy_slots |= 1 << slot;
        slot
    }
}

impl Stats {
    fn count(&mut self, taken: &TakenGroup, barrier_nanos: u64) {
        self.barriers += 1;
        self.barrier_nanos = self.barrier_nanos.saturating_add(barrier_nanos);
        self.written_bytes += taken.buffer.bytes.len() as u64;
        if taken.record_count > 0 {
            self.groups += 1;
            self.records += u64::from(taken.record_count);
            self.largest_group_records = self.largest_group_records.max(u64::from(taken.record_count));
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
