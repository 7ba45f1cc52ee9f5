//! The two strategies against each other in one run: the same closed loop, alternating trials, every log read back. The ring
//! also with a write that syncs, and with two and four barriers in flight.
//!
//! What a record costs besides time is printed too: CPU time and context switches of the whole process, in which the
//! kernel's workers for the ring count as threads, and how many such workers there were. What an open costs comes last;
//! with the argument `opens`, that alone.
#![allow(clippy::unwrap_used, reason = "a bench panics on what it cannot go on from")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::{Setup, at_percent, closed_loop, fill_record, median, order, per_second, span, verify};
use wo_wal::strategy::{Form, Fsync, Uring};
use wo_wal::{Io, SyncStrategy, Wal};

const RECORD_BYTES: usize = 256;
const WRITERS: [usize; 4] = [1, 4, 16, 64];
const NAMES: [&str; 5] = ["fsync", "uring", "uring, RWF_DSYNC", "uring, 2 in flight", "uring, 4 in flight"];

/// One trial of one strategy.
#[derive(Clone, Copy, Debug)]
struct Trial {
    records_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_record: f64,
    switches_per_record: f64,
    ring_workers: f64,
}

fn main() {
    let setup = Setup::announce("strategies");
    if let Err(refusal) = Uring::new() {
        println!("SKIP: no ring can be had here: {refusal}");
        return;
    }
    if !std::env::args().any(|argument| argument == "opens") {
        compare_appends(&setup);
    }
    time_opens(&setup);
}

fn compare_appends(setup: &Setup) {
    let trials = setup.pick(9, 1);
    println!(
        "{RECORD_BYTES}-byte records, medians of {trials} alternating trials; ratios are to fsync, trial by trial"
    );
    println!(
        "writers  strategy            records/s      ratio                 p50 us (ratio)    p99 us   CPU us/record  switches/record  ring workers"
    );
    for writers in WRITERS {
        let records_per_writer =
            setup.pick(3_000 * writers.clamp(2, 32) as u64, 20 * writers as u64) / writers as u64;
        let mut of_strategy: [Vec<Trial>; NAMES.len()] = Default::default();
        for trial in 0..trials {
            for index in order(trial, NAMES.len()) {
                let result = run(&setup.path("log"), make(index), writers, records_per_writer);
                of_strategy[index].push(result);
            }
        }
        for (name, results) in NAMES.iter().zip(&of_strategy) {
            print_row(writers, name, results, &of_strategy[0]);
        }
    }
}

/// Opening a log of one segment of the default size that holds a few thousand records: the self-test, recovery and all
/// that is made durable again.
fn time_opens(setup: &Setup) {
    const RECORDS: u64 = 5000;
    let path = setup.path("log");
    let choices = [Io::Fsync, Io::Uring];
    let (wal, _) = Wal::options().strategy(make(0)).open(&path).unwrap();
    let mut record = [0; RECORD_BYTES];
    for sequence in 0..RECORDS {
        fill_record(&mut record, 0, sequence);
        drop(wal.submit(&record).unwrap());
    }
    wal.close().unwrap();
    let opens = setup.pick(60, 2);
    let mut took_ms = [Vec::new(), Vec::new()];
    for open in 0..2 * opens {
        let started = Instant::now();
        let (wal, _) = Wal::options().io(choices[open % 2]).open(&path).unwrap();
        took_ms[open % 2].push(started.elapsed().as_secs_f64() * 1e3);
        assert_eq!(wal.strategy().strategy, NAMES[open % 2], "WO_IO decides otherwise");
        assert_eq!(wal.durable_lsn().get(), RECORDS + open as u64);
        fill_record(&mut record, 0, RECORDS + open as u64);
        wal.append(&record).unwrap();
        // Without a close every other time, so that there is an end to search behind.
        if open % 4 < 2 {
            wal.close().unwrap();
        }
    }
    println!(
        "opening a log of one segment, medians of {opens}: fsync {:.2} ms, uring {:.2} ms",
        median(&took_ms[0]),
        median(&took_ms[1])
    );
    verify(&path, 1, RECORD_BYTES, RECORDS + 2 * opens as u64);
}

fn make(index: usize) -> Arc<dyn SyncStrategy> {
    match index {
        0 => Arc::new(Fsync::new()),
        1 => Arc::new(Uring::new().unwrap()),
        2 => Arc::new(Uring::with_form(Form::Dsync).unwrap()),
        3 => in_flight(2),
        _ => in_flight(4),
    }
}

fn in_flight(barriers: usize) -> Arc<dyn SyncStrategy> {
    Arc::new(Uring::new().unwrap().with_max_in_flight(barriers.try_into().unwrap()))
}

fn print_row(writers: usize, name: &str, trials: &[Trial], reference: &[Trial]) {
    let of = |field: fn(&Trial) -> f64| median(&trials.iter().map(field).collect::<Vec<_>>());
    let ratios = |field: fn(&Trial) -> f64| -> Vec<f64> {
        trials.iter().zip(reference).map(|(trial, other)| field(trial) / field(other)).collect()
    };
    let throughput = ratios(|trial| trial.records_per_second);
    let (smallest, largest) = span(&throughput);
    println!(
        "{writers:>7}  {name:<18}  {:<13.0}  {:<20}  {:<16}  {:<7.0}  {:<13.1}  {:<15.2}  {:.0}",
        of(|trial| trial.records_per_second),
        format!("{:.3} ({smallest:.2} to {largest:.2})", median(&throughput)),
        format!("{:.0} ({:.3})", of(|trial| trial.p50_us), median(&ratios(|trial| trial.p50_us))),
        of(|trial| trial.p99_us),
        of(|trial| trial.cpu_us_per_record),
        of(|trial| trial.switches_per_record),
        of(|trial| trial.ring_workers),
    );
}

fn run(path: &Path, strategy: Arc<dyn SyncStrategy>, writers: usize, records_per_writer: u64) -> Trial {
    let (wal, _) = Wal::options().strategy(strategy).open(path).unwrap();
    let append = |_, record: &[u8]| {
        wal.append(record).unwrap();
    };
    let mut workers = 0;
    let measured =
        closed_loop(writers, records_per_writer, RECORD_BYTES, append, || workers = ring_workers());
    wal.close().unwrap();
    verify(path, writers, RECORD_BYTES, records_per_writer);
    std::fs::remove_dir_all(path).unwrap();
    let sorted_us = measured.sorted_us();
    let records = sorted_us.len() as f64;
    Trial {
        records_per_second: per_second(sorted_us.len() as u64, measured.took),
        p50_us: at_percent(&sorted_us, 50),
        p99_us: at_percent(&sorted_us, 99),
        cpu_us_per_record: measured.usage.cpu.as_secs_f64() * 1e6 / records,
        switches_per_record: measured.usage.switches as f64 / records,
        ring_workers: workers as f64,
    }
}

/// The kernel's workers for rings appear as threads of the process.
fn ring_workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with("iou-wrk")).count()
}
