//! Any bytes as a segment file, for the fuzz targets and for the test that replays their corpus. Not part of the public API.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Lsn;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::frame::{
    GROUP_HEADER_BYTES, GroupCheck, GroupHeader, SEGMENT_HEADER_BYTES, SegmentHeader, first_record,
    memory_bytes, records_crc,
};
use crate::reader::Replay;
use crate::recovery::{Recovered, recover};
use crate::segment::{Segment, segment_name};

/// How far a file that ends before its capacity is extended with zeros, so that a small input can be a whole segment.
const EXTENDED_BYTES_MAX: u64 = 16 << 20;

/// What is signed has at least the size of a small segment.
const SIGNED_BYTES_MIN: usize = 8192;

/// Opens a log whose only segment is a file with these bytes, replays it, opens it again and compares. Returns how many
/// records it has.
///
/// # Errors
///
/// What open or replay answered.
///
/// # Panics
///
/// When something else happens than an error or a log that stays the same.
pub fn segment(bytes: &[u8]) -> Result<u64> {
    let disk: Arc<dyn Disk> =
        Arc::new(OneFile::new(bytes).map_err(|source| Error::io("create", ".", source))?);
    let first = open(&disk)?;
    let replayed = replay(&disk, &first);
    let second = open(&disk).expect("what was opened once is opened again");
    assert_eq!((first.offset, first.chain, first.next_lsn), (second.offset, second.chain, second.next_lsn));
    let again = replay(&disk, &second);
    assert_eq!(replayed.is_ok(), again.is_ok(), "a second open changes nothing");
    if let (Ok(replayed), Ok(again)) = (&replayed, &again) {
        assert_eq!(replayed, again);
    }
    replayed.map(|(records, _)| records)
}

/// The same with the checksums put right, so that what stands behind them is reached.
///
/// # Errors
///
/// As [`segment`].
///
/// # Panics
///
/// As [`segment`].
pub fn signed_segment(bytes: &[u8]) -> Result<u64> {
    let mut signed = bytes.to_vec();
    signed.resize(bytes.len().max(SIGNED_BYTES_MIN), 0);
    if let Some(id) = sign_segment_header(&mut signed) {
        for position in (memory_bytes(SEGMENT_HEADER_BYTES)..signed.len()).step_by(8) {
            sign_group(&mut signed[position..], id);
        }
    }
    segment(&signed)
}

/// Decodes the bytes as a group, once whole and once in pieces, as they are and with the checksums put right.
///
/// # Panics
///
/// When the two do not agree.
pub fn group(bytes: &[u8]) {
    const SEGMENT_ID: u64 = 0x5eed;
    let (piece_bytes, bytes) =
        bytes.split_first().map_or((1, bytes), |(&first, rest)| (usize::from(first) + 1, rest));
    let mut signed = bytes.to_vec();
    if signed.len() >= memory_bytes(GROUP_HEADER_BYTES) {
        signed[8..16].copy_from_slice(&SEGMENT_ID.to_le_bytes());
    }
    sign_group(&mut signed, SEGMENT_ID);
    for bytes in [bytes, &signed] {
        let Some(header) = GroupHeader::decode(bytes, SEGMENT_ID) else { continue };
        let Some(body) = bytes.get(memory_bytes(GROUP_HEADER_BYTES)..header.group_bytes as usize) else {
            continue;
        };
        let whole = GroupCheck::whole(&header, body);
        let mut check = GroupCheck::new(&header);
        let pieces = body.chunks(piece_bytes * 8).try_for_each(|piece| check.push(piece));
        assert_eq!(whole.is_ok(), pieces.and_then(|()| check.finish()).is_ok());
        if whole.is_ok() {
            let records = std::iter::successors(Some(body), |body| Some(&body[first_record(body)?.2..]));
            assert!(records.count() > header.record_count as usize);
        }
    }
    let _ = SegmentHeader::decode(bytes);
}

fn open(disk: &Arc<dyn Disk>) -> Result<Recovered> {
    let segment = Arc::new(Segment::open(&**disk, 1)?);
    let files = segment.open_for_barriers(&**disk, 1)?;
    recover(&**disk, &[segment], &mut |segment, offset, bytes| {
        disk.write_at(&files[0], bytes, offset).map_err(|source| Error::io("write", &segment.path, source))
    })
}

/// The number of records and a checksum over all that is served.
fn replay(disk: &Arc<dyn Disk>, recovered: &Recovered) -> Result<(u64, u32)> {
    let segment = &recovered.segments[0].segment;
    let (first, last) = (recovered.report.oldest, recovered.report.last);
    let mut replay = Replay::over(Arc::clone(disk), [Arc::clone(segment)], first, last);
    let (mut expected, mut served) = (first, crc32fast::Hasher::new());
    loop {
        let record = match replay.next_ref() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                assert!(replay.next_ref().is_ok_and(|record| record.is_none()), "nothing after an error");
                return Err(error);
            }
        };
        assert_eq!(record.lsn, expected, "consecutive, so that the end comes");
        served.update(record.payload);
        served.update(&[u8::from(record.ends_batch)]);
        expected = expected.next();
    }
    assert_eq!(expected.previous(), last, "up to the last record that open has found");
    assert!(last.get() <= segment.capacity_bytes / 8 + Lsn::FIRST.get());
    Ok((last.get(), served.finalize()))
}

/// Makes the first block the header of segment 1; returns the segment's id.
fn sign_segment_header(bytes: &mut [u8]) -> Option<u64> {
    let block = bytes.get_mut(..memory_bytes(SEGMENT_HEADER_BYTES))?;
    let capacity_bytes = u64_at(block, 24);
    let id = u64_at(block, 32).max(1);
    block.copy_from_slice(&SegmentHeader { number: 1, capacity_bytes, id }.encode());
    Some(id)
}

/// Puts the checksums of a group right, if one begins here: those of its payloads as far as they fit, of its record headers
/// and of its header.
fn sign_group(bytes: &mut [u8], segment_id: u64) {
    if !GroupHeader::begins(bytes, segment_id) {
        return;
    }
    let end = (u32_at(bytes, 4) as usize).min(bytes.len());
    let mut record_headers = Vec::new();
    let mut position = memory_bytes(GROUP_HEADER_BYTES);
    for _ in 0..u32_at(bytes, 40) {
        let Some((_, payload, taken)) = bytes.get(position..end).and_then(first_record) else { break };
        let crc = crc32fast::hash(payload);
        bytes[position + 4..position + 8].copy_from_slice(&crc.to_le_bytes());
        record_headers.extend_from_slice(&bytes[position..position + 8]);
        position += taken;
    }
    let records_crc = records_crc(segment_id, &record_headers);
    bytes[52..56].copy_from_slice(&records_crc.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(crc32fast::hash(&segment_id.to_le_bytes()));
    hasher.update(&bytes[..60]);
    bytes[60..64].copy_from_slice(&hasher.finalize().to_le_bytes());
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
}

/// A directory in memory that holds segment 1 and nothing else.
#[derive(Debug)]
struct OneFile {
    file: File,
}

impl OneFile {
    fn new(bytes: &[u8]) -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("segment", rustix::fs::MemfdFlags::CLOEXEC)?);
        let disk = OneFile { file };
        disk.write_at(&disk.file, bytes, 0)?;
        let capacity_bytes = if bytes.len() < 32 { 0 } else { u64_at(bytes, 24) };
        if capacity_bytes > bytes.len() as u64 && capacity_bytes <= EXTENDED_BYTES_MAX {
            disk.file.set_len(capacity_bytes)?;
        }
        Ok(disk)
    }
}

impl Disk for OneFile {
    fn path(&self) -> &Path {
        Path::new(".")
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(vec![segment_name(1)])
    }

    fn create(&self, _name: &str) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open(&self, _name: &str, _access: Access) -> io::Result<File> {
        self.file.try_clone()
    }

    fn file_bytes(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn reserve(&self, _file: &File, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64)?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(filled)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    }

    fn sync(&self, _file: &File) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn unlink(&self, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
