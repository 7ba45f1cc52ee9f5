//! Layer `shutdown`: real file systems that stop at once under eight writers.
//!
//! A sync that is in flight while the file system stops may still answer Ok although nothing of it reached the device;
//! that is this fault's doing, not the log's. So only acks that were read before the cut count.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::caller::Caller;
use crate::child::Writers;
use crate::compare::{self, Pair};
use crate::crowd::Crowd;
use crate::failure::{Failure, Outcome, Trouble};
use crate::loops::{FileSystem, Mount};
use crate::schedule::{STEPS, Schedule, Transcript};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::open;

const CYCLES_PER_LOG: u64 = 10;
/// Calls that meet a file system which has stopped, at least: one of them must be told.
const STEPS_AFTER_STOP: u64 = 8;

/// Runs so many cycles with one strategy, on ext4 and XFS in turn.
pub(crate) fn run(work: &Path, kind: Kind, cycles: u64, seed: u64) -> Totals {
    let mut totals = Totals::new("shutdown", kind, seed);
    let mut log = None;
    for cycle in 0..cycles {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(cycle);
        let file_system = [FileSystem::Ext4, FileSystem::Xfs][usize::from(cycle / CYCLES_PER_LOG % 2 == 1)];
        if cycle % CYCLES_PER_LOG == 0 {
            log = None;
        }
        let made = log.take().map_or_else(|| Log::new(work, kind, file_system), Ok);
        let verdict = made.map_err(Failure::from).and_then(|mut made| {
            made.cycle(cycle_seed, &mut totals)?;
            log = Some(made);
            Ok(())
        });
        totals.cycle(file_system.name(), cycle_seed, &verdict);
    }
    totals.end()
}

/// One log's life on one file system.
struct Log<'a> {
    work: &'a Path,
    kind: Kind,
    image: PathBuf,
    crowd: Crowd,
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.image);
    }
}

impl<'a> Log<'a> {
    fn new(work: &'a Path, kind: Kind, file_system: FileSystem) -> Result<Self, Trouble> {
        Ok(Log { work, kind, image: file_system.make(work)?, crowd: Crowd::default() })
    }

    fn cycle(&mut self, seed: u64, totals: &mut Totals) -> Outcome {
        let mut rng = Rng::new(seed);
        self.write(seed, &mut rng, totals)?;
        if rng.percent(60) {
            self.cut_recovery(&mut rng, totals)?;
        }
        self.recover(self.kind, true, totals)?;
        self.recover(self.kind.other(), rng.percent(50), totals)
    }

    fn write(&mut self, seed: u64, rng: &mut Rng, totals: &mut Totals) -> Outcome {
        let mounted = Mount::new(&self.image, self.work)?;
        let writers = Writers::start(&mounted.log(), seed, self.kind, || 0)?;
        let time = Duration::from_micros(10_000 + rng.below(120_000));
        writers.wait_until(time, Writers::has_failed);
        let heard_before = writers.heard().len();
        mounted.shut_down()?;
        totals.cuts += 1;
        // Some more calls meet the dead file system, so that late answers come too.
        std::thread::sleep(Duration::from_micros(rng.below(3000)));
        let history = writers.kill();
        totals.heard(&history);
        mounted.unmount()?;
        Ok(history.tell(&mut self.crowd, |number, _| number < heard_before)?)
    }

    /// An open that the file system stops under, at any moment of it.
    fn cut_recovery(&mut self, rng: &mut Rng, totals: &mut Totals) -> Outcome {
        let mounted = Mount::new(&self.image, self.work)?;
        let (kind, path) = (self.kind, mounted.log());
        let is_cut = AtomicBool::new(false);
        let delay = Duration::from_micros(rng.below(4000));
        let (opened, cut) = std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                let opened = open(&path, kind);
                // What an open says after the cut began is not counted.
                (opened, !is_cut.load(Ordering::SeqCst))
            });
            std::thread::sleep(delay);
            is_cut.store(true, Ordering::SeqCst);
            let cut = mounted.shut_down();
            (opening.join(), cut)
        });
        cut?;
        totals.cuts += 1;
        let (opened, in_time) = opened.map_err(|_| "open panicked".to_owned())?;
        // The log is dropped here: an open one would keep the file system mounted.
        let opened = opened.map(|(_wal, recovery)| recovery.last.get());
        match opened {
            Ok(last_lsn) if in_time => self.crowd.vouched(last_lsn)?,
            Err(failure) if in_time => return Err(failure),
            _ => {}
        }
        Ok(mounted.unmount()?)
    }

    /// Opens the log and asks the oracle; cuts right after, or lets it close.
    fn recover(&mut self, kind: Kind, cut: bool, totals: &mut Totals) -> Outcome {
        let mounted = Mount::new(&self.image, self.work)?;
        let (wal, recovery) = open(&mounted.log(), kind)?;
        let verdict = self.crowd.opened(&wal, &recovery);
        if cut {
            mounted.shut_down()?;
            totals.cuts += 1;
        }
        drop(wal);
        mounted.unmount()?;
        Ok(verdict?)
    }
}

/// The comparison of strategies: the file system stops after a step that the seed picks, the caller goes on for some more.
pub(crate) fn compare(work: &Path, pair: Pair, count: u64, seed: u64, totals: &mut Totals) {
    for number in 0..count {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let file_system = [FileSystem::Ext4, FileSystem::Xfs][usize::from(number % 2 == 1)];
        let step = Rng::new(cycle_seed).below(STEPS);
        totals.cuts += 2;
        let what = format!("{} stopped after step {step}", file_system.name());
        compare::compare(pair, totals, &what, cycle_seed, |kind| {
            stopped_after(work, file_system, kind, cycle_seed, step)
        });
    }
}

fn stopped_after(
    work: &Path,
    file_system: FileSystem,
    kind: Kind,
    seed: u64,
    step: u64,
) -> Outcome<Transcript> {
    let log = Log::new(work, kind, file_system)?;
    let mounted = Mount::new(&log.image, work)?;
    let mut schedule = Schedule::new(seed, kind);
    let mut is_refused = false;
    if let Some(wal) = schedule.open(&mounted.log())? {
        schedule.steps(&wal, step);
        mounted.shut_down()?;
        schedule.caller.can_be_cut_off(true);
        let answers = schedule.caller.answers.len();
        let is_told = |caller: &Caller| caller.was_told(answers, "");
        is_refused = schedule.steps_until(&wal, STEPS_AFTER_STOP, || (), is_told);
        schedule.caller.close(&wal);
    }
    mounted.unmount()?;
    let mounted = Mount::new(&log.image, work)?;
    let transcript = schedule.recover(&mounted.log(), is_refused)?;
    mounted.unmount()?;
    Ok(transcript)
}
