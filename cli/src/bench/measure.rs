//! What a trial is measured by: the clock, the processor, the log's own counters, and the time of every operation.
#![expect(clippy::cast_precision_loss, reason = "figures for people, of three digits or so")]

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use wo_wal::{Stats, Wal};

use crate::failure::Failure;

/// Significant decimal digits of times.
const TIME_DIGITS: u8 = 3;

/// How long operations took, in nanoseconds. Grows with the largest, so that none is cut.
#[derive(Debug)]
pub(super) struct Times {
    nanos: Histogram<u64>,
}

impl Times {
    pub(super) fn new() -> Result<Self, Failure> {
        let mut nanos = Histogram::new(TIME_DIGITS).map_err(|error| Failure::io(error.to_string()))?;
        nanos.auto(true);
        Ok(Times { nanos })
    }

    pub(super) fn note(&mut self, took: Duration) -> Result<(), Failure> {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.record(nanos).map_err(|error| Failure::io(format!("note a time: {error}")))
    }

    pub(super) fn add(&mut self, others: &Times) -> Result<(), Failure> {
        self.nanos.add(&others.nanos).map_err(|error| Failure::io(format!("add up times: {error}")))
    }

    /// The time that this part of the operations did not exceed.
    pub(super) fn at_quantile_us(&self, quantile: f64) -> f64 {
        self.nanos.value_at_quantile(quantile) as f64 / 1e3
    }

    pub(super) fn max_us(&self) -> f64 {
        self.nanos.max() as f64 / 1e3
    }

    #[cfg(test)]
    pub(super) fn count_from(&self, least: Duration) -> u64 {
        let nanos = u64::try_from(least.as_nanos()).unwrap();
        self.nanos.count_between(nanos, u64::MAX)
    }
}

/// What one side of a trial did.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) records: u64,
    pub(super) took: Duration,
    pub(super) cpu: Duration,
    pub(super) times: Times,
    /// None where nothing was appended.
    pub(super) barriers: Option<Barriers>,
}

/// What the log's counters say about a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barriers {
    pub(super) count: u64,
    pub(super) largest_group_records: u64,
    pub(super) written_bytes: u64,
    pub(super) rotations: u64,
}

/// Runs from the moment at which all writers may start to that at which the last has ended.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    cpu: Duration,
    stats: Option<Stats>,
}

impl Meter {
    pub(super) fn start(wal: &Wal) -> Self {
        let stats = Some(wal.stats());
        Meter { stats, ..Meter::start_without_log() }
    }

    pub(super) fn start_without_log() -> Self {
        Meter { stats: None, cpu: cpu_of_process(), started: Instant::now() }
    }

    /// The log was opened for this trial, so that its largest group is one of the trial.
    pub(super) fn stop(self, wal: &Wal, records: u64, times: Times) -> Trial {
        let mut trial = self.stop_without_log(records, times);
        let (before, now) = (self.stats.unwrap_or_default(), wal.stats());
        trial.barriers = Some(Barriers {
            count: now.barriers.saturating_sub(before.barriers),
            largest_group_records: now.largest_group_records,
            written_bytes: now.written_bytes.saturating_sub(before.written_bytes),
            rotations: now.rotations.saturating_sub(before.rotations),
        });
        trial
    }

    pub(super) fn stop_without_log(&self, records: u64, times: Times) -> Trial {
        let took = self.started.elapsed();
        let cpu = cpu_of_process().saturating_sub(self.cpu);
        Trial { records, took, cpu, times, barriers: None }
    }
}

/// Of all threads, the kernel's workers for rings among them.
fn cpu_of_process() -> Duration {
    cpu_of(ClockId::ProcessCPUTime)
}

/// Of the calling thread.
pub(super) fn cpu_of_thread() -> Duration {
    cpu_of(ClockId::ThreadCPUTime)
}

fn cpu_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Times;
    use std::time::Duration;

    #[test]
    fn a_long_time_is_kept_as_it_is() {
        let mut times = Times::new().unwrap();
        times.note(Duration::from_micros(100)).unwrap();
        let mut others = Times::new().unwrap();
        others.note(Duration::from_secs(7200)).unwrap();
        times.add(&others).unwrap();
        assert!((times.max_us() / 7.2e9 - 1.0).abs() < 0.001, "{}", times.max_us());
        assert!((times.at_quantile_us(0.5) / 100.0 - 1.0).abs() < 0.001, "{}", times.at_quantile_us(0.5));
    }
}
