//! What is staged as one unit: a record, or a batch encoded ahead of the lock.

use super::ledger::GroupBuffer;
use crate::error::{Error, Result};
use crate::frame::{RecordHeader, encode_record, memory_bytes, record_bytes};

/// One caller's atomic unit, with its payload checksums computed.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// A record that is a batch of its own; copied once, into the group.
    Record { header: RecordHeader, payload: &'a [u8] },
    /// Several records, encoded outside the lock.
    Batch(&'a EncodedBatch),
}

impl<'a> Item<'a> {
    /// Walks the payload for its checksum.
    pub(crate) fn record(payload: &'a [u8], max_bytes: u32) -> Result<Self> {
        check_record(payload, max_bytes)?;
        Ok(Item::Record { header: RecordHeader::of(payload, true), payload })
    }

    pub(crate) fn encoded_bytes(&self) -> u64 {
        match self {
            Item::Record { payload, .. } => record_bytes(payload.len() as u64),
            Item::Batch(batch) => batch.bytes.len() as u64,
        }
    }

    pub(crate) fn record_count(&self) -> u32 {
        match self {
            Item::Record { .. } => 1,
            Item::Batch(batch) => batch.record_count(),
        }
    }

    pub(super) fn write_to(&self, buffer: &mut GroupBuffer) {
        match self {
            Item::Record { header, payload } => {
                buffer.record_headers.extend_from_slice(&header.encode());
                encode_record(&mut buffer.bytes, *header, payload);
            }
            Item::Batch(batch) => {
                buffer.record_headers.extend_from_slice(&batch.record_headers);
                buffer.bytes.extend_from_slice(&batch.bytes);
            }
        }
    }
}

/// The records of a batch as they will stand in a group.
#[derive(Debug, Default)]
pub(crate) struct EncodedBatch {
    bytes: Vec<u8>,
    record_headers: Vec<u8>,
}

/// The header bytes of a record.
const HEADER_BYTES: usize = memory_bytes(crate::frame::RECORD_HEADER_BYTES);

impl EncodedBatch {
    /// Encodes the caller's records. Runs the caller's iterator, so never under a lock.
    pub(crate) fn encode<B>(&mut self, records: B, max_record_bytes: u32, max_batch_bytes: u64) -> Result<()>
    where
        B: IntoIterator,
        B::Item: AsRef<[u8]>,
    {
        self.bytes.clear();
        self.record_headers.clear();
        let mut last: Option<RecordHeader> = None;
        let mut last_at = 0;
        for record in records {
            let payload = record.as_ref();
            check_record(payload, max_record_bytes)?;
            let bytes = (self.bytes.len() as u64).saturating_add(record_bytes(payload.len() as u64));
            if bytes > max_batch_bytes {
                return Err(Error::BatchTooLarge { bytes, max_bytes: max_batch_bytes });
            }
            let header = RecordHeader::of(payload, false);
            last_at = self.bytes.len();
            self.record_headers.extend_from_slice(&header.encode());
            encode_record(&mut self.bytes, header, payload);
            last = Some(header);
        }
        // Only now is it known which record ends the batch.
        if let Some(header) = last {
            let ending = header.ending_batch().encode();
            self.bytes[last_at..last_at + HEADER_BYTES].copy_from_slice(&ending);
            let headers_end = self.record_headers.len();
            self.record_headers[headers_end - HEADER_BYTES..].copy_from_slice(&ending);
        }
        Ok(())
    }

    pub(crate) fn record_count(&self) -> u32 {
        // A batch is at most 1 GiB, and each record takes at least a header.
        u32::try_from(self.record_headers.len() / HEADER_BYTES).unwrap_or(u32::MAX)
    }

    /// How much memory it keeps for the next batch.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + self.record_headers.capacity()
    }
}

fn check_record(payload: &[u8], max_bytes: u32) -> Result<()> {
    let bytes = payload.len() as u64;
    if bytes > u64::from(max_bytes) {
        return Err(Error::RecordTooLarge { bytes, max_bytes: u64::from(max_bytes) });
    }
    Ok(())
}
