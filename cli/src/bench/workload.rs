//! What is measured: each workload makes a log, measures, and has it closed, opened again and verified.

mod batch;
mod closed;
mod mixed;
mod open;
mod recovery;

use std::time::Instant;

use clap::ValueEnum;

pub(super) use closed::capacity;

use super::measure::{Times, Trial};
use super::records;
use super::setting::Setting;
use super::variant::Variant;
use crate::failure::Failure;
use wo_wal::Wal;

/// What can be asked for on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Each writer appends its next record when the last one is durable.
    Closed,
    /// Records arrive at a rate, whether or not those before them are durable.
    Open,
    /// One writer submits many records, then syncs.
    Batch,
    /// A log that was not closed is opened and replayed.
    Recovery,
    /// As closed, with segments of 1 MiB.
    Rotation,
    /// A reader replays durable records while a writer appends, to the same log and to another one.
    Mixed,
}

/// One line of the plan: a workload with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    Closed {
        writers: usize,
    },
    Open {
        workers: usize,
        rate_per_second: f64,
    },
    Batch {
        records: u64,
    },
    Recovery {
        payload_bytes: u64,
    },
    Rotation {
        writers: usize,
    },
    Mixed {
        payload_bytes: u64,
    },
    /// The reader of `Mixed`, while another log takes the writer's load.
    Apart {
        payload_bytes: u64,
    },
}

/// One row's worth of a trial: most workloads have one.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) workload: &'static str,
    pub(super) threads: usize,
    pub(super) trial: Trial,
}

impl Work {
    /// The rate at which records arrive, where they do.
    pub(super) fn rate_per_second(self) -> Option<f64> {
        match self {
            Work::Open { rate_per_second, .. } => Some(rate_per_second),
            _ => None,
        }
    }

    pub(super) fn run(self, setting: &Setting, variant: Variant) -> Result<Vec<Measured>, Failure> {
        let single = |workload, threads, trial| Ok(vec![Measured { workload, threads, trial }]);
        match self {
            Work::Closed { writers } => {
                single("closed", writers, closed::run(setting, variant, writers, None)?)
            }
            Work::Rotation { writers } => {
                single("rotation", writers, closed::run(setting, variant, writers, Some(1 << 20))?)
            }
            Work::Open { workers, rate_per_second } => {
                single("open", workers, open::run(setting, variant, workers, rate_per_second)?)
            }
            Work::Batch { records } => single("batch", 1, batch::run(setting, variant, records)?),
            Work::Recovery { payload_bytes } => {
                single("recovery", 1, recovery::run(setting, variant, payload_bytes)?)
            }
            Work::Mixed { payload_bytes } => mixed::run(setting, variant, payload_bytes),
            Work::Apart { payload_bytes } => mixed::run_apart(setting, variant, payload_bytes),
        }
    }
}

/// What one thread did.
#[derive(Debug)]
struct Tally {
    records: u64,
    times: Times,
}

impl Tally {
    fn new() -> Result<Self, Failure> {
        Ok(Tally { records: 0, times: Times::new()? })
    }
}

/// All threads together: how many records each has, and all times.
fn add_up(tallies: &[Tally]) -> Result<(Vec<u64>, Times), Failure> {
    let mut times = Times::new()?;
    for tally in tallies {
        times.add(&tally.times)?;
    }
    Ok((tallies.iter().map(|tally| tally.records).collect(), times))
}

/// One writer in a closed loop until then.
fn append_until(setting: &Setting, wal: &Wal, writer: u64, until: Instant) -> Result<Tally, Failure> {
    let (mut record, mut tally) = (setting.record(), Tally::new()?);
    let mut started = Instant::now();
    loop {
        records::fill(&mut record, writer, tally.records);
        wal.append(&record)?;
        let ended = Instant::now();
        tally.records += 1;
        tally.times.note(ended.duration_since(started))?;
        if setting.is_over(until, ended) {
            return Ok(tally);
        }
        started = ended;
    }
}
