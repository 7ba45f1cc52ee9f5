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

#[test]
fn p05_no_two_barriers_share_an_open_file() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        std::thread::scope(|scope| {
            for writer in 0..6_u8 {
                let wal = &wal;
                scope.spawn(move || {
                    for _ in 0..60 {
                        wal.append(&[writer; 900]).unwrap();
                    }
                });
            }
        });
        assert!(control.most_at_once() <= env.max_in_flight());
    });
}
