//! The comparison of strategies on a file system that forgets what was not synced.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::server::{Mounted, lock};
use super::storage::{Class, Fault, Plan, Storage};
use crate::compare::{Pair, compare};
use crate::failure::Outcome;
use crate::schedule::{STEPS, Schedule, Transcript};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;

/// Every kind of fault, with the requests it may hit.
const FAULTS: [(Option<Class>, Fault); 15] = [
    (Some(Class::Sync), Fault::Fail(libc::EIO)),
    (Some(Class::Write), Fault::Fail(libc::EIO)),
    (Some(Class::Write), Fault::Short),
    (None, Fault::Cut),
    (None, Fault::Kill),
    (Some(Class::Sync), Fault::Fail(libc::ENOSPC)),
    (Some(Class::Write), Fault::Fail(libc::ENOSPC)),
    (Some(Class::Write), Fault::Forget(libc::EIO)),
    (Some(Class::Write), Fault::Forget(libc::ENOSPC)),
    (Some(Class::Reserve), Fault::Fail(libc::ENOSPC)),
    (Some(Class::Reserve), Fault::Fail(libc::EIO)),
    (Some(Class::Name), Fault::Fail(libc::EIO)),
    (Some(Class::Directory), Fault::Fail(libc::EIO)),
    (Some(Class::Write), Fault::Stall(Duration::from_millis(30))),
    (Some(Class::Sync), Fault::Stall(Duration::from_millis(30))),
];

/// Each fault in turn, at a request that the seed picks among those that a life without a fault makes.
pub(crate) fn run(work: &Path, pair: Pair, count: u64, seed: u64, totals: &mut Totals) {
    for number in 0..count {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut rng = Rng::new(cycle_seed);
        let (class, fault) = FAULTS[usize::try_from(number).unwrap_or(0) % FAULTS.len()];
        let requests = match requests(work, pair.0, cycle_seed, class, fault) {
            Ok(requests) => requests,
            Err(failure) => {
                totals.cycle("no fault", cycle_seed, &Err(failure));
                continue;
            }
        };
        let plan = Plan { class, requests_before: rng.below(requests.max(1)), fault };
        totals.cuts += 2;
        compare(pair, totals, &format!("{plan:?}"), cycle_seed, |kind| {
            Ok(live(work, kind, cycle_seed, plan)?.0)
        });
    }
}

/// Whether some call must answer with an error. Of a write, the kernel may hand on a failure in the middle as a short one,
/// and no space for a file that is made ahead of need is no failure.
fn must_be_told(plan: Plan) -> bool {
    let is_sync = matches!(plan.class, Some(Class::Sync | Class::Directory));
    is_sync && plan.fault == Fault::Fail(libc::EIO)
}

/// How many requests a life makes that could meet such a fault.
fn requests(work: &Path, kind: Kind, seed: u64, class: Option<Class>, fault: Fault) -> Outcome<u64> {
    let plan = Plan { class, requests_before: u64::MAX, fault };
    Ok(live(work, kind, seed, plan)?.1)
}

/// A life under a plan and what a cut then leaves of it; also how many requests passed before the plan's own.
fn live(work: &Path, kind: Kind, seed: u64, plan: Plan) -> Outcome<(Transcript, u64)> {
    let storage = Arc::new(Mutex::new(Storage::new(seed)));
    let direct_io = seed.is_multiple_of(4);
    // Space can be reserved, or has to be written.
    lock(&storage).can_reserve = plan.class == Some(Class::Reserve) || (seed / 4).is_multiple_of(2);
    let mounted = Mounted::new(&storage, work, direct_io)?;
    lock(&storage).plan(Some(plan));
    let mut schedule = Schedule::new(seed, kind);
    schedule.caller.can_be_cut_off(matches!(plan.fault, Fault::Cut | Fault::Kill));
    if let Some(wal) = schedule.open(mounted.path())? {
        schedule.steps(&wal, STEPS);
        schedule.caller.close(&wal);
    }
    let is_silent = !schedule.caller.answers.iter().any(|answer| answer.contains("Err("));
    let fault_happened = lock(&storage).faults > 0;
    if fault_happened && must_be_told(plan) && is_silent {
        schedule.caller.broken("nobody was told of the failure");
    }
    let requests = {
        let mut storage = lock(&storage);
        let left = storage.requests_before_plan();
        storage.plan(None);
        if plan.fault != Fault::Kill {
            storage.cut_by(seed);
        }
        plan.requests_before - left.unwrap_or(0)
    };
    drop(mounted);
    let mounted = Mounted::new(&storage, work, direct_io)?;
    Ok((schedule.recover(mounted.path(), fault_happened)?, requests))
}
