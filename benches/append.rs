//! Appends in a closed loop: each writer waits until its record is durable, then appends the next one.
//!
//! The log against the bare loop (one writer) or the greedy reference (several), and against itself with
//! `Cohort::Greedy`, alternating in one run, so that all meet the same device. Every run is read back and checked. Numbers
//! as arguments choose how many writers; with `uring` the log's barriers go through the ring.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;
mod reference;

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use common::{
    Checker, Setup, Usage, asked_writers, at_percent, fill_record, is_asked, median, order, per_second, span,
};
use reference::{BareLoop, Greedy};
use wo_wal::strategy::{Fsync, SyncStrategy, Uring};
use wo_wal::{Cohort, Reader, Wal};

const RECORD_BYTES: usize = 256;
const WRITERS: [usize; 4] = [1, 4, 16, 64];

/// Who is measured. The first is what the others are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Reference,
    Log(Cohort),
}

const SIDES: [Side; 3] = [Side::Reference, Side::Log(Cohort::Full), Side::Log(Cohort::Greedy)];

impl Side {
    fn name(self, writers: usize) -> &'static str {
        match self {
            Side::Reference if writers == 1 => "bare loop",
            Side::Reference => "greedy reference",
            Side::Log(Cohort::Full) => "wo-wal",
            Side::Log(_) => "wo-wal, greedy",
        }
    }
}

/// One trial of one side.
#[derive(Debug)]
struct Trial {
    records_per_second: f64,
    records_per_barrier: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_record: f64,
}

fn main() {
    let setup = Setup::announce("append");
    let trials = setup.pick(15, 1);
    println!(
        "{RECORD_BYTES}-byte records through {}, medians of {trials} alternating trials; ratios trial by trial",
        if is_asked("uring") { "uring" } else { "fsync" }
    );
    println!(
        "writers  side              records/s  ratio                  p50 us (ratio)   p99 us (ratio)    CPU us/record (ratio)  records/barrier"
    );
    for writers in asked_writers(&WRITERS) {
        let records = setup.pick(2_000 * writers.clamp(2, 32) as u64, 20 * writers as u64);
        let records_per_writer = records / writers as u64;
        let mut of_side: [Vec<Trial>; SIDES.len()] = Default::default();
        for trial in 0..trials {
            for index in order(trial, SIDES.len()) {
                of_side[index].push(run(&setup.path("log"), SIDES[index], writers, records_per_writer));
            }
        }
        for (side, results) in SIDES.iter().zip(&of_side) {
            print_row(writers, side.name(writers), results, &of_side[0]);
        }
    }
}

fn print_row(writers: usize, name: &str, trials: &[Trial], reference: &[Trial]) {
    let of = |field: fn(&Trial) -> f64| median(&trials.iter().map(field).collect::<Vec<_>>());
    let ratios = |field: fn(&Trial) -> f64| -> Vec<f64> {
        trials.iter().zip(reference).map(|(trial, other)| field(trial) / field(other)).collect()
    };
    let with_ratio = |field: fn(&Trial) -> f64, digits: usize| {
        format!("{:.digits$} ({:.2})", of(field), median(&ratios(field)))
    };
    let throughput = ratios(|trial| trial.records_per_second);
    let (smallest, largest) = span(&throughput);
    println!(
        "{writers:>7}  {name:<16}  {:>9.0}  {:<21}  {:<15}  {:<16}  {:<21}  {:.1}",
        of(|trial| trial.records_per_second),
        format!("{:.3} ({smallest:.2} to {largest:.2})", median(&throughput)),
        with_ratio(|trial| trial.p50_us, 0),
        with_ratio(|trial| trial.p99_us, 0),
        with_ratio(|trial| trial.cpu_us_per_record, 1),
        of(|trial| trial.records_per_barrier),
    );
}

/// What a closed loop has measured.
struct Loop {
    took: Duration,
    cpu: Duration,
    sorted_us: Vec<f64>,
}

/// Lets the writers run against each other.
fn closed_loop(writers: usize, records_per_writer: u64, append: impl Fn(&[u8]) + Sync) -> Loop {
    let start = Barrier::new(writers + 1);
    let latencies_us = Mutex::new(Vec::new());
    let (took, cpu) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (start, append, latencies_us) = (&start, &append, &latencies_us);
                scope.spawn(move || {
                    let mut record = [0; RECORD_BYTES];
                    let mut own_us = Vec::with_capacity(usize::try_from(records_per_writer).unwrap());
                    start.wait();
                    for sequence in 0..records_per_writer {
                        fill_record(&mut record, writer as u64, sequence);
                        let started = Instant::now();
                        append(&record);
                        own_us.push(started.elapsed().as_secs_f64() * 1e6);
                    }
                    latencies_us.lock().unwrap().extend(own_us);
                })
            })
            .collect();
        let (before, started) = (Usage::now(), Instant::now());
        start.wait();
        for thread in threads {
            thread.join().unwrap();
        }
        (started.elapsed(), Usage::now().since(&before).cpu)
    });
    let mut sorted_us = latencies_us.into_inner().unwrap();
    sorted_us.sort_by(f64::total_cmp);
    Loop { took, cpu, sorted_us }
}

fn run(path: &Path, side: Side, writers: usize, records_per_writer: u64) -> Trial {
    let records = writers as u64 * records_per_writer;
    let mut checker = Checker::new(writers, RECORD_BYTES);
    let (measured, barriers) = match side {
        Side::Log(cohort) => run_log(path, cohort, writers, records_per_writer, &mut checker),
        Side::Reference if writers == 1 => {
            let bare = Mutex::new(BareLoop::create(path, records, RECORD_BYTES));
            let measured = closed_loop(1, records, |record| bare.lock().unwrap().append(record));
            bare.into_inner().unwrap().verify(&mut checker);
            std::fs::remove_file(path).unwrap();
            (measured, records)
        }
        Side::Reference => {
            let greedy = Greedy::create(path, records, RECORD_BYTES);
            let measured = closed_loop(writers, records_per_writer, |record| greedy.append(record));
            greedy.verify(&mut checker);
            std::fs::remove_file(path).unwrap();
            (measured, greedy.barriers())
        }
    };
    checker.finish(records_per_writer);
    Trial {
        records_per_second: per_second(records, measured.took),
        records_per_barrier: records as f64 / barriers as f64,
        p50_us: at_percent(&measured.sorted_us, 50),
        p99_us: at_percent(&measured.sorted_us, 99),
        cpu_us_per_record: measured.cpu.as_secs_f64() * 1e6 / records as f64,
    }
}

fn run_log(
    path: &Path,
    cohort: Cohort,
    writers: usize,
    records_per_writer: u64,
    checker: &mut Checker,
) -> (Loop, u64) {
    // Like the reference, unless asked for the ring; `strategies` compares the two.
    let strategy: Arc<dyn SyncStrategy> =
        if is_asked("uring") { Arc::new(Uring::new().unwrap()) } else { Arc::new(Fsync::new()) };
    let (wal, _) = Wal::options().strategy(strategy).cohort(cohort).open(path).unwrap();
    let barriers_before = wal.stats().barriers;
    let measured = closed_loop(writers, records_per_writer, |record| {
        wal.append(record).unwrap();
    });
    let barriers = wal.stats().barriers - barriers_before;
    wal.close().unwrap();
    drop(wal);
    let (reader, _) = Reader::open(path).unwrap();
    for record in reader.replay(..).unwrap() {
        checker.take(&record.unwrap().payload);
    }
    std::fs::remove_dir_all(path).unwrap();
    (measured, barriers)
}
