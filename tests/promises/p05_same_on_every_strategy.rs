//! P5: an ack means the same on every strategy, and so do the bytes.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;
use wo_wal::strategy::{Fsync, Uring};
use wo_wal::{Extent, SyncStrategy, Wal};

use crate::support::env::{SEGMENT_BYTES, for_each_disk, lsn, payloads};
use crate::support::steered::{Control, Steered};

/// A strategy such as somebody else might bring: many small writes and a full sync.
#[derive(Debug)]
struct SmallSteps;

impl SyncStrategy for SmallSteps {
    fn name(&self) -> &'static str {
        "small steps"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = File::from(extent.file().try_clone_to_owned()?);
        let mut offset = extent.offset();
        for step in extent.bytes().chunks(700) {
            file.write_all_at(step, offset)?;
            offset += step.len() as u64;
        }
        file.sync_all()
    }
}

fn log_in(directory: &std::path::Path, strategy: impl SyncStrategy + 'static) -> Wal {
    Wal::options().segment_bytes(SEGMENT_BYTES).ids(5).strategy(strategy).open(directory).unwrap().0
}

/// Every call's answer, as text, and the segments' bytes.
fn run(strategy: Arc<dyn SyncStrategy>, failing_barrier: u64) -> (Vec<String>, Vec<Vec<u8>>) {
    let directory = tempfile::tempdir().unwrap();
    let control = Arc::<Control>::default();
    let wal = log_in(directory.path(), Steered::new(strategy, control.clone()));
    control.fail_after(failing_barrier, Errno::IO);
    let mut answers = Vec::new();
    let plain = |error: wo_wal::Error| error.to_string().replace(directory.path().to_str().unwrap(), "");
    for step in 0..40_u8 {
        let record = vec![step; 3000];
        answers.push(format!("{:?}", wal.append(&record).map_err(plain)));
        answers.push(format!("{:?}", wal.append_batch([[step; 7], [step; 7]]).map_err(plain)));
        let ticket = wal.submit(&[step; 100]).map_err(plain);
        answers.push(format!("{:?}", ticket.as_ref().map(wo_wal::Ticket::lsn)));
        answers.push(format!("{:?} {:?}", wal.sync().map_err(plain), wal.durable_lsn()));
    }
    answers.push(format!("{:?}", wal.trim(lsn(100)).map_err(plain)));
    answers.push(format!("{:?}", wal.close().map_err(plain)));
    drop(wal);
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    names.sort_unstable();
    (answers, names.iter().map(|name| std::fs::read(name).unwrap()).collect())
}

/// The strategies to hold against `Fsync`.
fn others() -> Vec<Arc<dyn SyncStrategy>> {
    let mut others: Vec<Arc<dyn SyncStrategy>> = vec![Arc::new(SmallSteps)];
    match Uring::new() {
        Ok(uring) => others.push(Arc::new(uring.with_max_in_flight(NonZeroUsize::MIN))),
        Err(failure) => crate::support::skip::announce(&format!("the ring's part: {failure}")),
    }
    others
}

#[test]
fn p05_the_same_schedule_gives_the_same_answers_and_bytes() {
    for failing_barrier in [0, 1, 2, 30, 77, u64::MAX / 2] {
        let (answers, segments) = run(Arc::new(Fsync), failing_barrier);
        for other in others() {
            let context = format!("{}, barrier {failing_barrier} fails", other.name());
            let (other_answers, other_segments) = run(other, failing_barrier);
            assert_eq!(answers, other_answers, "{context}");
            // The last one may be a segment that was prepared in the background, or not yet.
            let common = segments.len().min(other_segments.len());
            assert!(segments.len().max(other_segments.len()) - common <= 1, "{context}");
            for (segment, other) in segments.iter().zip(&other_segments) {
                assert!(segment == other, "{context}: the segments differ");
            }
        }
    }
}

#[test]
fn p05_a_log_opens_through_any_strategy() {
    let directory = tempfile::tempdir().unwrap();
    log_in(directory.path(), Fsync).append(b"one").unwrap();
    for other in others() {
        log_in(directory.path(), other).append(b"two").unwrap();
        log_in(directory.path(), Fsync).append(b"one").unwrap();
    }
    let wal = log_in(directory.path(), Fsync);
    let expected: Vec<&[u8]> = [b"one"]
        .into_iter()
        .chain(others().iter().flat_map(|_| [b"two", b"one"]))
        .map(|record| &record[..])
        .collect();
    assert_eq!(payloads(&wal), expected);
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
