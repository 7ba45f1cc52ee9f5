//! What is compared: strategies, each with the policies of group commit.

use std::sync::Arc;

use clap::ValueEnum;
use wo_wal::strategy::{Fsync, SyncStrategy, Uring};
use wo_wal::{Cohort, Options, Probe, Wal};

use crate::failure::Failure;
use crate::probe;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Strategy {
    Fsync,
    Uring,
}

impl Strategy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Strategy::Fsync => "fsync",
            Strategy::Uring => "uring",
        }
    }

    fn make(self) -> Result<Arc<dyn SyncStrategy>, Failure> {
        match self {
            Strategy::Fsync => Ok(Arc::new(Fsync::new())),
            Strategy::Uring => {
                let refused = |refusal| Failure::usage(format!("uring cannot be had: {refusal}"));
                Ok(Arc::new(Uring::new().map_err(refused)?))
            }
        }
    }
}

/// Which policies of group commit to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cohorts {
    Full,
    Greedy,
    Both,
}

impl Cohorts {
    fn policies(self) -> &'static [Cohort] {
        match self {
            Cohorts::Full => &[Cohort::Full],
            Cohorts::Greedy => &[Cohort::Greedy],
            Cohorts::Both => &[Cohort::Full, Cohort::Greedy],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) strategy: Strategy,
    pub(super) cohort: Cohort,
}

impl Variant {
    pub(super) fn cohort_name(self) -> &'static str {
        match self.cohort {
            Cohort::Greedy => "greedy",
            _ => "full",
        }
    }

    pub(super) fn options(self) -> Result<Options, Failure> {
        Ok(Wal::options().strategy(self.strategy.make()?).cohort(self.cohort))
    }
}

/// Those asked for, else those that a log could have there: where the environment asks for `fsync`, no ring is made.
pub(super) fn choose(asked: &[Strategy], cohorts: Cohorts, found: &Probe) -> Result<Vec<Variant>, Failure> {
    let has_ring = probe::has_ring(found);
    let mut strategies = asked.to_vec();
    if strategies.is_empty() {
        strategies.push(Strategy::Fsync);
        strategies.extend(has_ring.then_some(Strategy::Uring));
    }
    if strategies.contains(&Strategy::Uring) && !has_ring {
        return Err(Failure::usage(format!(
            "uring cannot be had here: {}; see 'wo-wal probe'",
            found.selection.reason
        )));
    }
    let with_policies =
        |&strategy| cohorts.policies().iter().map(move |&cohort| Variant { strategy, cohort });
    Ok(strategies.iter().flat_map(with_policies).collect())
}
