//! The parts of the log, each by itself: encoding, decoding, replay, appends with so many writers, submits, and a barrier
//! with each strategy. What was written is read back off the clock.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

mod common;

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::{Checker, Setup, fill_record};
use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use wo_wal::measuring::{decode_group, encode_group};
use wo_wal::strategy::{Fsync, Uring};
use wo_wal::{Extent, Lsn, SyncStrategy, Wal};

const RECORD_BYTES: usize = 256;
/// Records in a group, and their size.
const GROUPS: [(usize, usize); 3] = [(1, 256), (100, 256), (1, 64 << 10)];

fn records(count: usize, record_bytes: usize) -> Vec<Vec<u8>> {
    let mut records = vec![vec![0; record_bytes]; count];
    for (record, sequence) in records.iter_mut().zip(0..) {
        fill_record(record, 0, sequence);
    }
    records
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode a group");
    for (count, record_bytes) in GROUPS {
        let (records, mut bytes) = (records(count, record_bytes), Vec::new());
        group.throughput(Throughput::Bytes((count * record_bytes) as u64));
        group.bench_function(format!("{count} x {record_bytes} bytes"), |bencher| {
            bencher.iter(|| encode_group(black_box(&records), &mut bytes));
        });
        assert_eq!(decode_group(&bytes), u32::try_from(count).ok());
    }
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode a group");
    for (count, record_bytes) in GROUPS {
        let (expected, mut bytes) = (u32::try_from(count).ok(), Vec::new());
        encode_group(&records(count, record_bytes), &mut bytes);
        group.throughput(Throughput::Bytes((count * record_bytes) as u64));
        group.bench_function(format!("{count} x {record_bytes} bytes"), |bencher| {
            bencher.iter(|| assert_eq!(decode_group(black_box(&bytes)), expected));
        });
        // What was decoded was checked.
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(decode_group(&bytes), None);
    }
    group.finish();
}

fn replay(criterion: &mut Criterion) {
    const RECORDS: u64 = 20_000;
    let setup = Setup::announce("replay");
    let (wal, _) = Wal::options().strategy(Fsync::new()).open(setup.path("log")).unwrap();
    submit_all(&wal, 1, RECORDS);
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(20);
    group.bench_function(format!("{RECORD_BYTES} bytes"), |bencher| {
        bencher.iter(|| {
            let mut replay = wal.replay(..).unwrap();
            let (mut count, mut sequences) = (0, 0);
            while let Some(record) = replay.next_ref().unwrap() {
                count += 1;
                sequences += u64::from_le_bytes(record.payload[8..16].try_into().unwrap());
            }
            assert_eq!((count, sequences), (RECORDS, RECORDS * (RECORDS - 1) / 2));
        });
    });
    group.finish();
    wal.close().unwrap();
}

/// For what waits for a disk: as many iterations in each sample, and not many of them.
fn on_disk<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group
}

/// One iteration is a record of each writer.
fn append(criterion: &mut Criterion) {
    let setup = Setup::announce("append");
    let mut group = on_disk(criterion, "append");
    for writers in [1, 4, 16] {
        let path = setup.path(&format!("log-{writers}"));
        let (wal, _) = Wal::options().strategy(Fsync::new()).open(path).unwrap();
        group.throughput(Throughput::Elements(writers as u64));
        group.bench_function(BenchmarkId::new("writers", writers), |bencher| {
            bencher.iter_custom(|iterations| append_all(&wal, writers, iterations));
        });
        wal.close().unwrap();
    }
    group.finish();
}

/// One iteration is a thousand records of each submitter; the sync at the end counts too.
fn submit(criterion: &mut Criterion) {
    const RECORDS: u64 = 1000;
    let setup = Setup::announce("submit");
    let mut group = on_disk(criterion, "submit");
    for submitters in [1, 2] {
        let path = setup.path(&format!("log-{submitters}"));
        let (wal, _) = Wal::options().strategy(Fsync::new()).open(path).unwrap();
        group.throughput(Throughput::Elements(submitters as u64 * RECORDS));
        group.bench_function(BenchmarkId::new("submitters", submitters), |bencher| {
            bencher.iter_custom(|iterations| submit_all(&wal, submitters, iterations * RECORDS));
        });
        wal.close().unwrap();
    }
    group.finish();
}

fn append_all(wal: &Wal, writers: usize, records_per_writer: u64) -> Duration {
    write_all(wal, writers, records_per_writer, |record| {
        wal.append(record).unwrap();
    })
}

fn submit_all(wal: &Wal, submitters: usize, records_per_submitter: u64) -> Duration {
    write_all(wal, submitters, records_per_submitter, |record| drop(wal.submit(record).unwrap()))
}

/// Returns how long it took until all was durable. Before that, the log drops what it can spare; afterwards the new records
/// are read back.
fn write_all(wal: &Wal, writers: usize, records_per_writer: u64, write: impl Fn(&[u8]) + Sync) -> Duration {
    wal.trim(wal.durable_lsn()).unwrap();
    let before = wal.durable_lsn();
    let start = Barrier::new(writers + 1);
    let took = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (start, write) = (&start, &write);
                scope.spawn(move || {
                    let mut record = [0; RECORD_BYTES];
                    start.wait();
                    for sequence in 0..records_per_writer {
                        fill_record(&mut record, writer as u64, sequence);
                        write(&record);
                    }
                })
            })
            .collect();
        let started = Instant::now();
        start.wait();
        for thread in threads {
            thread.join().unwrap();
        }
        wal.sync().unwrap();
        started.elapsed()
    });
    let mut checker = Checker::new(writers, RECORD_BYTES);
    let mut replay = wal.replay(Lsn::new(before.get() + 1)..).unwrap();
    while let Some(record) = replay.next_ref().unwrap() {
        checker.take(record.payload);
    }
    checker.finish(records_per_writer);
    took
}

const BARRIER_FILE_BYTES: u64 = 4 << 20;

fn barrier(criterion: &mut Criterion) {
    let setup = Setup::announce("barrier");
    let file = written_file(&setup.path("file"));
    let mut strategies: Vec<Arc<dyn SyncStrategy>> = vec![Arc::new(Fsync::new())];
    match Uring::new() {
        Ok(uring) => strategies.push(Arc::new(uring)),
        Err(refusal) => println!("without uring: no ring can be had here: {refusal}"),
    }
    let mut group = on_disk(criterion, "barrier");
    for bytes in [256, 4096] {
        for strategy in &strategies {
            group.bench_function(format!("{}, {bytes} bytes", strategy.name()), |bencher| {
                bencher.iter_custom(|iterations| persist(strategy, &file, bytes, iterations));
            });
        }
    }
    group.finish();
}

/// As a prepared segment: its zeros are really there.
fn written_file(path: &Path) -> File {
    let mut file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.write_all(&vec![0; usize::try_from(BARRIER_FILE_BYTES).unwrap()]).unwrap();
    file.sync_all().unwrap();
    file
}

/// One barrier after the other, each behind the one before.
fn persist(strategy: &dyn SyncStrategy, file: &File, bytes: usize, iterations: u64) -> Duration {
    let mut record = vec![0; bytes];
    let mut took = Duration::ZERO;
    let place = |iteration: u64| iteration * bytes as u64 % BARRIER_FILE_BYTES;
    for iteration in 0..iterations {
        fill_record(&mut record, 0, iteration);
        let started = Instant::now();
        strategy.persist(Extent::new(file.as_fd(), place(iteration), &record)).unwrap();
        took += started.elapsed();
    }
    let mut read = vec![0; bytes];
    file.read_exact_at(&mut read, place(iterations - 1)).unwrap();
    assert_eq!(read, record);
    took
}

criterion_group!(benches, encode, decode, replay, append, submit, barrier);
criterion_main!(benches);
