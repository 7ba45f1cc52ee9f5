//! Appends in a closed loop: each writer waits until its record is durable, then appends the next one.
//!
//! The log against the bare loop (one writer) and against the greedy reference (several), alternating in one run, so
//! that both meet the same device. Every run is read back and checked.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;
mod reference;

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::{Checker, Setup, fill_record, median, per_second, span};
use reference::{BareLoop, Greedy};
use wo_wal::strategy::Fsync;
use wo_wal::{Reader, Wal};

const RECORD_BYTES: usize = 256;
const WRITERS: [usize; 4] = [1, 4, 16, 64];

/// One trial of one side.
#[derive(Debug)]
struct Trial {
    records_per_second: f64,
    records_per_barrier: f64,
}

fn main() {
    let setup = Setup::announce("append");
    let trials = setup.pick(7, 1);
    println!("{RECORD_BYTES}-byte records, median of {trials} alternating trials (smallest to largest)");
    println!(
        "writers    wo-wal records/s         reference records/s      ratio                 records/barrier"
    );
    for writers in WRITERS {
        let records = setup.pick(2_000 * writers.clamp(2, 32) as u64, 20 * writers as u64);
        let records_per_writer = records / writers as u64;
        let mut log = Vec::new();
        let mut reference = Vec::new();
        for trial in 0..trials {
            let (log_path, reference_path) = (setup.path("log"), setup.path("reference"));
            // The side that goes first changes: whatever the device does over time hits both.
            if trial % 2 == 0 {
                log.push(run_log(&log_path, writers, records_per_writer));
                reference.push(run_reference(&reference_path, writers, records_per_writer));
            } else {
                reference.push(run_reference(&reference_path, writers, records_per_writer));
                log.push(run_log(&log_path, writers, records_per_writer));
            }
        }
        print_row(writers, &log, &reference);
    }
}

fn print_row(writers: usize, log: &[Trial], reference: &[Trial]) {
    let rates = |trials: &[Trial]| trials.iter().map(|trial| trial.records_per_second).collect::<Vec<_>>();
    let (log_rates, reference_rates) = (rates(log), rates(reference));
    let ratios: Vec<f64> = log_rates.iter().zip(&reference_rates).map(|(log, other)| log / other).collect();
    let per_barrier =
        |trials: &[Trial]| median(&trials.iter().map(|trial| trial.records_per_barrier).collect::<Vec<_>>());
    let with_span = |values: &[f64]| {
        let (smallest, largest) = span(values);
        format!("{:.0} ({smallest:.0} to {largest:.0})", median(values))
    };
    let (ratio_smallest, ratio_largest) = span(&ratios);
    println!(
        "{writers:>7}    {:<24} {:<24} {:<21} {:.1} against {:.1}",
        with_span(&log_rates),
        with_span(&reference_rates),
        format!("{:.3} ({ratio_smallest:.2} to {ratio_largest:.2})", median(&ratios)),
        per_barrier(log),
        per_barrier(reference),
    );
}

/// Lets the writers run against each other; returns how long they took together.
fn closed_loop(writers: usize, records_per_writer: u64, append: impl Fn(&[u8]) + Sync) -> Duration {
    let start = Barrier::new(writers + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (start, append) = (&start, &append);
                scope.spawn(move || {
                    let mut record = [0; RECORD_BYTES];
                    start.wait();
                    for sequence in 0..records_per_writer {
                        fill_record(&mut record, writer as u64, sequence);
                        append(&record);
                    }
                })
            })
            .collect();
        let started = Instant::now();
        start.wait();
        for thread in threads {
            thread.join().unwrap();
        }
        started.elapsed()
    })
}

fn run_log(path: &Path, writers: usize, records_per_writer: u64) -> Trial {
    // The reference makes its barriers the same way; `strategies` compares the strategies.
    let (wal, _) = Wal::options().strategy(Fsync::new()).open(path).unwrap();
    let barriers_before = wal.stats().barriers;
    let took = closed_loop(writers, records_per_writer, |record| {
        wal.append(record).unwrap();
    });
    let barriers = wal.stats().barriers - barriers_before;
    wal.close().unwrap();
    drop(wal);
    let mut checker = Checker::new(writers, RECORD_BYTES);
    let (reader, _) = Reader::open(path).unwrap();
    for record in reader.replay(..).unwrap() {
        checker.take(&record.unwrap().payload);
    }
    checker.finish(records_per_writer);
    std::fs::remove_dir_all(path).unwrap();
    trial(writers as u64 * records_per_writer, barriers, took)
}

fn run_reference(path: &Path, writers: usize, records_per_writer: u64) -> Trial {
    let records = writers as u64 * records_per_writer;
    let mut checker = Checker::new(writers, RECORD_BYTES);
    let (barriers, took) = if writers == 1 {
        let mut bare = BareLoop::create(path, records, RECORD_BYTES);
        let took = bare_loop(&mut bare, records);
        bare.verify(&mut checker);
        (records, took)
    } else {
        let greedy = Greedy::create(path, records, RECORD_BYTES);
        let took = closed_loop(writers, records_per_writer, |record| greedy.append(record));
        greedy.verify(&mut checker);
        (greedy.barriers(), took)
    };
    checker.finish(records_per_writer);
    std::fs::remove_file(path).unwrap();
    trial(records, barriers, took)
}

fn bare_loop(bare: &mut BareLoop, records: u64) -> Duration {
    let mut record = [0; RECORD_BYTES];
    let started = Instant::now();
    for sequence in 0..records {
        fill_record(&mut record, 0, sequence);
        bare.append(&record);
    }
    started.elapsed()
}

fn trial(records: u64, barriers: u64, took: Duration) -> Trial {
    Trial {
        records_per_second: per_second(records, took),
        records_per_barrier: records as f64 / barriers as f64,
    }
}
