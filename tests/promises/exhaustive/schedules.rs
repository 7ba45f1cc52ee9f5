//! Small lives of a log, one call after the other.

use wo_wal::{Error, Lsn, Options, Wal};

use crate::support::env::Env;
use crate::support::oracle::{Oracle, Verdict};
use crate::support::sim::Sim;

/// One call of the log, or one event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// One batch, as the first byte and the length of each record.
    Append(&'static [(u8, usize)]),
    /// Records that are submitted one by one and share a barrier.
    Submit(&'static [(u8, usize)]),
    /// Records of one writer each, whose barriers are held between write and sync; then the process ends.
    DieInFlight(&'static [(u8, usize)]),
    /// Down from the durable LSN by so many.
    TrimAllBut(u64),
    /// A neighbour takes every free byte.
    FillDisk,
    CloseAndReopen,
    Close,
}

use Step::{Append, Close, CloseAndReopen, DieInFlight, FillDisk, Submit, TrimAllBut};

/// Lives, one after the other.
pub(super) type Schedule = &'static [&'static [Step]];

const SMALL: Step = Append(&[(b'A', 8)]);
/// Two of them fill a segment.
const HALF: Step = Append(&[(b'A', 30_000)]);

pub(super) const APPENDS: Schedule = &[&[
    SMALL,
    SMALL,
    Append(&[(b'A', 440), (b'B', 0), (b'A', 440)]),
    Submit(&[(b'A', 8), (b'B', 8), (b'A', 8)]),
    Append(&[(b'B', 900)]),
]];
/// Each group ends in the sector in which the next one begins.
pub(super) const IN_FLIGHT_THEN_THE_SAME: Schedule = &[
    &[DieInFlight(&[(b'A', 440), (b'A', 440)])],
    &[DieInFlight(&[(b'A', 440), (b'A', 440)])],
    &[Append(&[(b'A', 440)])],
];
pub(super) const IN_FLIGHT_THEN_OTHERS: Schedule = &[
    &[DieInFlight(&[(b'B', 440), (b'A', 440)])],
    &[DieInFlight(&[(b'A', 440), (b'A', 440)])],
    &[Append(&[(b'A', 440)])],
];
pub(super) const ROTATIONS: Schedule = &[&[HALF, HALF, HALF, HALF, SMALL]];
pub(super) const TRIMS: Schedule = &[&[HALF, HALF, HALF, HALF, SMALL, TrimAllBut(1), SMALL, HALF, SMALL]];
pub(super) const RECYCLED: Schedule =
    &[&[HALF, HALF, HALF, HALF, HALF, HALF, TrimAllBut(0), HALF, HALF, HALF, SMALL]];
pub(super) const IDLE_TRIMS: Schedule =
    &[&[SMALL, TrimAllBut(0), Append(&[(b'A', 8), (b'A', 8)]), TrimAllBut(0), SMALL]];
pub(super) const IDLE_TRIMS_ON_A_FULL_DISK: Schedule =
    &[&[FillDisk, SMALL, TrimAllBut(0), Append(&[(b'A', 8), (b'A', 8)]), TrimAllBut(0), SMALL]];
pub(super) const JUMBO: Schedule =
    &[&[Append(&[(b'A', 90_000)]), SMALL, Append(&[(b'B', 90_000)]), SMALL, TrimAllBut(1), SMALL]];
pub(super) const CLOSES: Schedule = &[&[SMALL, CloseAndReopen, CloseAndReopen, SMALL, SMALL, Close]];

/// A machine on which a schedule runs, and what its log has answered.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) sim: Sim,
    pub(super) oracle: Oracle,
}

/// Why a schedule ends early.
pub(super) enum End {
    /// The process has died, or its log has failed.
    Failed(Error),
    Finding(String),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error)
    }
}

fn records(what: &[(u8, usize)]) -> Vec<Vec<u8>> {
    what.iter().map(|(byte, bytes)| vec![*byte; *bytes]).collect()
}

impl Life {
    pub(super) fn new() -> Self {
        Life { sim: Sim::new(1), oracle: Oracle::default() }
    }

    pub(super) fn copy(&self) -> Self {
        Life { sim: self.sim.copy(), oracle: self.oracle.clone() }
    }

    fn options(&self) -> Options {
        let env = Env::simulated(&self.sim, 2);
        // The same ids at every try, and others in every session: those of segments and sessions in the log are random.
        let ids = self.sim.calls() ^ self.oracle.top_acked().get() << 32 ^ self.sim.fingerprint();
        env.options().prepares_ahead(false).recycle_segments(2).ids(ids)
    }

    /// Opens the log and judges what it serves.
    pub(super) fn open(&mut self) -> Result<Wal, End> {
        let (wal, recovery) = self.options().open("/simulated")?;
        match self.oracle.opened(&wal, &recovery) {
            Ok(()) => Ok(wal),
            // Its process has died in the replay.
            Err(_) if self.sim.fault_happened() => Err(End::Failed(Error::Closed)),
            Err(finding) => Err(End::Finding(finding)),
        }
    }

    pub(super) fn run(&mut self, steps: &[Step]) -> Result<(), End> {
        let mut wal = self.open()?;
        for step in steps {
            match step {
                Append(batch) => self.append(&wal, &records(batch))?,
                Submit(batch) => self.submit(&wal, &records(batch))?,
                DieInFlight(batch) => {
                    self.die_in_flight(&wal, &records(batch));
                    return Ok(());
                }
                TrimAllBut(kept) => {
                    let up_to = Lsn::new(wal.durable_lsn().get().saturating_sub(*kept));
                    self.oracle.trimming(up_to);
                    wal.trim(up_to)?;
                }
                FillDisk => self.sim.take_free_space(),
                CloseAndReopen => {
                    wal.close()?;
                    drop(wal);
                    wal = self.open()?;
                }
                Close => wal.close()?,
            }
        }
        Ok(())
    }

    pub(super) fn append(&mut self, wal: &Wal, batch: &[Vec<u8>]) -> Result<(), End> {
        let first = Lsn::new(wal.durable_lsn().get() + 1);
        self.oracle.given(first, batch);
        let end = *wal.append_batch(batch)?.end();
        self.acked(end)
    }

    fn submit(&mut self, wal: &Wal, batch: &[Vec<u8>]) -> Result<(), End> {
        for (lsn, record) in (wal.durable_lsn().get() + 1..).zip(batch) {
            self.oracle.given(Lsn::new(lsn), std::slice::from_ref(record));
            let _ = wal.submit(record)?.lsn();
        }
        let end = wal.sync()?;
        self.acked(end)
    }

    fn acked(&mut self, end: Lsn) -> Result<(), End> {
        let verdict: Verdict = self.oracle.acked(end);
        verdict.map_err(End::Finding)
    }

    fn die_in_flight(&mut self, wal: &Wal, batch: &[Vec<u8>]) {
        self.sim.gate().close();
        std::thread::scope(|scope| {
            for (held, record) in (1..).zip(batch) {
                let lsn = Lsn::new(wal.durable_lsn().get() + held as u64);
                self.oracle.given(lsn, std::slice::from_ref(record));
                scope.spawn(move || wal.append(record));
                self.sim.gate().wait_until_held(held);
            }
            self.sim.crash();
        });
    }
}
