//! Writers in a closed loop.
#![expect(clippy::cast_precision_loss, reason = "figures for people, of three digits or so")]

use wo_wal::Cohort;

use super::{add_up, append_until};
use crate::bench::crew;
use crate::bench::measure::{Meter, Trial};
use crate::bench::setting::Setting;
use crate::bench::variant::Variant;
use crate::failure::Failure;

/// How many writers' greedy throughput a rate in percent is one of.
const CAPACITY_WRITERS: usize = 16;
const CAPACITY_TRIALS: usize = 3;

pub(super) fn run(
    setting: &Setting,
    variant: Variant,
    writers: usize,
    segment_bytes: Option<u64>,
) -> Result<Trial, Failure> {
    let log = setting.open("log", variant, segment_bytes)?;
    let (meter, tallies) = crew::run(
        writers,
        || Meter::start(&log.wal),
        |writer, start| append_until(setting, &log.wal, writer as u64, start + setting.lasting),
    )?;
    let (records, times) = add_up(&tallies)?;
    let trial = meter.stop(&log.wal, records.iter().sum(), times);
    log.close_and_verify(&records)?;
    Ok(trial)
}

/// What the log takes when leaders wait for nobody, in records per second.
pub(in crate::bench) fn capacity(setting: &Setting, variant: Variant) -> Result<f64, Failure> {
    let greedy = Variant { cohort: Cohort::Greedy, ..variant };
    let mut rates = Vec::new();
    for _ in 0..CAPACITY_TRIALS {
        let trial = run(setting, greedy, CAPACITY_WRITERS, None)?;
        setting.interrupt.check()?;
        rates.push(trial.records as f64 / trial.took.as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[CAPACITY_TRIALS / 2])
}
