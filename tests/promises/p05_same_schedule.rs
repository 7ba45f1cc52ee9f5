//! P5: a seeded schedule gives the same answers, the same errors and the same bytes through every strategy.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use wo_wal::{Lsn, Options, Result, SyncStrategy, Wal};

use crate::support::env::{SEGMENT_BYTES, replay_all};
use crate::support::rng::Rng;
use crate::support::sim::{Fault, Sim};
use crate::support::steered::{Control, Steered};
use crate::support::strategies::every_strategy;

/// Everything that callers were told, as text, and what the files hold.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    answers: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
}

impl Outcome {
    /// Fails the test unless the other is the same, but for a segment that was prepared in the background, or not yet.
    fn must_equal(&self, other: &Outcome, context: &str) {
        for (step, (answer, others)) in self.answers.iter().zip(&other.answers).enumerate() {
            assert_eq!(answer, others, "{context}, answer {step}");
        }
        assert_eq!(self.answers.len(), other.answers.len(), "{context}");
        assert!(self.files.len().abs_diff(other.files.len()) <= 1, "{context}");
        for ((name, bytes), (other_name, other_bytes)) in self.files.iter().zip(&other.files) {
            assert_eq!(name, other_name, "{context}");
            assert!(bytes == other_bytes, "{context}: {name} differs");
        }
    }
}

/// One life of a log after the other, until the steps are over.
struct Schedule<'a> {
    rng: Rng,
    open: &'a dyn Fn() -> Result<Wal>,
    trims: bool,
    answers: Vec<String>,
}

impl Schedule<'_> {
    /// Notes what a caller was told, and passes a value on.
    fn told<T: std::fmt::Debug>(&mut self, answer: Result<T>) -> Option<T> {
        self.answers.push(format!("{answer:?}"));
        answer.ok()
    }

    fn record(&mut self, bytes_below: u64) -> Vec<u8> {
        let mut record = vec![0; self.rng.index(usize::try_from(bytes_below).unwrap())];
        self.rng.fill(&mut record);
        record
    }

    fn live(&mut self, steps: u32, bytes_below: u64) {
        let wal = (self.open)();
        self.answers.push(format!("open: {:?}", wal.as_ref().map(Wal::durable_lsn)));
        let Ok(wal) = wal else { return };
        for _ in 0..steps {
            self.step(&wal, bytes_below);
        }
        let closed = wal.close();
        self.told(closed);
    }

    fn step(&mut self, wal: &Wal, bytes_below: u64) {
        match self.rng.below(10) {
            0..4 => {
                let record = self.record(bytes_below);
                let answer = wal.append(&record);
                self.told(answer);
            }
            4..6 => {
                let batch: Vec<_> = (0..self.rng.below(5)).map(|_| self.record(bytes_below / 3)).collect();
                let answer = wal.append_batch(&batch);
                self.told(answer);
            }
            6..8 => {
                let tickets: Vec<_> = (0..self.rng.below(4))
                    .map(|_| {
                        let record = self.record(bytes_below / 3);
                        wal.submit(&record)
                    })
                    .collect();
                for ticket in tickets {
                    let outcome = ticket.and_then(wo_wal::Ticket::wait);
                    self.told(outcome);
                }
            }
            8 => {
                let synced = wal.sync();
                self.told(synced);
                let records = wal.replay(..).and_then(Iterator::collect::<Result<Vec<_>>>);
                self.told(records.map(|records| records.len()));
            }
            _ if self.trims => {
                let up_to = Lsn::new(self.rng.below(wal.durable_lsn().get() + 1));
                let trimmed = wal.trim(up_to);
                self.told(trimmed);
                self.answers.push(format!("oldest {:?}, durable {:?}", wal.oldest_lsn(), wal.durable_lsn()));
            }
            _ => {}
        }
    }
}

fn options(strategy: impl SyncStrategy + 'static) -> Options {
    Wal::options().segment_bytes(SEGMENT_BYTES).ids(5).strategy(strategy)
}

/// Files whose bytes decide what a log is: all but the lock's and those under a temporary name.
fn segments(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort_unstable();
    files
}

/// Two lives in a directory of the machine, with rotations, in which a barrier fails.
///
/// How far the preparing thread is at a trim or a close decides whether the next segment is made of a trimmed one, and
/// with which id. So the bytes are those of the first life, and only without trims.
fn on_a_real_disk(strategy: &Arc<dyn SyncStrategy>, seed: u64, failing_barrier: u64, trims: bool) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let control = Arc::<Control>::default();
    control.fail_after(failing_barrier, Errno::IO);
    let steered = Arc::new(Steered::new(strategy.clone(), control));
    let open = || Ok(options(steered.clone()).open(directory.path())?.0);
    let mut schedule = Schedule { rng: Rng::new(seed), open: &open, trims, answers: Vec::new() };
    schedule.live(60, 6000);
    let files = if trims { Vec::new() } else { segments(directory.path()) };
    schedule.live(60, 6000);
    let path = directory.path().to_str().unwrap();
    let answers = schedule.answers.iter().map(|answer| answer.replace(path, "")).collect();
    Outcome { answers, files }
}

fn a_schedule_with_rotations(trims: bool) {
    let [first, others @ ..] = &every_strategy()[..] else { panic!("there are some") };
    for (seed, failing_barrier) in [(1, u64::MAX / 2), (2, 0), (3, 1), (4, 2), (5, 20), (6, 57)] {
        let expected = on_a_real_disk(first, seed, failing_barrier, trims);
        let says = |word| expected.answers.iter().any(|answer| answer.contains(word));
        let failed = says("Poisoned") || says("open: Err");
        assert_eq!(failed, failing_barrier < 100, "the control: {:?}", expected.answers);
        assert!(failed || trims || expected.files.len() > 2, "the control: no rotations");
        for other in others {
            let context = format!("{other:?}, seed {seed}, barrier {failing_barrier} fails");
            on_a_real_disk(other, seed, failing_barrier, trims).must_equal(&expected, &context);
        }
    }
}

#[test]
fn p05_a_schedule_with_rotations_and_a_failed_barrier() {
    a_schedule_with_rotations(false);
}

#[test]
fn p05_a_schedule_with_rotations_trims_and_a_failed_barrier() {
    a_schedule_with_rotations(true);
}

/// Lives on the simulated disk in which one of its calls fails, and a power cut; then what an open finds. They stay below
/// half a segment, so that no thread prepares the next one and every call has its number.
fn on_a_simulated_disk(
    strategy: &Arc<dyn SyncStrategy>,
    seed: u64,
    failing_call: u64,
    fault: Fault,
) -> (Outcome, bool) {
    let sim = Sim::new(seed);
    sim.fail_after(failing_call, fault);
    let open = || {
        let strategy = sim.strategy(strategy.clone());
        Ok(options(strategy).disk(sim.disk()).open("/simulated")?.0)
    };
    let mut schedule = Schedule { rng: Rng::new(seed), open: &open, trims: true, answers: Vec::new() };
    for _ in 0..2 {
        schedule.live(12, 600);
    }
    let happened = sim.fault_happened();
    sim.clear_faults();
    sim.power_cut(seed);
    let found = open().map(|wal| replay_all(&wal));
    schedule.told(found);
    let files = sim.names().into_iter().map(|name| (name.clone(), sim.read(&name))).collect();
    (Outcome { answers: schedule.answers, files }, happened)
}

fn every_call_fails(fault: Fault) {
    let [first, others @ ..] = &every_strategy()[..] else { panic!("there are some") };
    let mut call = 0;
    loop {
        let (expected, happened) = on_a_simulated_disk(first, call, call, fault);
        for other in others {
            let (outcome, _) = on_a_simulated_disk(other, call, call, fault);
            outcome.must_equal(&expected, &format!("{other:?}, call {call}, {fault:?}"));
        }
        if !happened {
            break;
        }
        call += 1;
    }
    assert!(call > 50, "the schedule makes more calls than {call}");
}

#[test]
fn p05_a_schedule_in_which_any_call_fails_once() {
    every_call_fails(Fault { errno: Errno::IO, lasting: false });
}

#[test]
fn p05_a_schedule_in_which_any_call_finds_the_disk_full() {
    every_call_fails(Fault { errno: Errno::NOSPC, lasting: true });
}

/// What the comparisons rest on: another answer, or another byte, is noticed.
#[test]
fn p05_the_comparison_notices_a_difference() {
    let outcome = |answer: &str, byte: u8| Outcome {
        answers: vec![answer.to_owned()],
        files: vec![("00000000000000000001.wal".to_owned(), vec![byte; 10])],
    };
    let differs = |other: Outcome| {
        std::panic::catch_unwind(|| outcome("Ok", 1).must_equal(&other, "as meant")).is_err()
    };
    assert!(!differs(outcome("Ok", 1)));
    assert!(differs(outcome("Err", 1)));
    assert!(differs(outcome("Ok", 2)));
}
