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
use std::sync::{Arc, Mutex};

use common::{
    Checker, Setup, asked_writers, at_percent, closed_loop, is_asked, median, order, per_second, read_back,
    span,
};
use reference::{BareLoop, Greedy};
use wo_wal::strategy::{Fsync, SyncStrategy, Uring};
use wo_wal::{Cohort, Wal};

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

fn run(path: &Path, side: Side, writers: usize, records_per_writer: u64) -> Trial {
    let records = writers as u64 * records_per_writer;
    let in_a_loop = |append: &(dyn Fn(&[u8]) + Sync)| {
        closed_loop(writers, records_per_writer, RECORD_BYTES, |_, record| append(record), || ())
    };
    let mut checker = Checker::new(writers, RECORD_BYTES);
    let (measured, barriers) = match side {
        Side::Log(cohort) => {
            let wal = open(path, cohort);
            let barriers_before = wal.stats().barriers;
            let measured = in_a_loop(&|record| {
                wal.append(record).unwrap();
            });
            let barriers = wal.stats().barriers - barriers_before;
            wal.close().unwrap();
            drop(wal);
            read_back(path, &mut checker);
            std::fs::remove_dir_all(path).unwrap();
            (measured, barriers)
        }
        Side::Reference if writers == 1 => {
            let bare = Mutex::new(BareLoop::create(path, records, RECORD_BYTES));
            let measured = in_a_loop(&|record| bare.lock().unwrap().append(record));
            bare.into_inner().unwrap().verify(&mut checker);
            std::fs::remove_file(path).unwrap();
            (measured, records)
        }
        Side::Reference => {
            let greedy = Greedy::create(path, records, RECORD_BYTES);
            let measured = in_a_loop(&|record| greedy.append(record));
            greedy.verify(&mut checker);
            std::fs::remove_file(path).unwrap();
            (measured, greedy.barriers())
        }
    };
    checker.finish(records_per_writer);
    let sorted_us = measured.sorted_us();
    Trial {
        records_per_second: per_second(records, measured.took),
        records_per_barrier: records as f64 / barriers as f64,
        p50_us: at_percent(&sorted_us, 50),
        p99_us: at_percent(&sorted_us, 99),
        cpu_us_per_record: measured.usage.cpu.as_secs_f64() * 1e6 / records as f64,
    }
}

/// Its barriers are made as the reference's are, unless the ring is asked for; `strategies` compares the two.
fn open(path: &Path, cohort: Cohort) -> Wal {
    let strategy: Arc<dyn SyncStrategy> =
        if is_asked("uring") { Arc::new(Uring::new().unwrap()) } else { Arc::new(Fsync::new()) };
    Wal::options().strategy(strategy).cohort(cohort).open(path).unwrap().0
}
