//! Drops whole segments from the front. Needs no space, and leaves the log with room again.

use std::sync::Arc;

use super::lead::Commit;
use super::state::{State, StateGuard};
use crate::Lsn;
use crate::error::{Error, Result};
use crate::planted::{Fault, planted};
use crate::segment::{Fill, Removed, Segment, SegmentStore, StoreFailure};
use crate::sync::MutexGuard;

/// What an idle log that was trimmed to its end needs next.
enum IdleStep {
    /// Nothing: the active segment holds no record, or the log is not idle.
    Done,
    /// The active segment holds records that are all trimmed: seal it and go on in the next one.
    MoveOn,
    /// The active segment holds nothing yet: an empty group lets the one before it go.
    Anchor,
}

/// A step of a trim: the lock comes back in either case, for only whoever holds `files` can say when to leave it.
type Trimming<'a> = std::result::Result<StateGuard<'a>, (StateGuard<'a>, Error)>;

impl Commit {
    /// Removes the segments whose records are all at or below `up_to`.
    pub(crate) fn trim(&self, up_to: Lsn) -> Result<()> {
        self.check_process()?;
        let mut files = self.lock_files_in_a_hurry();
        let (mut state, result) = match self.trim_files(self.lock(), &mut files, up_to) {
            Ok(state) => (state, Ok(())),
            Err((state, error)) => (state, Err(error)),
        };
        state.note_progress();
        // Whoever is told of a failure may call the log.
        drop(files);
        self.leave(state);
        result
    }

    fn trim_files<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        files: &mut MutexGuard<'_, SegmentStore>,
        up_to: Lsn,
    ) -> Trimming<'a> {
        if let Err(error) = state.check_open() {
            return Err((state, error));
        }
        let up_to = up_to.min(state.ledger.durable_lsn());
        loop {
            state = self.remove_trimmed(state, files, up_to)?;
            match state.idle_step(up_to, files.spare_bytes()) {
                IdleStep::Done => break,
                IdleStep::Anchor => state = self.write_empty(state, false, false),
                IdleStep::MoveOn => {
                    state = self.ensure_next(state, files)?;
                    if state.ledger.next().is_none() {
                        break;
                    }
                    // Making the file took time: somebody may have staged meanwhile.
                    if matches!(state.idle_step(up_to, files.spare_bytes()), IdleStep::MoveOn) {
                        state = self.write_empty(state, true, false);
                    }
                }
            }
            if let Some(poison) = state.ledger.poison().cloned() {
                return Err((state, poison));
            }
        }
        // There may be room now for a next segment that could not be had.
        state.next_requested = false;
        Ok(state)
    }

    fn remove_trimmed<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        files: &mut MutexGuard<'_, SegmentStore>,
        up_to: Lsn,
    ) -> Trimming<'a> {
        loop {
            // Before anything is changed: opening may meet the limit on open files.
            if let Some(read) = state.oldest_if_read_and_not_kept(up_to) {
                self.leave(state);
                let kept = files.keep_open(&read);
                state = self.lock();
                match kept {
                    Ok(()) => continue,
                    Err(error) => return Err((state, error)),
                }
            }
            let Some(segment) = state.trim_oldest(up_to) else { break };
            let number = state.ledger.active().number + 1;
            let next_number = state.ledger.next().is_none().then_some(number);
            self.leave(state);
            let removed = files.remove(segment, next_number);
            state = self.lock();
            match self.accept(&mut state, removed) {
                Ok(Removed::Spare) => state.ledger.set_spare(true),
                Ok(Removed::Next(prepared)) => state.add_next(prepared),
                Ok(Removed::Gone) => {}
                Err(error) => return Err((state, error)),
            }
        }
        if planted(Fault::RemovalsShareSync)
            && let Err(error) = files.sync_directory()
        {
            return Err((state, error));
        }
        Ok(state)
    }

    /// A next segment for an idle log to move on into: the prepared one, a new one, or the spare. Without any of them the
    /// log stays where it is.
    fn ensure_next<'a>(
        &'a self,
        state: StateGuard<'a>,
        files: &mut MutexGuard<'_, SegmentStore>,
    ) -> Trimming<'a> {
        if state.ledger.next().is_some() {
            return Ok(state);
        }
        let number = state.ledger.active().number + 1;
        let segment_bytes = state.ledger.limits().segment_bytes;
        self.leave(state);
        let mut made = files.prepare_from_spare(number);
        if let Ok(None) = made {
            made = files.prepare(number, segment_bytes, Fill::Reserve).map(Some);
        }
        if let Err(StoreFailure::Full { .. }) = made {
            made = Ok(None);
        }
        let mut state = self.lock();
        state.ledger.set_spare(files.spare_bytes().is_some());
        match self.accept(&mut state, made) {
            Ok(Some(prepared)) => state.add_next(prepared),
            Ok(None) => {}
            Err(error) => return Err((state, error)),
        }
        Ok(state)
    }
}

impl State {
    /// The segment that would be trimmed next, where a replay still holds it and may not have opened it yet.
    fn oldest_if_read_and_not_kept(&self, up_to: Lsn) -> Option<Arc<Segment>> {
        let oldest = self.segments.front().filter(|_| self.ledger.can_trim_oldest(up_to))?;
        (Arc::strong_count(oldest) > 1 && !oldest.is_kept()).then(|| Arc::clone(oldest))
    }

    fn trim_oldest(&mut self, up_to: Lsn) -> Option<Arc<Segment>> {
        if self.ledger.trim_oldest(up_to) { self.segments.pop_front() } else { None }
    }

    fn idle_step(&self, up_to: Lsn, spare_bytes: Option<u64>) -> IdleStep {
        let ledger = &self.ledger;
        if !self.is_open() || ledger.poison().is_some() || !ledger.is_idle() || up_to < ledger.staged_lsn() {
            return IdleStep::Done;
        }
        let active = ledger.active();
        let has_groups = active.first_lsn.is_some();
        // The other file it has, when there is just one: the small spare's file and the larger one change places again.
        let other_bytes = match (ledger.next(), spare_bytes) {
            (Some(next), None) => next.capacity_bytes,
            (None, Some(spare_bytes)) => spare_bytes,
            _ => 0,
        };
        let sits_in_small_file = has_groups
            && !planted(Fault::StaysInSpare)
            && active.capacity_bytes < ledger.limits().segment_bytes
            && other_bytes > active.capacity_bytes;
        if active.has_records || sits_in_small_file {
            IdleStep::MoveOn
        } else if has_groups || ledger.active_index() == 0 {
            IdleStep::Done
        } else {
            IdleStep::Anchor
        }
    }
}
