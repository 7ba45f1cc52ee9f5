//! What a rotation costs the appends that meet it: their group is the first with records in a segment, so they waited for
//! the seal of the one before. Segments of 1 MiB, so that there are many.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::{Setup, fill_record, median, verify};
use wo_wal::Wal;

const RECORD_BYTES: usize = 256;
const SEGMENT_BYTES: u64 = 1 << 20;
const WRITERS: [usize; 2] = [1, 16];
/// More than a segment of this size takes, at any group size.
const RECORDS_PER_SEGMENT: u64 = SEGMENT_BYTES / RECORD_BYTES as u64;
/// In the layout of `docs/format.md`.
const FIRST_GROUP_OFFSET: u64 = 4096;
const GROUP_HEADER_BYTES: usize = 64;

/// How long one append took, and which record it appended.
#[derive(Debug)]
struct Sample {
    lsn: u64,
    took: Duration,
}

fn main() {
    let setup = Setup::announce("rotation");
    let segments = setup.pick(24, 2);
    println!("{RECORD_BYTES}-byte records, {} KiB segments", SEGMENT_BYTES >> 10);
    println!("writers    rotations    appends across one    p50 across us    p50 of the others us    ratio");
    for writers in WRITERS {
        let path = setup.path(&format!("log-{writers}"));
        let records_per_writer = segments * RECORDS_PER_SEGMENT / writers as u64;
        let samples = append_all(&path, writers, records_per_writer);
        verify(&path, writers, RECORD_BYTES, records_per_writer);
        print_row(writers, &samples, &crossing_groups(&path));
    }
}

fn append_all(path: &Path, writers: usize, records_per_writer: u64) -> Vec<Sample> {
    let (wal, _) = Wal::options().segment_bytes(SEGMENT_BYTES).open(path).unwrap();
    println!("{writers:>7}    through {}", wal.strategy().reason);
    let start = Barrier::new(writers);
    let samples = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (wal, start) = (&wal, &start);
                scope.spawn(move || {
                    let mut samples = Vec::with_capacity(usize::try_from(records_per_writer).unwrap());
                    let mut record = [0; RECORD_BYTES];
                    start.wait();
                    for sequence in 0..records_per_writer {
                        fill_record(&mut record, writer as u64, sequence);
                        let started = Instant::now();
                        let lsn = wal.append(&record).unwrap().get();
                        samples.push(Sample { lsn, took: started.elapsed() });
                    }
                    samples
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    wal.close().unwrap();
    samples
}

/// The LSNs of the first group with records in every segment but the first.
fn crossing_groups(path: &Path) -> Vec<Range<u64>> {
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|name| name.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    names.sort();
    names.iter().skip(1).filter_map(|name| first_group_with_records(name)).collect()
}

fn first_group_with_records(segment: &Path) -> Option<Range<u64>> {
    let file = File::open(segment).unwrap();
    let mut offset = FIRST_GROUP_OFFSET;
    let mut header = [0; GROUP_HEADER_BYTES];
    loop {
        file.read_exact_at(&mut header, offset).ok()?;
        if !header.starts_with(b"WOGR") {
            return None;
        }
        let group_bytes = u32::from_le_bytes(header[4..8].try_into().unwrap());
        let first_lsn = u64::from_le_bytes(header[24..32].try_into().unwrap());
        let record_count = u32::from_le_bytes(header[40..44].try_into().unwrap());
        if record_count > 0 {
            return Some(first_lsn..first_lsn + u64::from(record_count));
        }
        offset += u64::from(group_bytes);
    }
}

fn print_row(writers: usize, samples: &[Sample], crossing: &[Range<u64>]) {
    let crosses = |sample: &&Sample| crossing.iter().any(|lsns| lsns.contains(&sample.lsn));
    let (across, others): (Vec<&Sample>, Vec<&Sample>) = samples.iter().partition(crosses);
    assert!(!across.is_empty(), "no append met a rotation");
    let middle_us = |samples: &[&Sample]| {
        median(&samples.iter().map(|sample| sample.took.as_secs_f64() * 1e6).collect::<Vec<_>>())
    };
    let (across_us, others_us) = (middle_us(&across), middle_us(&others));
    println!(
        "{writers:>7}    {:>9}    {:>18}    {across_us:>13.0}    {others_us:>20.0}    {:.2}",
        crossing.len(),
        across.len(),
        across_us / others_us,
    );
}
