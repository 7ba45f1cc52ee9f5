//! What the log costs besides the barrier: appends through a strategy that writes and does not sync. Staging, framing,
//! checksums, the write, settling, and preparing the next segment are in; waiting for a device is not.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

mod common;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use common::{Setup, fill_record};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wo_wal::{Extent, Lsn, SyncStrategy, Wal};

/// Breaks the contract on purpose: nothing that it answers is durable.
#[derive(Debug)]
struct WriteOnly;

impl SyncStrategy for WriteOnly {
    fn name(&self) -> &'static str {
        "write-only"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        write_all_at(extent.file(), extent.bytes(), extent.offset())
    }
}

fn write_all_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Appends `iterations` batches and returns how long that took. The log is read back and emptied off the clock.
fn append(wal: &Wal, batch: &[Vec<u8>], iterations: u64) -> Duration {
    let before = wal.durable_lsn();
    let started = Instant::now();
    for _ in 0..iterations {
        match batch {
            [record] => wal.append(record).map(|_| ()).unwrap(),
            records => wal.append_batch(records).map(|_| ()).unwrap(),
        }
    }
    let took = started.elapsed();
    let appended = iterations * batch.len() as u64;
    assert_eq!(wal.durable_lsn(), Lsn::new(before.get() + appended));
    let last = wal.replay(wal.durable_lsn()..).unwrap().next().unwrap().unwrap();
    assert_eq!(&last.payload, batch.last().unwrap());
    wal.trim(wal.durable_lsn()).unwrap();
    took
}

fn front_end(criterion: &mut Criterion) {
    let setup = Setup::announce("front end");
    let mut group = criterion.benchmark_group("append, written and not synced");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for (batch_records, record_bytes) in [(1, 256), (1, 4096), (100, 256)] {
        let path = setup.path(&format!("log-{batch_records}-{record_bytes}"));
        let (wal, _) = Wal::options().strategy(WriteOnly).open(path).unwrap();
        let mut batch = vec![vec![0; record_bytes]; batch_records];
        for (record, sequence) in batch.iter_mut().zip(0..) {
            fill_record(record, 0, sequence);
        }
        group.throughput(Throughput::Elements(batch_records as u64));
        let id = BenchmarkId::from_parameter(format!("{batch_records} x {record_bytes} bytes"));
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|iterations| append(&wal, &batch, iterations));
        });
        wal.close().unwrap();
    }
    group.finish();
}

criterion_group!(benches, front_end);
criterion_main!(benches);
