//! Many random lives of a log on the simulated disk, with every fault it can make, judged by the oracle.
//!
//! Contents and sizes repeat on purpose: a record from an earlier life must not be taken for one of this life because the
//! two look alike. A failure names its seed; `WO_WAL_SEED` starts there, and `WO_WAL_RUNS` says how many to run.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::io::Errno;
use wo_wal::{Error, Lsn, Recovery, Result, Ticket, Wal};

use crate::support::env::{Env, SEGMENT_BYTES};
use crate::support::oracle::{Oracle, Verdict};
use crate::support::rng::Rng;
use crate::support::sim::{Fault, Sim};

const RUNS: u64 = 120;
const LIVES: usize = 6;
const STEPS_BELOW: u64 = 50;
const OPEN_ATTEMPTS: usize = 8;
/// Long enough for a barrier to reach the gate. A shorter wait would only make the schedule a tamer one.
const NUDGE: Duration = Duration::from_millis(20);

struct Run {
    rng: Rng,
    sim: Sim,
    oracle: Oracle,
    segment_bytes: u64,
    /// False where a full disk is part of the run.
    roomy: bool,
    /// A record was acked once, so that open needs no space any more.
    ever_acked: bool,
    kinds: &'static [u8],
    max_in_flight: usize,
    /// How often what happened.
    exercised: BTreeMap<&'static str, u64>,
}

/// What has to happen in some of the runs, so that they test what they are for.
const TO_EXERCISE: [&str; 16] = [
    "opened",
    "open crashed or failed",
    "no room for a new log",
    "poisoned",
    "passing error",
    "power cut",
    "kill",
    "closed",
    "crash",
    "two at the gate",
    "failed at the gate",
    "crash at the gate",
    "jumbo",
    "trimmed to the end without a free byte",
    "records dropped by trims",
    "torn tail cut",
];

/// How a life goes on after a step.
#[derive(PartialEq)]
enum Life {
    GoesOn,
    Ends,
}

#[test]
fn p01_p02_p03_p04_p06_p07_p09_hold_through_random_lives() {
    let asked = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let first = asked("WO_WAL_SEED");
    let runs = asked("WO_WAL_RUNS").unwrap_or(if first.is_some() { 1 } else { RUNS });
    let mut exercised = BTreeMap::new();
    for seed in (first.unwrap_or(1)..).take(usize::try_from(runs).expect("a number of runs")) {
        let mut run = Run::new(seed);
        if let Err(finding) = run.lives() {
            panic!("seed {seed}: {finding}\n{}", run.sim.trace());
        }
        for (what, times) in run.exercised {
            *exercised.entry(what).or_insert(0) += times;
        }
    }
    println!("{exercised:?}");
    let missing: Vec<_> = TO_EXERCISE.into_iter().filter(|what| !exercised.contains_key(what)).collect();
    assert!(runs < RUNS || missing.is_empty(), "never exercised: {missing:?}");
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let roomy = rng.percent(50);
        let segment_bytes = rng.pick(&[SEGMENT_BYTES, 2 * SEGMENT_BYTES]);
        let total_bytes = if roomy { 1 << 40 } else { rng.pick(&[3, 5, 8]) * segment_bytes + SEGMENT_BYTES };
        Run {
            sim: Sim::with_space(rng.next(), total_bytes),
            oracle: Oracle::default(),
            segment_bytes,
            roomy,
            ever_acked: false,
            max_in_flight: 1,
            exercised: BTreeMap::new(),
            kinds: if rng.percent(40) { b"A" } else { b"AB" },
            rng,
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.exercised.entry(what).or_insert(0) += 1;
    }

    fn lives(&mut self) -> Verdict {
        for life in 0..LIVES {
            self.life().map_err(|finding| format!("life {life}: {finding}"))?;
        }
        Ok(())
    }

    fn life(&mut self) -> Verdict {
        let Some((wal, recovery)) = self.open()? else { return Ok(()) };
        self.oracle.opened(&wal, &recovery).map_err(|finding| format!("after open: {finding}"))?;
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
        for _ in 0..self.rng.below(STEPS_BELOW) {
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
            let env = Env::simulated(&self.sim, self.max_in_flight);
            let options = env
                .options()
                .segment_bytes(self.segment_bytes)
                .ids(self.rng.next())
                .own_block_per_group(self.rng.percent(20))
                .recycle_segments(self.rng.pick(&[0, 1, 3]));
            let opened = env.open_with(options);
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
                Err(_) => {
                    self.note("open crashed or failed");
                    self.between_lives();
                }
            }
        }
        Ok(None)
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
        self.neighbour();
    }

    fn neighbour(&mut self) {
        if !self.roomy {
            match self.rng.below(4) {
                0 => self.sim.give_space_back(),
                1 | 2 => self.sim.take_free_space(),
                _ => {}
            }
        }
    }

    fn step(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        match self.rng.below(100) {
            0..40 => self.append(wal),
            40..60 => self.several_submitted(wal),
            60..80 => self.overlapping(wal),
            80..90 => self.trim(wal),
            90..95 => {
                self.neighbour();
                Ok(Life::GoesOn)
            }
            95..98 => self.oracle.running(wal).map(|()| Life::GoesOn).or_else(|finding| {
                // A replay may meet the end of its process.
                if self.sim.fault_happened() { Ok(Life::Ends) } else { Err(finding) }
            }),
            _ => self.close(wal),
        }
    }

    fn batch(&mut self) -> Vec<Vec<u8>> {
        let records = self.rng.pick(&[1, 1, 1, 2, 3]);
        let jumbo = self.rng.percent(4);
        if jumbo {
            self.note("jumbo");
        }
        let mut record = || {
            let bytes = self.rng.pick(&[0, 8, 8, 30, 440, 4000, 20_000]);
            let bytes = if jumbo { usize::try_from(self.segment_bytes).expect("small") } else { bytes };
            vec![self.rng.pick(self.kinds); bytes]
        };
        (0..records).map(|_| record()).collect()
    }

    fn append(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let batch = self.batch();
        let first = Self::next_lsn(wal);
        match wal.append_batch(&batch) {
            Ok(lsns) => {
                if *lsns.start() != first {
                    return Err(format!("LSN {} where {first} was next", lsns.start()));
                }
                self.oracle.given(first, &batch);
                self.ack(*lsns.end())
            }
            Err(error) => self.failed(wal, &error, first, &batch),
        }
    }

    /// Nothing is staged between the steps, so the next record comes right after the last durable one.
    fn next_lsn(wal: &Wal) -> Lsn {
        Lsn::new(wal.durable_lsn().get() + 1)
    }

    fn ack(&mut self, up_to: Lsn) -> std::result::Result<Life, String> {
        self.ever_acked = true;
        self.oracle.acked(up_to).map(|()| Life::GoesOn)
    }

    /// An error needs a reason: a disk that may be full, or a fault.
    fn check_error(&self, error: &Error) -> Verdict {
        let full = matches!(error, Error::StorageFull { .. }) && !self.roomy;
        if full || self.sim.fault_happened() {
            return Ok(());
        }
        Err(format!("an error without a reason: {error:?}"))
    }

    /// What is allowed when a call fails. `batch` may be in the log afterwards, from `first` on, unless the error says that
    /// the log goes on without it.
    fn failed(
        &mut self,
        wal: &Wal,
        error: &Error,
        first: Lsn,
        batch: &[Vec<u8>],
    ) -> std::result::Result<Life, String> {
        self.check_error(error)?;
        if is_passing(error) {
            self.note("passing error");
            return Ok(Life::GoesOn);
        }
        self.oracle.given(first, batch);
        self.poisoned(wal)
    }

    /// Errors are final: nothing is acked any more and the watermark stands still.
    fn poisoned(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        self.note("poisoned");
        let durable = wal.durable_lsn();
        if let Ok(lsn) = wal.append(b"A") {
            return Err(format!("LSN {lsn} was acked after a failure"));
        }
        if wal.sync().is_ok() || wal.durable_lsn() != durable {
            return Err("a sync was answered with Ok after a failure".to_owned());
        }
        Ok(Life::Ends)
    }

    /// Batches that share a barrier, or several.
    fn several_submitted(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let mut tickets = Vec::new();
        let mut first = Self::next_lsn(wal);
        for _ in 0..self.rng.below(5) {
            let batch = self.batch();
            match wal.submit_batch(&batch) {
                Ok(ticket) => {
                    self.oracle.given(ticket_first(&ticket, first)?, &batch);
                    first = Lsn::new(ticket.lsn().get() + 1);
                    tickets.push(ticket);
                }
                Err(error) => {
                    if self.failed(wal, &error, first, &batch)? == Life::Ends {
                        return Ok(Life::Ends);
                    }
                }
            }
        }
        if self.rng.percent(5) {
            // Dropped unanswered: whether its records are durable is open.
            self.sim.crash();
            return Ok(Life::Ends);
        }
        let settled = if self.rng.percent(50) { wal.sync() } else { wait_all(tickets) };
        match settled {
            Ok(_) => self.ack(Lsn::new(first.get() - 1)),
            Err(error) => {
                self.check_error(&error)?;
                self.poisoned(wal)
            }
        }
    }

    /// Barriers that are held between write and sync, several at once where the strategy allows it, and then let go,
    /// failed, or cut off.
    fn overlapping(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let batches = [self.batch(), self.batch(), self.batch()];
        let writers = 2 + self.rng.index(2);
        let in_flight = self.max_in_flight;
        let trim_up_to = self.rng.percent(30).then(|| self.oracle.top_acked());
        self.oracle.trimming(trim_up_to.unwrap_or_default());
        self.sim.gate().close();
        let (results, trimmed) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (held, batch) in (1..).zip(&batches[..writers]) {
                threads.push(scope.spawn(move || {
                    let ticket = wal.submit_batch(batch)?;
                    let lsns = ticket.lsns();
                    Ok((lsns, ticket.wait()))
                }));
                if held <= in_flight {
                    self.sim.gate().wait_until_held_for(held, NUDGE);
                }
            }
            let trim = trim_up_to.map(|up_to| scope.spawn(move || wal.trim(up_to)));
            if trim.is_some() && self.rng.percent(50) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.let_go();
            let results = threads.into_iter().map(|thread| thread.join().expect("a writer panicked"));
            (results.collect(), trim.map(|trim| trim.join().expect("a trim panicked")))
        });
        if let Some(Err(error)) = trimmed {
            self.check_error(&error)?;
        }
        self.judge_overlapping(wal, &batches, results)
    }

    fn let_go(&mut self) {
        match self.rng.below(20) {
            0 => {
                self.sim.crash();
                self.note("crash at the gate");
            }
            1 => self.sim.fail_after(0, Fault { errno: Errno::IO, lasting: false }),
            2 => self.sim.fail_after(1, Fault { errno: Errno::NOSPC, lasting: false }),
            _ => {}
        }
        let held = self.sim.gate().held();
        if held > 1 {
            self.note("two at the gate");
        }
        if held > 0 {
            self.sim.gate().release(self.rng.index(held));
        }
        self.sim.gate().open();
    }

    fn judge_overlapping(
        &mut self,
        wal: &Wal,
        batches: &[Vec<Vec<u8>>],
        results: Vec<Result<(std::ops::RangeInclusive<Lsn>, Result<Lsn>)>>,
    ) -> std::result::Result<Life, String> {
        let mut top = Lsn::ZERO;
        let mut failed = false;
        for (result, batch) in results.into_iter().zip(batches) {
            match result {
                Ok((lsns, outcome)) => {
                    self.oracle.given(*lsns.start(), batch);
                    match outcome {
                        Ok(lsn) => top = top.max(lsn),
                        Err(error) => {
                            self.check_error(&error)?;
                            self.note("failed at the gate");
                            failed = true;
                        }
                    }
                }
                Err(error) => {
                    self.check_error(&error)?;
                    failed |= !is_passing(&error);
                }
            }
        }
        self.ack(top)?;
        if failed { self.poisoned(wal) } else { Ok(Life::GoesOn) }
    }

    fn trim(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        let durable = wal.durable_lsn().get();
        let up_to = Lsn::new(if self.rng.percent(50) { durable } else { self.rng.below(durable + 1) });
        self.oracle.trimming(up_to);
        match wal.trim(up_to) {
            Ok(()) => self.append_after_full_trim(wal, up_to),
            Err(error) => self.check_error(&error).map(|()| Life::Ends),
        }
    }

    /// After a trim of everything an ordinary batch finds room, whatever the neighbour holds.
    fn append_after_full_trim(&mut self, wal: &Wal, up_to: Lsn) -> std::result::Result<Life, String> {
        if up_to != wal.durable_lsn() || !self.ever_acked {
            return Ok(Life::GoesOn);
        }
        if self.sim.free_bytes() == 0 {
            self.note("trimmed to the end without a free byte");
        }
        // Fits an ordinary segment, and the small spare only where that is as large.
        let record_bytes = usize::try_from(self.segment_bytes / 3 * 2).expect("small");
        let batch = vec![vec![b'A'; record_bytes]];
        let first = Self::next_lsn(wal);
        match wal.append_batch(&batch) {
            Ok(lsns) => {
                self.oracle.given(first, &batch);
                self.ack(*lsns.end())
            }
            Err(Error::StorageFull { .. }) if !self.sim.fault_happened() => {
                Err("stuck: no room for a batch after everything was trimmed".to_owned())
            }
            Err(error) => self.failed(wal, &error, first, &batch),
        }
    }

    fn close(&mut self, wal: &Wal) -> std::result::Result<Life, String> {
        match wal.close() {
            Ok(()) => {
                self.note("closed");
                Ok(Life::Ends)
            }
            Err(error) => self.check_error(&error).map(|()| Life::Ends),
        }
    }
}

fn ticket_first(ticket: &Ticket, expected: Lsn) -> std::result::Result<Lsn, String> {
    let first = *ticket.lsns().start();
    if first == expected { Ok(first) } else { Err(format!("LSN {first} where {expected} was next")) }
}

/// The call did nothing, and the log goes on.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::StorageFull { .. } | Error::Io { .. })
}

fn wait_all(tickets: Vec<Ticket>) -> Result<Lsn> {
    let mut last = Lsn::ZERO;
    for ticket in tickets {
        last = last.max(ticket.wait()?);
    }
    Ok(last)
}
