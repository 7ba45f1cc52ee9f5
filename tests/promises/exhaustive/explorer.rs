//! Goes through the states that cuts leave.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use wo_wal::Error;

use super::schedules::{End, Life, Schedule, Step};
use crate::support::oracle::Verdict;
use crate::support::rng::Rng;

/// How many outcomes of a cut are tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// All, where there are not more than this.
    pub(super) all_up_to: usize,
    /// So many, where there are more.
    pub(super) else_only: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) first: Bound,
    /// Of the cut in the open that follows.
    pub(super) second: Bound,
}

pub(super) struct Explorer {
    bounds: Bounds,
    /// States whose open has been cut in every call.
    opened: HashSet<u64>,
    /// States whose open has been judged.
    judged: HashSet<u64>,
    first_cuts: u64,
    second_cuts: u64,
    reopenings: u64,
}

impl fmt::Display for Explorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cuts, {} of them in an open, {} reopenings",
            self.first_cuts + self.second_cuts,
            self.second_cuts,
            self.reopenings
        )
    }
}

impl Explorer {
    pub(super) fn new(bounds: Bounds) -> Self {
        Explorer {
            bounds,
            opened: HashSet::new(),
            judged: HashSet::new(),
            first_cuts: 0,
            second_cuts: 0,
            reopenings: 0,
        }
    }

    /// Whether there was something to find, in a life and in the open after it.
    pub(super) fn has_cut_lives_and_opens(&self) -> bool {
        self.first_cuts > 0 && self.second_cuts > 0
    }

    /// Lives one after the other: each but the last runs to its end, and the next one starts from every outcome of it. The
    /// last one is cut in every call.
    pub(super) fn explore(&mut self, lives: Schedule) -> Verdict {
        self.explore_from(&Life::new(), lives)
    }

    fn explore_from(&mut self, start: &Life, lives: Schedule) -> Verdict {
        let [first, rest @ ..] = lives else { return Ok(()) };
        if rest.is_empty() {
            return self.cut_every_call(start, first);
        }
        let mut life = start.copy();
        if let Err(End::Finding(finding)) = life.run(first) {
            return Err(finding);
        }
        for (what, cut) in outcomes(&life, self.bounds.first) {
            self.first_cuts += 1;
            let explored = self.cut_the_open(&cut).and_then(|()| self.explore_from(&cut, rest));
            explored.map_err(|finding| format!("after a life, {what}: {finding}"))?;
        }
        Ok(())
    }

    fn cut_every_call(&mut self, start: &Life, steps: &[Step]) -> Verdict {
        for death in deaths(start, |life| life.run(steps))? {
            let life = death?;
            for (what, cut) in outcomes(&life, self.bounds.first) {
                self.first_cuts += 1;
                let context =
                    |finding| format!("a life ended, {what}: {finding}\nIn the life, {}", life.sim.trace());
                self.cut_the_open(&cut).map_err(context)?;
            }
        }
        Ok(())
    }

    /// The open that follows a cut dies in every call, and is cut again.
    fn cut_the_open(&mut self, cut: &Life) -> Verdict {
        if !self.opened.insert(fingerprint(cut)) {
            return Ok(());
        }
        self.judge(cut)?;
        for death in deaths(cut, |life| life.open().map(drop))? {
            let life = death?;
            for (what, second) in outcomes(&life, self.bounds.second) {
                self.second_cuts += 1;
                let context =
                    |finding| format!("its open ended, {what}: {finding}\nIn the open, {}", life.sim.trace());
                self.judge(&second).map_err(context)?;
            }
        }
        Ok(())
    }

    /// The log opens and serves what it must; what is appended then is there after another cut.
    fn judge(&mut self, cut: &Life) -> Verdict {
        if !self.judged.insert(fingerprint(cut)) {
            return Ok(());
        }
        let mut life = cut.copy();
        self.reopenings += 2;
        let mut open_and_append = || -> Result<(), End> {
            let wal = life.open()?;
            // The second one needs a segment of its own: a file that another name has too would be written over.
            for bytes in [8, 60_000] {
                match life.append(&wal, &[vec![b'A'; bytes]]) {
                    // The disk may be full, and the segment too: that is an answer.
                    Ok(()) | Err(End::Failed(Error::StorageFull { .. })) => {}
                    Err(end) => return Err(end),
                }
            }
            life.sim.power_cut_with(&vec![0; life.sim.undecided().len()]);
            drop(wal);
            life.open().map(drop)
        };
        match open_and_append() {
            Ok(()) => Ok(()),
            Err(End::Failed(error)) => Err(format!("open refuses: {error:?}\n{}", life.sim.trace())),
            Err(End::Finding(finding)) => Err(format!("{finding}\n{}", life.sim.trace())),
        }
    }
}

/// What a process does, ended in each call that changes something, and at last not at all. A process that ends between
/// two of these calls leaves what one leaves that ends at the start of the second.
fn deaths(
    start: &Life,
    process: impl Fn(&mut Life) -> Result<(), End>,
) -> Result<impl Iterator<Item = Result<Life, String>>, String> {
    let mut whole = start.copy();
    let end = process(&mut whole);
    end_of(&whole, end)?;
    let calls = whole.sim.changes();
    let ended = calls.into_iter().map(move |call| {
        let mut life = start.copy();
        life.sim.crash_after(call - 1);
        let end = process(&mut life);
        end_of(&life, end).map(|()| life)
    });
    Ok(ended.chain([Ok(whole)]))
}

/// A process may fail because it has died, and for no other reason.
fn end_of(life: &Life, end: Result<(), End>) -> Verdict {
    match end {
        Ok(()) => Ok(()),
        Err(End::Failed(_)) if life.sim.fault_happened() => Ok(()),
        Err(End::Failed(error)) => Err(format!("failed without a reason: {error:?}\n{}", life.sim.trace())),
        Err(End::Finding(finding)) => Err(format!("{finding}\n{}", life.sim.trace())),
    }
}

/// The state and all that is known of its past.
fn fingerprint(life: &Life) -> u64 {
    let mut hasher = DefaultHasher::new();
    life.sim.fingerprint().hash(&mut hasher);
    life.oracle.hash_into(&mut hasher, crc32fast::hash);
    hasher.finish()
}

/// What a life may leave when its process ends: the page cache as it is, or what a power cut makes of it.
fn outcomes(life: &Life, bound: Bound) -> impl Iterator<Item = (String, Life)> {
    let killed = std::iter::once(("killed".to_owned(), life.copy()));
    let power_cuts = choices(&life.sim.undecided(), bound).into_iter().map(|choices| {
        let cut = life.copy();
        cut.sim.power_cut_with(&choices);
        (format!("power cut with outcomes {choices:?}"), cut)
    });
    killed.chain(power_cuts)
}

/// All combinations where they are not too many; else all old, all new, all new but one, and others by coin.
fn choices(undecided: &[usize], bound: Bound) -> Vec<Vec<usize>> {
    let all = undecided.iter().try_fold(1_usize, |all, choices| all.checked_mul(*choices));
    if let Some(all) = all.filter(|all| *all <= bound.all_up_to) {
        return (0..all).map(|number| combination(undecided, number)).collect();
    }
    let newest: Vec<_> = undecided.iter().map(|choices| choices - 1).collect();
    let mut chosen = vec![newest.clone(), vec![0; undecided.len()]];
    let mut rng = Rng::new(undecided.len() as u64);
    while chosen.len() < bound.else_only {
        let coin = rng.percent(50);
        chosen.push(if coin {
            undecided.iter().map(|choices| rng.index(*choices)).collect()
        } else {
            let mut but_one = newest.clone();
            let one = rng.index(but_one.len());
            but_one[one] = rng.index(undecided[one]);
            but_one
        });
    }
    chosen.truncate(bound.else_only);
    chosen
}

/// The number's digits, where each place has a base of its own.
fn combination(undecided: &[usize], mut number: usize) -> Vec<usize> {
    let mut digits = Vec::with_capacity(undecided.len());
    for choices in undecided {
        digits.push(number % choices);
        number /= choices;
    }
    digits
}
