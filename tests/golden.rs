//! The logs in `tests/data/v1` were written once and pin version 1 of the format: every later build reads them, and
//! writes the same bytes for the same calls.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

#[path = "golden/dump.rs"]
mod dump;

use std::path::Path;

use dump::{Segments, read_dump, read_segments, write_segments};
use wo_wal::{Lsn, Reader, Record, Recovery, Wal};

const SEGMENT_BYTES: u64 = 64 << 10;

/// A record as it was appended: whether it ends its batch, and its bytes.
type Appended = (bool, Vec<u8>);

fn single(payload: &[u8]) -> Vec<Appended> {
    vec![(true, payload.to_vec())]
}

fn batch(payloads: &[&[u8]]) -> Vec<Appended> {
    let last = payloads.len() - 1;
    payloads.iter().enumerate().map(|(index, payload)| (index == last, payload.to_vec())).collect()
}

/// A large record whose zeros take no room in a dump.
fn large(mark: u8) -> Vec<u8> {
    let mut payload = vec![0; 20_000];
    payload[0] = mark;
    payload[19_999] = mark;
    payload
}

/// Batches in groups: what stands together is made durable by one barrier.
type Schedule = Vec<Vec<Vec<Appended>>>;

fn closed_schedule() -> Schedule {
    vec![
        vec![single(b"the first record")],
        vec![batch(&[b"", b"1", b"12345678"]), single(b"1234567"), batch(&[b"123456789", b"\0\xff"])],
        vec![single(b"")],
    ]
}

fn torn_schedule() -> Schedule {
    vec![
        vec![single(b"acknowledged"), batch(&[b"acknowledged", b"too"])],
        vec![batch(&[b"these were being written", b"when the power went"])],
    ]
}

fn two_segments_schedule() -> Schedule {
    (1..=4).map(|mark| vec![single(&large(mark)), batch(&[b"beside", &[mark]])]).collect()
}

/// One schedule for each of two sessions; the first is not closed.
fn sessions_schedules() -> [Schedule; 2] {
    [
        vec![vec![single(b"before the crash")]],
        vec![vec![batch(&[b"after", b"the crash"])], vec![single(b"and more")]],
    ]
}

fn records(schedule: &Schedule) -> Vec<Appended> {
    schedule.iter().flatten().flatten().cloned().collect()
}

/// Writes to a log by the schedule and looks at its segments before, or after, it is closed.
fn write_log(directory: &Path, ids_seed: u64, schedule: &Schedule, close: bool) -> Segments {
    let (wal, _) = Wal::options().segment_bytes(SEGMENT_BYTES).ids(ids_seed).open(directory).unwrap();
    for group in schedule {
        let tickets = group.iter().map(|batch| wal.submit_batch(batch.iter().map(|(_, payload)| payload)));
        let tickets: Vec<_> = tickets.map(Result::unwrap).collect();
        wal.sync().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
    }
    if close {
        wal.close().unwrap();
    }
    read_segments(directory)
}

/// Takes the end of the last group away, as a power cut can.
fn tear(segments: &mut Segments) {
    let (_, bytes) = segments.last_mut().unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[end - 7..=end].fill(0);
}

fn closed_log(directory: &Path) -> Segments {
    write_log(directory, 11, &closed_schedule(), true)
}

fn torn_log(directory: &Path) -> Segments {
    let mut segments = write_log(directory, 12, &torn_schedule(), false);
    tear(&mut segments);
    segments
}

fn two_segments_log(directory: &Path) -> Segments {
    write_log(directory, 13, &two_segments_schedule(), true)
}

fn sessions_log(directory: &Path) -> Segments {
    let [first, second] = sessions_schedules();
    let crashed = write_log(&directory.join("first"), 14, &first, false);
    let directory = directory.join("second");
    std::fs::create_dir(&directory).unwrap();
    write_segments(&directory, &crashed);
    write_log(&directory, 15, &second, true)
}

fn assert_writes(name: &str, write: fn(&Path) -> Segments) {
    let directory = tempfile::tempdir().unwrap();
    let written = write(&directory.path().join("log"));
    assert_eq!(dump::text(&written), dump::text(&read_dump(name)), "{name}: other bytes than version 1");
}

/// Opens a copy with a reader and then for writing: both find these records, and the reader changes nothing.
fn assert_reads(name: &str, expected: &[Appended]) -> Recovery {
    let directory = tempfile::tempdir().unwrap();
    let segments = read_dump(name);
    write_segments(directory.path(), &segments);
    let (reader, found) = Reader::open(directory.path()).unwrap();
    assert_records(&format!("{name}, reader"), reader.replay(..).unwrap(), expected);
    assert_eq!(found.last, Lsn::new(expected.len() as u64), "{name}, reader");
    assert!(read_segments(directory.path()) == segments, "{name}: the reader changed a segment");
    let (wal, recovery) = Wal::open(directory.path()).unwrap();
    assert_records(&format!("{name}, writer"), wal.replay(..).unwrap(), expected);
    assert_eq!((recovery.oldest, recovery.last), (Lsn::FIRST, Lsn::new(expected.len() as u64)), "{name}");
    let next = wal.append(b"the log goes on").unwrap();
    assert_eq!(next.get(), expected.len() as u64 + 1, "{name}");
    recovery
}

fn assert_records(who: &str, replay: impl Iterator<Item = wo_wal::Result<Record>>, expected: &[Appended]) {
    let replayed: Vec<Record> = replay.map(Result::unwrap).collect();
    assert_eq!(replayed.len(), expected.len(), "{who}");
    for ((record, (ends_batch, payload)), number) in replayed.iter().zip(expected).zip(1..) {
        assert_eq!(record.lsn.get(), number, "{who}");
        assert_eq!((record.ends_batch, &record.payload), (*ends_batch, payload), "{who}, LSN {number}");
    }
}

#[test]
fn closed_log_of_version_1_is_read() {
    let recovery = assert_reads("closed", &records(&closed_schedule()));
    assert!(recovery.closed_cleanly);
    assert_eq!(recovery.cut_bytes, 0);
}

#[test]
fn torn_log_of_version_1_is_read_up_to_the_tear() {
    let acknowledged = torn_schedule()[..1].to_vec();
    let recovery = assert_reads("torn", &records(&acknowledged));
    assert!(!recovery.closed_cleanly);
    assert!(recovery.cut_bytes > 0);
}

#[test]
fn log_of_two_segments_of_version_1_is_read() {
    let recovery = assert_reads("two-segments", &records(&two_segments_schedule()));
    assert!(recovery.closed_cleanly);
}

#[test]
fn log_of_two_sessions_of_version_1_is_read() {
    let recovery =
        assert_reads("sessions", &sessions_schedules().iter().flat_map(records).collect::<Vec<_>>());
    assert!(recovery.closed_cleanly);
}

#[test]
fn same_calls_write_the_bytes_of_version_1() {
    assert_writes("closed", closed_log);
    assert_writes("torn", torn_log);
    assert_writes("two-segments", two_segments_log);
    assert_writes("sessions", sessions_log);
}
