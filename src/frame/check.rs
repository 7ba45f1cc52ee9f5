//! Verifies the body of a group, in pieces or whole, in constant memory.

use super::{BLOCK_BYTES, GroupHeader, RECORD_HEADER_BYTES, RecordHeader, header_seed, memory_bytes, pad8};

/// How many bytes of record headers are gathered before they are checksummed together: one by one, the call costs more
/// than the checksum.
const GATHERED_BYTES: usize = 512;

/// Verifies the body of a group whose header was verified: every payload checksum, the checksum over the record headers,
/// the padding, and that the lengths add up to the group's.
///
/// The body is handed in as pieces, in order, each a multiple of 8 bytes long.
#[derive(Debug)]
pub(crate) struct GroupCheck {
    left_records: u32,
    left_bytes: u64,
    records_crc: u32,
    headers: crc32fast::Hasher,
    gathered: [u8; GATHERED_BYTES],
    gathered_bytes: usize,
    payload: Option<OpenPayload>,
    /// Whether the last record header seen ends its batch; true before the first.
    batch_ended: bool,
    /// How much padding may still follow the last record: less than a block of it aligns the next group.
    left_padding_bytes: u64,
}

/// A payload whose end has not been seen yet.
#[derive(Debug)]
struct OpenPayload {
    header: RecordHeader,
    left_bytes: u64,
    hasher: crc32fast::Hasher,
}

/// What does not hold, for people.
pub(crate) type Flaw = &'static str;

impl GroupCheck {
    pub(crate) fn new(header: &GroupHeader) -> Self {
        GroupCheck {
            left_records: header.record_count,
            left_bytes: header.body_bytes(),
            records_crc: header.records_crc,
            headers: crc32fast::Hasher::new_with_initial(header_seed(header.segment_id)),
            gathered: [0; GATHERED_BYTES],
            gathered_bytes: 0,
            payload: None,
            batch_ended: true,
            left_padding_bytes: BLOCK_BYTES - 8,
        }
    }

    /// Verifies a whole body at once.
    pub(crate) fn whole(header: &GroupHeader, body: &[u8]) -> Result<(), Flaw> {
        let mut check = GroupCheck::new(header);
        check.push(body)?;
        check.finish()
    }

    /// Takes the next piece of the body.
    pub(crate) fn push(&mut self, mut piece: &[u8]) -> Result<(), Flaw> {
        debug_assert!(piece.len().is_multiple_of(8));
        let piece_bytes = piece.len() as u64;
        self.left_bytes = self.left_bytes.checked_sub(piece_bytes).ok_or("more bytes than the group has")?;
        while !piece.is_empty() {
            piece = match self.payload.take() {
                Some(payload) => self.go_on(payload, piece)?,
                None if self.left_records > 0 => self.start_record(piece)?,
                None => self.pad(piece)?,
            };
        }
        Ok(())
    }

    /// Padding behind the last record.
    fn pad(&mut self, piece: &[u8]) -> Result<&'static [u8], Flaw> {
        self.left_padding_bytes = self
            .left_padding_bytes
            .checked_sub(piece.len() as u64)
            .ok_or("a block or more behind the last record")?;
        if piece.iter().any(|&byte| byte != 0) {
            return Err("padding behind the last record is not zero");
        }
        Ok(&[])
    }

    /// A record header, and its payload where it ends in this piece.
    fn start_record<'a>(&mut self, piece: &'a [u8]) -> Result<&'a [u8], Flaw> {
        let (header_bytes, rest) =
            piece.split_at_checked(memory_bytes(RECORD_HEADER_BYTES)).ok_or("cut record header")?;
        self.left_records -= 1;
        self.gather(header_bytes);
        let header = RecordHeader::decode(header_bytes);
        self.batch_ended = header.ends_batch;
        let padded = pad8(header.payload_bytes());
        if padded > self.left_bytes + rest.len() as u64 {
            return Err("record length beyond the end of the group");
        }
        let whole = usize::try_from(padded).ok().and_then(|padded| rest.split_at_checked(padded));
        let Some((padded_payload, rest)) = whole else {
            let hasher = crc32fast::Hasher::new();
            return self.go_on(OpenPayload { header, left_bytes: header.payload_bytes(), hasher }, rest);
        };
        let (payload, padding) = padded_payload.split_at(padded_payload.len() - padding_bytes(header));
        if !header.matches(payload) {
            return Err("payload checksum");
        }
        if padding.iter().any(|&byte| byte != 0) {
            return Err("record padding is not zero");
        }
        Ok(rest)
    }

    /// More of a payload that does not end where its record header's piece ended.
    fn go_on<'a>(&mut self, mut payload: OpenPayload, piece: &'a [u8]) -> Result<&'a [u8], Flaw> {
        let here = usize::try_from(payload.left_bytes).unwrap_or(usize::MAX).min(piece.len());
        payload.hasher.update(&piece[..here]);
        payload.left_bytes -= here as u64;
        if payload.left_bytes > 0 {
            self.payload = Some(payload);
            return Ok(&[]);
        }
        if payload.hasher.finalize() != payload.header.payload_crc() {
            return Err("payload checksum");
        }
        // Pieces are multiples of 8 bytes and start aligned, so the padding is in this piece.
        let (padding, rest) =
            piece[here..].split_at_checked(padding_bytes(payload.header)).ok_or("cut record padding")?;
        if padding.iter().any(|&byte| byte != 0) {
            return Err("record padding is not zero");
        }
        Ok(rest)
    }

    fn gather(&mut self, header_bytes: &[u8]) {
        self.gathered[self.gathered_bytes..self.gathered_bytes + header_bytes.len()]
            .copy_from_slice(header_bytes);
        self.gathered_bytes += header_bytes.len();
        if self.gathered_bytes == GATHERED_BYTES {
            self.headers.update(&self.gathered);
            self.gathered_bytes = 0;
        }
    }

    /// The verdict, when all pieces have been handed in.
    pub(crate) fn finish(mut self) -> Result<(), Flaw> {
        if self.left_bytes > 0 || self.left_records > 0 || self.payload.is_some() {
            return Err("the group ends before its last record");
        }
        if !self.batch_ended {
            return Err("the group ends inside a batch");
        }
        self.headers.update(&self.gathered[..self.gathered_bytes]);
        if self.headers.finalize() == self.records_crc { Ok(()) } else { Err("record header checksum") }
    }
}

fn padding_bytes(header: RecordHeader) -> usize {
    memory_bytes(pad8(header.payload_bytes()) - header.payload_bytes())
}

const _: () =
    assert!(GATHERED_BYTES.is_multiple_of(memory_bytes(RECORD_HEADER_BYTES)), "a header is gathered whole");
const _: () = assert!(BLOCK_BYTES.is_multiple_of(8));

/// The checksum over the record headers of a group, from the headers as they stand in it, one after the other.
pub(crate) fn records_crc(segment_id: u64, headers: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(header_seed(segment_id));
    hasher.update(headers);
    hasher.finalize()
}
