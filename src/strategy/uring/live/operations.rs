//! The entries of a chain, as `docs/ring-layout.md` lays them down.

use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

use crate::planted::{Fault, planted};
use crate::strategy::{Extent, Form};

/// Makes a WRITE durable before it completes (`RWF_DSYNC` of `pwritev2`).
const RWF_DSYNC: i32 = 2;

/// The most bytes one WRITE takes: what one system call can write.
pub(super) const WRITE_BYTES_MAX: usize = 0x7fff_f000;

/// Which operation of a chain a completion belongs to: bit 0 of its `user_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Fsync,
}

/// One chain: which operations, and a number that no other chain of its ring has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a> {
    pub(super) form: Form,
    /// At least one byte, at most [`WRITE_BYTES_MAX`].
    pub(super) piece: Extent<'a>,
    pub(super) generation: u64,
}

/// What tells the completion of an operation from every other one of its ring.
pub(super) fn user_data(generation: u64, operation: Operation) -> u64 {
    generation << 1 | u64::from(operation == Operation::Fsync)
}

/// The entries of one chain, without an allocation.
pub(super) enum Entries {
    One([Entry; 1]),
    Two([Entry; 2]),
}

impl Entries {
    pub(super) fn as_slice(&self) -> &[Entry] {
        match self {
            Entries::One(entries) => entries,
            Entries::Two(entries) => entries,
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Entries::One(_) => 1,
            Entries::Two(_) => 2,
        }
    }
}

impl Chain<'_> {
    /// The operation that a completion with this `user_data` ends, if it is one of this chain's.
    pub(super) fn operation_of(&self, user_data: u64) -> Option<Operation> {
        if user_data >> 1 != self.generation {
            return None;
        }
        Some(if user_data & 1 == 0 { Operation::Write } else { Operation::Fsync })
    }

    /// The entries in the order in which they are published.
    pub(super) fn entries(&self) -> Entries {
        let write = self.write();
        match self.form {
            Form::Linked if planted(Fault::LinkDropped) => Entries::Two([write, self.fsync()]),
            Form::Linked => Entries::Two([write.flags(Flags::IO_LINK), self.fsync()]),
            Form::Dsync => Entries::One([write]),
            #[cfg(feature = "testing")]
            Form::Unlinked => Entries::Two([write, self.fsync()]),
        }
    }

    fn write(&self) -> Entry {
        let bytes = self.piece.bytes();
        // The caller cut the piece to `WRITE_BYTES_MAX`, which is below 2^32.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let rw_flags = if self.form == Form::Dsync { RWF_DSYNC } else { 0 };
        opcode::Write::new(types::Fd(self.piece.file().as_raw_fd()), bytes.as_ptr(), length)
            .offset(self.piece.offset())
            .rw_flags(rw_flags)
            .build()
            .user_data(user_data(self.generation, Operation::Write))
    }

    fn fsync(&self) -> Entry {
        opcode::Fsync::new(types::Fd(self.piece.file().as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(user_data(self.generation, Operation::Fsync))
    }
}

/// The bytes of the entries that a barrier of this form publishes, for a test of the document.
#[cfg(feature = "testing")]
#[expect(unsafe_code, reason = "reads the bytes of an entry, which the io-uring crate keeps private")]
pub fn entry_bytes(form: Form, piece: Extent<'_>, generation: u64) -> Vec<[u8; 64]> {
    let entries = Chain { form, piece, generation }.entries();
    let as_bytes = |entry: &Entry| {
        // SAFETY: an entry is a `repr(C)` wrapper of the kernel's 64 bytes, without padding and all of them set, for it
        // starts out zeroed; the size is asserted below.
        unsafe { std::mem::transmute_copy::<Entry, [u8; 64]>(entry) }
    };
    const { assert!(size_of::<Entry>() == 64) };
    entries.as_slice().iter().map(as_bytes).collect()
}
