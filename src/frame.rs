//! Groups and records as bytes: encode, decode, checksums. No I/O.
//!
//! The byte tables are in `docs/format.md`. All integers are little endian, everything is aligned to 8 bytes, zero is
//! never valid, and padding is zero and checked. Nothing here trusts a length before the checksum over it has been
//! verified and the length has been bounded.

mod check;
mod group;
mod segment_header;
#[cfg(test)]
mod tests;

pub(crate) use check::{Flaw, GroupCheck, records_crc};
pub(crate) use group::{GroupFlags, GroupHeader, RecordHeader, first_record};
pub(crate) use segment_header::{SegmentHeader, SegmentHeaderFlaw};

/// The version of the format that this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// The unit of disk space: segment sizes are multiples of it.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// The segment header takes one block, so that no group shares a sector with it.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = BLOCK_BYTES;
/// A group's header; also the size of an empty group.
pub(crate) const GROUP_HEADER_BYTES: u64 = 64;
/// A record's header: length and flag, checksum.
pub(crate) const RECORD_HEADER_BYTES: u64 = 8;
/// What one `write` system call takes at most, rounded down to a block: a group is never larger.
pub(crate) const GROUP_BYTES_MAX: u64 = 0x7fff_f000;
/// The largest payload that fits the length field of a record beside its flag, and more than any option allows.
pub(crate) const RECORD_BYTES_LIMIT: u32 = 1 << 30;

/// A length as one in memory. The crate is for 64-bit targets, which `lib.rs` enforces.
#[allow(clippy::cast_possible_truncation, reason = "usize is 64 bits wide")]
pub(crate) const fn memory_bytes(bytes: u64) -> usize {
    bytes as usize
}

/// `bytes` rounded up to the alignment of everything in a segment.
pub(crate) const fn pad8(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// What a record of `payload_bytes` takes in a group: header, payload, padding.
pub(crate) const fn record_bytes(payload_bytes: u64) -> u64 {
    RECORD_HEADER_BYTES + pad8(payload_bytes)
}

/// Appends the record header and the payload, padded, to a group that is being staged.
pub(crate) fn encode_record(into: &mut Vec<u8>, header: RecordHeader, payload: &[u8]) {
    into.extend_from_slice(&header.encode());
    into.extend_from_slice(payload);
    into.resize(into.len().next_multiple_of(8), 0);
}

/// Where checksums over headers start for a segment: a header copied from another segment, or left by a former life of
/// the file, does not verify.
fn header_seed(segment_id: u64) -> u32 {
    crc32fast::hash(&segment_id.to_le_bytes())
}

/// Four bytes at a fixed place of a header.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

/// Eight bytes at a fixed place of a header.
fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}

const _: () = assert!(GROUP_HEADER_BYTES.is_multiple_of(8), "records start aligned to 8");
const _: () = assert!(GROUP_BYTES_MAX.is_multiple_of(BLOCK_BYTES), "a padded group still fits one write");
