//! Standard output and standard error.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use crate::failure::Failure;

/// Enough for a few hundred records per system call.
const BUFFER_BYTES: usize = 128 << 10;

/// Standard output as a file of its own: the one of the standard library would flush at every line.
pub(crate) fn unbuffered() -> Result<File, Failure> {
    let descriptor = io::stdout().as_fd().try_clone_to_owned().map_err(|source| Failure::output(&source))?;
    Ok(File::from(descriptor))
}

/// Standard output with a buffer. It must be flushed explicitly: a drop would swallow the error.
pub(crate) fn buffered() -> Result<BufWriter<File>, Failure> {
    Ok(BufWriter::with_capacity(BUFFER_BYTES, unbuffered()?))
}

/// Prints a text that is complete.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    unbuffered()?.write_all(text.as_bytes()).map_err(|source| Failure::output(&source))
}

/// Prints one JSON object on a line of its own.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value).map_err(|source| Failure::output(&source.into()))?;
    line.push(b'\n');
    unbuffered()?.write_all(&line).map_err(|source| Failure::output(&source))
}

/// Writes a line to standard error. Where that is closed or full there is nobody left to tell.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
