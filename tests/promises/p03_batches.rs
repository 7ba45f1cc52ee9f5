//! P3: a batch is there whole, or not at all.

use crate::support::env::{Env, for_each_disk, lsn, payloads, replay_all};
use crate::support::sim::Sim;

#[test]
fn p03_a_batch_says_where_it_ends() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append_batch([b"a", b"b", b"c"]).unwrap();
        wal.append(b"d").unwrap();
        drop(wal);
        let ends: Vec<_> = replay_all(&env.open()).iter().map(|record| record.ends_batch).collect();
        assert_eq!(ends, [false, false, true, true]);
    });
}

#[test]
fn p03_a_batch_that_a_crash_tears_is_gone_whole() {
    let mut whole = 0;
    let mut gone = 0;
    for seed in 0..80 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 1);
        let wal = env.open();
        wal.append(b"acked").unwrap();
        // The batch's write is one call, its sync the next: the process dies in the sync.
        sim.crash_after(1);
        wal.append_batch([[1; 400], [2; 400], [3; 400]]).unwrap_err();
        drop(wal);
        sim.power_cut(seed);
        match payloads(&env.open()).len() {
            1 => gone += 1,
            4 => whole += 1,
            records => panic!("seed {seed}: {records} records"),
        }
    }
    assert!(whole > 0 && gone > 0, "{whole} whole, {gone} gone");
}

#[test]
fn p03_a_batch_larger_than_a_segment_stays_whole() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"before").unwrap();
        let records: Vec<_> = (0..100_u8).map(|byte| vec![byte; 3000]).collect();
        assert_eq!(wal.append_batch(&records).unwrap(), lsn(2)..=lsn(101));
        wal.append(b"after").unwrap();
        env.power_cut(1);
        drop(wal);
        let recovered = payloads(&env.open());
        assert_eq!(recovered[1..101], records);
        assert_eq!(recovered.len(), 102);
    });
}

#[test]
fn p03_concurrent_batches_do_not_mix() {
    for_each_disk(|env| {
        let wal = env.open();
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let wal = &wal;
                scope.spawn(move || {
                    for length in (1..=30).chain(1..=5) {
                        wal.append_batch(vec![[writer; 20]; length]).unwrap();
                    }
                });
            }
        });
        let records = replay_all(&wal);
        let batches = records.split_inclusive(|record| record.ends_batch);
        assert!(batches.clone().all(|batch| batch.iter().all(|record| record.payload == batch[0].payload)));
        assert_eq!(batches.count(), 4 * 35);
    });
}

#[test]
fn p03_an_empty_batch_takes_no_lsn() {
    for_each_disk(|env| {
        let wal = env.open();
        let none: [&[u8]; 0] = [];
        let answer = wal.append_batch(none);
        assert!(answer.map_or_else(|_| true, |lsns| lsns.is_empty()));
        assert_eq!(wal.append(b"first").unwrap(), lsn(1));
    });
}
