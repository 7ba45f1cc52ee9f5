//! What an append did, for people.
#![expect(clippy::cast_precision_loss, reason = "figures for people, of three digits or so")]

use std::fmt;
use std::path::Path;
use std::time::Duration;

use wo_wal::{Recovery, Selection};

use super::gate::Tally;

pub(super) struct Summary<'a> {
    pub(super) dir: &'a Path,
    pub(super) strategy: &'a Selection,
    pub(super) recovery: &'a Recovery,
    pub(super) tally: &'a Tally,
    /// Made while there were writers.
    pub(super) barriers: u64,
    /// Of all barriers since the open, those that the ring did nothing for.
    pub(super) assisted_barriers: u64,
    pub(super) elapsed: Duration,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.tally.counts;
        writeln!(f, "log:      {}", self.dir.display())?;
        if self.recovery.cut_bytes > 0 {
            writeln!(f, "opened:   cut {} bytes that were never acknowledged", self.recovery.cut_bytes)?;
        }
        writeln!(f, "strategy: {}", self.strategy.reason)?;
        for warning in &self.strategy.warnings {
            writeln!(f, "warning:  {warning}")?;
        }
        write!(f, "durable:  {} records, {} bytes", counts.records, counts.payload_bytes)?;
        match (counts.first, counts.last) {
            (Some(first), Some(last)) => writeln!(f, ", LSN {first} to {last}")?,
            _ => return writeln!(f),
        }
        let seconds = self.elapsed.as_secs_f64();
        write!(
            f,
            "barriers: {}, {:.1} records per barrier",
            self.barriers,
            ratio(counts.records, self.barriers as f64)
        )?;
        match self.assisted_barriers {
            0 => writeln!(f)?,
            assisted => writeln!(f, ", {assisted} without the ring")?,
        }
        writeln!(f, "time:     {seconds:.3} s, {:.0} records/s", ratio(counts.records, seconds))?;
        let millis = |quantile| self.tally.append_nanos.value_at_quantile(quantile) as f64 / 1e6;
        writeln!(f, "append:   p50 {:.4} ms, p99 {:.4} ms", millis(0.5), millis(0.99))
    }
}

/// Records per barrier, or per second; 0 where there was none.
pub(super) fn ratio(records: u64, of: f64) -> f64 {
    if of > 0.0 { records as f64 / of } else { 0.0 }
}
