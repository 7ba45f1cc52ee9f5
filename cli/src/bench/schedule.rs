//! When records arrive in an open loop, whatever becomes of those before them.
#![expect(clippy::cast_precision_loss, reason = "53 bits of a random number are all that a float holds")]

use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;

/// The fixed seed: every trial of every variant meets the same arrivals.
const SEED: u64 = 0x5eed_0fa2_217a_1500;

/// Arrivals of a Poisson process, as times since its start.
#[derive(Debug)]
pub(super) struct Schedule {
    random: Random,
    rate_per_second: f64,
    at_seconds: f64,
    end_seconds: f64,
}

impl Schedule {
    pub(super) fn new(rate_per_second: f64, lasting: Duration) -> Self {
        Schedule {
            random: Random(SEED),
            rate_per_second,
            at_seconds: 0.0,
            end_seconds: lasting.as_secs_f64(),
        }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Exponential gaps; the uniform number is below 1, so that the logarithm is finite.
        self.at_seconds -= (1.0 - self.random.below_one()).ln() / self.rate_per_second;
        (self.at_seconds < self.end_seconds).then(|| Duration::from_secs_f64(self.at_seconds))
    }
}

/// The generator that is known as `SplitMix64`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below_one(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How long a sleeper may not notice that the run was interrupted.
const NAP: Duration = Duration::from_millis(100);

/// Sleeps until then, and returns at once if that is past. False where the run was interrupted.
pub(super) fn wait_until(due: Instant, interrupt: &Interrupt) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || interrupt.is_asked_for() {
            return !interrupt.is_asked_for();
        }
        wake_on_time(true);
        thread::sleep(left.min(NAP));
        wake_on_time(false);
    }
}

/// Whether the calling thread wakes up when it asked for, and not up to 50 us later as by default. The delay would count as
/// the log's; where the log itself sleeps, it has the delay that its users have.
fn wake_on_time(yes: bool) {
    #[cfg(target_os = "linux")]
    {
        // Refused, the delay counts, for all variants alike.
        let slack_nanos = std::num::NonZeroU64::new(yes.into());
        let _ = rustix::thread::set_current_timer_slack(slack_nanos);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = yes;
}

#[cfg(test)]
mod tests {
    use super::{Duration, Schedule};

    fn gaps(rate: f64, seconds: u64) -> Vec<f64> {
        let times: Vec<f64> =
            Schedule::new(rate, Duration::from_secs(seconds)).map(|at| at.as_secs_f64()).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn arrivals_are_in_order_end_in_time_and_are_the_same_each_time() {
        let all: Vec<Duration> = Schedule::new(1000.0, Duration::from_secs(3)).collect();
        assert!(all.is_sorted());
        assert!(all.last().unwrap() < &Duration::from_secs(3));
        assert_eq!(all, Schedule::new(1000.0, Duration::from_secs(3)).collect::<Vec<_>>());
    }

    /// Mean and deviation of an exponential distribution are equal; arrivals in step would have a deviation of 0.
    #[test]
    fn gaps_are_exponential_at_the_rate_asked_for() {
        let gaps = gaps(10_000.0, 20);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 10_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
    }
}
