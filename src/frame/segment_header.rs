//! The first block of a segment.

use super::{BLOCK_BYTES, FORMAT_VERSION, SEGMENT_HEADER_BYTES, memory_bytes, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"WOWALSEG";
/// Everything before this offset is covered by the checksum that stands there. The place of magic, version and checksum
/// stays the same in every version of the format, so that a newer version is told from damage.
const CRC_OFFSET: usize = 60;

/// Who a segment is: stable on disk before the file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The number in its name, from 1 and below the largest that fits, so that the next one does, too.
    pub(crate) number: u64,
    /// Bytes that may be used, header included: a multiple of a block, at most the file's length.
    pub(crate) capacity_bytes: u64,
    /// Random, new for every life of the file, so that what a recycled file still holds is never taken for its own.
    pub(crate) id: u64,
}

/// Why a block is not a segment header of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeaderFlaw {
    /// The magic is not there: not a segment at all.
    Foreign,
    /// Intact, but of another version.
    Version(u32),
    /// Damaged: what does not hold.
    Damaged(&'static str),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; memory_bytes(SEGMENT_HEADER_BYTES)] {
        let mut block = [0; memory_bytes(SEGMENT_HEADER_BYTES)];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.number.to_le_bytes());
        block[24..32].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        block[32..40].copy_from_slice(&self.id.to_le_bytes());
        let crc = crc32fast::hash(&block[..CRC_OFFSET]);
        block[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads the first block of a file that has a segment's name.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, SegmentHeaderFlaw> {
        use SegmentHeaderFlaw::{Damaged, Foreign, Version};
        if block.is_empty() {
            return Err(Damaged("the file is empty"));
        }
        if !block.starts_with(&MAGIC) {
            return Err(Foreign);
        }
        if block.len() < memory_bytes(SEGMENT_HEADER_BYTES) {
            return Err(Damaged("the file ends inside the segment header"));
        }
        if u32_at(block, CRC_OFFSET) != crc32fast::hash(&block[..CRC_OFFSET]) {
            return Err(Damaged("segment header checksum"));
        }
        let version = u32_at(block, 8);
        if version != FORMAT_VERSION {
            return Err(Version(version));
        }
        let padding = [&block[12..16], &block[40..CRC_OFFSET], &block[CRC_OFFSET + 4..]];
        if padding.iter().any(|bytes| bytes.iter().any(|&byte| byte != 0)) {
            return Err(Damaged("segment header padding is not zero"));
        }
        let header = SegmentHeader {
            number: u64_at(block, 16),
            capacity_bytes: u64_at(block, 24),
            id: u64_at(block, 32),
        };
        // The largest number of all has no successor.
        let sound = header.number > 0
            && header.number < u64::MAX
            && header.id != 0
            && header.capacity_bytes.is_multiple_of(BLOCK_BYTES)
            && header.capacity_bytes > SEGMENT_HEADER_BYTES;
        if sound { Ok(header) } else { Err(Damaged("segment header field out of range")) }
    }
}
