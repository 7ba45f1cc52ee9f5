//! What group commit is worth outside the closed loop of `append`: arrivals on a schedule of their own, records that are
//! waited for by the thousand, records that are only submitted, and a reader beside a writer. The log's own two cohort
//! policies, or a loop that writes the same bytes, alternate in one run; every run is read back and checked. The arguments
//! `open-loop`, `batches`, `submits` and `reader` choose parts.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;
mod reference;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use common::{Checker, Setup, at_percent, fill_record, median, order, per_second, span, verify};
use reference::{BareLoop, Greedy};
use rustix::thread::set_current_timer_slack;
use wo_wal::strategy::Fsync;
use wo_wal::{Cohort, Wal};

const RECORD_BYTES: usize = 256;

fn main() {
    const PARTS: [&str; 4] = ["open-loop", "batches", "submits", "reader"];
    let setup = Setup::announce("group commit");
    let asked: Vec<String> = std::env::args().filter(|argument| PARTS.contains(&argument.as_str())).collect();
    let is_wanted = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    if is_wanted("open-loop") {
        open_loop(&setup);
    }
    if is_wanted("batches") {
        batches(&setup);
    }
    if is_wanted("submits") {
        submits(&setup);
    }
    if is_wanted("reader") {
        reader_beside_writer(&setup);
    }
}

fn open(path: &Path, cohort: Cohort) -> Wal {
    Wal::options().strategy(Fsync::new()).cohort(cohort).open(path).unwrap().0
}

/// Reads every record of a log back and removes it.
fn verify_and_remove(path: &Path, writers: usize, records_per_writer: u64) {
    verify(path, writers, RECORD_BYTES, records_per_writer);
    std::fs::remove_dir_all(path).unwrap();
}

/// A ratio of medians over trials, with the smallest and the largest.
fn ratio(of: &[f64], to: &[f64]) -> String {
    let ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    let (smallest, largest) = span(&ratios);
    format!("{:.3} ({smallest:.2} to {largest:.2})", median(&ratios))
}

// ---- arrivals on a schedule

const WORKERS: usize = 64;

/// Records arrive at random times, at a part of what the greedy reference can take; the time that counts starts when a
/// record was due, not when a worker was free for it.
fn open_loop(setup: &Setup) {
    // Many short ones: a stall of the device, which meets either side, then spoils a few trials and not the median.
    let trials = setup.pick(60, 1);
    let capacity_per_second = reference_capacity(setup);
    println!(
        "open loop, {WORKERS} workers, {RECORD_BYTES}-byte records, {trials} alternating trials; capacity of the greedy \
         reference: {capacity_per_second} records/s; ratios are the full cohort's to greedy"
    );
    for percent in [30, 70] {
        let records_per_second = (capacity_per_second * percent) as f64 / 100.0;
        // About a quarter of a second.
        let records = capacity_per_second * percent / 100 / setup.pick(4, 100);
        let mut sorted_us: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
        for trial in 0..trials {
            for index in order(trial, 2) {
                let cohort = [Cohort::Full, Cohort::Greedy][index];
                sorted_us[index].push(scheduled(&setup.path("log"), cohort, records, records_per_second));
            }
        }
        let at = |index: usize, percent: usize| -> Vec<f64> {
            sorted_us[index].iter().map(|sorted| at_percent(sorted, percent)).collect()
        };
        for of in [50, 99] {
            println!(
                "  {percent} % of it: p{of} {:.0} us against {:.0} us, ratio {}",
                median(&at(0, of)),
                median(&at(1, of)),
                ratio(&at(0, of), &at(1, of))
            );
        }
    }
}

/// What the greedy reference takes of as many writers in a closed loop, in records per second.
fn reference_capacity(setup: &Setup) -> u64 {
    let records_per_writer = setup.pick(1000, 10);
    let records = records_per_writer * WORKERS as u64;
    let greedy = Greedy::create(&setup.path("reference"), records, RECORD_BYTES);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WORKERS {
            let greedy = &greedy;
            scope.spawn(move || {
                let mut record = [0; RECORD_BYTES];
                for sequence in 0..records_per_writer {
                    fill_record(&mut record, writer as u64, sequence);
                    greedy.append(&record);
                }
            });
        }
    });
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap();
    let mut checker = Checker::new(WORKERS, RECORD_BYTES);
    greedy.verify(&mut checker);
    checker.finish(records_per_writer);
    records * 1_000_000 / micros.max(1)
}

/// When each record is due, after the start: exponential gaps, the same in each trial of a length.
fn schedule(records: u64, records_per_second: f64) -> Vec<Duration> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut at_seconds = 0.0;
    let due = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = ((state >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        at_seconds -= uniform.ln() / records_per_second;
        Duration::from_secs_f64(at_seconds)
    };
    (0..records).map(due).collect()
}

/// Wakes up when asked for, and not up to 50 us later as by default, which would count as the log's. Where the log itself
/// sleeps, it has the delay that its users have.
fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        set_current_timer_slack(std::num::NonZeroU64::new(1)).unwrap();
        std::thread::sleep(left);
        set_current_timer_slack(None).unwrap();
    }
}

/// Returns the sorted latencies from when each record was due.
fn scheduled(path: &Path, cohort: Cohort, records: u64, records_per_second: f64) -> Vec<f64> {
    let wal = open(path, cohort);
    let due = schedule(records, records_per_second);
    let next = AtomicUsize::new(0);
    let all_us = Mutex::new(Vec::new());
    let started = Instant::now() + Duration::from_millis(20);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            let (wal, due, next, all_us) = (&wal, &due, &next, &all_us);
            scope.spawn(move || {
                let mut record = [0; RECORD_BYTES];
                let mut own_us = Vec::new();
                loop {
                    let sequence = next.fetch_add(1, Ordering::Relaxed);
                    let Some(due) = due.get(sequence) else { break };
                    let due = started + *due;
                    // One writer per record: workers overtake each other.
                    fill_record(&mut record, sequence as u64, 0);
                    sleep_until(due);
                    wal.append(&record).unwrap();
                    own_us.push(due.elapsed().as_secs_f64() * 1e6);
                }
                all_us.lock().unwrap().extend(own_us);
            });
        }
    });
    wal.close().unwrap();
    drop(wal);
    verify_and_remove(path, usize::try_from(records).unwrap(), 1);
    let mut sorted_us = all_us.into_inner().unwrap();
    sorted_us.sort_by(f64::total_cmp);
    sorted_us
}

// ---- records that are waited for by the thousand

const RECORDS_PER_BARRIER: u64 = 1000;

/// In how many parts a trial is looked at: a segment of the default size takes about a quarter of a full run.
const PARTS_OF_A_TRIAL: usize = 16;

/// One trial: records per second, and how long a batch and its barrier took in each part, in microseconds.
struct Batches {
    records_per_second: f64,
    round_us: Vec<f64>,
}

impl Batches {
    fn of(took: Duration, rounds_us: &[f64]) -> Batches {
        let records_per_second = per_second(rounds_us.len() as u64 * RECORDS_PER_BARRIER, took);
        let parts = rounds_us.chunks(rounds_us.len().div_ceil(PARTS_OF_A_TRIAL));
        Batches { records_per_second, round_us: parts.map(median).collect() }
    }
}

/// Three sides: a new log, whose segments are made while it runs; one that writes into the segments of an earlier life,
/// as a log that is trimmed does; and the loop, whose file was written before the clock started.
fn batches(setup: &Setup) {
    let trials = setup.pick(7, 1);
    let barriers = setup.pick(1000, 5);
    let mut of_side: [Vec<Batches>; 3] = Default::default();
    for trial in 0..trials {
        for index in order(trial, 3) {
            let path = setup.path("log");
            of_side[index].push(match index {
                0 => batches_to_loop(&path, barriers),
                _ => batches_to_log(&path, barriers, index == 2),
            });
        }
    }
    println!(
        "{} records of {RECORD_BYTES} bytes, a barrier each {RECORDS_PER_BARRIER}, medians of {trials}; ratios to a loop that \
         writes the same bytes; then a batch with its barrier in us, by parts of a trial",
        barriers * RECORDS_PER_BARRIER
    );
    let rates =
        of_side.each_ref().map(|of| of.iter().map(|trial| trial.records_per_second).collect::<Vec<_>>());
    for (index, name) in ["loop", "new log", "log with recycled segments"].iter().enumerate() {
        println!("  {name}: {:.0} records/s, {}", median(&rates[index]), ratio(&rates[index], &rates[0]));
        let parts = (0..of_side[index][0].round_us.len())
            .map(|part| median(&of_side[index].iter().map(|trial| trial.round_us[part]).collect::<Vec<_>>()));
        println!("    {}", parts.map(|us| format!("{us:.0}")).collect::<Vec<_>>().join(" "));
    }
}

fn batches_to_log(path: &Path, barriers: u64, is_recycled: bool) -> Batches {
    let (wal, _) = Wal::options().strategy(Fsync::new()).recycle_segments(8).open(path).unwrap();
    if is_recycled {
        // Twice, because the first life is too fast for the zeros of its next segments: part of their blocks stay reserved.
        for _ in 0..2 {
            submit_batches(&wal, barriers + barriers / 10);
            wal.trim(wal.durable_lsn()).unwrap();
        }
    }
    let first = wo_wal::Lsn::new(wal.durable_lsn().get() + 1);
    let measured = submit_batches(&wal, barriers);
    let mut checker = Checker::new(1, RECORD_BYTES);
    for record in wal.replay(first..).unwrap() {
        checker.take(&record.unwrap().payload);
    }
    checker.finish(barriers * RECORDS_PER_BARRIER);
    wal.close().unwrap();
    drop(wal);
    std::fs::remove_dir_all(path).unwrap();
    measured
}

fn submit_batches(wal: &Wal, barriers: u64) -> Batches {
    let mut record = [0; RECORD_BYTES];
    in_rounds(barriers, |round| {
        for sequence in round * RECORDS_PER_BARRIER..(round + 1) * RECORDS_PER_BARRIER {
            fill_record(&mut record, 0, sequence);
            drop(wal.submit(&record).unwrap());
        }
        wal.sync().unwrap();
    })
}

fn batches_to_loop(path: &Path, barriers: u64) -> Batches {
    // As many bytes at a time as the log writes for a thousand records: with the 8 that the loop adds, their 64 of header.
    let step_bytes = usize::try_from(RECORDS_PER_BARRIER).unwrap() * (RECORD_BYTES + 8) + 56;
    let mut loop_ = BareLoop::create(path, barriers, step_bytes);
    let mut bytes = vec![0; step_bytes];
    let measured = in_rounds(barriers, |round| {
        fill_record(&mut bytes, 0, round);
        loop_.append(&bytes);
    });
    let mut checker = Checker::new(1, step_bytes);
    loop_.verify(&mut checker);
    checker.finish(barriers);
    std::fs::remove_file(path).unwrap();
    measured
}

fn in_rounds(barriers: u64, mut round: impl FnMut(u64)) -> Batches {
    let started = Instant::now();
    let rounds_us: Vec<f64> = (0..barriers)
        .map(|number| {
            let started = Instant::now();
            round(number);
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    Batches::of(started.elapsed(), &rounds_us)
}

// ---- records that are only submitted

fn submits(setup: &Setup) {
    const WRITERS: usize = 2;
    let trials = setup.pick(5, 1);
    let records_per_writer = setup.pick(1_000_000, 2000);
    let mut rates = Vec::new();
    for _ in 0..trials {
        let path = setup.path("log");
        let wal = open(&path, Cohort::Full);
        let done = AtomicUsize::new(0);
        let start = Barrier::new(WRITERS + 1);
        let mut started = Instant::now();
        let mut took = Duration::ZERO;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (wal, done, start) = (&wal, &done, &start);
                scope.spawn(move || {
                    let mut record = [0; RECORD_BYTES];
                    start.wait();
                    for sequence in 0..records_per_writer {
                        fill_record(&mut record, writer as u64, sequence);
                        drop(wal.submit(&record).unwrap());
                    }
                    done.fetch_add(1, Ordering::Release);
                });
            }
            start.wait();
            started = Instant::now();
            // The disk keeps up: somebody waits all the time, and at the end for everything.
            while done.load(Ordering::Acquire) < WRITERS {
                wal.sync().unwrap();
            }
            wal.sync().unwrap();
            took = started.elapsed();
        });
        rates.push(per_second(records_per_writer * WRITERS as u64, took));
        wal.close().unwrap();
        drop(wal);
        verify_and_remove(&path, WRITERS, records_per_writer);
    }
    let (smallest, largest) = span(&rates);
    println!(
        "{WRITERS} threads submit {records_per_writer} records each while barriers run, until all is durable, median of \
         {trials}: {:.2} million records/s ({:.2} to {:.2})",
        median(&rates) / 1e6,
        smallest / 1e6,
        largest / 1e6
    );
}

// ---- a reader beside a writer

fn reader_beside_writer(setup: &Setup) {
    const RECORDS_PER_READ: u64 = 100;
    let trials = setup.pick(9, 1);
    let reads = setup.pick(3000, 20);
    let prepared = setup.pick(20_000_u64, 500);
    let mut p99_us: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for trial in 0..2 * trials {
        let (path, other_path) = (setup.path("log"), setup.path("other"));
        let (wal, other) = (open(&path, Cohort::Full), open(&other_path, Cohort::Full));
        let mut record = [0; RECORD_BYTES];
        for sequence in 0..prepared {
            fill_record(&mut record, 0, sequence);
            drop(wal.submit(&record).unwrap());
        }
        wal.sync().unwrap();
        let index = (trial + trial / 2) % 2;
        let loaded = [&wal, &other][index];
        let mut records = [prepared, 0];
        let appended = &mut records[index];
        let stop = AtomicBool::new(false);
        let mut read_us = Vec::new();
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                let mut record = [0; RECORD_BYTES];
                while !stop.load(Ordering::Relaxed) {
                    fill_record(&mut record, 0, *appended);
                    loaded.append(&record).unwrap();
                    *appended += 1;
                }
            });
            for read in 0..reads {
                let first = 1 + read * 7919 % (prepared - RECORDS_PER_READ);
                let started = Instant::now();
                let mut replay = wal.replay(wo_wal::Lsn::new(first)..).unwrap();
                let mut last = 0;
                for _ in 0..RECORDS_PER_READ {
                    last = replay.next_ref().unwrap().unwrap().lsn.get();
                }
                read_us.push(started.elapsed().as_secs_f64() * 1e6);
                assert_eq!(last, first + RECORDS_PER_READ - 1);
            }
            stop.store(true, Ordering::Relaxed);
        });
        read_us.sort_by(f64::total_cmp);
        p99_us[index].push(at_percent(&read_us, 99));
        drop((wal, other));
        verify_and_remove(&path, 1, records[0]);
        verify_and_remove(&other_path, 1, records[1]);
    }
    println!(
        "a reader of {RECORDS_PER_READ} records at a time beside a writer at full rate, medians of {trials}: p99 {:.0} us, against \
         {:.0} us where another log takes that load, ratio {}",
        median(&p99_us[0]),
        median(&p99_us[1]),
        ratio(&p99_us[0], &p99_us[1])
    );
}
