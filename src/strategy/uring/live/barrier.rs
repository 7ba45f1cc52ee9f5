//! One barrier: an extent as one chain, and what to do with what a chain left undone.

use std::io;

use super::flight;
use super::operations::{Chain, WRITE_BYTES_MAX};
use super::ring::Queues;
use super::verdict::{Verdict, judge};
use crate::strategy::{Extent, Form};

/// How often a chain is submitted again whose WRITE was interrupted before it wrote anything.
const REPEATS: u32 = 16;

/// How far the ring got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Every byte is stable.
    Stable,
    /// The ring has not done all of it, nothing has failed, and nothing is with the kernel.
    Unfinished,
}

/// Makes the extent durable through the ring, as far as the ring does it.
pub(super) fn run<Q: Queues>(queues: &mut Q, extent: Extent<'_>, form: Form) -> io::Result<End> {
    // The kernel takes an offset of all ones for the file's position, and none above `i64::MAX`.
    let end = extent.offset().checked_add(extent.bytes().len() as u64);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut form = form;
    let mut rest = extent;
    let mut repeats = 0;
    while !rest.bytes().is_empty() {
        let piece = first_of(rest);
        let length = piece.bytes().len();
        let chain = Chain { form, piece, generation: queues.next_generation() };
        match judge(length, flight::run(queues, chain)) {
            Verdict::Stable => rest = behind(rest, length),
            Verdict::Short(written) => {
                rest = behind(rest, written);
                // The FSYNC behind the last byte also covers what the short WRITE put down.
                form = linked(form);
            }
            Verdict::Again if repeats < REPEATS => repeats += 1,
            Verdict::Again | Verdict::NotExecuted => return Ok(End::Unfinished),
            Verdict::Failed(error) => return Err(error),
        }
    }
    Ok(End::Stable)
}

fn first_of(extent: Extent<'_>) -> Extent<'_> {
    let length = extent.bytes().len().min(WRITE_BYTES_MAX);
    Extent::new(extent.file(), extent.offset(), &extent.bytes()[..length])
}

/// What is left of the extent behind its first `written` bytes. `run` has checked that the offset does not overflow.
fn behind(extent: Extent<'_>, written: usize) -> Extent<'_> {
    let offset = extent.offset().saturating_add(written as u64);
    Extent::new(extent.file(), offset, &extent.bytes()[written..])
}

fn linked(form: Form) -> Form {
    match form {
        Form::Linked | Form::Dsync => Form::Linked,
        #[cfg(feature = "testing")]
        Form::Unlinked => Form::Unlinked,
    }
}
