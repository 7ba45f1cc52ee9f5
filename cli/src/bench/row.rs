//! What is printed of a workload and variant: medians of its trials.
#![expect(clippy::cast_precision_loss, reason = "figures for people, of three digits or so")]

use serde::Serialize;

use super::measure::{Barriers, Trial};
use super::setting::Setting;
use super::variant::Variant;
use super::workload::{Measured, Work};

/// Medians, but for the two that are largest of all trials: `max_us` and `records_per_barrier_max`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: &'static str,
    pub(super) strategy: &'static str,
    pub(super) cohort: &'static str,
    pub(super) threads: usize,
    pub(super) record_bytes: usize,
    pub(super) records_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    /// None where nothing was appended, here and below.
    pub(super) records_per_barrier: Option<f64>,
    pub(super) records_per_barrier_max: Option<u64>,
    pub(super) barriers_per_s: Option<f64>,
    pub(super) cpu_us_per_record: f64,
    /// Bytes handed to barriers, headers and padding included, for each byte of a record.
    pub(super) written_per_appended_byte: Option<f64>,
    pub(super) rotations: Option<f64>,
    /// Of an open loop: how many records arrive.
    pub(super) rate_per_s: Option<f64>,
    pub(super) trials: usize,
    /// Of each trial, the log was closed, opened again and read, and had exactly what was acknowledged. A trial without
    /// that ends the run instead.
    pub(super) verified: bool,
}

/// Rows of one variant, from its trials: each trial has the same parts.
pub(super) fn rows(setting: &Setting, work: Work, variant: Variant, trials: Vec<Vec<Measured>>) -> Vec<Row> {
    let mut parts: Vec<Vec<Measured>> = Vec::new();
    for trial in trials {
        parts.resize_with(parts.len().max(trial.len()), Vec::new);
        for (part, measured) in parts.iter_mut().zip(trial) {
            part.push(measured);
        }
    }
    parts.iter().filter_map(|part| row(setting, work, variant, part)).collect()
}

fn row(setting: &Setting, work: Work, variant: Variant, part: &[Measured]) -> Option<Row> {
    let Measured { workload, threads, .. } = part.first()?;
    let of = |figure: &dyn Fn(&Trial) -> f64| {
        median(part.iter().map(|measured| figure(&measured.trial)).collect())
    };
    let largest = |figure: &dyn Fn(&Trial) -> f64| {
        part.iter().map(|measured| figure(&measured.trial)).fold(0.0, f64::max)
    };
    let barriers = |figure: &dyn Fn(&Trial, &Barriers) -> f64| {
        let figures: Option<Vec<f64>> =
            part.iter().map(|Measured { trial, .. }| Some(figure(trial, trial.barriers.as_ref()?))).collect();
        figures.map(median)
    };
    let record_bytes = setting.record_bytes;
    Some(Row {
        workload,
        strategy: variant.strategy.name(),
        cohort: variant.cohort_name(),
        threads: *threads,
        record_bytes,
        records_per_s: of(&|trial| per(trial.records as f64, trial.took.as_secs_f64())),
        p50_us: of(&|trial| trial.times.at_quantile_us(0.5)),
        p99_us: of(&|trial| trial.times.at_quantile_us(0.99)),
        p999_us: of(&|trial| trial.times.at_quantile_us(0.999)),
        max_us: largest(&|trial| trial.times.max_us()),
        records_per_barrier: barriers(&|trial, barriers| per(trial.records as f64, barriers.count as f64)),
        records_per_barrier_max: part
            .iter()
            .filter_map(|measured| measured.trial.barriers.map(|barriers| barriers.largest_group_records))
            .max(),
        barriers_per_s: barriers(&|trial, barriers| per(barriers.count as f64, trial.took.as_secs_f64())),
        cpu_us_per_record: of(&|trial| per(trial.cpu.as_secs_f64() * 1e6, trial.records as f64)),
        written_per_appended_byte: barriers(&|trial, barriers| {
            per(barriers.written_bytes as f64, (trial.records * record_bytes as u64) as f64)
        }),
        rotations: barriers(&|_, barriers| barriers.rotations as f64),
        rate_per_s: work.rate_per_second(),
        trials: part.len(),
        verified: true,
    })
}

/// 0 where there is nothing to divide by.
fn per(count: f64, of: f64) -> f64 {
    if of > 0.0 { count / of } else { 0.0 }
}

/// The middle one, or the mean of the two in the middle; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    #[expect(clippy::float_cmp, reason = "no arithmetic that rounds")]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
