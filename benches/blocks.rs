//! What a barrier costs by what its blocks have been before, through `fsync` on one bare file: reserved only, zeros that
//! were written, or an earlier life's records; the last also where the cache has forgotten them, so that a write of a
//! part of a page reads the page first, and with whole pages, as the log does it: whoever enters a page writes zeros for
//! the rest of it along, which spares the read. Every side is read back and checked.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

mod common;

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use common::{Setup, at_percent, fill_record, median, order};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use wo_wal::strategy::{Extent, Fsync, SyncStrategy};

const PAGE_BYTES: u64 = 4096;

/// What the blocks of a file have been before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Zeros,
    Reserved,
    Recycled,
    RecycledUncached,
    RecycledUncachedWholePages,
}

const BEFORE: [(Before, &str); 5] = [
    (Before::Zeros, "written zeros"),
    (Before::Reserved, "reserved only"),
    (Before::Recycled, "recycled, in the cache"),
    (Before::RecycledUncached, "recycled, not in the cache"),
    (Before::RecycledUncachedWholePages, "the same, whole pages"),
];

fn main() {
    let setup = Setup::announce("blocks");
    let trials = setup.pick(9, 1);
    println!("one thread, medians of {trials} alternating trials, in microseconds; ratios to written zeros");
    for bytes in [264, 4104, 64 * 1024, 256 * 1024] {
        let barriers = setup.pick((16 * 1024 * 1024 / bytes).clamp(32, 500), 4);
        let mut of_side: Vec<[Vec<f64>; 3]> = BEFORE.iter().map(|_| Default::default()).collect();
        for trial in 0..trials {
            for side in order(trial, BEFORE.len()) {
                let sorted_us = run(&setup, BEFORE[side].0, bytes, barriers);
                let mean = sorted_us.iter().sum::<f64>() / f64::from(barriers);
                for (kept, value) in of_side[side].iter_mut().zip([
                    at_percent(&sorted_us, 50),
                    at_percent(&sorted_us, 99),
                    mean,
                ]) {
                    kept.push(value);
                }
            }
        }
        println!("{bytes} bytes for each of {barriers} barriers");
        for ((_, name), [p50_us, p99_us, mean_us]) in BEFORE.iter().zip(&of_side) {
            let ratios: Vec<f64> = mean_us.iter().zip(&of_side[0][2]).map(|(of, to)| of / to).collect();
            println!(
                "  {name:<27} p50 {:>5.0}  p99 {:>5.0}  mean {:>5.0} ({:.2})",
                median(p50_us),
                median(p99_us),
                median(mean_us),
                median(&ratios)
            );
        }
    }
}

/// Returns the sorted times.
fn run(setup: &Setup, before: Before, bytes: u32, barriers: u32) -> Vec<f64> {
    let path = setup.path("file");
    let file = prepared(&path, before, (u64::from(bytes) * u64::from(barriers)).next_multiple_of(PAGE_BYTES));
    let record_bytes = usize::try_from(bytes).unwrap();
    // Zeros behind the record, for the rest of a page.
    let mut written = vec![0; record_bytes + usize::try_from(PAGE_BYTES).unwrap()];
    fill_record(&mut written[..record_bytes], 1, 1);
    let mut covered_until = 0;
    let mut sorted_us: Vec<f64> = (0..u64::from(barriers))
        .map(|barrier| {
            let offset = barrier * u64::from(bytes);
            let mut end = offset + u64::from(bytes);
            if before == Before::RecycledUncachedWholePages && end > covered_until {
                end = end.next_multiple_of(PAGE_BYTES);
                covered_until = end;
            }
            let extent_bytes = &written[..usize::try_from(end - offset).unwrap()];
            let started = Instant::now();
            Fsync::new().persist(Extent::new(file.as_fd(), offset, extent_bytes)).unwrap();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    let mut back = vec![0; record_bytes];
    for barrier in 0..u64::from(barriers) {
        file.read_exact_at(&mut back, barrier * u64::from(bytes)).unwrap();
        assert_eq!(back, written[..record_bytes], "barrier {barrier}");
    }
    drop(file);
    std::fs::remove_file(path).unwrap();
    sorted_us.sort_by(f64::total_cmp);
    sorted_us
}

fn prepared(path: &std::path::Path, before: Before, file_bytes: u64) -> File {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, file_bytes).unwrap();
    if before != Before::Reserved {
        let fill = if before == Before::Zeros { 0 } else { 0x5a };
        file.write_all_at(&vec![fill; usize::try_from(file_bytes).unwrap()], 0).unwrap();
    }
    file.sync_all().unwrap();
    if matches!(before, Before::RecycledUncached | Before::RecycledUncachedWholePages) {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    file
}
