//! What stands in for the ring where this build has none.

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;

use super::{Form, Obstacle, SetupFailure};
use crate::strategy::{Extent, SyncStrategy};

/// Which process this is: its id.
pub(crate) fn process_mark() -> u32 {
    std::process::id()
}

/// A barrier through `io_uring`. This build has none: there is no value of this type.
#[derive(Debug)]
pub struct Uring {
    /// Private, so that a program which compiles with a ring also compiles without one, and without a warning about what
    /// cannot be reached.
    never: Infallible,
}

impl Uring {
    /// Fails: this build has no `io_uring`.
    ///
    /// # Errors
    ///
    /// [`SetupFailure`], always.
    pub fn new() -> Result<Self, SetupFailure> {
        Self::with_form(Form::default())
    }

    /// Fails: this build has no `io_uring`.
    ///
    /// # Errors
    ///
    /// [`SetupFailure`], always.
    pub fn with_form(_form: Form) -> Result<Self, SetupFailure> {
        let source = io::Error::new(io::ErrorKind::Unsupported, "this build has no io_uring");
        Err(SetupFailure { call: "io_uring_setup", source })
    }

    /// How many calls may run at once.
    #[must_use]
    pub fn with_max_in_flight(self, _calls: NonZeroUsize) -> Self {
        match self.never {}
    }

    /// What a barrier asks of the ring.
    pub fn form(&self) -> Form {
        match self.never {}
    }

    pub(crate) fn persist_unassisted(&self, _extent: Extent<'_>) -> io::Result<Result<(), Obstacle>> {
        match self.never {}
    }
}

impl SyncStrategy for Uring {
    fn name(&self) -> &'static str {
        match self.never {}
    }

    fn persist(&self, _extent: Extent<'_>) -> io::Result<()> {
        match self.never {}
    }
}

/// Nothing to look at.
#[cfg(feature = "testing")]
pub mod testing {}
