//! Where the time between two barriers goes: a closed loop whose barriers and calls are all timed.
//!
//! From the end of one barrier: until the first writer's call has returned, until the last one's has that returns before
//! the next barrier, and until the next barrier starts. Gaps in which no call returned count for the last of these alone, so
//! with `greedy` it can be the shortest. Both cohort policies; every run is read back and checked. And the floor: threads
//! that have nothing to do but be woken, all by one call, and sleep again; the last one makes a barrier.
//! Numbers as arguments choose how many writers, `full`, `greedy` and `floor` the sides.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{Setup, asked_writers, closed_loop, is_asked, median, order, per_second, verify};
use rustix::thread::futex;
use wo_wal::strategy::{Extent, Fsync, SyncStrategy};
use wo_wal::{Cohort, Wal};

const RECORD_BYTES: usize = 256;
const WRITERS: [usize; 4] = [1, 4, 16, 64];

/// From when to when something took, in microseconds since the start.
#[derive(Clone, Copy, Debug)]
struct Span {
    start_us: f64,
    end_us: f64,
}

/// `fsync`, with a note of every barrier.
#[derive(Debug)]
struct Timed {
    since: Instant,
    barriers: Mutex<Vec<Span>>,
}

impl SyncStrategy for Timed {
    fn name(&self) -> &'static str {
        "timed fsync"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let start_us = micros_since(self.since);
        let persisted = Fsync::new().persist(extent);
        self.barriers.lock().unwrap().push(Span { start_us, end_us: micros_since(self.since) });
        persisted
    }
}

fn micros_since(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// One trial: medians over its barriers; totals from `records_per_barrier` on.
#[derive(Debug)]
struct Trial {
    barrier_us: f64,
    first_return_us: f64,
    last_return_us: f64,
    gap_us: f64,
    records_per_barrier: f64,
    records_per_second: f64,
    cpu_us_per_record: f64,
    switches_per_record: f64,
}

/// Whose gaps are measured.
#[derive(Clone, Copy, Debug)]
enum Side {
    Log(Cohort),
    Floor,
}

const SIDES: [(&str, Side); 3] =
    [("full", Side::Log(Cohort::Full)), ("greedy", Side::Log(Cohort::Greedy)), ("floor", Side::Floor)];

/// Threads that have nothing to do: each leaves its record in its slot and waits for the others; the last one appends all
/// of them, as one batch, and wakes all. So the log writes the same bytes, and knows of one writer only.
struct Floor<'a> {
    wal: &'a Wal,
    /// The record of each thread; written by the thread, read by the last one to arrive.
    slots: Vec<Mutex<[u8; RECORD_BYTES]>>,
    /// How many wait for the next barrier. The last one sets it back before it wakes the others.
    arrived: AtomicUsize,
    /// Counts barriers; the threads sleep on it.
    barriers: AtomicU32,
}

impl Floor<'_> {
    fn new(wal: &Wal, threads: usize) -> Floor<'_> {
        let slots = (0..threads).map(|_| Mutex::new([0; RECORD_BYTES])).collect();
        Floor { wal, slots, arrived: AtomicUsize::new(0), barriers: AtomicU32::new(0) }
    }

    fn ride(&self, writer: usize, record: &[u8]) {
        self.slots[writer].lock().unwrap().copy_from_slice(record);
        let seen = self.barriers.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < self.slots.len() {
            while self.barriers.load(Ordering::Acquire) == seen {
                // Early returns are looked into by the loop.
                let _ = futex::wait(&self.barriers, futex::Flags::PRIVATE, seen, None);
            }
            return;
        }
        self.arrived.store(0, Ordering::Relaxed);
        self.wal.append_batch(self.slots.iter().map(|slot| *slot.lock().unwrap())).unwrap();
        self.barriers.store(seen + 1, Ordering::Release);
        let everybody = i32::MAX.cast_unsigned();
        futex::wake(&self.barriers, futex::Flags::PRIVATE, everybody).unwrap();
    }
}

fn main() {
    let setup = Setup::announce("gap");
    let trials = setup.pick(15, 1);
    println!(
        "{RECORD_BYTES}-byte records through fsync, medians of {trials} alternating trials, in microseconds"
    );
    let mut sides = SIDES.to_vec();
    if sides.iter().any(|(name, _)| is_asked(name)) {
        sides.retain(|(name, _)| is_asked(name));
    }
    println!(
        "writers  side    barrier  first return  last return  next barrier  records/barrier  records/s  CPU/record  switches/record"
    );
    for writers in asked_writers(&WRITERS) {
        let records_per_writer = setup.pick(2_000 * writers.clamp(2, 32) / writers, 20) as u64;
        let mut of_side: Vec<Vec<Trial>> = sides.iter().map(|_| Vec::new()).collect();
        for trial in 0..trials {
            for index in order(trial, sides.len()) {
                of_side[index].push(run(&setup.path("log"), sides[index].1, writers, records_per_writer));
            }
        }
        for ((name, _), results) in sides.iter().zip(&of_side) {
            print_row(writers, name, results);
        }
    }
}

fn print_row(writers: usize, name: &str, trials: &[Trial]) {
    let of = |field: fn(&Trial) -> f64| median(&trials.iter().map(field).collect::<Vec<_>>());
    println!(
        "{writers:>7}  {name:<6}  {:>7.0}  {:>12.0}  {:>11.0}  {:>12.0}  {:>15.1}  {:>9.0}  {:>10.1}  {:>15.2}",
        of(|trial| trial.barrier_us),
        of(|trial| trial.first_return_us),
        of(|trial| trial.last_return_us),
        of(|trial| trial.gap_us),
        of(|trial| trial.records_per_barrier),
        of(|trial| trial.records_per_second),
        of(|trial| trial.cpu_us_per_record),
        of(|trial| trial.switches_per_record),
    );
}

fn run(path: &Path, side: Side, writers: usize, records_per_writer: u64) -> Trial {
    let timed = Arc::new(Timed { since: Instant::now(), barriers: Mutex::default() });
    let cohort = match side {
        Side::Log(cohort) => cohort,
        Side::Floor => Cohort::Greedy,
    };
    let (wal, _) = Wal::options().strategy(Arc::clone(&timed)).cohort(cohort).open(path).unwrap();
    timed.barriers.lock().unwrap().clear();
    let floor = Floor::new(&wal, writers);
    let append = |writer, record: &[u8]| match side {
        Side::Log(_) => {
            wal.append(record).unwrap();
        }
        Side::Floor => floor.ride(writer, record),
    };
    let measured = closed_loop(writers, records_per_writer, RECORD_BYTES, append, || ());
    // The close has a barrier of its own, later.
    let barriers = std::mem::take(&mut *timed.barriers.lock().unwrap());
    wal.close().unwrap();
    drop(wal);
    verify(path, writers, RECORD_BYTES, records_per_writer);
    std::fs::remove_dir_all(path).unwrap();
    let records = records_per_writer * writers as u64;
    let mut returns_us: Vec<f64> =
        measured.calls.iter().map(|(_, returned)| (*returned - timed.since).as_secs_f64() * 1e6).collect();
    returns_us.sort_by(f64::total_cmp);
    let gaps = Gaps::between(&barriers, &returns_us);
    Trial {
        barrier_us: median(
            &barriers.iter().map(|barrier| barrier.end_us - barrier.start_us).collect::<Vec<_>>(),
        ),
        first_return_us: median(&gaps.first_return),
        last_return_us: median(&gaps.last_return),
        gap_us: median(&gaps.next_barrier),
        records_per_barrier: records as f64 / barriers.len() as f64,
        records_per_second: per_second(records, measured.took),
        cpu_us_per_record: measured.usage.cpu.as_secs_f64() * 1e6 / records as f64,
        switches_per_record: measured.usage.switches as f64 / records as f64,
    }
}

/// What happened between two barriers, in microseconds from the end of the first.
#[derive(Debug, Default)]
struct Gaps {
    first_return: Vec<f64>,
    last_return: Vec<f64>,
    next_barrier: Vec<f64>,
}

impl Gaps {
    fn between(barriers: &[Span], sorted_returns_us: &[f64]) -> Gaps {
        let mut gaps = Gaps::default();
        for pair in barriers.windows(2) {
            let (end_us, next_us) = (pair[0].end_us, pair[1].start_us);
            gaps.next_barrier.push(next_us - end_us);
            let from = sorted_returns_us.partition_point(|&at_us| at_us < end_us);
            let until = sorted_returns_us.partition_point(|&at_us| at_us < next_us);
            if let (Some(first), Some(last)) =
                (sorted_returns_us[from..until].first(), sorted_returns_us[from..until].last())
            {
                gaps.first_return.push(first - end_us);
                gaps.last_return.push(last - end_us);
            }
        }
        gaps
    }
}
