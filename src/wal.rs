//! The log as an engine sees it.

mod open;

use std::cell::RefCell;
use std::fmt;
use std::ops::{RangeBounds, RangeInclusive};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Lsn;
use crate::commit::{Commit, EncodedBatch, Item, Stage, Staged, Stats};
use crate::disk::Disk;
use crate::error::Result;
use crate::options::Options;
use crate::probe::Selection;
use crate::reader::{Replay, resolve};
use crate::recovery::Recovery;
use crate::ticket::Ticket;

/// A write-ahead log, open for writing.
///
/// Cheap to clone and to share between threads: all clones are one log. Dropping the last one closes it; call
/// [`close`](Wal::close) to hear of an error.
///
/// A record is *acknowledged* when [`append`](Wal::append), [`Ticket::wait`], [`wait`](Wal::wait) or [`sync`](Wal::sync)
/// returns Ok for it, and not before the barrier it rode has completed. Then it survives power loss, given what
/// `docs/durability.md` assumes of the machine.
#[derive(Clone)]
pub struct Wal {
    handle: Arc<Handle>,
}

/// What all clones of a log share. Tickets and replays do not hold it, so that they do not keep the log open.
struct Handle {
    commit: Arc<Commit>,
    disk: Arc<dyn Disk>,
    selection: Selection,
    max_record_bytes: u32,
    max_batch_bytes: u64,
    /// The directory's lock; dropped by close.
    lock: Mutex<Option<Box<dyn std::any::Any + Send + Sync>>>,
}

/// Where it is and how far it is durable: the log's state holds the records of its writers.
impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wal")
            .field("dir", &self.handle.disk.path())
            .field("durable_lsn", &self.durable_lsn())
            .field("strategy", &self.handle.selection.strategy)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// Where batches are encoded before the lock is taken. Kept from batch to batch while it is small.
    static SCRATCH: RefCell<EncodedBatch> = RefCell::default();
}

/// The largest scratch buffer that a thread keeps.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Wal {
    /// Opens the log in a directory with default options; creates it where there is none. See [`Options::open`].
    ///
    /// # Errors
    ///
    /// As for [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<(Wal, Recovery)> {
        Options::default().open(dir)
    }

    /// Options to open a log with.
    pub fn options() -> Options {
        Options::default()
    }

    /// Appends a record and waits until it is durable.
    ///
    /// # Errors
    ///
    /// * [`RecordTooLarge`](crate::Error::RecordTooLarge), [`StorageFull`](crate::Error::StorageFull): nothing was
    ///   appended, and the log goes on.
    /// * [`Io`](crate::Error::Io): a segment could not be made for a passing reason, such as too many open files. Nothing
    ///   was appended, and the log goes on.
    /// * [`Poisoned`](crate::Error::Poisoned): a barrier failed, now or earlier. Whether the record is in the log is
    ///   indeterminate until it is opened again; nothing is acknowledged any more.
    /// * [`Closed`](crate::Error::Closed), [`Forked`](crate::Error::Forked): nothing was appended.
    pub fn append(&self, record: &[u8]) -> Result<Lsn> {
        self.commit().check_process()?;
        let item = Item::record(record, self.handle.max_record_bytes)?;
        Ok(self.commit().append(&item)?.last_lsn)
    }

    /// Appends records as one atomic unit and waits until they are durable: after a crash all of them are there or none.
    /// Returns their LSNs. An empty batch appends nothing and returns an empty range.
    ///
    /// The iterator runs before the log is locked; it may use the log.
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append), and [`BatchTooLarge`](crate::Error::BatchTooLarge): nothing was appended, and the
    /// log goes on.
    pub fn append_batch<B>(&self, batch: B) -> Result<RangeInclusive<Lsn>>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        let staged = self.with_encoded(batch, |item| self.commit().append(item))?;
        Ok(staged.map_or_else(|| self.no_lsns(), |staged| staged.first_lsn..=staged.last_lsn))
    }

    /// Gives a record its LSN and a place in the next group, and returns at once. At the bound of
    /// [`max_staged_bytes`](Options::max_staged_bytes) it leads a barrier, or waits for one.
    ///
    /// The record is durable when the ticket's [`wait`](Ticket::wait) has returned Ok; without a waiter, after the next
    /// barrier, [`sync`](Self::sync) or [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append).
    pub fn submit(&self, record: &[u8]) -> Result<Ticket> {
        self.submit_record(record, Stage::Blocking)
    }

    /// As [`submit`](Self::submit), for records that are one atomic unit.
    ///
    /// # Errors
    ///
    /// As for [`append_batch`](Self::append_batch).
    pub fn submit_batch<B>(&self, batch: B) -> Result<Ticket>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        self.submit_records(batch, Stage::Blocking)
    }

    /// As [`submit`](Self::submit), but never waits.
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append), and [`WouldBlock`](crate::Error::WouldBlock) where `submit` would wait for a
    /// barrier or a segment: nothing was staged.
    pub fn try_submit(&self, record: &[u8]) -> Result<Ticket> {
        self.submit_record(record, Stage::NonBlocking)
    }

    /// As [`submit_batch`](Self::submit_batch), but never waits.
    ///
    /// # Errors
    ///
    /// As for [`append_batch`](Self::append_batch), and [`WouldBlock`](crate::Error::WouldBlock) where `submit_batch`
    /// would wait for a barrier or a segment: nothing was staged.
    pub fn try_submit_batch<B>(&self, batch: B) -> Result<Ticket>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        self.submit_records(batch, Stage::NonBlocking)
    }

    /// Waits until every record staged so far is durable, leading barriers itself where nobody else does. Returns the last
    /// one's LSN.
    ///
    /// # Errors
    ///
    /// * [`Poisoned`](crate::Error::Poisoned): a barrier failed; what was not acknowledged is indeterminate until the log
    ///   is opened again.
    /// * [`Closed`](crate::Error::Closed), [`Forked`](crate::Error::Forked).
    pub fn sync(&self) -> Result<Lsn> {
        self.commit().sync()
    }

    /// Waits until the record with this LSN, and all before it, are durable.
    ///
    /// # Errors
    ///
    /// * [`Config`](crate::Error::Config): the LSN has not been given out.
    /// * [`Poisoned`](crate::Error::Poisoned): a barrier failed before the record was durable.
    /// * [`Forked`](crate::Error::Forked).
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        self.commit().wait(lsn)
    }

    /// The oldest record in the log; the LSN of the next one where there is none. [`Lsn::ZERO`] in a forked child.
    pub fn oldest_lsn(&self) -> Lsn {
        if self.commit().is_forked() { Lsn::ZERO } else { self.commit().oldest_lsn() }
    }

    /// The last record that is durable; everything up to it is. [`Lsn::ZERO`] while there is none.
    pub fn durable_lsn(&self) -> Lsn {
        self.commit().durable_lsn()
    }

    /// Reads records, in LSN order, up to the last that is durable now. Never shows a record that is not.
    ///
    /// The replay owns its records and keeps the segments it reads from being recycled; it does not keep the log open.
    /// The upper bound is cut to the durable LSN; an empty range gives nothing.
    ///
    /// # Errors
    ///
    /// * [`Trimmed`](crate::Error::Trimmed): the range begins at an LSN below [`oldest_lsn`](Self::oldest_lsn).
    /// * [`Forked`](crate::Error::Forked).
    ///
    /// Damage that reading meets is an item of the iterator.
    pub fn replay(&self, lsns: impl RangeBounds<Lsn>) -> Result<Replay> {
        self.commit().check_process()?;
        let bounds = (lsns.start_bound().cloned(), lsns.end_bound().cloned());
        let resolve = |oldest, durable| resolve(&bounds, oldest, durable);
        let range = self.commit().segments_for(resolve)?;
        Ok(Replay::over(Arc::clone(&self.handle.disk), range.segments, range.first, range.last))
    }

    /// Drops records up to `up_to` where a whole segment can go: at most what is durable, and perhaps less. An LSN beyond the
    /// last record is no error: it drops everything that is durable. Works with zero
    /// free bytes, and leaves room for appends. Files that a [`Replay`] still reads keep their bytes until it is dropped.
    ///
    /// # Errors
    ///
    /// * [`Io`](crate::Error::Io): a file could not be opened for a passing reason, such as too many open files. What was
    ///   trimmed is gone, the rest is there, and the log goes on.
    /// * [`Poisoned`](crate::Error::Poisoned): now or earlier a file operation failed in a way that the log cannot go on
    ///   from. What was trimmed is gone, the rest is there.
    /// * [`Closed`](crate::Error::Closed), [`Forked`](crate::Error::Forked): nothing was dropped.
    pub fn trim(&self, up_to: Lsn) -> Result<()> {
        self.commit().trim(up_to)
    }

    /// Counters since the open. All zero in a forked child.
    pub fn stats(&self) -> Stats {
        if self.commit().is_forked() { Stats::default() } else { self.commit().stats() }
    }

    /// Which strategy makes the barriers, and why.
    pub fn strategy(&self) -> &Selection {
        &self.handle.selection
    }

    /// Closes the log: stages no more, makes durable what is staged, vouches for it on disk, answers every ticket, and
    /// releases the directory. All clones are closed with it; a second call gives the first one's answer.
    ///
    /// # Errors
    ///
    /// * [`Poisoned`](crate::Error::Poisoned): a barrier failed, now or earlier; nothing was written after that. The
    ///   directory is released all the same.
    /// * [`Forked`](crate::Error::Forked): nothing was touched.
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }

    fn commit(&self) -> &Arc<Commit> {
        &self.handle.commit
    }

    fn submit_record(&self, record: &[u8], stage: Stage) -> Result<Ticket> {
        self.commit().check_process()?;
        let item = Item::record(record, self.handle.max_record_bytes)?;
        let staged = self.commit().submit(&item, stage)?;
        Ok(self.ticket(&staged))
    }

    fn submit_records<B>(&self, batch: B, stage: Stage) -> Result<Ticket>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        let staged = self.with_encoded(batch, |item| self.commit().submit(item, stage))?;
        Ok(staged.map_or_else(
            || {
                let none = self.no_lsns();
                Ticket::new(Arc::clone(self.commit()), *none.start(), *none.end())
            },
            |staged| self.ticket(&staged),
        ))
    }

    fn ticket(&self, staged: &Staged) -> Ticket {
        Ticket::new(Arc::clone(self.commit()), staged.first_lsn, staged.last_lsn)
    }

    /// Encodes a batch outside all locks and hands it on; `None` for an empty one.
    fn with_encoded<B>(
        &self,
        batch: B,
        hand_on: impl FnOnce(&Item<'_>) -> Result<Staged>,
    ) -> Result<Option<Staged>>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        self.commit().check_process()?;
        // Taken out, not borrowed: the caller's iterator may itself append a batch on this thread.
        // At the very end of a thread it is gone.
        let mut encoded = SCRATCH.try_with(RefCell::take).unwrap_or_default();
        let result = encoded
            .encode(batch, self.handle.max_record_bytes, self.handle.max_batch_bytes)
            // The caller's iterator may have forked.
            .and_then(|()| self.commit().check_process())
            .and_then(|()| match encoded.record_count() {
                0 => Ok(None),
                _ => hand_on(&Item::Batch(&encoded)).map(Some),
            });
        if encoded.kept_bytes() <= SCRATCH_BYTES_MAX {
            let _ = SCRATCH.try_with(|scratch| scratch.replace(encoded));
        }
        result
    }

    /// The LSNs of an empty batch: none, after what is durable.
    fn no_lsns(&self) -> RangeInclusive<Lsn> {
        let durable_lsn = self.durable_lsn();
        durable_lsn.next()..=durable_lsn
    }
}

impl Handle {
    fn close(&self) -> Result<()> {
        let _release = Release(self);
        self.commit.close()
    }
}

/// Releases the directory when the close is over, also when a strategy panicked in it.
struct Release<'a>(&'a Handle);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if !self.0.commit.is_forked() {
            // Released under the mutex: a second closer returns when the directory is free, not before.
            *self.0.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.commit.is_forked() {
            // The parent's log. This copy of its memory may be in the middle of anything: leave it as it is. The lock's
            // descriptor is closed, which unlocks nothing while the parent has it open; left open it would keep the
            // directory locked for as long as this child lives, also when the parent is killed.
            std::mem::forget(Arc::clone(&self.commit));
            return;
        }
        if let Err(error) = self.close() {
            log::error!("write-ahead log in {}: closing failed: {error}", self.disk.path().display());
        }
    }
}
