//! A log without contents: barriers that note what they were given, and a judge of the acks.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::Lsn;
use crate::commit::provide::note_of;
use crate::commit::{Commit, CommitParts, Item, Ledger, Limits, SegmentNote, Stage, Start};
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::frame::{BLOCK_BYTES, GroupHeader};
use crate::ids::Ids;
use crate::options::{Cohort, OnFailure};
use crate::segment::{Fill, SEGMENT_BYTES_MIN, SegmentStore};
use crate::strategy::{Extent, SyncStrategy};
use crate::sync::{AtomicUsize, Ordering, pass};
use crate::ticket::Ticket;

pub(super) const RECORD: &[u8] = b"record";
/// A segment has room for a few of these.
#[cfg(wo_wal_shuttle)]
const LARGE_RECORD: &[u8] = &[b'A'; 15_000];
/// How long a barrier takes, on the model's clock.
const BARRIER: Duration = Duration::from_millis(1);
/// What a barrier that panics says.
pub(super) const PANIC: &str = "a barrier that panics";

/// What a log is like before its threads start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) in_flight: usize,
    pub(super) staged_bytes: u64,
    /// The barrier that goes wrong, counted from 0, and how.
    pub(super) fault: Option<(usize, BarrierFault)>,
    /// How many bytes the first segment has left for groups.
    pub(super) room_bytes: u64,
    /// Whether the second segment is there already.
    pub(super) has_next: bool,
    /// Whether the log's own thread prepares files.
    pub(super) prepares_ahead: bool,
    pub(super) cohort: Cohort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarrierFault {
    Fails,
    #[cfg_attr(wo_wal_loom, allow(dead_code, reason = "loom's threads cannot unwind through its locks"))]
    Panics,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            in_flight: 1,
            staged_bytes: 1 << 20,
            fault: None,
            room_bytes: BLOCK_BYTES,
            has_next: false,
            prepares_ahead: false,
            cohort: Cohort::Full,
        }
    }
}

/// A log, and what its barriers have seen.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) commit: Arc<Commit>,
    barriers: Arc<Barriers>,
}

impl Rig {
    pub(super) fn new(setting: Setting) -> Self {
        let barriers = Arc::new(Barriers {
            in_flight_max: setting.in_flight,
            fault: setting.fault,
            running: AtomicUsize::default(),
            seen: Mutex::default(),
        });
        let ids = Ids::Sequence(Mutex::new(1));
        let disk = Arc::new(Contentless);
        let mut files =
            SegmentStore::open(disk, ids, SEGMENT_BYTES_MIN, setting.in_flight, 0).expect("a store");
        files.ensure_spare().expect("a spare");
        let segments = if setting.has_next { 2 } else { 1 };
        let prepared: Vec<_> = (1..=segments)
            .map(|number| files.prepare(number, SEGMENT_BYTES_MIN, Fill::Reserve).expect("a segment"))
            .collect();
        let limits = Limits {
            staged_bytes: setting.staged_bytes,
            segment_bytes: SEGMENT_BYTES_MIN,
            in_flight: setting.in_flight,
            own_block_per_group: false,
        };
        let start = Start {
            // No zeros behind the groups: they are nobody's business here.
            segments: prepared
                .iter()
                .map(|prepared| SegmentNote {
                    written_until: prepared.segment.capacity_bytes,
                    ..note_of(prepared)
                })
                .collect(),
            active: 0,
            offset: SEGMENT_BYTES_MIN - setting.room_bytes,
            chain: 0,
            next_lsn: Lsn::FIRST,
            unvouched: false,
            has_spare: true,
            session_id: 1,
        };
        let commit = Commit::new(CommitParts {
            strategy: barriers.clone(),
            on_failure: OnFailure::Poison,
            cohort: setting.cohort,
            ledger: Ledger::new(limits, start),
            segments: prepared.iter().map(|prepared| prepared.segment.clone()).collect(),
            barrier_files: prepared.into_iter().map(|prepared| prepared.barrier_files).collect(),
            files,
            dir: Contentless.path().to_owned(),
        });
        if !setting.prepares_ahead {
            commit.stop_preparing();
        }
        Rig { commit, barriers }
    }

    pub(super) fn append(&self) -> Result<Lsn> {
        let staged = self.commit.append(&record())?;
        self.barriers.judge(staged.last_lsn);
        assert!(staged.last_lsn <= self.commit.durable_lsn(), "acked above the durable LSN");
        Ok(staged.last_lsn)
    }

    #[cfg(wo_wal_shuttle)]
    pub(super) fn append_large(&self) -> Result<Lsn> {
        let item = Item::record(LARGE_RECORD, 1 << 20)?;
        let staged = self.commit.append(&item)?;
        self.barriers.judge(staged.last_lsn);
        Ok(staged.last_lsn)
    }

    pub(super) fn submit(&self, stage: Stage) -> Result<Ticket> {
        let staged = self.commit.submit(&record(), stage)?;
        Ok(Ticket::new(self.commit.clone(), staged.first_lsn, staged.last_lsn))
    }

    pub(super) fn wait(&self, ticket: Ticket) -> Result<Lsn> {
        let lsn = ticket.wait()?;
        self.barriers.judge(lsn);
        Ok(lsn)
    }

    pub(super) fn sync(&self) -> Result<Lsn> {
        let lsn = self.commit.sync()?;
        self.barriers.judge(lsn);
        Ok(lsn)
    }

    /// What a ticket says without waiting, and what the log says, is true whenever it is asked.
    pub(super) fn look(&self, ticket: &Ticket) {
        if let Some(Ok(lsn)) = ticket.outcome() {
            self.barriers.judge(lsn);
        }
        self.barriers.judge(self.commit.durable_lsn());
    }

    /// A group that no barrier will carry.
    #[cfg(wo_wal_loom)]
    pub(super) fn fails_from(&self, taken: &crate::commit::ledger::TakenGroup) {
        let id = group_segment_id(&taken.buffer.bytes);
        let header = GroupHeader::decode(&taken.buffer.bytes, id).expect("a group");
        self.barriers.lock().first_failed = Some(header.first_lsn);
    }

    /// After all threads: every record that was given out is durable, or the log is poisoned for good.
    pub(super) fn judge_end(&self, results: &[Result<Lsn>]) {
        let durable = self.commit.durable_lsn();
        self.barriers.judge(durable);
        for lsn in results.iter().flatten() {
            assert!(*lsn <= durable, "LSN {lsn} was acked, {durable} is durable");
        }
        let first_failed = self.barriers.lock().first_failed;
        if let Some(first_failed) = first_failed {
            assert!(durable < first_failed, "{durable} is durable, the barrier of {first_failed} failed");
            let refused = self.commit.append(&record());
            assert!(is_final(&refused.map(|staged| staged.last_lsn)), "accepted after a failed barrier");
            assert_eq!(self.commit.durable_lsn(), durable, "the durable LSN moved after a failed barrier");
        } else {
            let refused = results.iter().find(|result| matches!(result, Err(Error::Poisoned { .. })));
            assert!(refused.is_none(), "poisoned without a failure: {refused:?}");
        }
        assert!(self.barriers.lock().flying.is_empty(), "a barrier outlives its caller");
    }
}

/// No ack, for a reason that stays.
pub(super) fn is_final(result: &Result<Lsn>) -> bool {
    matches!(result, Err(Error::Poisoned { .. } | Error::Closed))
}

fn group_segment_id(group: &[u8]) -> u64 {
    u64::from_le_bytes(group[8..16].try_into().expect("eight bytes"))
}

fn record() -> Item<'static> {
    Item::record(RECORD, 1 << 10).expect("small enough")
}

/// Barriers that note which records they have carried. Between their start and their end other threads run.
#[derive(Debug)]
struct Barriers {
    in_flight_max: usize,
    fault: Option<(usize, BarrierFault)>,
    /// The model checker's, so that it knows where to switch threads.
    running: AtomicUsize,
    /// Not the checker's: looking at it must not order anything.
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    started: usize,
    flying: BTreeSet<u64>,
    /// By LSN: carried by a barrier that has returned Ok.
    carried: BTreeSet<u64>,
    first_failed: Option<Lsn>,
}

impl Barriers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An ack means that the record, and all before it, went through a barrier that has returned Ok.
    fn judge(&self, acked: Lsn) {
        let seen = self.lock();
        let missing = (1..=acked.get()).find(|lsn| !seen.carried.contains(lsn));
        let first_failed = seen.first_failed;
        drop(seen);
        assert!(missing.is_none(), "{acked} was acked before the barrier of {missing:?} has returned Ok");
        assert!(first_failed.is_none_or(|first| acked < first), "{acked} was acked, {first_failed:?} failed");
    }
}

impl SyncStrategy for Barriers {
    fn name(&self) -> &str {
        "model"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let header = GroupHeader::decode(extent.bytes(), group_segment_id(extent.bytes())).expect("a group");
        let lsns = header.first_lsn.get()..header.next_lsn().get();
        let place = {
            let mut seen = self.lock();
            let fresh = lsns.clone().all(|lsn| !seen.carried.contains(&lsn) && seen.flying.insert(lsn));
            let poisoned = seen.first_failed.is_some() && self.in_flight_max == 1;
            seen.started += 1;
            let place = seen.started - 1;
            drop(seen);
            assert!(fresh, "a record goes through two barriers");
            assert!(!poisoned, "a barrier after a failed one");
            place
        };
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(running <= self.in_flight_max, "{running} barriers at once");
        pass(BARRIER);
        self.running.fetch_sub(1, Ordering::Relaxed);
        let fault = self.fault.filter(|(number, _)| *number == place).map(|(_, fault)| fault);
        let mut seen = self.lock();
        for lsn in lsns {
            seen.flying.remove(&lsn);
            if fault.is_none() {
                seen.carried.insert(lsn);
            }
        }
        if fault.is_some() {
            let first = seen.first_failed.map_or(header.first_lsn, |first| first.min(header.first_lsn));
            seen.first_failed = Some(first);
        }
        drop(seen);
        match fault {
            None => Ok(()),
            Some(BarrierFault::Fails) => Err(io::Error::other("a barrier that fails")),
            // Unwinds without a word: it is caught.
            Some(BarrierFault::Panics) => std::panic::resume_unwind(Box::new(PANIC)),
        }
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.in_flight_max).expect("one at least")
    }
}

/// A directory whose files are all the same and keep nothing.
#[derive(Debug)]
struct Contentless;

fn no_file() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

impl Disk for Contentless {
    fn path(&self) -> &Path {
        Path::new("/model")
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        Ok(Some(Box::new(())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn create(&self, _: &str) -> io::Result<File> {
        no_file()
    }

    fn open(&self, _: &str, _: Access) -> io::Result<File> {
        no_file()
    }

    fn file_bytes(&self, _: &File) -> io::Result<u64> {
        Ok(0)
    }

    fn reserve(&self, _: &File, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, _: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _: &File, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn unlink(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}
