//! Files ahead of need, by a thread that never touches the path from record to ack, and on demand by the caller that has
//! no room.

use std::fmt;

use super::lead::Commit;
use super::ledger::{Admission, FileNeed, SegmentNote};
use super::state::{Phase, State, StateGuard, thread_mark};
use crate::error::{Error, Result};
use crate::segment::{Fill, Pace, Prepared, SegmentStore, StoreFailure, StoreResult};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};

/// Enough for a thread that only calls the system.
const PREPARER_STACK_BYTES: usize = 256 * 1024;

/// What the preparer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The next segment, zero-filled in the background.
    Ahead,
    /// Whatever an item of this size needs, for a caller that does not wait.
    For { item_bytes: u64 },
}

/// The thread that prepares files ahead of need; started when it is first needed.
#[derive(Default)]
pub(super) struct Preparer {
    pace: Pace,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread's own [mark](thread_mark), from its start on. Only the thread itself has to know it.
    mark: AtomicUsize,
}

/// Without the thread: not every kind of handle can be printed.
impl fmt::Debug for Preparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparer").field("pace", &self.pace).finish_non_exhaustive()
    }
}

impl Preparer {
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread. A file it works on is left half-made under a temporary name, or removed. By the thread itself, when
    /// it is told of a failure and closes the log, it only says so: the thread does nothing more.
    pub(super) fn stop(&self) {
        self.pace.stopped.store(true, Ordering::Relaxed);
        let thread = self.thread().take();
        if let Some(thread) = thread
            && self.mark.load(Ordering::Relaxed) != thread_mark()
        {
            thread.thread().unpark();
            // It has nothing to report: what it could not do is done again at rotation.
            let _ = thread.join();
        }
    }
}

impl Commit {
    /// Starts the preparer, or tells it to look for a request. False where no thread can start: files are then made on
    /// demand.
    pub(super) fn wake_preparer(&self) -> bool {
        let mut thread = self.preparer.thread();
        if self.preparer.pace.stopped.load(Ordering::Relaxed) {
            return true;
        }
        if let Some(thread) = &*thread {
            thread.thread().unpark();
            return true;
        }
        let Some(commit) = self.this.upgrade() else { return true };
        let started = thread::Builder::new()
            .name("wo-wal-prepare".to_owned())
            .stack_size(PREPARER_STACK_BYTES)
            .spawn(move || commit.prepare_until_stopped());
        match started {
            Ok(handle) => {
                *thread = Some(handle);
                true
            }
            Err(error) => {
                // Whoever is told may call the log.
                drop(thread);
                log::warn!("no thread for preparing segments ahead, they are made at rotation: {error}");
                false
            }
        }
    }

    /// From now on files are made on demand only.
    pub(crate) fn stop_preparing(&self) {
        self.preparer.stop();
    }

    fn prepare_until_stopped(&self) {
        self.preparer.mark.store(thread_mark(), Ordering::Relaxed);
        while !self.preparer.pace.stopped.load(Ordering::Relaxed) {
            let request = self.lock().request.take();
            match request {
                None => thread::park(),
                Some(Request::Ahead) => self.prepare_ahead(),
                Some(Request::For { item_bytes }) => self.provide_for_absent(item_bytes),
            }
        }
    }

    /// Does on the calling thread what the preparer was asked for.
    pub(super) fn serve_request(&self) {
        let request = self.lock().request.take();
        if let Some(Request::For { item_bytes }) = request {
            self.provide_for_absent(item_bytes);
        }
    }

    fn provide_for_absent(&self, item_bytes: u64) {
        if let Err(error) = self.provide(item_bytes) {
            self.lock().request_failure = Some((item_bytes, error));
        }
    }

    /// Makes the next segment while the active one is being filled.
    fn prepare_ahead(&self) {
        let mut files = self.lock_files();
        let state = self.lock();
        let wanted = state.check_open().ok().and_then(|()| state.ledger.wants_next());
        let segment_bytes = state.ledger.limits().segment_bytes;
        self.leave(state);
        let Some(number) = wanted else { return };
        match files.prepare(number, segment_bytes, Fill::Zeros(&self.preparer.pace)) {
            Ok(prepared) => {
                let mut state = self.lock();
                state.add_next(prepared);
                self.leave(state);
            }
            // Whoever needs the segment tries again and gets the answer.
            Err(StoreFailure::Full { .. } | StoreFailure::Harmless(_)) => {}
            Err(StoreFailure::Final(cause)) => {
                let mut state = self.lock();
                self.poison(&mut state, cause);
                drop(files);
                self.leave(state);
            }
        }
    }

    /// Provides the file that an item of this size needs. When it returns Ok, the item is to be admitted again.
    ///
    /// Where that fails for good, whoever is told may call the log: `files` is free by then, here and wherever files are made.
    pub(super) fn provide(&self, item_bytes: u64) -> Result<()> {
        let files = self.lock_files_in_a_hurry();
        let state = self.lock();
        if let Err(error) = state.check_open() {
            self.leave(state);
            return Err(error);
        }
        // Another caller, or the preparer, may have provided it meanwhile.
        let Admission::Needs(need) = state.ledger.admit(item_bytes) else {
            self.leave(state);
            return Ok(());
        };
        match need {
            FileNeed::Spare => self.provide_spare(files, state),
            FileNeed::Next { number, capacity_bytes } => {
                self.provide_next(files, state, number, capacity_bytes)
            }
            FileNeed::Larger { number, capacity_bytes } => {
                self.provide_larger(files, state, number, capacity_bytes)
            }
        }
    }

    fn provide_spare(&self, mut files: MutexGuard<'_, SegmentStore>, state: StateGuard<'_>) -> Result<()> {
        self.leave(state);
        let made = files.ensure_spare();
        let mut state = self.lock();
        drop(files);
        let made = self.accept(&mut state, made);
        let result = made.and_then(|made| {
            state.ledger.set_spare(made);
            let needed_bytes = crate::segment::SEGMENT_BYTES_MIN;
            if made { Ok(()) } else { Err(Error::StorageFull { needed_bytes }) }
        });
        self.leave(state);
        result
    }

    fn provide_next(
        &self,
        mut files: MutexGuard<'_, SegmentStore>,
        state: StateGuard<'_>,
        number: u64,
        capacity_bytes: u64,
    ) -> Result<()> {
        self.leave(state);
        let made = files.prepare(number, capacity_bytes, Fill::Reserve);
        let mut state = self.lock();
        drop(files);
        let result = self.accept(&mut state, made).map(|prepared| {
            state.stats.inline_prepares += 1;
            state.add_next(prepared);
        });
        self.leave(state);
        result
    }

    /// Replaces a segment that holds nothing. Nothing is admitted meanwhile: it could be staged for the old file.
    fn provide_larger(
        &self,
        mut files: MutexGuard<'_, SegmentStore>,
        mut state: StateGuard<'_>,
        number: u64,
        capacity_bytes: u64,
    ) -> Result<()> {
        state.ledger.set_replacing(true);
        self.leave(state);
        let made = files.replace(number, capacity_bytes);
        let mut state = self.lock();
        drop(files);
        state.ledger.set_replacing(false);
        state.note_progress();
        let result = self.accept(&mut state, made).map(|prepared| {
            state.stats.inline_prepares += 1;
            state.replace(prepared);
        });
        self.leave(state);
        result
    }

    /// Turns a store's failure into the caller's error, and poisons the log where it must be.
    pub(super) fn accept<T>(&self, state: &mut StateGuard<'_>, made: StoreResult<T>) -> Result<T> {
        made.map_err(|failure| match failure {
            StoreFailure::Full { needed_bytes } => Error::StorageFull { needed_bytes },
            StoreFailure::Harmless(error) => error,
            StoreFailure::Final(cause) => self.poison(state, cause),
        })
    }

    /// Whoever prepares a file now ends filling it with zeros: somebody waits.
    pub(super) fn lock_files_in_a_hurry(&self) -> MutexGuard<'_, SegmentStore> {
        self.preparer.pace.hurried.fetch_add(1, Ordering::Relaxed);
        let files = self.lock_files();
        self.preparer.pace.hurried.fetch_sub(1, Ordering::Relaxed);
        files
    }

    fn lock_files(&self) -> MutexGuard<'_, SegmentStore> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds the prepared next segment.
    pub(super) fn add_next(&mut self, prepared: Prepared) {
        self.ledger.add_next(note_of(&prepared));
        self.segments.push_back(prepared.segment);
        self.barrier_files.push_back(prepared.barrier_files);
        self.note_progress();
    }

    /// Puts a larger file in the place of the segment with the same number: the active one, or the next.
    fn replace(&mut self, prepared: Prepared) {
        let active = self.ledger.active_index();
        if let Some(index) = self.ledger.replace(note_of(&prepared)) {
            self.segments[index] = prepared.segment;
            self.barrier_files[index - active] = prepared.barrier_files;
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }
}

/// A segment that holds no group yet.
pub(super) fn note_of(prepared: &Prepared) -> SegmentNote {
    let segment = &prepared.segment;
    SegmentNote {
        number: segment.number,
        id: segment.id,
        capacity_bytes: segment.capacity_bytes,
        first_lsn: None,
        has_records: false,
        stable: false,
        written_until: prepared.written_until,
    }
}
