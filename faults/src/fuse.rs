//! Layer `fuse`: a file system that forgets what was not synced.
//!
//! Each cycle runs a writer process under one cut or fault, cuts, often cuts or fails the recovery too, then opens, asks
//! the oracle, cuts right after, opens through the other strategy and asks again.

pub(crate) mod compare;
#[path = "../../tests/support/sim/directory.rs"]
#[allow(dead_code, reason = "shared with the simulated disk, which needs more of it")]
mod directory;
mod server;
mod storage;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use server::{Mounted, lock};
use storage::{Class, Fault, Plan, Storage};

use crate::child::{History, Writers};
use crate::crowd::Crowd;
use crate::failure::{Outcome, Trouble};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::open;

/// So often a log goes on after a cycle, before a new one begins.
const CYCLES_PER_LOG: u64 = 10;

/// Runs so many cycles with one strategy.
pub(crate) fn run(work: &Path, kind: Kind, cycles: u64, seed: u64) -> Totals {
    let mut totals = Totals::new("fuse", kind, seed);
    let mut log = Log::new(work, kind, seed);
    let mut cycles_of_log = 0;
    for cycle in 0..cycles {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(cycle);
        let verdict = log.cycle(cycle_seed, &mut totals);
        totals.cycle(&log.what, cycle_seed, &verdict);
        cycles_of_log += 1;
        if verdict.is_err() || cycles_of_log == CYCLES_PER_LOG {
            log.count(&mut totals);
            log = Log::new(work, kind, cycle_seed);
            cycles_of_log = 0;
        }
    }
    log.count(&mut totals);
    totals.end()
}

/// One log's life on one file system.
struct Log<'a> {
    work: &'a Path,
    kind: Kind,
    storage: Arc<Mutex<Storage>>,
    crowd: Crowd,
    /// What the cycle does, for messages.
    what: String,
}

impl<'a> Log<'a> {
    fn new(work: &'a Path, kind: Kind, seed: u64) -> Self {
        let storage = Arc::new(Mutex::new(Storage::new(seed)));
        lock(&storage).can_reserve = !seed.is_multiple_of(3);
        Log { work, kind, storage, crowd: Crowd::default(), what: String::new() }
    }

    fn cycle(&mut self, seed: u64, totals: &mut Totals) -> Outcome {
        let mut rng = Rng::new(seed);
        let plan = writers_plan(&mut rng);
        self.what = format!("{plan:?}");
        let history = self.write(seed, plan, &mut rng)?;
        totals.heard(&history);
        totals.failed_logs += u64::from(history.ended());
        history.tell(&mut self.crowd, |_, _| true)?;
        self.cut();
        if !self.kind.is_control() && rng.percent(60) {
            let plan = recovery_plan(&mut rng);
            self.what = format!("{}, in recovery {plan:?}", self.what);
            self.recover(self.kind, Some(plan), rng.percent(30))?;
            self.cut();
        }
        self.recover(self.kind, None, rng.percent(30))?;
        self.cut();
        self.recover(self.kind.other(), None, rng.percent(30))?;
        if rng.percent(50) {
            self.cut();
        }
        Ok(())
    }

    fn count(&self, totals: &mut Totals) {
        let storage = lock(&self.storage);
        totals.cuts += storage.cuts;
        totals.faults += storage.faults;
    }

    fn mount(&self, direct_io: bool) -> Result<Mounted, Trouble> {
        Mounted::new(&self.storage, self.work, direct_io)
    }

    fn cut(&self) {
        let mut storage = lock(&self.storage);
        storage.plan(None);
        storage.cut();
    }

    /// A writer process, until the plan's fault has failed its log or its time is up. The acks it has sent all count:
    /// the file system is dead to it from the cut on.
    fn write(&self, seed: u64, plan: Option<Plan>, rng: &mut Rng) -> Outcome<History> {
        let mounted = self.mount(rng.percent(25))?;
        lock(&self.storage).plan(plan);
        let writers = Writers::start(mounted.path(), seed, self.kind, || 0)?;
        let time = Duration::from_micros(5_000 + rng.below(75_000));
        let is_cut = plan.is_some_and(|plan| plan.fault == Fault::Cut);
        let storage = &self.storage;
        writers.wait_until(time, |writers| writers.has_failed() || (is_cut && lock(storage).plan_is_done()));
        if writers.has_failed() { Ok(writers.end()?) } else { Ok(writers.kill()) }
    }

    /// Opens the log, asks the oracle, and leaves it to its fate; it is cut before it can close unless the caller lets
    /// it. Under a plan an open may fail.
    fn recover(&mut self, kind: Kind, plan: Option<Plan>, direct_io: bool) -> Outcome {
        let mounted = self.mount(direct_io)?;
        lock(&self.storage).plan(plan);
        let opened = open(mounted.path(), kind);
        match opened {
            Ok((wal, recovery)) => {
                self.crowd.vouched(recovery.last.get())?;
                // The fault may come while the log is read; then nothing is said about the rest.
                let verdict = self.crowd.clone_opened(&wal, &recovery);
                let undisturbed = plan.is_none() || !lock(&self.storage).plan_is_done();
                if undisturbed {
                    self.crowd = verdict?;
                }
                if plan.is_some() || kind == self.kind {
                    self.cut();
                }
                drop(wal);
                Ok(())
            }
            Err(_) if plan.is_some() && lock(&self.storage).plan_is_done() => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// What befalls the writers: nothing but a kill, a cut at some request, or a fault.
fn writers_plan(rng: &mut Rng) -> Option<Plan> {
    let errno = rng.pick(&[libc::EIO, libc::ENOSPC]);
    let (class, fault, below) = match rng.below(100) {
        0..=29 => return None,
        30..=64 => (None, Fault::Cut, 400),
        65..=74 => (Some(Class::Sync), Fault::Fail(errno), 60),
        75..=79 => (Some(Class::Write), Fault::Fail(errno), 60),
        80..=84 => (Some(Class::Write), Fault::Forget(errno), 60),
        85..=89 => (Some(Class::Write), Fault::Short, 60),
        90..=92 => (Some(Class::Reserve), Fault::Fail(libc::ENOSPC), 10),
        93..=95 => (Some(rng.pick(&[Class::Directory, Class::Name])), Fault::Fail(errno), 20),
        _ => (
            Some(rng.pick(&[Class::Sync, Class::Write])),
            Fault::Stall(Duration::from_millis(20 + rng.below(60))),
            40,
        ),
    };
    Some(Plan { class, requests_before: rng.below(below), fault })
}

/// What befalls a recovery.
fn recovery_plan(rng: &mut Rng) -> Plan {
    let errno = rng.pick(&[libc::EIO, libc::ENOSPC]);
    let (class, fault, below) = match rng.below(10) {
        0..=5 => (None, Fault::Cut, 16),
        6 => (Some(Class::Sync), Fault::Fail(errno), 5),
        7 => (Some(Class::Write), Fault::Fail(errno), 4),
        8 => (Some(Class::Write), Fault::Short, 4),
        _ => (Some(rng.pick(&[Class::Directory, Class::Name, Class::Reserve])), Fault::Fail(errno), 3),
    };
    Plan { class, requests_before: rng.below(below), fault }
}
