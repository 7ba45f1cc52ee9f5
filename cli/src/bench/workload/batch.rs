//! One writer submits many records and then syncs, again and again.

use std::time::Instant;

use super::Tally;
use crate::bench::measure::{Meter, Trial};
use crate::bench::records;
use crate::bench::setting::Setting;
use crate::bench::variant::Variant;
use crate::failure::Failure;

/// A time is that of one round: so many records, and the sync.
pub(super) fn run(setting: &Setting, variant: Variant, batch_records: u64) -> Result<Trial, Failure> {
    let log = setting.open("log", variant, None)?;
    let (mut record, mut tally) = (setting.record(), Tally::new()?);
    let meter = Meter::start(&log.wal);
    let until = Instant::now() + setting.lasting;
    let mut started = Instant::now();
    while !setting.is_over(until, started) {
        for _ in 0..batch_records {
            records::fill(&mut record, 0, tally.records);
            drop(log.wal.submit(&record)?);
            tally.records += 1;
        }
        log.wal.sync()?;
        let ended = Instant::now();
        tally.times.note(ended.duration_since(started))?;
        started = ended;
    }
    let trial = meter.stop(&log.wal, tally.records, tally.times);
    log.close_and_verify(&[tally.records])?;
    Ok(trial)
}
