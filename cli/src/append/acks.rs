//! Acknowledgements on standard output.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use wo_wal::Lsn;

use crate::failure::Failure;
use crate::output;

/// One line per durable record, written when it is durable and with nothing kept back in a buffer.
pub(super) struct Acks {
    out: Mutex<File>,
}

impl Acks {
    pub(super) fn to_standard_output() -> Result<Self, Failure> {
        Ok(Acks { out: Mutex::new(output::unbuffered()?) })
    }

    /// The line is with the system when this returns. Whole lines only, whatever the other writers do.
    pub(super) fn print(&self, lsn: Lsn, line_number: u64) -> Result<(), Failure> {
        let text = format!("{lsn}\t{line_number}\n");
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes()).map_err(|source| Failure::output(&source))
    }
}
