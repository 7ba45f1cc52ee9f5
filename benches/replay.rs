//! Replay from the page cache on one core, every checksum verified, against a loop of the bench's own that reads the same
//! payloads into a 256 KiB buffer and checksums each, and does nothing else.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod common;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Setup, fill_record, median, per_second, span};
use wo_wal::{Reader, Wal};

const READ_BYTES: usize = 256 << 10;
const BATCH_RECORDS: u64 = 1024;
const RECORD_BYTES: [usize; 2] = [256, 4096];

fn main() {
    let setup = Setup::announce("replay");
    let (trials, payload_bytes) = setup.pick((9, 512 << 20), (1, 4 << 20));
    println!("{} MiB of payload, median of {trials} alternating trials", payload_bytes >> 20);
    println!(
        "record bytes    replay records/s    replay GB/s    read + crc GB/s    ratio (smallest to largest)"
    );
    for record_bytes in RECORD_BYTES {
        compare(&setup, record_bytes, payload_bytes / record_bytes as u64, trials);
    }
}

fn compare(setup: &Setup, record_bytes: usize, records: u64, trials: usize) {
    let log_path = setup.path(&format!("log-{record_bytes}"));
    let plain_path = setup.path(&format!("plain-{record_bytes}"));
    write_log(&log_path, record_bytes, records);
    let checksums = write_plain(&plain_path, record_bytes, records);
    let (reader, _) = Reader::open(&log_path).unwrap();
    let plain = File::open(&plain_path).unwrap();
    // One round each puts the pages into the cache.
    replay(&reader, records);
    read_and_checksum(&plain, record_bytes, records, checksums);
    let (mut log_rates, mut plain_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..trials {
        let (log_took, plain_took) = if trial % 2 == 0 {
            let log_took = replay(&reader, records);
            (log_took, read_and_checksum(&plain, record_bytes, records, checksums))
        } else {
            let plain_took = read_and_checksum(&plain, record_bytes, records, checksums);
            (replay(&reader, records), plain_took)
        };
        log_rates.push(per_second(records, log_took));
        plain_rates.push(per_second(records, plain_took));
        ratios.push(plain_took.as_secs_f64() / log_took.as_secs_f64());
    }
    let gigabytes = |rates: &[f64]| median(rates) * record_bytes as f64 / 1e9;
    let (smallest, largest) = span(&ratios);
    println!(
        "{record_bytes:>12}    {:>16.0}    {:>11.2}    {:>15.2}    {:.3} ({smallest:.2} to {largest:.2})",
        median(&log_rates),
        gigabytes(&log_rates),
        gigabytes(&plain_rates),
        median(&ratios),
    );
}

fn write_log(path: &Path, record_bytes: usize, records: u64) {
    let (wal, _) = Wal::open(path).unwrap();
    let mut batch = vec![vec![0; record_bytes]; usize::try_from(BATCH_RECORDS).unwrap()];
    let mut written = 0;
    while written < records {
        let batch_records = BATCH_RECORDS.min(records - written);
        for (record, sequence) in batch.iter_mut().zip(written..) {
            fill_record(record, 0, sequence);
        }
        written += batch_records;
        wal.append_batch(&batch[..usize::try_from(batch_records).unwrap()]).unwrap();
    }
    wal.close().unwrap();
}

/// The payloads and nothing else; returns what their checksums add up to.
fn write_plain(path: &Path, record_bytes: usize, records: u64) -> u64 {
    let mut file = std::io::BufWriter::new(File::create_new(path).unwrap());
    let mut record = vec![0; record_bytes];
    let mut checksums = 0;
    for sequence in 0..records {
        fill_record(&mut record, 0, sequence);
        checksums += u64::from(crc32fast::hash(&record));
        file.write_all(&record).unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    checksums
}

/// Replays everything; the sequence numbers in the records add up to what they must.
fn replay(reader: &Reader, records: u64) -> Duration {
    let started = Instant::now();
    let mut replay = reader.replay(..).unwrap();
    let (mut count, mut sequences) = (0, 0);
    while let Some(record) = replay.next_ref().unwrap() {
        count += 1;
        sequences += u64::from_le_bytes(record.payload[8..16].try_into().unwrap());
    }
    let took = started.elapsed();
    assert_eq!((count, sequences), (records, records * (records - 1) / 2), "replay returned other records");
    took
}

fn read_and_checksum(file: &File, record_bytes: usize, records: u64, expected: u64) -> Duration {
    let started = Instant::now();
    let mut buffer = vec![0; READ_BYTES];
    let (mut offset, mut checksums) = (0, 0);
    let end = records * record_bytes as u64;
    while offset < end {
        let piece = READ_BYTES.min(usize::try_from(end - offset).unwrap());
        file.read_exact_at(&mut buffer[..piece], offset).unwrap();
        offset += piece as u64;
        for payload in buffer[..piece].chunks(record_bytes) {
            checksums += u64::from(crc32fast::hash(payload));
        }
    }
    let took = started.elapsed();
    assert_eq!(checksums, expected, "the reference read other bytes");
    took
}
