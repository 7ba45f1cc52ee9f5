//! P5: an ack means the same on every strategy, and so do the bytes. The same schedule on each is in `p05_same_schedule`.

use std::path::Path;
use std::sync::Arc;

use wo_wal::{SyncStrategy, Wal};

use crate::support::env::{SEGMENT_BYTES, for_each_disk, killed, payloads};
use crate::support::strategies::every_strategy;

fn open(directory: &Path, strategy: &Arc<dyn SyncStrategy>) -> Wal {
    Wal::options().segment_bytes(SEGMENT_BYTES).strategy(strategy.clone()).open(directory).unwrap().0
}

/// Closed by the first strategy, or killed with it, a log goes on through the second, and then through the first again.
#[test]
fn p05_a_log_opens_through_any_strategy() {
    let strategies = every_strategy();
    for (first, second) in
        strategies.iter().flat_map(|first| strategies.iter().map(move |second| (first, second)))
    {
        let closed = tempfile::tempdir().unwrap();
        let record = |number: u8| vec![number; 900];
        let wal = open(closed.path(), first);
        for number in 0..100 {
            wal.append(&record(number)).unwrap();
        }
        let killed = killed(closed.path());
        wal.close().unwrap();
        for directory in [closed.path(), killed.path()] {
            let wal = open(directory, second);
            assert!(payloads(&wal).into_iter().eq((0..100).map(record)), "{second:?} after {first:?}");
            for number in 100..200 {
                wal.append(&record(number)).unwrap();
            }
            drop(wal);
            let wal = open(directory, first);
            assert!(payloads(&wal).into_iter().eq((0..200).map(record)), "{first:?} after {second:?}");
        }
    }
}

/// A strategy is shared by value or through an `Arc`, and the log says which one it uses.
#[test]
fn p05_a_strategy_object_is_used_as_it_is() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        let before = control.barriers();
        wal.append(b"x").unwrap();
        assert!(control.barriers() > before);
        assert_eq!(wal.strategy().strategy, "steered");
        assert!(control.most_at_once() >= 1);
    });
}

/// A write-back error is told once per open file description, so each barrier in flight needs its own.
#[test]
fn p05_no_two_barriers_share_an_open_file() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        let in_flight = env.max_in_flight();
        std::thread::scope(|scope| {
            let closed = control.gate.closed();
            let mut writers = Vec::new();
            for held in 1..=in_flight {
                writers.push(scope.spawn(|| wal.append(&[7; 900])));
                control.gate.wait_until_held(held);
            }
            assert_eq!(control.most_at_once(), in_flight);
            drop(closed);
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
    });
}
