//! What went wrong in other logs, tried here: the cases of `docs/known-failures.md` that no other test is about. A test
//! carries the number that its case has there.

use std::collections::BTreeMap;

use wo_wal::{Lsn, Wal};

use crate::support::env::{Env, SEGMENT_BYTES, for_each_disk, lsn, payloads, replay_all};

/// Appends records of this size that tell their numbers, the first of them `from`.
fn append_numbered(wal: &Wal, from: u64, count: u64, bytes: usize) {
    for number in from..from + count {
        let mut record = number.to_le_bytes().to_vec();
        record.resize(bytes, 0xAB);
        assert_eq!(wal.append(&record).unwrap(), lsn(number));
    }
}

fn is_numbered(lsn: Lsn, payload: &[u8]) -> bool {
    payload.starts_with(&lsn.get().to_le_bytes())
}

/// Puts each of these in the place of the last segment, one after the other, and uses the log.
fn goes_on_with(env: &mut Env, spoilt: impl IntoIterator<Item = Vec<u8>>) {
    let (image, expected) = (env.image(), ["one", "two"].map(str::as_bytes));
    for bytes in spoilt {
        env.restore(&image);
        let segment = env.segments()[0].clone();
        env.replace(&segment, &bytes);
        let wal = env.open();
        assert_eq!(payloads(&wal), expected);
        wal.append(b"three").unwrap();
        drop(wal);
        for _ in 0..2 {
            assert_eq!(payloads(&env.open()), [expected[0], expected[1], b"three"]);
        }
    }
}

/// The first segment of a log with two records, and where the next group goes in it.
fn two_records(env: &mut Env) -> (Vec<u8>, usize) {
    let (wal, _) = env.open_with(env.options().prepares_ahead(false)).unwrap();
    wal.append(b"one").unwrap();
    wal.append(b"two").unwrap();
    env.kill();
    drop(wal);
    let bytes = env.read(&env.segments()[0]);
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (bytes, end.next_multiple_of(8))
}

#[test]
fn a02_stray_bytes_behind_the_last_record_hide_nothing_that_comes_after_them() {
    for_each_disk(|env| {
        let (bytes, place) = two_records(env);
        let strays = [place, place + 1, place + 100, bytes.len() - 1, bytes.len()];
        let spoilt = strays.map(|stray| {
            let mut spoilt = bytes.clone();
            spoilt.resize(bytes.len().max(stray + 1), 0);
            spoilt[stray] = b'?';
            spoilt
        });
        goes_on_with(env, spoilt);
    });
}

#[test]
fn b01_zeros_behind_the_end_of_the_file_are_no_damage() {
    for_each_disk(|env| {
        let (bytes, _) = two_records(env);
        let spoilt = [1, 511, 4096, 1 << 20].map(|more| [&bytes[..], &vec![0; more]].concat());
        goes_on_with(env, spoilt);
    });
}

/// Group buffers are used again; what an earlier group has left in one stays in memory.
#[test]
fn b04_nothing_but_zeros_is_written_behind_the_last_record() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(&[0xEE; 15_000]).unwrap();
        for _ in 0..5 {
            wal.append(b"x").unwrap();
        }
        let last_group = usize::try_from(*control.offsets().last().unwrap()).unwrap();
        let bytes = env.read(&env.segments()[0]);
        let end = last_group + bytes[last_group..].iter().rposition(|byte| *byte != 0).unwrap();
        assert!(end < last_group + 200, "bytes up to {end}, where the last group starts at {last_group}");
    });
}

#[test]
fn e09_segments_are_read_by_their_numbers_whatever_order_a_directory_has() {
    for_each_disk(|env| {
        let wal = env.open();
        append_numbered(&wal, 1, 25, 25_000);
        drop(wal);
        assert!(env.segments().len() > 11, "from one digit to two");
        let wal = env.open();
        assert!(replay_all(&wal).iter().all(|record| is_numbered(record.lsn, &record.payload)));
        append_numbered(&wal, 26, 5, 25_000);
    });
}

/// No index, no offset file, no checkpoint: there is nothing that could say something else than the records do.
#[test]
fn e11_a_log_is_whole_without_any_file_but_its_segments() {
    for_each_disk(|env| {
        let wal = env.open();
        append_numbered(&wal, 1, 12, 20_000);
        wal.close().unwrap();
        drop(wal);
        let segments = env.segments();
        let others: Vec<_> = env.names().into_iter().filter(|name| !segments.contains(name)).collect();
        assert!(!others.is_empty(), "the spare at least");
        for name in others {
            env.remove(&name);
        }
        // Where a directory is real it has a file to lock.
        let _ = std::fs::remove_file(env.path().join("LOCK"));
        let wal = env.open();
        assert_eq!(replay_all(&wal).len(), 12);
        append_numbered(&wal, 13, 5, 20_000);
    });
}

#[test]
fn f01_records_about_as_large_as_a_segment_are_records() {
    for_each_disk(|env| {
        let wal = env.open();
        let segment_bytes = usize::try_from(SEGMENT_BYTES).unwrap();
        let mut lengths: Vec<_> =
            (segment_bytes - 4096 - 240..segment_bytes - 4096 + 16).step_by(8).collect();
        lengths.extend([segment_bytes - 1, segment_bytes, segment_bytes + 1, 10 * segment_bytes]);
        for &length in &lengths {
            wal.append(&vec![b'A'; length]).unwrap();
            wal.append(b"an ordinary one").unwrap();
        }
        env.power_cut(1);
        drop(wal);
        let recovered = payloads(&env.open());
        let found: Vec<_> = recovered.iter().step_by(2).map(Vec::len).collect();
        assert_eq!(found, lengths);
    });
}

#[test]
fn g01_the_size_of_a_log_that_nobody_trims_can_be_seen() {
    for_each_disk(|env| {
        let wal = env.open();
        append_numbered(&wal, 1, 20, 20_000);
        let stats = wal.stats();
        assert!(stats.segments >= 6 && stats.segment_bytes == stats.segments * SEGMENT_BYTES, "{stats:?}");
        assert_eq!(wal.oldest_lsn(), lsn(1));
        wal.trim(lsn(20)).unwrap();
        assert!(wal.stats().segment_bytes <= 3 * SEGMENT_BYTES, "{:?}", wal.stats());
        assert!(wal.oldest_lsn() > lsn(1));
    });
}

#[test]
fn g05_a_consumer_that_gives_up_in_the_middle_changes_nothing() {
    for_each_disk(|env| {
        let (wal, _) = env.open_with(env.options().prepares_ahead(false)).unwrap();
        append_numbered(&wal, 1, 20, 20_000);
        let image = env.image();
        for given_up_at in [1, 7, 19] {
            let refused = wal.replay(..).unwrap().try_for_each(|record| {
                let number = record.unwrap().lsn.get();
                if number == given_up_at { Err(number) } else { Ok(()) }
            });
            assert_eq!(refused, Err(given_up_at));
            assert_eq!(replay_all(&wal).len(), 20);
        }
        assert!(env.image() == image, "a replay changed a file");
    });
}

#[test]
fn g08_an_open_and_a_replay_rewrite_no_sealed_segment() {
    for_each_disk(|env| {
        let (wal, _) = env.open_with(env.options().prepares_ahead(false)).unwrap();
        append_numbered(&wal, 1, 20, 20_000);
        env.kill();
        drop(wal);
        let before = env.image();
        let wal = env.open();
        assert_eq!(replay_all(&wal).len(), 20);
        drop(wal);
        let after: BTreeMap<_, _> = env.image().into_iter().collect();
        let segments = before.iter().filter(|(name, _)| name.strip_suffix(".wal").is_some());
        let changed = segments.filter(|(name, bytes)| after.get(name) != Some(bytes)).count();
        // The last one, with the group that close writes.
        assert!(changed <= 1, "{changed} segments were changed");
    });
}

#[test]
fn h04_the_lsn_that_a_writer_is_told_is_where_its_record_is() {
    for_each_disk(|env| {
        let wal = env.open();
        let told: BTreeMap<u64, Vec<u8>> = std::thread::scope(|scope| {
            let writers = (0..16_u8).map(|writer| {
                let wal = &wal;
                scope.spawn(move || {
                    let records = (0..40_u8).map(|number| vec![writer, number]);
                    records.map(|record| (wal.append(&record).unwrap().get(), record)).collect::<Vec<_>>()
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let check = |wal: &Wal| {
            let records = replay_all(wal).into_iter().map(|record| (record.lsn.get(), record.payload));
            assert!(records.eq(told.clone()));
        };
        check(&wal);
        drop(wal);
        check(&env.open());
    });
}

/// A record belongs to the log from the submit on, whoever still cares for its ticket.
#[test]
fn h07_a_ticket_that_is_dropped_takes_nothing_from_anybody() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        drop(wal.submit(b"dropped at once").unwrap());
        let kept = wal.submit(b"waited for").unwrap();
        let dropped_in_flight = wal.submit(b"dropped in flight").unwrap();
        std::thread::scope(|scope| {
            let closed = control.gate.closed();
            let waiter = scope.spawn(|| kept.wait());
            control.gate.wait_until_held(1);
            drop(dropped_in_flight);
            drop(closed);
            assert_eq!(waiter.join().unwrap().unwrap(), lsn(2));
        });
        assert_eq!(wal.sync().unwrap(), lsn(3));
        assert_eq!(wal.append(b"the log goes on").unwrap(), lsn(4));
        assert_eq!(payloads(&wal).len(), 4);
    });
}

#[test]
fn h08_replays_on_many_threads_go_on_beside_rotations_and_trims() {
    for_each_disk(|env| {
        let wal = env.open();
        append_numbered(&wal, 1, 1, 9000);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for first in (2..82).step_by(10) {
                    append_numbered(&wal, first, 10, 9000);
                    wal.trim(lsn(first + 5)).unwrap();
                }
            });
            let replay_on = || {
                let mut replays = 0;
                while replays < 3 || !writer.is_finished() {
                    let records = replay_all(&wal);
                    assert!(records.iter().all(|record| is_numbered(record.lsn, &record.payload)));
                    assert!(records.windows(2).all(|pair| pair[0].lsn.get() + 1 == pair[1].lsn.get()));
                    replays += 1;
                }
            };
            std::thread::scope(|readers| (0..4).for_each(|_| drop(readers.spawn(replay_on))));
        });
    });
}
