//! Which calls go wrong.

use std::io;

use rustix::io::Errno;

/// What a failing call answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) errno: Errno,
    /// False: that call only. True: that call and all after it.
    pub(crate) lasting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    fail_at: Option<(u64, Fault)>,
    pub(super) crash_at: Option<u64>,
    pub(super) failing_syncs_percent: u64,
    pub(super) dead: bool,
    pub(super) happened: bool,
}

/// Why a call does not do what it was asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// Its process has ended before.
    Dead,
    /// Its process ends inside it.
    Dies,
    Fails(Errno),
}

impl Faults {
    pub(super) fn fail(&mut self, at: u64, fault: Fault) {
        self.fail_at = Some((at, fault));
    }

    pub(super) fn clear(&mut self) {
        *self = Faults::default();
    }

    pub(super) fn verdict(&mut self, call: u64) -> Result<(), Refusal> {
        if self.crash_at.is_some_and(|at| call >= at) {
            self.dead = true;
            return Err(Refusal::Dies);
        }
        match self.fail_at {
            Some((at, fault)) if call == at || (fault.lasting && call > at) => {
                self.happened = true;
                Err(Refusal::Fails(fault.errno))
            }
            _ => Ok(()),
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Dead | Refusal::Dies => io::Error::other("the simulated process has ended"),
            Refusal::Fails(errno) => errno.into(),
        }
    }
}
