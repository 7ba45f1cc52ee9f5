//! Logs as bytes, put together group by group, so that a test can have any state that a crash or damage leaves.

use std::path::Path;

use crate::Lsn;
use crate::frame::{
    GROUP_HEADER_BYTES, GroupFlags, GroupHeader, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    encode_record, records_crc,
};
use crate::segment::segment_name;

pub(crate) const CAPACITY_BYTES: u64 = 64 << 10;

/// A log's files, and the writer's state behind its last group.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) files: Vec<File>,
    pub(crate) next_lsn: u64,
    pub(crate) chain: u32,
    /// The durable LSN that the next group says.
    pub(crate) durable_lsn: u64,
    session_id: u64,
    new_session: bool,
    capacity_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) number: u64,
    pub(crate) id: u64,
    pub(crate) bytes: Vec<u8>,
    /// Where the next group goes.
    pub(crate) end: usize,
    /// Where the groups start.
    pub(crate) groups: Vec<usize>,
}

impl Image {
    /// A new log: segment 1, without groups.
    pub(crate) fn new() -> Self {
        Self::with_capacity(CAPACITY_BYTES)
    }

    pub(crate) fn with_capacity(capacity_bytes: u64) -> Self {
        let mut image = Image {
            files: Vec::new(),
            next_lsn: 1,
            chain: 0,
            durable_lsn: 0,
            session_id: 1,
            new_session: true,
            capacity_bytes,
        };
        image.prepare();
        image
    }

    /// Names the next segment. Groups go there from now on.
    pub(crate) fn prepare(&mut self) {
        let number = self.files.last().map_or(1, |file| file.number + 1);
        let id = 0x5eed_0000_0000_0000 | number;
        let header = SegmentHeader { number, capacity_bytes: self.capacity_bytes, id };
        let mut bytes = header.encode().to_vec();
        bytes.resize(usize::try_from(self.capacity_bytes).unwrap(), 0);
        let end = usize::try_from(SEGMENT_HEADER_BYTES).unwrap();
        self.files.push(File { number, id, bytes, end, groups: Vec::new() });
    }

    pub(crate) fn last(&mut self) -> &mut File {
        self.files.last_mut().unwrap()
    }

    /// Another open for writing goes on.
    pub(crate) fn new_session(&mut self) {
        self.session_id += 1;
        self.new_session = true;
    }

    /// Everything so far is known to be stable to the groups that follow.
    pub(crate) fn acked(&mut self) {
        self.durable_lsn = self.next_lsn - 1;
    }

    /// A group in which each record is a batch of its own.
    pub(crate) fn group(&mut self, records: &[&[u8]]) {
        let batches: Vec<&[&[u8]]> = records.chunks(1).collect();
        self.batches(&batches);
    }

    /// A group whose barrier was awaited before the next one.
    pub(crate) fn acked_group(&mut self, records: &[&[u8]]) {
        self.group(records);
        self.acked();
    }

    pub(crate) fn batches(&mut self, batches: &[&[&[u8]]]) {
        self.put(batches, GroupFlags::default());
    }

    pub(crate) fn seal(&mut self) {
        self.acked();
        self.put(&[], GroupFlags { sealed: true, ..GroupFlags::default() });
    }

    pub(crate) fn close(&mut self) {
        self.acked();
        self.put(&[], GroupFlags { closed: true, ..GroupFlags::default() });
    }

    pub(crate) fn empty(&mut self) {
        self.acked();
        self.put(&[], GroupFlags::default());
    }

    /// Appends a group.
    pub(crate) fn put(&mut self, batches: &[&[&[u8]]], flags: GroupFlags) {
        let bytes = self.encode(batches, flags);
        let file = self.files.last_mut().unwrap();
        let start = file.end;
        file.groups.push(start);
        file.end = start + bytes.len();
        file.bytes[start..file.end].copy_from_slice(&bytes);
    }

    /// The next group's bytes; the image goes on as if they had been appended.
    pub(crate) fn encode(&mut self, batches: &[&[&[u8]]], flags: GroupFlags) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(GROUP_HEADER_BYTES).unwrap()];
        let mut record_headers = Vec::new();
        let mut record_count = 0;
        for batch in batches {
            for (index, payload) in batch.iter().enumerate() {
                let header = RecordHeader::of(payload, index + 1 == batch.len());
                record_headers.extend_from_slice(&header.encode());
                encode_record(&mut bytes, header, payload);
                record_count += 1;
            }
        }
        let segment_id = self.files.last().unwrap().id;
        let header = GroupHeader {
            group_bytes: u32::try_from(bytes.len()).unwrap(),
            segment_id,
            session_id: self.session_id,
            first_lsn: Lsn::new(self.next_lsn),
            durable_lsn: Lsn::new(self.durable_lsn),
            record_count,
            flags: GroupFlags { first_of_session: self.new_session, ..flags },
            chain: self.chain,
            records_crc: records_crc(segment_id, &record_headers),
            crc: 0,
        };
        self.chain = header.encode(&mut bytes);
        self.new_session = false;
        self.next_lsn += u64::from(record_count);
        bytes
    }

    /// Drops the oldest files, as a trim does.
    pub(crate) fn drop_first(&mut self, files: usize) {
        self.files.drain(..files);
    }

    pub(crate) fn write_to(&self, dir: &Path) {
        for file in &self.files {
            // The zeros at the end need not be written.
            let used = file.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            let path = dir.join(segment_name(file.number));
            std::fs::write(&path, &file.bytes[..used]).unwrap();
            let on_disk = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            on_disk.set_len(file.bytes.len() as u64).unwrap();
        }
    }
}
