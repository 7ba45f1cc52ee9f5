//! One caller's life with a log, in which a seed decides about every call: through every strategy it must go the same way.

use std::path::Path;

use wo_wal::{Lsn, Record, Recovery, Result, Wal};

use crate::caller::Caller;
use crate::failure::{Outcome, Trouble};
use crate::strategies::Kind;
use crate::support::oracle::Verdict;
use crate::support::rng::Rng;
use crate::writer::SEGMENT_BYTES;

pub(crate) const STEPS: u64 = 50;
/// Far more steps than it takes until a fault that lasts is met.
const STEPS_MAX: u64 = 1000;
/// Calls that follow a recovery.
const STEPS_AFTERWARDS: u64 = 6;
const RECORD_BYTES_BELOW: u64 = 6000;

/// What a caller was told, and what the log held in the end.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) answers: Vec<String>,
    records: Vec<Record>,
    segments: Vec<(String, Vec<u8>)>,
    pub(crate) acks: u64,
    pub(crate) has_failed: bool,
    /// Whether the fault that this was about has happened.
    pub(crate) fault_happened: bool,
    pub(crate) verdict: Verdict,
}

impl Transcript {
    /// Where another one differs first.
    pub(crate) fn difference(&self, other: &Transcript) -> Option<String> {
        let first = |what: &str, count: usize, others: usize, differ: &dyn Fn(usize) -> Option<String>| {
            let place = (0..count.min(others)).find_map(differ);
            place.or_else(|| (count != others).then(|| format!("{count} {what} and {others}")))
        };
        let answers = first("answers", self.answers.len(), other.answers.len(), &|index| {
            let (one, two) = (&self.answers[index], &other.answers[index]);
            (one != two).then(|| format!("answer {index}: {one} and {two}"))
        });
        let records = || {
            first("records", self.records.len(), other.records.len(), &|index| {
                let (one, two) = (&self.records[index], &other.records[index]);
                (one != two)
                    .then(|| format!("the record with LSN {} and the one with LSN {}", one.lsn, two.lsn))
            })
        };
        let segments = || {
            first("segments", self.segments.len(), other.segments.len(), &|index| {
                let (one, two) = (&self.segments[index], &other.segments[index]);
                let place = || one.1.iter().zip(&two.1).position(|(byte, others)| byte != others);
                (one != two).then(|| format!("segments {} and {}: at byte {:?}", one.0, two.0, place()))
            })
        };
        answers.or_else(records).or_else(segments)
    }
}

/// The life so far.
#[derive(Debug)]
pub(crate) struct Schedule {
    rng: Rng,
    pub(crate) caller: Caller,
    kind: Kind,
    ids: u64,
}

impl Schedule {
    pub(crate) fn new(seed: u64, kind: Kind) -> Self {
        Schedule { rng: Rng::new(seed), caller: Caller::new(), kind, ids: seed }
    }

    /// Opens the log in a directory. Nothing happens to it but what the caller's own calls do.
    pub(crate) fn open(&mut self, dir: &Path) -> Outcome<Option<Wal>> {
        self.caller.lives_in(dir);
        Ok(open(dir, self.kind, self.ids).map(|opened| self.caller.opened(opened))?)
    }

    pub(crate) fn steps(&mut self, wal: &Wal, count: u64) {
        for _ in 0..count {
            self.step(wal);
        }
    }

    /// At least so many steps, and as many more as it takes until the condition holds. Says whether it does. Before each
    /// of them the caller has its way.
    pub(crate) fn steps_until(
        &mut self,
        wal: &Wal,
        count: u64,
        mut before_step: impl FnMut(),
        mut condition: impl FnMut(&Caller) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < STEPS_MAX && (done < count || !condition(&self.caller)) {
            before_step();
            self.step(wal);
            done += 1;
        }
        condition(&self.caller)
    }

    /// Opens what a fault has left, looks at all of it, goes on for some steps and closes.
    pub(crate) fn recover(mut self, dir: &Path, fault_happened: bool) -> Outcome<Transcript> {
        let has_failed = self.caller.has_failed();
        self.caller.can_be_cut_off(false);
        let wal = self.open(dir)?;
        let mut records = Vec::new();
        match &wal {
            Some(wal) => {
                records = self.caller.replay(wal);
                self.steps(wal, STEPS_AFTERWARDS);
                self.caller.close(wal);
            }
            None => self.caller.broken(&format!("does not open any more: {:?}", self.caller.answers.last())),
        }
        let segments = segments(dir).map_err(|error| Trouble(format!("read the segments: {error}")))?;
        let (acks, verdict) = (self.caller.acks, self.caller.verdict());
        let answers = self.caller.answers;
        Ok(Transcript { answers, records, segments, acks, has_failed, fault_happened, verdict })
    }

    fn record(&mut self, bytes_below: u64) -> Vec<u8> {
        let mut record = vec![0; self.rng.index(usize::try_from(bytes_below).unwrap_or(1))];
        self.rng.fill(&mut record);
        record
    }

    fn records(&mut self, count_below: u64) -> Vec<Vec<u8>> {
        (0..self.rng.below(count_below)).map(|_| self.record(RECORD_BYTES_BELOW / 3)).collect()
    }

    fn step(&mut self, wal: &Wal) {
        // The answers are noted; the schedule goes on whatever they are.
        match self.rng.below(20) {
            0..9 => {
                let record = self.record(RECORD_BYTES_BELOW);
                let _ = self.caller.append(wal, record);
            }
            9..13 => {
                let batch = self.records(6);
                let _ = self.caller.append_batch(wal, &batch);
            }
            13..17 => {
                let records = self.records(5);
                self.caller.submit_and_wait(wal, records);
            }
            17 => self.caller.sync(wal),
            18 => {
                self.caller.replay(wal);
            }
            _ => {
                let up_to = Lsn::new(self.rng.below(wal.durable_lsn().get() + 1));
                let _ = self.caller.trim(wal, up_to);
            }
        }
    }
}

fn open(dir: &Path, kind: Kind, ids: u64) -> Result<Result<(Wal, Recovery)>, Trouble> {
    let strategy =
        kind.make_patiently().map_err(|error| Trouble(format!("strategy {}: {error}", kind.name())))?;
    let options = Wal::options().segment_bytes(SEGMENT_BYTES).recycle_segments(2);
    Ok(options.prepares_ahead(false).ids(ids).strategy(strategy).open(dir))
}

/// The segments' names and bytes, sorted.
fn segments(dir: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            segments.push((name, std::fs::read(path)?));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}
