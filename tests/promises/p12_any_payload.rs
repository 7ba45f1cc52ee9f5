//! P12: no opinion about the caller's bytes.

use wo_wal::Error;

use crate::support::env::{for_each_disk, lsn, payloads};
use crate::support::rng::Rng;

#[test]
fn p12_every_length_around_the_steps_of_the_format() {
    for_each_disk(|env| {
        let wal = env.open();
        let lengths = (0..70).chain(500..520).chain(4085..4105).chain([30_000, 61_000, 65_536, 200_000]);
        let records: Vec<Vec<u8>> = lengths
            .map(|length| {
                let mut record = vec![0; length];
                Rng::new(length as u64).fill(&mut record);
                record
            })
            .collect();
        for record in &records {
            wal.append(record).unwrap();
        }
        assert!(payloads(&wal) == records);
        env.power_cut(1);
        drop(wal);
        assert!(payloads(&env.open()) == records);
    });
}

#[test]
fn p12_the_largest_record_fits_and_one_byte_more_is_refused() {
    for_each_disk(|env| {
        let (wal, _) = env.open_with(env.options().max_record_bytes(100_000)).unwrap();
        wal.append(&vec![1; 100_000]).unwrap();
        for _ in 0..2 {
            match wal.append(&vec![2; 100_001]) {
                Err(Error::RecordTooLarge { bytes: 100_001, max_bytes: 100_000, .. }) => {}
                other => panic!("{other:?}"),
            }
            let batch = [vec![3; 5], vec![3; 100_001]];
            assert!(matches!(wal.append_batch(&batch), Err(Error::RecordTooLarge { .. })));
            assert!(matches!(wal.submit(&batch[1]), Err(Error::RecordTooLarge { .. })));
        }
        assert_eq!(wal.append(b"the log goes on").unwrap(), lsn(2));
        assert_eq!(payloads(&wal)[1], b"the log goes on");
    });
}

#[test]
fn p12_a_batch_above_the_maximum_is_refused() {
    for_each_disk(|env| {
        let (wal, _) = env.open_with(env.options().max_batch_bytes(1 << 20)).unwrap();
        let record = vec![1; 300_000];
        assert!(matches!(wal.append_batch(vec![&record; 4]), Err(Error::BatchTooLarge { .. })));
        assert_eq!(wal.append_batch(vec![&record; 3]).unwrap(), lsn(1)..=lsn(3));
    });
}

#[test]
fn p12_batches_of_every_size() {
    for_each_disk(|env| {
        let wal = env.open();
        let mut next = 1;
        for size in (1..20).chain([100, 1000, 5000]) {
            let lsns = wal.append_batch(vec![b"record"; size]).unwrap();
            assert_eq!(lsns, lsn(next)..=lsn(next + size as u64 - 1));
            next += size as u64;
        }
        drop(wal);
        assert_eq!(payloads(&env.open()).len() as u64, next - 1);
    });
}

#[test]
fn p12_empty_records_are_records() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"").unwrap();
        wal.append_batch([b"", b"", b""]).unwrap();
        env.power_cut(1);
        drop(wal);
        assert_eq!(payloads(&env.open()), [b""; 4]);
    });
}

/// A payload may look like a part of the log: what another log wrote, or this one.
#[test]
fn p12_a_log_inside_a_record() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"inner").unwrap();
        let inner = env.read(&env.segments()[0]);
        wal.append(&inner).unwrap();
        wal.append(&inner[4096..8192]).unwrap();
        env.power_cut(1);
        drop(wal);
        let wal = env.open();
        assert!(payloads(&wal) == [b"inner".to_vec(), inner.clone(), inner[4096..8192].to_vec()]);
        wal.append(b"and on").unwrap();
        drop(wal);
        assert_eq!(payloads(&env.open()).len(), 4);
    });
}
