//! A reader that replays durable records while a writer appends at full rate.

use std::time::{Duration, Instant};

use wo_wal::{Lsn, Wal};

use super::{Measured, Tally, append_until};
use crate::bench::crew;
use crate::bench::measure::{Meter, Trial, cpu_of_thread};
use crate::bench::schedule::Random;
use crate::bench::setting::Setting;
use crate::bench::variant::Variant;
use crate::failure::{Failure, Status};

/// How many records one read replays.
const READ_RECORDS: u64 = 100;

/// What the two threads of a trial do.
enum Done {
    Written(Tally),
    Read(Reading),
}

struct Reading {
    tally: Tally,
    took: Duration,
    cpu: Duration,
}

/// Reader and writer on one log.
pub(super) fn run(setting: &Setting, variant: Variant, payload_bytes: u64) -> Result<Vec<Measured>, Failure> {
    let preloaded = preload(setting, variant, payload_bytes)?;
    let log = setting.open("log", variant, None)?;
    let (meter, written, reading) = run_side_by_side(setting, &log.wal, &log.wal)?;
    let mut appends = meter.stop(&log.wal, written.records, written.times);
    appends.cpu = appends.cpu.saturating_sub(reading.cpu);
    log.close_and_verify(&[preloaded, written.records])?;
    Ok(vec![measured("mixed-append", appends), measured("mixed-read", reading.into_trial())])
}

/// The reader's log is left alone; the writer appends to another one.
pub(super) fn run_apart(
    setting: &Setting,
    variant: Variant,
    payload_bytes: u64,
) -> Result<Vec<Measured>, Failure> {
    let preloaded = preload(setting, variant, payload_bytes)?;
    let log = setting.open("log", variant, None)?;
    let other = setting.open("other", variant, None)?;
    let (_, written, reading) = run_side_by_side(setting, &other.wal, &log.wal)?;
    log.close_and_verify(&[preloaded])?;
    other.close_and_verify(&[0, written.records])?;
    Ok(vec![measured("apart-read", reading.into_trial())])
}

fn measured(workload: &'static str, trial: Trial) -> Measured {
    Measured { workload, threads: 1, trial }
}

/// Makes the log with something to read in it. Closed again, so that its groups do not count for the trial.
fn preload(setting: &Setting, variant: Variant, payload_bytes: u64) -> Result<u64, Failure> {
    let records = setting.records_in(payload_bytes).max(READ_RECORDS);
    let log = setting.open("log", variant, None)?;
    log.preload(0, records)?;
    log.close_and_keep()?;
    Ok(records)
}

fn run_side_by_side(
    setting: &Setting,
    written: &Wal,
    read: &Wal,
) -> Result<(Meter, Tally, Reading), Failure> {
    let (meter, done) = crew::run(
        2,
        || Meter::start(written),
        |thread, start| {
            let until = start + setting.lasting;
            match thread {
                0 => append_until(setting, written, 1, until).map(Done::Written),
                _ => read_until(setting, read, until).map(Done::Read),
            }
        },
    )?;
    match <[Done; 2]>::try_from(done) {
        Ok([Done::Written(tally), Done::Read(reading)]) => Ok((meter, tally, reading)),
        _ => Err(Failure::io("a thread gave no result; this is a bug")),
    }
}

/// Replays records from random places among those that are durable. The log itself checks each that it serves.
fn read_until(setting: &Setting, wal: &Wal, until: Instant) -> Result<Reading, Failure> {
    let (mut random, mut tally) = (Random(0), Tally::new()?);
    let (begun, cpu) = (Instant::now(), cpu_of_thread());
    let mut started = begun;
    loop {
        let places = wal.durable_lsn().get().saturating_sub(READ_RECORDS).max(1);
        let first = 1 + random.next() % places;
        let mut replay = wal.replay(Lsn::new(first)..Lsn::new(first + READ_RECORDS))?;
        for lsn in first..first + READ_RECORDS {
            if replay.next_ref()?.map(|record| record.lsn.get()) != Some(lsn) {
                return Err(Failure::Because {
                    status: Status::Damaged,
                    message: format!("record {lsn} is durable and was not replayed"),
                });
            }
        }
        tally.records += READ_RECORDS;
        let ended = Instant::now();
        tally.times.note(ended.duration_since(started))?;
        if setting.is_over(until, ended) {
            let cpu = cpu_of_thread().saturating_sub(cpu);
            return Ok(Reading { tally, took: ended.duration_since(begun), cpu });
        }
        started = ended;
    }
}

impl Reading {
    fn into_trial(self) -> Trial {
        let Reading { tally, took, cpu } = self;
        Trial { records: tally.records, took, cpu, times: tally.times, barriers: None }
    }
}
