//! The oracle's rules 1 to 4 for many writers in another process: records say who wrote them, acks come one by one, and
//! what was never acked is known only by its signature.
//!
//! A writer's history is a row of batches whose sizes follow from the seed, each appended after the one before was
//! answered. So what a log may hold is known without hearing of it.

use std::collections::{BTreeMap, BTreeSet};

use wo_wal::{Recovery, Wal};

use crate::support::oracle::{Served, Verdict, serves, signature, signed_record};
use crate::support::rng::Rng;

/// Sizes of records, in bytes, lie below this.
pub(crate) const RECORD_BYTES_BELOW: u64 = 1500;

/// Which record of whom: of this writer's records in the session with this seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) session: u64,
    pub(crate) writer: u16,
    pub(crate) sequence: u64,
}

/// How many records a writer's batch has, told from its first.
pub(crate) fn batch_records(first: Origin) -> u64 {
    let mut rng = Rng::new(first.session.rotate_left(17) ^ (u64::from(first.writer) << 40) ^ first.sequence);
    match rng.below(1000) {
        0..=699 => 1,
        700..=949 => 2 + rng.below(5),
        950..=994 => 20,
        // More than a segment of 64 KiB holds.
        _ => 110,
    }
}

/// A writer's batch, told from its first record.
pub(crate) fn batch(first: Origin) -> Vec<Vec<u8>> {
    let records = first.sequence..first.sequence + batch_records(first);
    records.map(|sequence| signed_record(first.session, first.writer, sequence, RECORD_BYTES_BELOW)).collect()
}

/// What such a log has been told and has answered so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    /// The sessions so far, the oldest first.
    sessions: Vec<u64>,
    /// What an ack, or an open, has vouched for, by LSN.
    acked: BTreeMap<u64, Origin>,
    top_acked: u64,
    /// The highest LSN that a trim was asked to drop.
    trimmed: u64,
    /// Appends whose failure was final: the log may not have these.
    refused: BTreeSet<Origin>,
}

impl Crowd {
    /// A process starts to write with this seed.
    pub(crate) fn session(&mut self, seed: u64) {
        self.sessions.push(seed);
    }

    /// The current session's writer got an ack for a batch.
    pub(crate) fn acked(&mut self, first_lsn: u64, first: Origin) -> Verdict {
        for record in 0..batch_records(first) {
            let origin = Origin { sequence: first.sequence + record, ..first };
            if let Some(other) = self.acked.insert(first_lsn + record, origin) {
                return Err(format!("two acks for LSN {}: {other:?} and {origin:?}", first_lsn + record));
            }
            self.top_acked = self.top_acked.max(first_lsn + record);
        }
        Ok(())
    }

    /// An open in another process said that the log ends there.
    pub(crate) fn vouched(&mut self, last_lsn: u64) -> Verdict {
        if last_lsn < self.top_acked {
            return Err(format!("lost: LSN {} was acked, an open found {last_lsn}", self.top_acked));
        }
        self.top_acked = last_lsn;
        Ok(())
    }

    /// The current session's writer was told that nothing of a batch was taken.
    pub(crate) fn refused(&mut self, first: Origin) {
        let records = first.sequence..first.sequence + batch_records(first);
        self.refused.extend(records.map(|sequence| Origin { sequence, ..first }));
    }

    /// A trim is about to be asked for.
    pub(crate) fn trimming(&mut self, up_to_lsn: u64) {
        self.trimmed = self.trimmed.max(up_to_lsn);
    }

    /// As [`opened`](Self::opened), leaving this as it is: what would be known afterwards.
    pub(crate) fn clone_opened(&self, wal: &Wal, recovery: &Recovery) -> Result<Self, String> {
        let mut crowd = self.clone();
        crowd.opened(wal, recovery).map(|()| crowd)
    }

    /// Checks a log that has just been opened. What it serves counts as acked from then on.
    pub(crate) fn opened(&mut self, wal: &Wal, recovery: &Recovery) -> Verdict {
        let served = serves(wal)?;
        let oldest = wal.oldest_lsn().get();
        let end = wal.durable_lsn().get();
        if recovery.last.get() != end || recovery.oldest.get() != oldest {
            return Err(format!("open reported {recovery:?}, the log is {oldest}..={end}"));
        }
        if served.last_lsn().unwrap_or(oldest - 1) != end {
            return Err(format!("lost: replay ends at {:?}, the log at {end}", served.last_lsn()));
        }
        if end < self.top_acked {
            return Err(format!("lost: LSN {} was acked, the log ends at {end}", self.top_acked));
        }
        if oldest > self.trimmed + 1 {
            return Err(format!("lost: the log starts at {oldest}, trimmed was {}", self.trimmed));
        }
        let origins = self.origins(&served)?;
        if let Some((lsn, origin)) =
            self.acked.range(oldest..).find(|(lsn, acked)| origins.get(lsn) != Some(acked))
        {
            return Err(format!("lost or changed: {origin:?}, acked at LSN {lsn}: {:?}", origins.get(lsn)));
        }
        self.check_histories(&served, &origins, oldest)?;
        self.acked = origins;
        self.top_acked = end;
        Ok(())
    }

    /// Who wrote what is served: each record byte for byte one that somebody wrote.
    fn origins(&self, served: &Served) -> Result<BTreeMap<u64, Origin>, String> {
        let mut origins = BTreeMap::new();
        for (lsn, (payload, _)) in &served.records {
            let likely = self.acked.get(lsn).map(|origin| origin.session);
            let origin = likely
                .iter()
                .chain(self.sessions.iter().rev())
                .find_map(|session| {
                    let (writer, sequence) = signature(*session, payload, RECORD_BYTES_BELOW)?;
                    Some(Origin { session: *session, writer, sequence })
                })
                .ok_or(format!("invented: record {lsn} is nobody's"))?;
            if self.refused.contains(&origin) {
                return Err(format!("invented: record {lsn}, {origin:?}, was refused"));
            }
            origins.insert(*lsn, origin);
        }
        Ok(origins)
    }

    /// Each writer's records are a row without a hole, each batch whole, the sessions one after the other.
    fn check_histories(&self, served: &Served, origins: &BTreeMap<u64, Origin>, oldest: u64) -> Verdict {
        let mut next = BTreeMap::new();
        let mut batch: Vec<Origin> = Vec::new();
        let mut newest_session = 0;
        for (lsn, origin) in origins {
            batch.push(*origin);
            if !served.records[lsn].1 {
                continue;
            }
            let first = batch[0];
            let whole = (first.sequence..)
                .zip(&batch)
                .all(|(sequence, record)| *record == Origin { sequence, ..first });
            if !whole || batch.len() as u64 != batch_records(first) {
                return Err(format!("a batch was split or mixed, up to LSN {lsn}: {batch:?}"));
            }
            let session = self.sessions.iter().position(|session| *session == first.session);
            if session < Some(newest_session) {
                return Err(format!("LSN {lsn} is of an earlier session than the record before it"));
            }
            newest_session = session.unwrap_or(newest_session);
            let before = next.insert((first.session, first.writer), first.sequence + batch.len() as u64);
            // After a trim the first that is seen of a writer may be any.
            let Some(expected) = before.or((oldest == 1).then_some(0)) else {
                batch.clear();
                continue;
            };
            let missing = (expected..first.sequence)
                .find(|sequence| !self.refused.contains(&Origin { sequence: *sequence, ..first }));
            if first.sequence < expected || missing.is_some() {
                return Err(format!("LSN {lsn}: {first:?} where {expected} was expected"));
            }
            batch.clear();
        }
        if batch.is_empty() { Ok(()) } else { Err(format!("the last batch is not whole: {batch:?}")) }
    }
}
