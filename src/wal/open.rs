//! Opening: lock, recover, make durable what will be served, and only then a handle.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Handle, Wal};
use crate::commit::{Commit, CommitParts, IN_FLIGHT_MAX, Ledger, Limits, SegmentNote, Start};
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::options::Options;
use crate::planted::{Fault, planted};
use crate::probe::{Selection, check_variable, choose};
use crate::recovery::{Recovered, RecoveredSegment, Recovery, recover};
use crate::segment::{BarrierFiles, Fill, Prepared, Segment, SegmentStore, StoreFailure, open_segments};
use crate::strategy::{Extent, SyncStrategy};

impl Wal {
    /// The steps stand in the order of their effects: nothing is created before the environment is known to make sense,
    /// nothing in the directory is changed without the lock, and nothing is served before it is durable.
    pub(crate) fn open_with(mut options: Options, dir: &Path) -> Result<(Wal, Recovery)> {
        if options.strategy.is_none() {
            check_variable(options.io)?;
        }
        let (disk, lock) = lock_directory(options.disk.take(), dir)?;
        let (strategy, selection) = choose(&*disk, options.strategy.take(), options.io)?;
        let in_flight = strategy.max_in_flight().get().min(IN_FLIGHT_MAX);
        let (mut files, segments) =
            find_or_create_segments(&disk, mem::take(&mut options.ids), &options, in_flight)?;
        let recovered = recover_through(&*strategy, &*disk, &segments)?;
        let barrier_files = open_for_barriers(&*disk, &recovered, in_flight)?;
        let start = start_of(&recovered, &mut files)?;
        let commit = Commit::new(CommitParts {
            strategy,
            on_failure: options.on_failure,
            cohort: options.cohort,
            ledger: Ledger::new(limits_of(&options, in_flight), start),
            segments: recovered.segments.into_iter().map(|found| found.segment).collect(),
            barrier_files,
            files,
            dir: disk.path().to_owned(),
        });
        if !options.prepares_ahead {
            commit.stop_preparing();
        }
        log_opened(&*disk, &recovered.report, &selection);
        let handle = Handle {
            commit,
            disk,
            selection,
            max_record_bytes: options.max_record_bytes,
            max_batch_bytes: options.max_batch_bytes,
            lock: Mutex::new(Some(lock)),
        };
        Ok((Wal { handle: Arc::new(handle) }, recovered.report))
    }
}

/// Held for as long as the log is open for writing.
type Lock = Box<dyn Any + Send + Sync>;

fn lock_directory(disk: Option<Arc<dyn Disk>>, dir: &Path) -> Result<(Arc<dyn Disk>, Lock)> {
    let disk = match disk {
        Some(disk) => disk,
        None => Arc::new(RealDisk::create(dir).map_err(|source| Error::io("open directory", dir, source))?),
    };
    let locked = disk.lock().map_err(|source| Error::io("lock", disk.path().join("LOCK"), source))?;
    let lock = locked.ok_or_else(|| Error::Locked { dir: disk.path().to_owned() })?;
    Ok((disk, lock))
}

/// All segments of the log, the first one of a new log among them, and the store of its other files.
fn find_or_create_segments(
    disk: &Arc<dyn Disk>,
    ids: Ids,
    options: &Options,
    in_flight: usize,
) -> Result<(SegmentStore, Vec<Arc<Segment>>)> {
    // Before anything is removed: the files of a newer version are not this one's leftovers.
    let found = open_segments(&**disk)?;
    let mut files = SegmentStore::open(
        Arc::clone(disk),
        ids,
        options.segment_bytes,
        in_flight,
        options.recycle_segments,
    )?;
    let segments =
        if found.is_empty() { vec![create_first(&mut files, options.segment_bytes)?.segment] } else { found };
    Ok((files, segments))
}

/// A new log: the spare first, so that there is always a file for a trim to move on into, then segment 1.
fn create_first(files: &mut SegmentStore, segment_bytes: u64) -> Result<Prepared> {
    if !planted(Fault::SpareAfterFirst) && !files.ensure_spare().map_err(open_failure)? {
        return Err(Error::StorageFull { needed_bytes: segment_bytes });
    }
    files.prepare(1, segment_bytes, Fill::Reserve).map_err(open_failure)
}

/// Finds the end of the log, and has the strategy make durable what is not proven to be.
fn recover_through(
    strategy: &dyn SyncStrategy,
    disk: &dyn Disk,
    segments: &[Arc<Segment>],
) -> Result<Recovered> {
    recover(disk, segments, &mut |segment, offset, bytes| {
        let file = segment.open_for_barriers(disk, 1)?;
        strategy
            .persist(Extent::new(file[0].as_fd(), offset, bytes))
            .map_err(|source| Error::io("make durable again", &segment.path, source))
    })
}

/// Descriptions for the segments that groups will still go to.
fn open_for_barriers(
    disk: &dyn Disk,
    recovered: &Recovered,
    in_flight: usize,
) -> Result<VecDeque<BarrierFiles>> {
    recovered.segments[recovered.active..]
        .iter()
        .map(|found| found.segment.open_for_barriers(disk, in_flight))
        .collect()
}

/// Where the commit path goes on, with a spare where there is room for one.
fn start_of(recovered: &Recovered, files: &mut SegmentStore) -> Result<Start> {
    Ok(Start {
        has_spare: files.ensure_spare().map_err(open_failure)?,
        segments: recovered.segments.iter().map(note_of).collect(),
        active: recovered.active,
        offset: recovered.offset,
        chain: recovered.chain,
        next_lsn: recovered.next_lsn,
        unvouched: recovered.unvouched,
        session_id: if planted(Fault::SessionsAlike) { 0 } else { files.next_id()? },
    })
}

fn limits_of(options: &Options, in_flight: usize) -> Limits {
    Limits {
        staged_bytes: options.max_staged_bytes as u64,
        segment_bytes: options.segment_bytes,
        in_flight,
        own_block_per_group: options.own_block_per_group,
    }
}

fn open_failure(failure: StoreFailure) -> Error {
    match failure {
        StoreFailure::Full { needed_bytes } => Error::StorageFull { needed_bytes },
        StoreFailure::Harmless(error) | StoreFailure::Final(error) => error,
    }
}

fn note_of(found: &RecoveredSegment) -> SegmentNote {
    SegmentNote {
        number: found.segment.number,
        id: found.segment.id,
        capacity_bytes: found.segment.capacity_bytes,
        first_lsn: found.first_lsn,
        has_records: found.has_records,
        stable: found.first_lsn.is_some(),
        // Not known of what an earlier session has prepared.
        written_until: 0,
    }
}

fn log_opened(disk: &dyn Disk, report: &Recovery, selection: &Selection) {
    log::info!(
        "write-ahead log in {}: LSN {} to {}; {}",
        disk.path().display(),
        report.oldest,
        report.last,
        selection.reason
    );
}
