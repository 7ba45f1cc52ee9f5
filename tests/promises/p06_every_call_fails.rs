//! P6, for every call to the disk that a log makes: it fails, once or with all that follow, and nothing acked is lost.

use rustix::io::Errno;
use wo_wal::{Error, Lsn, Result, Wal};

use crate::support::env::Env;
use crate::support::oracle::{Oracle, Verdict};
use crate::support::sim::{Fault, Sim};

/// What a script knows; every error ends it.
struct Script {
    env: Env,
    oracle: Oracle,
}

/// The end of a script: a call failed, which is what the test is about, or a promise was broken.
enum End {
    Failed(Error),
    Finding(String),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error)
    }
}

impl Script {
    fn open(&mut self) -> std::result::Result<Wal, End> {
        let (wal, recovery) = self.env.open_with(self.env.options())?;
        match self.oracle.opened(&wal, &recovery) {
            Ok(()) => Ok(wal),
            // The failing call may be one of the replay's.
            Err(_) if self.sim().fault_happened() => Err(End::Failed(Error::Closed)),
            Err(finding) => Err(End::Finding(finding)),
        }
    }

    fn sim(&self) -> &Sim {
        self.env.sim().expect("simulated")
    }

    fn append(&mut self, wal: &Wal, batch: &[Vec<u8>]) -> std::result::Result<(), End> {
        let first = Lsn::new(wal.durable_lsn().get() + 1);
        self.oracle.given(first, batch);
        let end = *wal.append_batch(batch)?.end();
        self.oracle.acked(end).map_err(End::Finding)
    }

    fn trim(&mut self, wal: &Wal, up_to: Lsn) -> std::result::Result<(), End> {
        self.oracle.trimming(up_to);
        Ok(wal.trim(up_to)?)
    }

    /// Appends, batches, a group of several, rotations, trims that recycle, a jumbo segment, close, reopen, crash.
    fn run(&mut self) -> std::result::Result<(), End> {
        let wal = self.open()?;
        self.append(&wal, &[b"A".to_vec()])?;
        self.append(&wal, &[vec![b'A'; 700], Vec::new(), vec![b'B'; 700]])?;
        self.submit_several(&wal)?;
        for _ in 0..3 {
            self.append(&wal, &[vec![b'A'; 40_000]])?;
        }
        self.trim(&wal, Lsn::new(wal.durable_lsn().get() - 1))?;
        self.append(&wal, &[vec![b'A'; 40_000]])?;
        wal.close()?;
        drop(wal);
        let wal = self.open()?;
        self.append(&wal, &[vec![b'B'; 90_000]])?;
        self.append(&wal, &[b"A".to_vec()])?;
        self.trim(&wal, wal.durable_lsn())?;
        self.append(&wal, &[b"A".to_vec()])?;
        drop(wal);
        self.open()?;
        Ok(())
    }

    fn submit_several(&mut self, wal: &Wal) -> std::result::Result<(), End> {
        let next = wal.durable_lsn().get() + 1;
        for (lsn, record) in (next..).zip([b"A", b"B", b"A"]) {
            self.oracle.given(Lsn::new(lsn), &[record.to_vec()]);
            let _ = wal.submit(record)?.lsn();
        }
        let end = wal.sync()?;
        self.oracle.acked(end).map_err(End::Finding)
    }
}

fn every_call_fails(max_in_flight: usize, fault: Fault) {
    let mut call = 0;
    loop {
        let sim = Sim::new(call);
        let env = Env::simulated(&sim, max_in_flight);
        let mut script = Script { env, oracle: Oracle::default() };
        sim.fail_after(call, fault);
        let outcome = script.run();
        let happened = sim.fault_happened();
        let context = || format!("call {call} with {fault:?}\n{}", sim.trace());
        match outcome {
            Ok(()) | Err(End::Failed(_)) => {}
            Err(End::Finding(finding)) => panic!("{finding}; {}", context()),
        }
        for seed in 0..3 {
            check_after_power_cut(&script, seed).unwrap_or_else(|finding| panic!("{finding}; {}", context()));
        }
        if !happened {
            break;
        }
        call += 1;
    }
    assert!(call > 50, "the script makes more calls than {call}");
}

fn check_after_power_cut(script: &Script, seed: u64) -> Verdict {
    let sim = script.sim().copy();
    sim.power_cut(seed);
    let mut again = Script { env: Env::simulated(&sim, 1), oracle: script.oracle.clone() };
    let mut open_and_append = || -> std::result::Result<(), End> {
        let wal = again.open()?;
        again.append(&wal, &[b"A".to_vec()])?;
        sim.power_cut(seed + 100);
        drop(wal);
        again.open().map(drop)
    };
    match open_and_append() {
        Ok(()) => Ok(()),
        Err(End::Failed(error)) => Err(format!("after the power cut: {error:?}")),
        Err(End::Finding(finding)) => Err(format!("after the power cut: {finding}")),
    }
}

#[test]
fn p06_every_call_fails_once() {
    every_call_fails(1, Fault { errno: Errno::IO, lasting: false });
}

#[test]
fn p06_every_call_and_all_after_it_fail() {
    every_call_fails(2, Fault { errno: Errno::IO, lasting: true });
}

#[test]
fn p06_every_call_finds_no_space_once() {
    every_call_fails(2, Fault { errno: Errno::NOSPC, lasting: false });
}

#[test]
fn p06_every_call_and_all_after_it_find_no_space() {
    every_call_fails(1, Fault { errno: Errno::NOSPC, lasting: true });
}

/// A process that dies in any of its calls loses nothing it has acked either.
#[test]
fn p01_a_process_that_dies_in_any_call_loses_nothing_acked() {
    let mut call = 0;
    loop {
        let sim = Sim::new(call);
        let mut script = Script { env: Env::simulated(&sim, 1), oracle: Oracle::default() };
        sim.crash_after(call);
        if let Err(End::Finding(finding)) = script.run() {
            panic!("call {call}: {finding}\n{}", sim.trace());
        }
        let died = sim.fault_happened();
        for seed in 0..3 {
            check_after_power_cut(&script, seed)
                .unwrap_or_else(|finding| panic!("died in call {call}, {finding}\n{}", sim.trace()));
        }
        if !died {
            break;
        }
        call += 1;
    }
}

/// Opening, failing and opening again leaves nothing behind.
#[test]
fn p06_a_hundred_failed_opens_do_not_grow_the_directory() {
    let sim = Sim::new(1);
    let env = Env::simulated(&sim, 1);
    env.open().append(b"acked").unwrap();
    env.open();
    let (names, free) = (env.names(), sim.free_bytes());
    for call in 0..100 {
        sim.fail_after(call % 20, Fault { errno: Errno::IO, lasting: true });
        let opened: Result<_> = env.open_with(env.options());
        drop(opened);
        sim.clear_faults();
    }
    drop(env.open());
    assert_eq!(env.names(), names);
    assert_eq!(sim.free_bytes(), free);
}
