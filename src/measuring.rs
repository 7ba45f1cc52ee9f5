//! Groups encoded and decoded without a log, for the benches. Not part of the public API.

use crate::Lsn;
use crate::frame::{
    GROUP_HEADER_BYTES, GroupCheck, GroupFlags, GroupHeader, RecordHeader, encode_record, memory_bytes,
    records_crc,
};

const SEGMENT_ID: u64 = 0x5eed;

/// Puts a group of these records, each a batch of its own, into the buffer.
pub fn encode_group<R: AsRef<[u8]>>(records: &[R], into: &mut Vec<u8>) {
    into.clear();
    into.resize(memory_bytes(GROUP_HEADER_BYTES), 0);
    let mut record_headers = Vec::with_capacity(records.len() * 8);
    for record in records {
        let header = RecordHeader::of(record.as_ref(), true);
        record_headers.extend_from_slice(&header.encode());
        encode_record(into, header, record.as_ref());
    }
    let header = GroupHeader {
        group_bytes: u32::try_from(into.len()).unwrap_or(u32::MAX),
        segment_id: SEGMENT_ID,
        session_id: SEGMENT_ID,
        first_lsn: Lsn::FIRST,
        durable_lsn: Lsn::ZERO,
        record_count: u32::try_from(records.len()).unwrap_or(u32::MAX),
        flags: GroupFlags::default(),
        chain: 0,
        records_crc: records_crc(SEGMENT_ID, &record_headers),
        crc: 0,
    };
    header.encode(into);
}

/// Checks every checksum of such a group. Returns how many records it has; `None` where it does not verify.
pub fn decode_group(bytes: &[u8]) -> Option<u32> {
    let header = GroupHeader::decode(bytes, SEGMENT_ID)?;
    let body = bytes.get(memory_bytes(GROUP_HEADER_BYTES)..memory_bytes(u64::from(header.group_bytes)))?;
    GroupCheck::whole(&header, body).ok()?;
    Some(header.record_count)
}
