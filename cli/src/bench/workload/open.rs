//! Records arrive on one schedule, and each waits until a worker is free to append it. Its time counts from when it was to
//! arrive: a log that stalls delays all that arrive meanwhile, and all of them say so.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use wo_wal::Wal;

use super::{Tally, add_up};
use crate::bench::measure::{Meter, Trial};
use crate::bench::schedule::{Schedule, wait_until};
use crate::bench::setting::Setting;
use crate::bench::variant::Variant;
use crate::bench::{crew, records};
use crate::failure::Failure;

pub(super) fn run(
    setting: &Setting,
    variant: Variant,
    workers: usize,
    rate_per_second: f64,
) -> Result<Trial, Failure> {
    let log = setting.open("log", variant, None)?;
    let schedule = Mutex::new(Schedule::new(rate_per_second, setting.lasting));
    let (meter, tallies) = crew::run(
        workers,
        || Meter::start(&log.wal),
        |worker, start| serve(setting, &log.wal, worker as u64, &schedule, start),
    )?;
    let (records, times) = add_up(&tallies)?;
    let trial = meter.stop(&log.wal, records.iter().sum(), times);
    log.close_and_verify(&records)?;
    Ok(trial)
}

/// Takes the next arrival, waits for it, appends it. All arrivals are served, also those that are late by then.
fn serve(
    setting: &Setting,
    wal: &Wal,
    worker: u64,
    schedule: &Mutex<Schedule>,
    start: Instant,
) -> Result<Tally, Failure> {
    let (mut record, mut tally) = (setting.record(), Tally::new()?);
    loop {
        let arrival = schedule.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(arrival) = arrival else { return Ok(tally) };
        let due = start + arrival;
        records::fill(&mut record, worker, tally.records);
        if !wait_until(due, &setting.interrupt) {
            return Ok(tally);
        }
        wal.append(&record)?;
        tally.records += 1;
        tally.times.note(due.elapsed())?;
    }
}

#[cfg(test)]
mod tests {
    use super::{add_up, crew, serve};
    use crate::bench::schedule::Schedule;
    use crate::bench::setting::{Setting, scratch_in};
    use crate::interrupt::Interrupt;
    use std::io;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;
    use wo_wal::Wal;
    use wo_wal::strategy::{Extent, Fsync, SyncStrategy};

    const RATE_PER_SECOND: f64 = 1000.0;
    const STALL: Duration = Duration::from_millis(400);

    /// Once told to, its next barrier takes long.
    #[derive(Debug)]
    struct StallsOnce<'a> {
        fsync: Fsync,
        stalls: &'a AtomicBool,
    }

    impl SyncStrategy for StallsOnce<'static> {
        fn name(&self) -> &'static str {
            "stalls once"
        }

        fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
            if self.stalls.swap(false, Ordering::Relaxed) {
                thread::sleep(STALL);
            }
            self.fsync.persist(extent)
        }
    }

    /// Coordinated omission: measured from when its worker got to it, only one record of each worker would seem delayed,
    /// four in all, and the other hundreds that arrived meanwhile fast.
    #[test]
    fn a_stalled_log_delays_every_record_that_arrives_meanwhile() {
        static STALLS: AtomicBool = AtomicBool::new(false);
        const WORKERS: usize = 4;
        let dir = tempfile::tempdir().unwrap();
        let scratch = scratch_in(dir.path()).unwrap();
        let interrupt = Interrupt::never();
        let setting = Setting { scratch, record_bytes: 64, segment_bytes: None, lasting: STALL, interrupt };
        let strategy = StallsOnce { fsync: Fsync::new(), stalls: &STALLS };
        let (wal, _) = Wal::options().strategy(strategy).open(setting.scratch.path().join("log")).unwrap();
        let schedule = || Schedule::new(RATE_PER_SECOND, STALL);
        // The first record meets the stall, so those of its first half wait for at least the other half.
        let first_arrival = schedule().next().unwrap();
        let delayed = schedule().take_while(|&arrival| arrival < first_arrival + STALL / 2).count();
        STALLS.store(true, Ordering::Relaxed);
        let shared = Mutex::new(schedule());
        let serve_all = |worker, start| serve(&setting, &wal, worker as u64, &shared, start);
        let ((), tallies) = crew::run(WORKERS, || (), serve_all).unwrap();
        let (records, times) = add_up(&tallies).unwrap();
        assert_eq!(records.iter().sum::<u64>(), schedule().count() as u64);
        assert!(delayed > 100, "{delayed}");
        let counted = times.count_from(STALL / 2);
        assert!(counted >= delayed as u64, "{counted} of {delayed}");
    }
}
