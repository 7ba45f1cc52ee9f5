//! What runs, in which order, from what was asked for.

use super::Arguments;
use super::workload::{Kind, Work};

const MIXED_PAYLOAD_BYTES: u64 = 16 << 20;
const RECOVERY_PAYLOAD_BYTES: u64 = 32 << 20;
const QUICK_PAYLOAD_BYTES: u64 = 256 << 10;
const ROTATION_WRITERS: usize = 16;

const ALL: [Kind; 6] = [Kind::Closed, Kind::Open, Kind::Batch, Kind::Recovery, Kind::Rotation, Kind::Mixed];

/// How fast records arrive in an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    PerSecond(f64),
    /// Of what the log takes in a greedy closed loop; 0.3 is 30 %.
    OfCapacity(f64),
}

/// In records per second, and in percent: more would take hours to serve.
const RATE_MAX: f64 = 1e7;
const PERCENT_MAX: f64 = 1000.0;

/// A number of records per second, or of percent.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let (number, max, rate): (&str, f64, fn(f64) -> Rate) = match text.strip_suffix('%') {
        Some(percent) => (percent, PERCENT_MAX, |percent| Rate::OfCapacity(percent / 100.0)),
        None => (text, RATE_MAX, Rate::PerSecond),
    };
    match number.parse() {
        Ok(number) if number > 0.0 && number <= max => Ok(rate(number)),
        _ => Err("a rate is a number of records per second, or of percent, such as 20000 or 30%".to_owned()),
    }
}

pub(super) fn kinds(arguments: &Arguments) -> &[Kind] {
    if arguments.workload.is_empty() { &ALL } else { &arguments.workload }
}

/// Whether somebody has to find out what the log takes.
pub(super) fn needs_capacity(arguments: &Arguments) -> bool {
    kinds(arguments).contains(&Kind::Open)
        && arguments.rate.iter().any(|rate| matches!(rate, Rate::OfCapacity(_)))
}

/// `capacity` is in records per second.
pub(super) fn plan(arguments: &Arguments, capacity: f64) -> Vec<Work> {
    let payload_bytes = |full| if arguments.quick { QUICK_PAYLOAD_BYTES } else { full };
    let threads = || arguments.threads.iter().map(|&threads| usize::from(threads));
    let mut plan = Vec::new();
    for kind in kinds(arguments) {
        match kind {
            Kind::Closed => plan.extend(threads().map(|writers| Work::Closed { writers })),
            Kind::Open => plan.extend(arguments.rate.iter().map(|&rate| Work::Open {
                workers: usize::from(arguments.workers),
                rate_per_second: match rate {
                    Rate::PerSecond(rate) => rate,
                    Rate::OfCapacity(part) => part * capacity,
                },
            })),
            Kind::Batch => plan.push(Work::Batch { records: u64::from(arguments.batch) }),
            Kind::Recovery => {
                plan.push(Work::Recovery { payload_bytes: payload_bytes(RECOVERY_PAYLOAD_BYTES) });
            }
            Kind::Rotation => plan.push(Work::Rotation { writers: ROTATION_WRITERS }),
            Kind::Mixed => {
                let payload_bytes = payload_bytes(MIXED_PAYLOAD_BYTES);
                plan.extend([Work::Mixed { payload_bytes }, Work::Apart { payload_bytes }]);
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::{Rate, rate};

    #[test]
    fn rates_are_absolute_or_in_percent() {
        assert_eq!(rate("20000"), Ok(Rate::PerSecond(20_000.0)));
        assert_eq!(rate("0.5"), Ok(Rate::PerSecond(0.5)));
        assert_eq!(rate("25%"), Ok(Rate::OfCapacity(0.25)));
        for text in ["", "%", "0", "-1", "inf", "NaN", "1e9", "1001%", "30 %", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
