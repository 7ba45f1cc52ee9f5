//! Replay and the read-only open, on real files.

mod beside_writer;

use std::os::unix::fs::FileExt;

use super::*;
use crate::frame::SEGMENT_HEADER_BYTES;
use crate::recovery::image::{CAPACITY_BYTES, Image};
use crate::recovery::watched::Watched;

fn open(image: &Image) -> (tempfile::TempDir, Reader, Recovery) {
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let (reader, recovery) = Reader::open(dir.path()).unwrap();
    (dir, reader, recovery)
}

/// Records 1 to 6 in three segments, closed.
fn three_segments() -> Image {
    let mut image = Image::new();
    for [first, second] in [[b"1", b"2"], [b"3", b"4"], [b"5", b"6"]] {
        if image.next_lsn > 1 {
            image.seal();
            image.prepare();
        }
        image.acked_group(&[first]);
        image.acked_group(&[second]);
    }
    image
}

fn lsns(replay: Replay) -> Vec<u64> {
    replay.map(|record| record.unwrap().lsn.get()).collect()
}

#[test]
fn p02_replay_returns_every_record_of_every_segment_in_order() {
    let (_dir, reader, recovery) = open(&three_segments());
    let records: Vec<Record> = reader.replay(..).unwrap().collect::<Result<_>>().unwrap();
    let numbers: Vec<(u64, Vec<u8>)> =
        records.into_iter().map(|record| (record.lsn.get(), record.payload)).collect();
    let expected: Vec<(u64, Vec<u8>)> = (1..=6).map(|lsn| (lsn, lsn.to_string().into_bytes())).collect();
    assert_eq!(numbers, expected);
    assert_eq!((recovery.oldest, recovery.last), (Lsn::FIRST, Lsn::new(6)));
}

#[test]
fn replay_serves_exactly_the_range_wherever_it_starts_and_ends() {
    let (_dir, reader, _) = open(&three_segments());
    for first in 1..=7 {
        for last in 0..=7 {
            let expected: Vec<u64> = (first..=last.min(6)).collect();
            let replay = reader.replay(Lsn::new(first)..=Lsn::new(last)).unwrap();
            assert_eq!(lsns(replay), expected, "{first} to {last}");
        }
    }
}

#[test]
fn replay_serves_exactly_the_range_within_a_group() {
    let mut image = Image::new();
    image.acked_group(&[b"1", b"2", b"3", b"4"]);
    image.acked_group(&[b"5", b"6", b"7", b"8"]);
    let (_dir, reader, _) = open(&image);
    for first in 1..=9 {
        for last in 0..=9 {
            let expected: Vec<u64> = (first..=last.min(8)).collect();
            let replay = reader.replay(Lsn::new(first)..=Lsn::new(last)).unwrap();
            assert_eq!(lsns(replay), expected, "{first} to {last}");
        }
    }
}

#[test]
fn replay_of_a_range_does_not_read_the_segments_before_it() {
    let mut image = three_segments();
    let second_group = image.files[0].groups[1];
    image.files[0].bytes[second_group] ^= 1;
    let (_dir, reader, _) = open(&image);
    assert_eq!(lsns(reader.replay(Lsn::new(3)..).unwrap()), [3, 4, 5, 6]);
}

#[test]
fn replay_verifies_the_groups_before_the_range_in_its_first_segment() {
    let mut image = three_segments();
    image.acked();
    let first_record = image.files[0].groups[0] + 72;
    let (dir, reader, _) = open(&image);
    image.files[0].bytes[first_record] ^= 1;
    image.write_to(dir.path());
    let outcome = reader.replay(Lsn::new(2)..).unwrap().next().unwrap();
    assert!(matches!(outcome, Err(Error::Corrupt { .. })));
}

#[test]
fn p03_the_last_record_of_a_batch_says_so() {
    let mut image = Image::new();
    let batches: [&[&[u8]]; 3] = [&[b"a", b"b"], &[b"c"], &[b"d", b"e", b"f"]];
    image.batches(&batches);
    let (_dir, reader, _) = open(&image);
    let ends: Vec<bool> = reader.replay(..).unwrap().map(|record| record.unwrap().ends_batch).collect();
    assert_eq!(ends, [false, true, true, false, false, true]);
}

#[test]
fn lent_records_are_those_that_the_iterator_returns() {
    let mut image = Image::with_capacity(16 << 20);
    let large = vec![0xa5; (5 << 20) + 3];
    image.acked_group(&[b"", b"small"]);
    let batches: [&[&[u8]]; 3] = [&[&large], &[b"between"], &[&large, b"last"]];
    image.batches(&batches);
    let (_dir, reader, _) = open(&image);
    let owned: Vec<Record> = reader.replay(..).unwrap().collect::<Result<_>>().unwrap();
    let mut lending = reader.replay(..).unwrap();
    for record in &owned {
        let lent = lending.next_ref().unwrap().unwrap();
        assert_eq!((lent.lsn, lent.ends_batch), (record.lsn, record.ends_batch));
        assert_eq!(lent.payload, record.payload);
    }
    assert!(lending.next_ref().unwrap().is_none());
    assert_eq!(owned.len(), 6);
    assert_eq!(owned[2].payload, large);
}

#[test]
fn groups_that_do_not_fit_the_window_are_replayed_whole() {
    let mut image = Image::with_capacity(32 << 20);
    let payloads: Vec<Vec<u8>> =
        [0, 1, 100, (256 << 10) - 80, 256 << 10, 300_000, 1 << 20, (4 << 20) - 72, (8 << 20) - 72, 8 << 20]
            .into_iter()
            .enumerate()
            .map(|(seed, bytes)| vec![u8::try_from(seed).unwrap() + 1; bytes])
            .collect();
    for payload in &payloads {
        image.acked_group(&[payload]);
    }
    let (_dir, reader, _) = open(&image);
    let records: Vec<Vec<u8>> = reader.replay(..).unwrap().map(|record| record.unwrap().payload).collect();
    assert!(records == payloads);
}

#[test]
fn p08_a_large_group_that_changes_after_it_was_verified_is_not_served_on() {
    let mut image = Image::with_capacity(16 << 20);
    // Five records fill the first piece to its last byte, so that the next one starts with a piece of its own.
    let payload_bytes = (crate::segment::WINDOW_BYTES - 64) / 5 - 8;
    let records: Vec<Vec<u8>> = (0..200u8).map(|byte| vec![byte; payload_bytes]).collect();
    let group: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    image.group(&group);
    // Another life of the file, in which each record alone would verify.
    let mut changed = Image::with_capacity(16 << 20);
    let other: Vec<&[u8]> = records.iter().rev().map(Vec::as_slice).collect();
    changed.group(&other);
    let (dir, reader, _) = open(&image);
    let mut replay = reader.replay(..).unwrap();
    assert_eq!(replay.next_ref().unwrap().unwrap().payload, records[0]);
    changed.write_to(dir.path());
    for record in &records[1..5] {
        assert_eq!(replay.next_ref().unwrap().unwrap().payload, record);
    }
    let outcome = replay.next_ref().map(|_| ());
    assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
    assert!(replay.next_ref().unwrap().is_none(), "nothing after an error");
}

#[test]
fn p08_replay_names_segment_offset_and_lsn_of_damage_and_ends() {
    let mut image = three_segments();
    let second = image.files[1].groups[1];
    image.files[1].bytes[second + 72] ^= 1;
    let (_dir, reader, _) = open(&image);
    let mut replay = reader.replay(..).unwrap();
    for lsn in 1..=3 {
        assert_eq!(replay.next().unwrap().unwrap().lsn, Lsn::new(lsn));
    }
    let Some(Err(Error::Corrupt { segment, offset, lsn, what })) = replay.next() else {
        panic!("the fourth record is damaged")
    };
    assert!(segment.ends_with("00000000000000000002.wal"));
    assert_eq!((offset, lsn, what), (second as u64, Lsn::new(4), "payload checksum"));
    assert!(replay.next().is_none() && replay.next().is_none());
}

#[test]
fn p02_replay_checks_that_segments_continue_each_other() {
    let mut image = three_segments();
    // A second segment of another log: it verifies in itself, but its chain does not continue the first.
    let mut other = three_segments_after(b"another");
    image.files[1] = other.files.remove(1);
    let (_dir, reader, _) = open(&image);
    let outcome: Vec<_> =
        reader.replay(..).unwrap().map(|record| record.map(|record| record.lsn.get())).collect();
    assert!(matches!(outcome[..], [Ok(1), Ok(2), Err(Error::Corrupt { .. })]), "{outcome:?}");
}

fn three_segments_after(first: &[u8]) -> Image {
    let mut image = Image::new();
    for records in [[first, b"2"], [b"3", b"4"], [b"5", b"6"]] {
        if image.next_lsn > 1 {
            image.seal();
            image.prepare();
        }
        image.acked_group(&[records[0]]);
        image.acked_group(&[records[1]]);
    }
    image
}

#[test]
fn a_trimmed_log_starts_at_its_oldest_segment() {
    let mut image = three_segments();
    image.drop_first(1);
    let (_dir, reader, recovery) = open(&image);
    assert_eq!((recovery.oldest, reader.oldest_lsn()), (Lsn::new(3), Lsn::new(3)));
    assert_eq!(lsns(reader.replay(..).unwrap()), [3, 4, 5, 6]);
    assert!(matches!(reader.replay(Lsn::new(2)..), Err(Error::Trimmed { oldest }) if oldest == Lsn::new(3)));
}

#[test]
fn a_replay_outlives_the_reader_and_the_names_of_its_files() {
    let (dir, reader, _) = open(&three_segments());
    let replay = reader.replay(..).unwrap();
    drop(reader);
    drop(dir);
    assert_eq!(lsns(replay), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_file_that_a_writer_recycled_is_trimmed_and_not_damaged() {
    let (dir, reader, _) = open(&three_segments());
    let replay = reader.replay(..).unwrap();
    let file = |number| dir.path().join(crate::segment::segment_name(number));
    // The writer drops the first segment and fills its file with zeros, before it gets another header.
    std::fs::rename(file(1), dir.path().join("next.tmp")).unwrap();
    let recycled = std::fs::OpenOptions::new().write(true).open(dir.path().join("next.tmp")).unwrap();
    recycled.write_all_at(&[0; 8192], SEGMENT_HEADER_BYTES).unwrap();
    let outcome: Vec<_> = replay.map(|record| record.map(|record| record.lsn.get())).collect();
    assert!(matches!(outcome[..], [Err(Error::Trimmed { oldest })] if oldest == Lsn::new(3)), "{outcome:?}");
}

/// A log whose last record is above every durable LSN, opened on a disk that answers a sync with `errno`.
fn last_served_when_sync_answers(errno: Option<rustix::io::Errno>) -> u64 {
    let mut image = Image::new();
    image.acked_group(&[b"proven"]);
    image.group(&[b"unproven"]);
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let disk: Arc<dyn Disk> =
        Arc::new(Watched::syncs(real, move || errno.map_or(Ok(()), |errno| Err(errno.into()))));
    let (reader, recovery) = Reader::open_on(&disk).unwrap();
    assert_eq!(reader.durable_lsn(), recovery.last);
    assert_eq!(lsns(reader.replay(..).unwrap()).last().copied(), Some(recovery.last.get()));
    recovery.last.get()
}

#[test]
fn p01_an_unproven_record_is_served_only_after_the_readers_own_sync() {
    use rustix::io::Errno;
    assert_eq!(last_served_when_sync_answers(None), 2);
    assert_eq!(last_served_when_sync_answers(Some(Errno::ROFS)), 2);
    assert_eq!(last_served_when_sync_answers(Some(Errno::INVAL)), 2);
    assert_eq!(last_served_when_sync_answers(Some(Errno::IO)), 1);
    assert_eq!(last_served_when_sync_answers(Some(Errno::ACCESS)), 1);
}

#[test]
fn a_writer_that_goes_on_between_the_walk_and_the_search_behind_it_looks_like_no_damage() {
    let mut image = Image::new();
    image.acked_group(&[b"first"]);
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let path = dir.path().join(crate::segment::segment_name(1));
    let image = std::sync::Mutex::new(image);
    // Whoever reads behind the first group meets two groups more than before, one of which proves the other.
    let disk: Arc<dyn Disk> = Arc::new(Watched::reads(real, move |offset| {
        if offset > SEGMENT_HEADER_BYTES {
            let mut image = image.lock().unwrap();
            image.acked_group(&[b"younger"]);
            image.acked_group(&[b"younger"]);
            let file = std::fs::OpenOptions::new().write(true).open(&path)?;
            file.write_all_at(&image.files[0].bytes[..image.files[0].end], 0)?;
        }
        Ok(())
    }));
    let (reader, recovery) = Reader::open_on(&disk).unwrap();
    assert!(recovery.last >= Lsn::new(3));
    assert_eq!(lsns(reader.replay(..).unwrap()).len() as u64, recovery.last.get());
}

#[test]
fn a_read_only_open_creates_and_changes_nothing() {
    let mut image = three_segments();
    image.group(&[b"unproven"]);
    image.group(&[b"torn"]);
    let torn = image.last().groups[3] + 72;
    image.last().bytes[torn] ^= 1;
    let (dir, reader, recovery) = open(&image);
    assert_eq!(lsns(reader.replay(..).unwrap()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(recovery.rewritten_groups, 0);
    assert!(recovery.cut_bytes > 0);
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 3);
    for (name, file) in names.iter().zip(&image.files) {
        assert!(std::fs::read(dir.path().join(name)).unwrap() == file.bytes);
    }
}

#[test]
fn an_empty_directory_is_an_empty_log_and_a_missing_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, recovery) = Reader::open(dir.path()).unwrap();
    assert_eq!((recovery.oldest, recovery.last), (Lsn::FIRST, Lsn::ZERO));
    assert_eq!(reader.replay(..).unwrap().count(), 0);
    assert!(reader.segments().is_empty());
    let missing = Reader::open(dir.path().join("missing"));
    assert!(matches!(missing, Err(Error::Io { op: "open directory", .. })));
}

#[test]
fn foreign_files_are_not_looked_at_and_a_foreign_file_with_a_segment_name_is_told() {
    let (dir, _, _) = open(&three_segments());
    for name in ["spare.tmp", "LOCK", "1.wal", "00000000000000000004.wal.bak", "notes.txt"] {
        std::fs::write(dir.path().join(name), "not a segment").unwrap();
    }
    assert_eq!(lsns(Reader::open(dir.path()).unwrap().0.replay(..).unwrap()).len(), 6);
    std::fs::write(dir.path().join("00000000000000000004.wal"), "not a segment").unwrap();
    assert!(matches!(Reader::open(dir.path()), Err(Error::NotASegment { .. })));
}

#[test]
fn segments_are_described() {
    let mut image = three_segments();
    image.prepare();
    let end = image.files[2].end as u64;
    let (_dir, reader, _) = open(&image);
    let described: Vec<_> = reader
        .segments()
        .into_iter()
        .map(|info| (info.number, info.first_lsn.map(Lsn::get), info.last_lsn.map(Lsn::get), info.used_bytes))
        .collect();
    assert_eq!(
        described,
        [
            (1, Some(1), Some(2), CAPACITY_BYTES),
            (2, Some(3), Some(4), CAPACITY_BYTES),
            (3, Some(5), Some(6), end),
            (4, None, None, 4096),
        ]
    );
}

#[test]
fn readers_and_replays_go_to_any_thread_and_outlive_what_made_them() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Reader>();
    anywhere::<Replay>();
    anywhere::<Record>();
    anywhere::<SegmentInfo>();
}
