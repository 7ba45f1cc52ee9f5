//! Layer `kernel`: what the kernel answers on any machine, without a file system of one's own.
//!
//! In each cycle a writer process is killed, meets the limit on the size of files, runs on a file system in memory that is
//! full to the last byte, or has system calls refused to it by `strace`. Then the log is opened, and opened once more
//! through the other strategy. Nothing is cut: a log that never syncs passes here.

pub(crate) mod compare;
mod injection;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};
use tempfile::TempDir;

use crate::ballast::Ballast;
use crate::child::{History, Writers};
use crate::crowd::Crowd;
use crate::failure::{Failure, Outcome, Trouble};
use crate::loops::Mount;
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::{SEGMENT_BYTES, open};
use injection::{Injection, refused_calls};

/// So often a log goes on after a cycle, before a new one begins.
const CYCLES_PER_LOG: u64 = 8;
/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
const MEMORY_MEBIBYTES: u32 = 1;

/// Runs so many cycles with one strategy.
pub(crate) fn run(work: &Path, kind: Kind, cycles: u64, seed: u64) -> Totals {
    let mut totals = Totals::new("kernel", kind, seed);
    let mut log = None;
    for cycle in 0..cycles {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(cycle);
        if cycle % CYCLES_PER_LOG == 0 {
            log = None;
        }
        let mut what = "a new log".to_owned();
        let verdict =
            log.take().map_or_else(|| Log::new(kind), Ok).map_err(Failure::from).and_then(|mut made| {
                let ended = made.cycle(work, cycle, cycle_seed, &mut what, &mut totals);
                log = ended.is_ok().then_some(made);
                ended
            });
        totals.cycle(&what, cycle_seed, &verdict);
    }
    totals.end()
}

/// One log's life, on whatever file system temporary files are on.
struct Log {
    kind: Kind,
    dir: TempDir,
    crowd: Crowd,
}

impl Log {
    fn new(kind: Kind) -> Result<Self, Trouble> {
        let dir = tempfile::tempdir().map_err(|error| Trouble(format!("a directory: {error}")))?;
        Ok(Log { kind, dir, crowd: Crowd::default() })
    }

    fn cycle(
        &mut self,
        work: &Path,
        cycle: u64,
        seed: u64,
        what: &mut String,
        totals: &mut Totals,
    ) -> Outcome {
        let mut rng = Rng::new(seed);
        let way = if self.kind.is_control() { 1 } else { cycle % 4 };
        let history = match way {
            0 => self.killed(seed, &mut rng, what, totals)?,
            1 => self.limited(seed, &mut rng, what, totals)?,
            2 => self.injected(seed, &mut rng, what, totals)?,
            _ => {
                "a full file system in memory".clone_into(what);
                return full_in_memory(work, self.kind, seed, totals);
            }
        };
        totals.heard(&history);
        totals.failed_logs += u64::from(history.ended());
        history.tell(&mut self.crowd, |_, _| true)?;
        let log = self.dir.path().join("log");
        recover(&log, self.kind, &mut self.crowd)?;
        recover(&log, self.kind.other(), &mut self.crowd)
    }

    fn start(&self, seed: u64) -> Result<Writers, Trouble> {
        Writers::start(&self.dir.path().join("log"), seed, self.kind, || 0)
    }

    fn killed(&self, seed: u64, rng: &mut Rng, what: &mut String, totals: &mut Totals) -> Outcome<History> {
        let time = Duration::from_micros(1_000 + rng.below(60_000));
        *what = format!("kill after {time:?}");
        let writers = self.start(seed)?;
        writers.wait_until(time, Writers::has_failed);
        if writers.has_failed() {
            return Err(Failure::Promise(format!("failed without a fault: {:?}", writers.kill().failures())));
        }
        let history = writers.kill();
        totals.happened(u64::from(history.was_killed))?;
        Ok(history)
    }

    /// From some moment on no byte beyond the limit can be written: a write across it is short, the next is refused.
    fn limited(&self, seed: u64, rng: &mut Rng, what: &mut String, totals: &mut Totals) -> Outcome<History> {
        let limit = SEGMENT_BYTES / 16 + rng.below(SEGMENT_BYTES);
        *what = format!("files of at most {limit} bytes");
        let writers = self.start(seed)?;
        let before = usize::try_from(rng.below(200)).unwrap_or(0);
        writers.wait_until(PATIENCE, |writers| writers.has_failed() || writers.acks() >= before);
        limit_files(&writers, Some(limit))?;
        let heeded = |writers: &Writers| writers.has_failed() || writers.refusals() > 0;
        writers.wait_until(if self.kind.is_control() { Duration::from_millis(50) } else { PATIENCE }, heeded);
        if !heeded(&writers) && !self.kind.is_control() {
            return Err(Failure::Promise("the limit was met, the log did not say so".to_owned()));
        }
        if !self.kind.is_control() {
            totals.happened(1)?;
        }
        limit_files(&writers, None)?;
        // A log that only refused goes on now; one that failed must not.
        let acks = writers.acks();
        writers.wait_until(PATIENCE, |writers| writers.has_failed() || writers.acks() > acks);
        if writers.has_failed() {
            return Ok(writers.end()?);
        }
        let goes_on = writers.acks() > acks;
        let history = writers.kill();
        if goes_on {
            Ok(history)
        } else {
            Err(Failure::Promise(format!("does not go on without the limit: {:?}", history.failures())))
        }
    }

    fn injected(&self, seed: u64, rng: &mut Rng, what: &mut String, totals: &mut Totals) -> Outcome<History> {
        let injection = Injection::pick(self.kind, rng);
        *what = format!("{injection:?}");
        let trace = self.dir.path().join(format!("trace-{seed}"));
        let wrapper = injection.wrapper(&trace)?;
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        let log = self.dir.path().join("log");
        let writers = Writers::start_behind(&wrapper, &log, seed, self.kind)?;
        writers.wait_until(PATIENCE, |writers| writers.has_failed() || writers.acks() > 0);
        writers.wait_until(PATIENCE, |writers| writers.has_failed() || refused_calls(&trace) > 0);
        let time = Duration::from_micros(20_000 + rng.below(80_000));
        writers.wait_until(time, Writers::has_failed);
        let has_failed = writers.has_failed();
        let history = if has_failed { writers.end()? } else { writers.kill() };
        totals.happened(refused_calls(&trace))?;
        if has_failed && injection.is_harmless() {
            return Err(Failure::Promise(format!("failed for an interruption: {:?}", history.failures())));
        }
        Ok(history)
    }
}

fn limit_files(writers: &Writers, bytes: Option<u64>) -> Result<(), Trouble> {
    let process = i32::try_from(writers.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: bytes, maximum: None };
    let set = process
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|process| rustix::process::prlimit(Some(process), Resource::Fsize, limit));
    match set {
        // A process that has ended by itself has no limits.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(Trouble(format!("limit the size of files: {errno}"))),
    }
}

fn recover(log: &Path, kind: Kind, crowd: &mut Crowd) -> Outcome {
    let (wal, recovery) = open(log, kind)?;
    Ok(crowd.opened(&wal, &recovery)?)
}

/// Writers on a file system that somebody else fills to the last byte. The log must not fail; it refuses, or goes on in
/// what its trims free; and it goes on as before when there is space again, without being opened again.
fn full_in_memory(work: &Path, kind: Kind, seed: u64, totals: &mut Totals) -> Outcome {
    let mounted = Mount::in_memory(MEMORY_MEBIBYTES, work)?;
    let writers = Writers::start(&mounted.log(), seed, kind, || 0)?;
    writers.wait_until(PATIENCE, |writers| writers.has_failed() || writers.acks() > 0);
    let mut ballast = Ballast::new(mounted.path())?;
    writers.wait_until(PATIENCE, |writers| {
        // What trims free is taken away as well.
        ballast.fill();
        writers.has_failed() || writers.refusals() > 0
    });
    if writers.refusals() == 0 {
        return Err(Failure::Promise(format!("nothing was refused: {:?}", writers.kill().failures())));
    }
    totals.happened(1)?;
    ballast.empty()?;
    let acks = writers.acks();
    writers.wait_until(PATIENCE, |writers| writers.has_failed() || writers.acks() > acks + 20);
    let goes_on = writers.acks() > acks + 20;
    let history = writers.kill();
    totals.heard(&history);
    if !goes_on || !history.failures().is_empty() {
        return Err(Failure::Promise(format!("does not go on: {:?}", history.failures())));
    }
    let mut crowd = Crowd::default();
    history.tell(&mut crowd, |_, _| true)?;
    ballast.fill();
    recover(&mounted.log(), kind, &mut crowd)?;
    ballast.fill();
    recover(&mounted.log(), kind.other(), &mut crowd)?;
    drop(ballast);
    Ok(mounted.unmount()?)
}
