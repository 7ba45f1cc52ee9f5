//! What must hold, decided in one place.
//!
//! 1. Acked means recovered: the same bytes at the same LSN.
//! 2. A prefix without holes.
//! 3. Nothing invented: what is recovered was appended in this history at that LSN.
//! 4. Recovery is durable: another crash right after it changes nothing.
//! 5. Recovery does not spoil what comes after it.
//! 6. Errors are final.
//! 7. Damage is not called a torn tail.
//! 8. Everybody gets an answer.
//! 9. Every strategy gives the same answers.
//!
//! [`Oracle`] checks 1 to 5 whenever a log has been opened; 6 to 9 are for the tests that drive it. Where the
//! writers are another process, the fault suite's `crowd.rs` does so with what is here.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use wo_wal::{Lsn, Recovery, Result, Wal};

use super::rng::Rng;

type Payload = Vec<u8>;

/// What a log has been told and has answered so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    /// What an ack, or an open, has vouched for.
    acked: BTreeMap<u64, Payload>,
    /// What this session has recovered or has been given.
    known: BTreeMap<u64, Payload>,
    /// This session's batches, as first and last LSN.
    batches: Vec<(u64, u64)>,
    top_acked: u64,
    /// The highest LSN that a trim was asked to drop.
    trimmed: u64,
}

/// A broken promise, in words.
pub(crate) type Verdict = std::result::Result<(), String>;

impl Oracle {
    /// The log was given a batch whose records have, or would have, LSNs from `first` on.
    pub(crate) fn given(&mut self, first: Lsn, records: &[Payload]) {
        for (lsn, record) in (first.get()..).zip(records) {
            self.known.insert(lsn, record.clone());
        }
        if !records.is_empty() {
            self.batches.push((first.get(), first.get() + records.len() as u64 - 1));
        }
    }

    /// The log has acked everything up to here.
    pub(crate) fn acked(&mut self, up_to: Lsn) -> Verdict {
        for lsn in self.top_acked + 1..=up_to.get() {
            let record = self.known.get(&lsn).ok_or(format!("an ack for LSN {lsn}, which nobody gave"))?;
            self.acked.insert(lsn, record.clone());
        }
        self.top_acked = self.top_acked.max(up_to.get());
        Ok(())
    }

    /// A trim is about to be asked for.
    pub(crate) fn trimming(&mut self, up_to: Lsn) {
        self.trimmed = self.trimmed.max(up_to.get().min(self.top_acked));
    }

    pub(crate) fn top_acked(&self) -> Lsn {
        Lsn::new(self.top_acked)
    }

    /// Adds all that is known to a hash, contents by their checksums.
    pub(crate) fn hash_into(&self, hasher: &mut impl Hasher, checksum: fn(&[u8]) -> u32) {
        for records in [&self.acked, &self.known] {
            for (lsn, record) in records {
                (lsn, record.len(), checksum(record)).hash(hasher);
            }
        }
        (&self.batches, self.top_acked, self.trimmed).hash(hasher);
    }

    /// Checks a log that has just been opened. What it serves counts as acked from then on.
    pub(crate) fn opened(&mut self, wal: &Wal, recovery: &Recovery) -> Verdict {
        let served = serves(wal)?;
        let last_ends_batch = served.records.values().next_back().is_none_or(|(_, ends_batch)| *ends_batch);
        let served = served.payloads();
        let end = wal.durable_lsn().get();
        if recovery.last.get() != end || recovery.oldest != wal.oldest_lsn() {
            return Err(format!("open reported {recovery:?}, the log says {end}"));
        }
        self.check_nothing_lost(&served, wal.oldest_lsn().get(), end)?;
        self.check_nothing_invented(&served)?;
        if let Some((first, last)) = self.batches.iter().find(|(first, last)| *first <= end && end < *last) {
            return Err(format!("the batch {first}..={last} was split at {end}"));
        }
        if !last_ends_batch {
            return Err(format!("the last record, {end}, does not end its batch"));
        }
        self.acked.clone_from(&served);
        self.known = served;
        self.batches.clear();
        self.top_acked = end;
        Ok(())
    }

    /// Checks a log that is in use: replay gives what was acked, and nothing above it.
    pub(crate) fn running(&self, wal: &Wal) -> Verdict {
        let durable = wal.durable_lsn().get();
        if durable < self.top_acked {
            return Err(format!("LSN {} was acked, but only {durable} is durable", self.top_acked));
        }
        let served = serves(wal)?.payloads();
        self.check_nothing_lost(&served, wal.oldest_lsn().get(), self.top_acked)?;
        self.check_nothing_invented(&served)
    }

    fn check_nothing_lost(&self, served: &BTreeMap<u64, Payload>, oldest: u64, end: u64) -> Verdict {
        if end < self.top_acked {
            return Err(format!("lost: LSN {} was acked, the log ends at {end}", self.top_acked));
        }
        if oldest > self.trimmed + 1 {
            return Err(format!("lost: the log starts at {oldest}, trimmed was {}", self.trimmed));
        }
        let last_served = served.keys().next_back().map_or(oldest - 1, |last| *last);
        if last_served < end {
            return Err(format!("lost: replay ends at {last_served}, the log at {end}"));
        }
        let acked = self.acked.range(oldest..);
        match acked.into_iter().find(|(lsn, record)| served.get(lsn) != Some(record)) {
            Some((lsn, _)) => Err(format!("lost or changed: the acked record {lsn}")),
            None => Ok(()),
        }
    }

    fn check_nothing_invented(&self, served: &BTreeMap<u64, Payload>) -> Verdict {
        let known = |lsn: &u64, record: &Payload| {
            self.known.get(lsn) == Some(record) || self.acked.get(lsn) == Some(record)
        };
        match served.iter().find(|(lsn, record)| !known(lsn, record)) {
            Some((lsn, _)) => Err(format!("invented: record {lsn} is not what was appended there")),
            None => Ok(()),
        }
    }
}

/// What a log serves: by LSN, each record's bytes and whether it ends its batch.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) records: BTreeMap<u64, (Payload, bool)>,
}

impl Served {
    pub(crate) fn last_lsn(&self) -> Option<u64> {
        self.records.keys().next_back().copied()
    }

    fn payloads(self) -> BTreeMap<u64, Payload> {
        self.records.into_iter().map(|(lsn, (payload, _))| (lsn, payload)).collect()
    }
}

/// All of a log, which must have no hole.
pub(crate) fn serves(wal: &Wal) -> std::result::Result<Served, String> {
    let oldest = wal.oldest_lsn().get();
    let replay = wal.replay(..).map_err(|error| format!("replay: {error}"))?;
    let records = replay.collect::<Result<Vec<_>>>().map_err(|error| format!("in replay: {error}"))?;
    for (expected, record) in (oldest..).zip(&records) {
        if record.lsn.get() != expected {
            return Err(format!("LSN {} where {expected} was expected", record.lsn));
        }
    }
    let by_lsn = |record: wo_wal::Record| (record.lsn.get(), (record.payload, record.ends_batch));
    Ok(Served { records: records.into_iter().map(by_lsn).collect() })
}

/// A record whose every byte follows from who wrote it and which of its records it is.
pub(crate) fn signed_record(seed: u64, writer: u16, sequence: u64, max_bytes: u64) -> Payload {
    let mut rng = Rng::new(seed ^ (u64::from(writer) << 48) ^ sequence);
    let filler_bytes = usize::try_from(rng.below(max_bytes)).expect("a record's length");
    let mut record = [&writer.to_le_bytes()[..], &sequence.to_le_bytes()].concat();
    let signature_bytes = record.len();
    record.resize(signature_bytes + filler_bytes, 0);
    rng.fill(&mut record[signature_bytes..]);
    record
}

/// Who wrote a record and which it is; `None` when it is not byte for byte the record it says it is.
pub(crate) fn signature(seed: u64, record: &[u8], max_bytes: u64) -> Option<(u16, u64)> {
    let writer = u16::from_le_bytes(record.get(..2)?.try_into().ok()?);
    let sequence = u64::from_le_bytes(record.get(2..10)?.try_into().ok()?);
    (signed_record(seed, writer, sequence, max_bytes) == record).then_some((writer, sequence))
}
