//! The comparison of strategies under what the kernel answers on any machine: the limit on the size of files, and a file
//! system in memory that is full to the last byte.

use std::path::Path;

use rustix::process::{Resource, Rlimit};

use crate::ballast::Ballast;
use crate::caller::Caller;
use crate::compare::{Pair, compare};
use crate::failure::{Outcome, Trouble};
use crate::loops::Mount;
use crate::schedule::{STEPS, Schedule, Transcript};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::SEGMENT_BYTES;

const ROOMY_MEBIBYTES: u32 = 16;
const TIGHT_MEBIBYTES: u32 = 1;

/// The limit and the full file system in turn, from a step on that the seed picks, for some steps, and until a call has
/// been refused.
pub(crate) fn run(work: &Path, pair: Pair, count: u64, seed: u64, totals: &mut Totals) {
    for number in 0..count {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut rng = Rng::new(cycle_seed);
        let (from, length) = (rng.below(STEPS), 1 + rng.below(STEPS / 2));
        if number % 2 == 0 {
            // Below what every next segment reserves.
            let limit = SEGMENT_BYTES / 16 + rng.below(SEGMENT_BYTES / 8 * 7);
            let what = format!("files of at most {limit} bytes from step {from} on, for {length} or more");
            compare(pair, totals, &what, cycle_seed, |kind| {
                limited(work, kind, cycle_seed, limit, from, length)
            });
        } else {
            let what = format!("no free byte from step {from} on, for {length} or more");
            compare(pair, totals, &what, cycle_seed, |kind| full(work, kind, cycle_seed, from, length));
        }
    }
}

/// This process's limit on the size of files; lifted when dropped.
struct FileLimit;

impl FileLimit {
    fn new(bytes: u64) -> Result<Self, Trouble> {
        Self::set(Some(bytes)).map(|()| FileLimit)
    }

    fn set(bytes: Option<u64>) -> Result<(), Trouble> {
        let limit = Rlimit { current: bytes, maximum: None };
        rustix::process::setrlimit(Resource::Fsize, limit)
            .map_err(|errno| Trouble(format!("limit the size of files: {errno}")))
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        let _ = Self::set(None);
    }
}

fn limited(
    work: &Path,
    kind: Kind,
    seed: u64,
    limit_bytes: u64,
    from: u64,
    length: u64,
) -> Outcome<Transcript> {
    let mounted = Mount::in_memory(ROOMY_MEBIBYTES, work)?;
    let mut schedule = Schedule::new(seed, kind);
    let mut is_refused = false;
    if let Some(wal) = schedule.open(&mounted.log())? {
        schedule.steps(&wal, from);
        let answers = schedule.caller.answers.len();
        let limit = FileLimit::new(limit_bytes)?;
        is_refused =
            schedule.steps_until(&wal, length, || (), |caller| caller.was_told(answers, "FileTooLarge"));
        drop(limit);
        schedule.steps(&wal, STEPS.saturating_sub(from + length));
        schedule.caller.close(&wal);
    }
    let transcript = schedule.recover(&mounted.log(), is_refused)?;
    mounted.unmount()?;
    Ok(transcript)
}

fn full(work: &Path, kind: Kind, seed: u64, from: u64, length: u64) -> Outcome<Transcript> {
    let mounted = Mount::in_memory(TIGHT_MEBIBYTES, work)?;
    let mut ballast = Ballast::new(mounted.path())?;
    let mut schedule = Schedule::new(seed, kind);
    let mut is_refused = false;
    if let Some(wal) = schedule.open(&mounted.log())? {
        schedule.steps(&wal, from);
        let answers = schedule.caller.answers.len();
        let is_told = |caller: &Caller| caller.was_told(answers, "StorageFull");
        is_refused = schedule.steps_until(&wal, length, || ballast.fill(), is_told);
        ballast.empty()?;
        schedule.steps(&wal, STEPS.saturating_sub(from + length));
        ballast.fill_for_good()?;
        schedule.caller.close(&wal);
    }
    if schedule.caller.has_failed() {
        schedule.caller.broken("a full disk failed the log");
    }
    let transcript = schedule.recover(&mounted.log(), is_refused)?;
    drop(ballast);
    mounted.unmount()?;
    Ok(transcript)
}
