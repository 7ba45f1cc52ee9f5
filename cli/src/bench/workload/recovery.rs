//! Opens a log that was not closed, and replays it.

use wo_wal::Lsn;

use crate::bench::copy::copy_durably;
use crate::bench::measure::{Meter, Times, Trial};
use crate::bench::setting::Setting;
use crate::bench::variant::Variant;
use crate::failure::Failure;

/// So that there are sealed segments to walk over, and the copy is small.
const SEGMENT_BYTES: u64 = 8 << 20;

/// The time is that of the open and the replay together.
pub(super) fn run(setting: &Setting, variant: Variant, payload_bytes: u64) -> Result<Trial, Failure> {
    let records = setting.records_in(payload_bytes);
    let writer_log = setting.open("written", variant, Some(SEGMENT_BYTES))?;
    writer_log.preload(0, records)?;
    // What a killed writer would leave: a log that nobody has closed.
    let path = setting.scratch.path().join("log");
    copy_durably(&writer_log.path, &path).map_err(|source| Failure::at("copy a log to", &path, &source))?;
    drop(writer_log);
    let meter = Meter::start_without_log();
    let log = setting.open("log", variant, Some(SEGMENT_BYTES))?;
    let mut replayed = 0;
    let mut replay = log.wal.replay(Lsn::FIRST..)?;
    while replay.next_ref()?.is_some() {
        replayed += 1;
    }
    let mut trial = meter.stop_without_log(replayed, Times::new()?);
    trial.times.note(trial.took)?;
    log.close_and_verify(&[records])?;
    Ok(trial)
}
