//! Many random lives of a log on the simulated disk, with every fault it can make, judged by the oracle.
//!
//! Contents and sizes repeat on purpose: a record from an earlier life must not be taken for one of this life because the
//! two look alike. A failure names its seed; `WO_WAL_SEED` runs that seed alone. `WO_WAL_STEPS` says how many steps each
//! strategy of each test goes at least; without it there are as many as a quick run has time for.

mod history;
mod run;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use wo_wal::SyncStrategy;
use wo_wal::strategy::{Fsync, Uring};

use self::run::{Callers, Run};

const QUICK_STEPS: u64 = 6000;

/// What has to happen in some of the runs, so that they test what they are for.
const TO_EXERCISE: [&str; 13] = [
    "opened",
    "open crashed or failed",
    "no room for a new log",
    "poisoned",
    "passing error",
    "power cut",
    "kill",
    "closed",
    "crash",
    "jumbo",
    "trimmed to the end without a free byte",
    "records dropped by trims",
    "torn tail cut",
];

/// The same, where several threads are at work.
const TO_EXERCISE_AT_THE_GATE: [&str; 3] = ["two at the gate", "failed at the gate", "crash at the gate"];

type Exercised = BTreeMap<&'static str, u64>;

/// The strategies whose system calls the simulated disk lets through.
fn strategies() -> Vec<Arc<dyn SyncStrategy>> {
    let fsync: Arc<dyn SyncStrategy> = Arc::new(Fsync);
    match Uring::new() {
        Ok(uring) => vec![fsync, Arc::new(uring)],
        Err(failure) => {
            crate::support::skip::announce(&format!("fsync alone, for there is no ring: {failure}"));
            vec![fsync]
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs seeds until there are enough steps.
fn each_seed(mut run: impl FnMut(u64) -> Exercised) -> Exercised {
    let only = variable("WO_WAL_SEED");
    let steps = variable("WO_WAL_STEPS").unwrap_or(QUICK_STEPS);
    let mut exercised = Exercised::new();
    let mut seed = only.unwrap_or(1);
    loop {
        for (what, times) in run(seed) {
            *exercised.entry(what).or_insert(0) += times;
        }
        *exercised.entry("seeds").or_insert(0) += 1;
        seed += 1;
        if only.is_some() || exercised.get("steps").is_some_and(|done| *done >= steps) {
            return exercised;
        }
    }
}

fn lives(seed: u64, callers: Callers, strategy: &Arc<dyn SyncStrategy>) -> Run {
    let mut run = Run::new(seed, callers, strategy.clone());
    if let Err(finding) = run.lives() {
        panic!("seed {seed}, {}: {finding}\n{}", strategy.name(), run.sim.trace());
    }
    run
}

/// Prints the totals, and fails where something was never tried.
fn summarize(layer: &str, strategy: &str, exercised: &Exercised, to_exercise: &[&[&'static str]]) {
    let of = |what: &str| exercised.get(what).copied().unwrap_or(0);
    println!(
        "{layer}, {strategy}: {} seeds, {} lives, {} steps, {} acks, {} cuts, {} kills, nothing lost\n    {exercised:?}",
        of("seeds"),
        of("opened"),
        of("steps"),
        of("acks"),
        of("power cut"),
        of("kill"),
    );
    let missing: Vec<_> = to_exercise.concat().into_iter().filter(|what| of(what) == 0).collect();
    assert!(variable("WO_WAL_SEED").is_some() || missing.is_empty(), "never exercised: {missing:?}");
}

#[test]
fn p01_p02_p03_p04_p06_p07_p09_hold_through_random_lives() {
    for strategy in strategies() {
        let exercised = each_seed(|seed| lives(seed, Callers::Several, &strategy).exercised);
        summarize("random lives", strategy.name(), &exercised, &[&TO_EXERCISE, &TO_EXERCISE_AT_THE_GATE]);
    }
}

/// One thread makes all calls, so the seed decides about each of them: the answers, the errors, the records that every
/// open serves and the bytes of every file must be the same, whichever strategy makes the barriers.
#[test]
fn p05_random_lives_are_the_same_on_every_strategy() {
    let strategies = strategies();
    let exercised = each_seed(|seed| {
        let first = lives(seed, Callers::One, &strategies[0]);
        for other in &strategies[1..] {
            let same = lives(seed, Callers::One, other);
            if let Some(difference) = first.history.differs_from(&same.history) {
                panic!("seed {seed}, {} against {}: {difference}", strategies[0].name(), other.name());
            }
        }
        first.exercised
    });
    let names: Vec<_> = strategies.iter().map(SyncStrategy::name).collect();
    summarize("random lives compared", &names.join(" and "), &exercised, &[&TO_EXERCISE]);
}
