//! One run: a machine and the lives of a log on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::io::Errno;
use wo_wal::{Error, Lsn, Recovery, SyncStrategy, Wal};

use super::history::{Event, History};
use crate::support::env::{Env, SEGMENT_BYTES, replay_all};
use crate::support::oracle::{Oracle, Verdict};
use crate::support::rng::Rng;
use crate::support::sim::{Fault, Sim};

const LIVES: usize = 6;
const STEPS_BELOW: u64 = 50;
const OPEN_ATTEMPTS: usize = 8;

/// Who makes calls to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callers {
    /// Several writers, and the log's own thread that prepares files: which call comes first is open.
    Several,
    /// One thread: the seed decides about every call.
    One,
}

pub(super) struct Run {
    pub(super) rng: Rng,
    pub(super) sim: Sim,
    pub(super) oracle: Oracle,
    pub(super) callers: Callers,
    pub(super) history: History,
    inner: Arc<dyn SyncStrategy>,
    pub(super) segment_bytes: u64,
    /// False where a full disk is part of the run.
    pub(super) roomy: bool,
    /// A record was acked once, so that open needs no space any more.
    pub(super) ever_acked: bool,
    pub(super) kinds: &'static [u8],
    pub(super) max_in_flight: usize,
    /// How often what happened.
    pub(super) exercised: BTreeMap<&'static str, u64>,
}

/// How a life goes on after a step.
#[derive(PartialEq)]
pub(super) enum Life {
    GoesOn,
    Ends,
}

impl Run {
    pub(super) fn new(seed: u64, callers: Callers, inner: Arc<dyn SyncStrategy>) -> Self {
        let mut rng = Rng::new(seed);
        let roomy = rng.percent(50);
        let segment_bytes = rng.pick(&[SEGMENT_BYTES, 2 * SEGMENT_BYTES]);
        let total_bytes = if roomy { 1 << 40 } else { rng.pick(&[3, 5, 8]) * segment_bytes + SEGMENT_BYTES };
        Run {
            sim: Sim::with_space(rng.next(), total_bytes),
            oracle: Oracle::default(),
            callers,
            history: History::new(callers == Callers::One),
            inner,
            segment_bytes,
            roomy,
            ever_acked: false,
            max_in_flight: 1,
            exercised: BTreeMap::new(),
            kinds: if rng.percent(40) { b"A" } else { b"AB" },
            rng,
        }
    }

    pub(super) fn note(&mut self, what: &'static str) {
        self.count(what, 1);
    }

    pub(super) fn count(&mut self, what: &'static str, times: u64) {
        *self.exercised.entry(what).or_insert(0) += times;
    }

    pub(super) fn lives(&mut self) -> Verdict {
        for life in 0..LIVES {
            self.life().map_err(|finding| format!("life {life}: {finding}"))?;
        }
        Ok(())
    }

    fn life(&mut self) -> Verdict {
        let Some((wal, recovery)) = self.open()? else { return Ok(()) };
        self.oracle.opened(&wal, &recovery).map_err(|finding| format!("after open: {finding}"))?;
        self.history.note(|| Event::Opened { recovery, records: replay_all(&wal) });
        self.ever_acked |= self.oracle.top_acked() > Lsn::ZERO;
        self.note("opened");
        if recovery.cut_bytes > 0 {
            self.note("torn tail cut");
        }
        if recovery.oldest > Lsn::FIRST {
            self.note("records dropped by trims");
        }
        self.sim.fail_syncs(self.rng.pick(&[0, 0, 2, 8]));
        if self.rng.percent(60) {
            self.sim.crash_after(self.rng.below(300));
        }
        if self.rng.percent(20) {
            let errno = self.rng.pick(&[Errno::IO, Errno::NOSPC, Errno::MFILE]);
            let lasting = self.rng.percent(30);
            self.sim.fail_after(self.rng.below(200), Fault { errno, lasting });
        }
        for _ in 0..self.rng.below(STEPS_BELOW) {
            self.note("steps");
            if self.step(&wal)? == Life::Ends {
                break;
            }
        }
        self.end(wal);
        Ok(())
    }

    /// Opens the log, through crashes and failing syncs. `None` when a new log finds no room.
    fn open(&mut self) -> std::result::Result<Option<(Wal, Recovery)>, String> {
        for _ in 0..OPEN_ATTEMPTS {
            if self.rng.percent(35) {
                self.sim.crash_after(self.rng.below(60));
            }
            if self.rng.percent(20) {
                self.sim.fail_syncs(30);
            }
            self.max_in_flight = self.rng.pick(&[1, 2, 2]);
            let opened = self.attempt();
            let faulty = self.sim.fault_happened();
            match opened {
                Ok(opened) => {
                    self.sim.clear_faults();
                    if !faulty {
                        return Ok(Some(opened));
                    }
                    // A crash in the background, or a failed step that open may do without.
                    self.end(opened.0);
                }
                Err(Error::StorageFull { .. }) if !self.roomy && !self.ever_acked => {
                    self.note("no room for a new log");
                    return Ok(None);
                }
                Err(error) if !faulty => return Err(format!("open refuses: {error:?}")),
                Err(error @ (Error::Corrupt { .. } | Error::MissingSegment { .. })) => {
                    return Err(format!("open refuses a legal state: {error:?}"));
                }
                Err(error) => {
                    self.note("open crashed or failed");
                    self.history.note(|| Event::Answer(format!("{error:?}")));
                    self.between_lives();
                }
            }
        }
        Ok(None)
    }

    fn attempt(&mut self) -> wo_wal::Result<(Wal, Recovery)> {
        let strategy = self.sim.strategy(self.inner.clone()).with_max_in_flight(self.max_in_flight);
        let env = Env::simulated(&self.sim, self.max_in_flight);
        // A life need not go on as the one before did. Files of several sizes would be no promise of room, though.
        let segment_bytes =
            if self.roomy { self.rng.pick(&[1, 2, 3]) * SEGMENT_BYTES } else { self.segment_bytes };
        let options = env
            .options_with(Arc::new(strategy))
            .segment_bytes(segment_bytes)
            .own_block_per_group(self.rng.percent(25))
            .recycle_segments(self.rng.pick(&[0, 1, 1, 3]))
            .max_staged_bytes(self.rng.pick(&[4096, 64 << 10, 4 << 20]))
            .prepares_ahead(self.callers == Callers::Several);
        env.open_with(options.ids(self.rng.next()))
    }

    /// The end of a process: its handle goes, then perhaps the power.
    fn end(&mut self, wal: Wal) {
        if self.rng.percent(70) {
            self.sim.crash();
            self.note("crash");
        }
        drop(wal);
        self.between_lives();
    }

    fn between_lives(&mut self) {
        if self.rng.percent(60) {
            self.sim.power_cut(self.rng.next());
            self.note("power cut");
        } else {
            self.note("kill");
            self.sim.kill();
        }
        let sim = &self.sim;
        self.history.note(|| Event::Left {
            disk_calls: sim.calls(),
            files: sim.names().into_iter().map(|name| (name.clone(), sim.read(&name))).collect(),
        });
        self.neighbour();
    }

    pub(super) fn neighbour(&mut self) {
        if !self.roomy {
            match self.rng.below(4) {
                0 => self.sim.give_space_back(),
                1 | 2 => self.sim.take_free_space(),
                _ => {}
            }
        }
    }
}
