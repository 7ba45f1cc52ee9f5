//! Opening: lock, recover, make durable what will be served, and only then a handle.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Handle, Wal};
use crate::commit::{Commit, CommitParts, IN_FLIGHT_MAX, Ledger, Limits, SegmentNote, Start};
use crate::disk::RealDisk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::planted::{Fault, planted};
use crate::probe::{check_variable, choose};
use crate::recovery::{RecoveredSegment, Recovery, recover};
use crate::segment::{Fill, Prepared, SegmentStore, StoreFailure, open_segments};
use crate::strategy::Extent;

impl Wal {
    pub(crate) fn open_with(options: Options, dir: &Path) -> Result<(Wal, Recovery)> {
        if options.strategy.is_none() {
            // Before anything is created.
            check_variable(options.io)?;
        }
        let disk = match options.disk {
            Some(disk) => disk,
            None => {
                Arc::new(RealDisk::create(dir).map_err(|source| Error::io("open directory", dir, source))?)
            }
        };
        let locked = disk.lock().map_err(|source| Error::io("lock", disk.path().join("LOCK"), source))?;
        let Some(lock) = locked else { return Err(Error::Locked { dir: disk.path().to_owned() }) };
        let (strategy, selection) = choose(&*disk, options.strategy, options.io)?;
        let descriptions = strategy.max_in_flight().get().min(IN_FLIGHT_MAX);

        // Before anything is removed: the files of a newer version are not this one's leftovers.
        let found = open_segments(&*disk)?;
        let mut files = SegmentStore::open(
            Arc::clone(&disk),
            options.ids,
            options.segment_bytes,
            descriptions,
            options.recycle_segments,
        )?;
        let segments = if found.is_empty() {
            vec![create_first(&mut files, options.segment_bytes)?.segment]
        } else {
            found
        };
        let recovered = recover(&*disk, &segments, &mut |segment, offset, bytes| {
            let file = segment.open_for_barriers(&*disk, 1)?;
            strategy
                .persist(Extent::new(file[0].as_fd(), offset, bytes))
                .map_err(|source| Error::io("make durable again", &segment.path, source))
        })?;
        let barrier_files = recovered.segments[recovered.active..]
            .iter()
            .map(|found| found.segment.open_for_barriers(&*disk, descriptions))
            .collect::<Result<VecDeque<_>>>()?;
        let has_spare = files.ensure_spare().map_err(open_failure)?;

        let limits = Limits {
            staged_bytes: options.max_staged_bytes as u64,
            segment_bytes: options.segment_bytes,
            in_flight: descriptions,
            own_block_per_group: options.own_block_per_group,
        };
        let start = Start {
            segments: recovered.segments.iter().map(note_of).collect(),
            active: recovered.active,
            offset: recovered.offset,
            chain: recovered.chain,
            next_lsn: recovered.next_lsn,
            unvouched: recovered.unvouched,
            has_spare,
            session_id: if planted(Fault::SessionsAlike) { 0 } else { files.next_id()? },
        };
        let commit = Commit::new(CommitParts {
            strategy,
            on_failure: options.on_failure,
            cohort: options.cohort,
            ledger: Ledger::new(limits, start),
            segments: recovered.segments.into_iter().map(|found| found.segment).collect::<VecDeque<_>>(),
            barrier_files,
            files,
            dir: disk.path().to_owned(),
        });
        if !options.prepares_ahead {
            commit.stop_preparing();
        }
        log::info!(
            "write-ahead log in {}: LSN {} to {}; {}",
            disk.path().display(),
            recovered.report.oldest,
            recovered.report.last,
            selection.reason
        );
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

/// A new log: the spare first, so that there is always a file for a trim to move on into, then segment 1.
fn create_first(files: &mut SegmentStore, segment_bytes: u64) -> Result<Prepared> {
    if !planted(Fault::SpareAfterFirst) && !files.ensure_spare().map_err(open_failure)? {
        return Err(Error::StorageFull { needed_bytes: segment_bytes });
    }
    files.prepare(1, segment_bytes, Fill::Reserve).map_err(open_failure)
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
