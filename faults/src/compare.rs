//! Layer `compare`: one schedule under one fault, through both strategies. The answers, the errors in them, the records that
//! are recovered and the bytes of the segments must be the same.
//!
//! One caller makes all calls, and no thread prepares segments, so that every call has its number.

use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::schedule::Transcript;
use crate::strategies::Kind;
use crate::totals::Totals;

/// Two strategies that are held against each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair(pub(crate) Kind, pub(crate) Kind);

impl Pair {
    /// What the promise is about.
    pub(crate) const BOTH: Pair = Pair(Kind::Fsync, Kind::Uring);
    /// A negative control: the comparison must notice.
    pub(crate) const CONTROL: Pair = Pair(Kind::Fsync, Kind::Blind);

    fn is_control(self) -> bool {
        self.1.is_control()
    }
}

/// Where the comparisons are made.
type Place = fn(&Path, Pair, u64, u64, &mut Totals);

/// The places with the number of comparisons in the full set, and with that of the control where there is one.
const PLACES: [(&str, Place, u64, u64); 4] = [
    ("fuse", crate::fuse::compare::run, 180, 12),
    ("kernel", crate::kernel::compare::run, 40, 0),
    ("shutdown", crate::shutdown::compare, 20, 0),
    ("recorder", crate::recorder::compare::run, 18, 0),
];

/// All places, and the control.
pub(crate) fn run(work: &Path, cycles: Option<u64>, seed: u64) -> Vec<Totals> {
    let mut all = Vec::new();
    for (name, place, count, control_count) in PLACES {
        let count = cycles.unwrap_or(count);
        for (pair, count) in [(Pair::BOTH, count), (Pair::CONTROL, control_count)] {
            if count > 0 {
                let row = if pair.is_control() { "blind" } else { name };
                let mut totals = Totals::named("compare", row, pair.is_control(), seed);
                place(work, pair, count, seed, &mut totals);
                all.push(totals.end());
            }
        }
    }
    all
}

/// Makes one comparison and counts it.
pub(crate) fn compare(
    pair: Pair,
    totals: &mut Totals,
    what: &str,
    seed: u64,
    live: impl Fn(Kind) -> Outcome<Transcript>,
) {
    let outcome = differences(pair, totals, live);
    totals.cycle(what, seed, &outcome);
}

fn differences(pair: Pair, totals: &mut Totals, live: impl Fn(Kind) -> Outcome<Transcript>) -> Outcome {
    let one = live(pair.0)?;
    let two = live(pair.1)?;
    for (kind, transcript) in [(pair.0, &one), (pair.1, &two)] {
        totals.acks += transcript.acks;
        totals.failed_logs += u64::from(transcript.has_failed);
        transcript.verdict.clone().map_err(|why| Failure::Promise(format!("{}: {why}", kind.name())))?;
    }
    if let Some(difference) = one.difference(&two) {
        let names = (pair.0.name(), pair.1.name());
        return Err(Failure::Promise(format!("{} and {} differ, {difference}", names.0, names.1)));
    }
    for transcript in [one, two] {
        totals.happened(u64::from(transcript.fault_happened))?;
    }
    Ok(())
}
