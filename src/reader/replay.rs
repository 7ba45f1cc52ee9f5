//! Records in the order of their LSNs, verified on the way.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;

use super::recycled::{now_oldest_if_recycled, now_oldest_if_trimmed};
use super::{Record, RecordRef};
use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::frame::{GroupHeader, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, first_record, memory_bytes};
use crate::segment::{Checked, GroupReader, LargeGroup, Payload, Segment, Succession};

/// The records of a range, in the order of their LSNs, without a hole.
///
/// The range is fixed when the replay is made: it ends at the last record that was durable then. Every byte that it passes
/// is verified, including the groups of the first segment that lie before the range. It holds the files it still has to
/// read, so a [trim](crate::Wal::trim) does not take them away, and it keeps neither the log open nor its lock.
///
/// As an [`Iterator`] it hands out records of their own. [`next_ref`](Self::next_ref) lends them. Memory stays constant: a
/// window of 256 KiB, which grows to the largest group that was met, at most to 8 MiB; and where a group is larger than that,
/// the largest record that it has. After an error there is nothing more.
pub struct Replay {
    disk: Arc<dyn Disk>,
    /// What is still to be read, the segment that is being read in front.
    segments: VecDeque<Arc<Segment>>,
    /// Where in it the open group starts; before the first one is open, where that will be.
    offset: u64,
    reader: GroupReader,
    succession: Succession,
    group: OpenGroup,
    first: Lsn,
    last: Lsn,
    /// The last record was served, or an error.
    ended: bool,
    /// Whether another process may be writing to the log, and recycling the files that are read here.
    beside_writer: bool,
}

/// The verified group whose records are being served.
#[derive(Debug)]
struct OpenGroup {
    bytes: u64,
    sealed: bool,
    next_lsn: Lsn,
    left_records: u32,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// The rest of the body, in the reader.
    Held(Range<usize>),
    Large(LargeGroup),
}

/// A record that was found: where it is, so that it can be lent when nothing else is borrowed.
struct Found {
    lsn: Lsn,
    ends_batch: bool,
    payload: Payload,
}

impl OpenGroup {
    /// What stands before the first group.
    fn none() -> Self {
        OpenGroup { bytes: 0, sealed: false, next_lsn: Lsn::ZERO, left_records: 0, body: Body::Held(0..0) }
    }
}

impl Replay {
    /// The records from `first` to `last`, which is durable. `segments` are in order, and `first` is in the first of
    /// them. Nothing is served when `first` is above `last`.
    pub(crate) fn over(
        disk: Arc<dyn Disk>,
        segments: impl IntoIterator<Item = Arc<Segment>>,
        first: Lsn,
        last: Lsn,
    ) -> Self {
        let segments: VecDeque<_> = segments.into_iter().collect();
        let number = segments.front().map_or(1, |segment| segment.number);
        Replay {
            disk,
            segments,
            offset: SEGMENT_HEADER_BYTES,
            reader: GroupReader::new(),
            succession: Succession::at_start_of(number),
            group: OpenGroup::none(),
            first,
            last,
            ended: first > last,
            beside_writer: false,
        }
    }

    /// For a log that another process may be writing to: a file that was recycled meanwhile is no damage.
    pub(crate) fn beside_writer(self) -> Self {
        Replay { beside_writer: true, ..self }
    }

    /// Lends the next record; `None` at the end, and after an error.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::MissingSegment`] when the log is damaged at the next record, [`Error::Io`] when it
    /// cannot be read, [`Error::Trimmed`] when the file was recycled by whoever has opened the log since. The records
    /// before are as they were appended. Nothing is changed by any of them.
    pub fn next_ref(&mut self) -> Result<Option<RecordRef<'_>>> {
        match self.find() {
            Ok(Some(found)) => Ok(Some(self.lend(&found))),
            Ok(None) => {
                self.end();
                Ok(None)
            }
            Err(error) => {
                self.end();
                Err(error)
            }
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.segments.clear();
    }

    fn lend(&self, found: &Found) -> RecordRef<'_> {
        let payload = match (&found.payload, &self.group.body) {
            (Payload::Held(place), _) => self.reader.held(place.clone()),
            (Payload::Gathered, Body::Large(group)) => group.gathered(),
            (Payload::Gathered, Body::Held(_)) => &[],
        };
        RecordRef { lsn: found.lsn, ends_batch: found.ends_batch, payload }
    }

    /// The next record of the range.
    fn find(&mut self) -> Result<Option<Found>> {
        while !self.ended {
            if self.group.left_records == 0 {
                if self.group.next_lsn > self.last {
                    return Ok(None);
                }
                self.open_group()?;
                continue;
            }
            let found = self.take_record()?;
            if found.lsn > self.last {
                return Ok(None);
            }
            if found.lsn >= self.first {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Takes one record from the open group, which has one left.
    fn take_record(&mut self) -> Result<Found> {
        let lsn = self.group.next_lsn;
        let (header, payload) = match &mut self.group.body {
            Body::Held(rest) => {
                let start = rest.start;
                let Some((header, payload, taken)) = first_record(self.reader.held(rest.clone())) else {
                    return Err(self.damage(lsn, "the group ends before its last record"));
                };
                let payload_start = start + memory_bytes(RECORD_HEADER_BYTES);
                let place = payload_start..payload_start + payload.len();
                rest.start += taken;
                (header, Payload::Held(place))
            }
            Body::Large(group) => {
                let segment = self.segments.front().ok_or(Error::Closed)?;
                match group.next_record(&mut self.reader, &*self.disk, segment)? {
                    Ok(record) => record,
                    Err(flaw) => return Err(self.damage(lsn, flaw)),
                }
            }
        };
        self.group.next_lsn = lsn.next();
        self.group.left_records -= 1;
        Ok(Found { lsn, ends_batch: header.ends_batch, payload })
    }

    /// Verifies the next group and opens it.
    fn open_group(&mut self) -> Result<()> {
        self.leave_group()?;
        self.open_next_group().map_err(|error| self.gone_or(error))
    }

    fn open_next_group(&mut self) -> Result<()> {
        let Some(segment) = self.segments.front() else {
            return Err(self.missing_segment(1));
        };
        let lsn = self.succession.next_lsn();
        let header = match self.reader.header(&*self.disk, segment, self.offset)? {
            Ok(header) => header,
            Err(flaw) => return Err(self.damage(lsn, flaw)),
        };
        if let Err(flaw) = self.succession.check(&header) {
            return Err(self.damage(lsn, flaw));
        }
        let body = match self.reader.check(&*self.disk, segment, self.offset, &header, None)? {
            Checked::Held(place) => Body::Held(place),
            Checked::Large(group) => Body::Large(group),
            Checked::Flawed(flaw) => return Err(self.damage(header.first_lsn, flaw)),
        };
        self.succession.pass(&header);
        self.group = OpenGroup {
            bytes: u64::from(header.group_bytes),
            sealed: header.flags.sealed,
            next_lsn: header.first_lsn,
            left_records: header.record_count,
            body,
        };
        self.skip_group_before_range(&header);
        Ok(())
    }

    fn skip_group_before_range(&mut self, header: &GroupHeader) {
        if header.next_lsn() <= self.first {
            self.group.next_lsn = header.next_lsn();
            self.group.left_records = 0;
        }
    }

    /// Goes to the place behind the open group: after a seal, the start of the next segment.
    fn leave_group(&mut self) -> Result<()> {
        self.offset += self.group.bytes;
        if self.group.sealed {
            let sealed = self.segments.pop_front();
            if self.segments.is_empty() {
                return Err(self.missing_segment(sealed.map_or(1, |sealed| sealed.number.saturating_add(1))));
            }
            self.offset = SEGMENT_HEADER_BYTES;
        }
        let next_lsn = self.group.next_lsn;
        self.group = OpenGroup { next_lsn, ..OpenGroup::none() };
        Ok(())
    }

    fn missing_segment(&self, number: u64) -> Error {
        Error::MissingSegment { dir: self.disk.path().to_owned(), number }
    }

    /// The next record that is to be served.
    fn next_lsn(&self) -> Lsn {
        self.group.next_lsn.max(self.first)
    }

    /// A file that is not there any more was trimmed by the process that writes to the log.
    fn gone_or(&self, error: Error) -> Error {
        let not_found =
            matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
        let oldest =
            self.segments.front().filter(|_| not_found).and_then(|segment| self.now_oldest_if_gone(segment));
        oldest.map_or(error, |oldest| Error::Trimmed { oldest })
    }

    /// What a group that does not verify means.
    fn damage(&self, lsn: Lsn, what: &'static str) -> Error {
        let Some(segment) = self.segments.front() else {
            return self.missing_segment(1);
        };
        self.now_oldest_if_gone(segment)
            .map_or_else(|| segment.corrupt(self.offset, lsn, what), |oldest| Error::Trimmed { oldest })
    }

    /// The log's oldest record now, where the segment is not part of it any more.
    fn now_oldest_if_gone(&self, segment: &Segment) -> Option<Lsn> {
        let judge = if self.beside_writer { now_oldest_if_recycled } else { now_oldest_if_trimmed };
        judge(&*self.disk, segment, self.next_lsn())
    }

    /// The record that was found, as one's own.
    fn give(&mut self, found: &Found) -> Record {
        let payload = match (&found.payload, &mut self.group.body) {
            (Payload::Gathered, Body::Large(group)) => group.take_gathered(),
            _ => self.lend(found).payload.to_vec(),
        };
        Record { lsn: found.lsn, ends_batch: found.ends_batch, payload }
    }
}

impl Iterator for Replay {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.find() {
            Ok(Some(found)) => Some(Ok(self.give(&found))),
            Ok(None) => {
                self.end();
                None
            }
            Err(error) => {
                self.end();
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Replay {}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("dir", &self.disk.path())
            .field("first", &self.first)
            .field("last", &self.last)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
