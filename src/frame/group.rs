//! A group header, a record header, and the records of a verified group.

use super::{
    GROUP_BYTES_MAX, GROUP_HEADER_BYTES, RECORD_BYTES_LIMIT, RECORD_HEADER_BYTES, header_seed, memory_bytes,
    record_bytes, u32_at, u64_at,
};
use crate::Lsn;

const MAGIC: u32 = u32::from_le_bytes(*b"WOGR");
const CRC_OFFSET: usize = 60;
const ENDS_BATCH: u32 = 1 << 31;

/// What a group says about itself besides its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupFlags {
    /// Nothing follows in this segment; the log goes on in the next one.
    pub(crate) sealed: bool,
    /// Written by `close`.
    pub(crate) closed: bool,
    /// The first group its session wrote.
    pub(crate) first_of_session: bool,
}

impl GroupFlags {
    fn encode(self) -> u32 {
        u32::from(self.sealed) | u32::from(self.closed) << 1 | u32::from(self.first_of_session) << 2
    }

    fn decode(bits: u32) -> Option<Self> {
        (bits < 8).then_some(GroupFlags {
            sealed: bits & 1 != 0,
            closed: bits & 2 != 0,
            first_of_session: bits & 4 != 0,
        })
    }
}

/// The header of a group: what one barrier makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    /// Header, records and padding.
    pub(crate) group_bytes: u32,
    /// The segment it belongs to.
    pub(crate) segment_id: u64,
    /// Random, one for each open for writing: ties a group to the session that wrote it.
    pub(crate) session_id: u64,
    /// The LSN of its first record, or of the next record where it has none.
    pub(crate) first_lsn: Lsn,
    /// The end of the gapless stable prefix when the group was submitted. True for ever, wherever the header is found.
    pub(crate) durable_lsn: Lsn,
    pub(crate) record_count: u32,
    pub(crate) flags: GroupFlags,
    /// The previous group's [`crc`](Self::crc) as stored, 0 for the first group of the log.
    pub(crate) chain: u32,
    /// Over the record headers.
    pub(crate) records_crc: u32,
    /// Over this header, as stored. Filled in by [`encode`](Self::encode) and [`decode`](Self::decode).
    pub(crate) crc: u32,
}

impl GroupHeader {
    /// Writes the header to the start of `into` and returns its checksum, the next group's chain value.
    pub(crate) fn encode(&self, into: &mut [u8]) -> u32 {
        into[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        into[4..8].copy_from_slice(&self.group_bytes.to_le_bytes());
        into[8..16].copy_from_slice(&self.segment_id.to_le_bytes());
        into[16..24].copy_from_slice(&self.session_id.to_le_bytes());
        into[24..32].copy_from_slice(&self.first_lsn.get().to_le_bytes());
        into[32..40].copy_from_slice(&self.durable_lsn.get().to_le_bytes());
        into[40..44].copy_from_slice(&self.record_count.to_le_bytes());
        into[44..48].copy_from_slice(&self.flags.encode().to_le_bytes());
        into[48..52].copy_from_slice(&self.chain.to_le_bytes());
        into[52..56].copy_from_slice(&self.records_crc.to_le_bytes());
        into[56..60].fill(0);
        let crc = header_crc(into, self.segment_id);
        into[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// True when the bytes start like a header of the segment with this id. Nothing is verified: a quick look before
    /// the checksum is worth computing.
    pub(crate) fn begins(bytes: &[u8], segment_id: u64) -> bool {
        bytes.len() >= memory_bytes(GROUP_HEADER_BYTES)
            && u32_at(bytes, 0) == MAGIC
            && u64_at(bytes, 8) == segment_id
    }

    /// Reads and verifies a header of the segment with this id. Nothing about the records is known yet.
    pub(crate) fn decode(bytes: &[u8], segment_id: u64) -> Option<Self> {
        if !Self::begins(bytes, segment_id) {
            return None;
        }
        let crc = u32_at(bytes, CRC_OFFSET);
        if crc != header_crc(bytes, segment_id) || u32_at(bytes, 56) != 0 {
            return None;
        }
        let header = GroupHeader {
            group_bytes: u32_at(bytes, 4),
            segment_id,
            session_id: u64_at(bytes, 16),
            first_lsn: Lsn::new(u64_at(bytes, 24)),
            durable_lsn: Lsn::new(u64_at(bytes, 32)),
            record_count: u32_at(bytes, 40),
            flags: GroupFlags::decode(u32_at(bytes, 44))?,
            chain: u32_at(bytes, 48),
            records_crc: u32_at(bytes, 52),
            crc,
        };
        header.is_sound().then_some(header)
    }

    /// Bounds every field, so that sums of them cannot wrap.
    fn is_sound(&self) -> bool {
        let bytes = u64::from(self.group_bytes);
        bytes.is_multiple_of(8)
            && bytes <= GROUP_BYTES_MAX
            && bytes >= GROUP_HEADER_BYTES + u64::from(self.record_count) * RECORD_HEADER_BYTES
            && self.first_lsn > Lsn::ZERO
            && self.durable_lsn < self.first_lsn
            && self.first_lsn.checked_add(u64::from(self.record_count)).is_some_and(|next| next < Lsn::MAX)
    }

    /// The LSN of its last record; for an empty group the one before its first LSN.
    pub(crate) fn last_lsn(&self) -> Lsn {
        self.next_lsn().previous()
    }

    /// The LSN that the next group starts with.
    pub(crate) fn next_lsn(&self) -> Lsn {
        // Bounded by `is_sound`.
        Lsn::new(self.first_lsn.get() + u64::from(self.record_count))
    }

    /// Where its records end and checksums over record headers start.
    pub(super) fn body_bytes(&self) -> u64 {
        u64::from(self.group_bytes) - GROUP_HEADER_BYTES
    }
}

fn header_crc(bytes: &[u8], segment_id: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(header_seed(segment_id));
    hasher.update(&bytes[..CRC_OFFSET]);
    hasher.finalize()
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    payload_bytes: u32,
    pub(crate) ends_batch: bool,
    /// Plain CRC-32 of the payload.
    payload_crc: u32,
}

impl RecordHeader {
    /// The header of a payload, whose length the caller has checked against the limit. Walks the payload.
    pub(crate) fn of(payload: &[u8], ends_batch: bool) -> Self {
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        debug_assert!(payload_bytes <= RECORD_BYTES_LIMIT);
        RecordHeader { payload_bytes, ends_batch, payload_crc: crc32fast::hash(payload) }
    }

    /// The same record as the last of its batch.
    pub(crate) fn ending_batch(self) -> Self {
        RecordHeader { ends_batch: true, ..self }
    }

    pub(crate) fn encode(self) -> [u8; memory_bytes(RECORD_HEADER_BYTES)] {
        let mut bytes = [0; memory_bytes(RECORD_HEADER_BYTES)];
        let length = self.payload_bytes | if self.ends_batch { ENDS_BATCH } else { 0 };
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let length = u32_at(bytes, 0);
        RecordHeader {
            payload_bytes: length & !ENDS_BATCH,
            ends_batch: length & ENDS_BATCH != 0,
            payload_crc: u32_at(bytes, 4),
        }
    }

    pub(crate) fn payload_bytes(self) -> u64 {
        u64::from(self.payload_bytes)
    }

    pub(super) fn payload_crc(self) -> u32 {
        self.payload_crc
    }

    /// True when the payload is the one the header was made for.
    pub(crate) fn matches(self, payload: &[u8]) -> bool {
        payload.len() as u64 == self.payload_bytes() && crc32fast::hash(payload) == self.payload_crc
    }
}

/// The first record of what is left of a group's body: its header, its payload, and how many bytes it takes with its
/// padding. Nothing is verified but that it fits.
pub(crate) fn first_record(body: &[u8]) -> Option<(RecordHeader, &[u8], usize)> {
    let (header_bytes, rest) = body.split_at_checked(memory_bytes(RECORD_HEADER_BYTES))?;
    let header = RecordHeader::decode(header_bytes);
    let payload = rest.get(..usize::try_from(header.payload_bytes()).ok()?)?;
    let taken = usize::try_from(record_bytes(header.payload_bytes())).ok()?;
    (taken <= body.len()).then_some((header, payload, taken))
}
