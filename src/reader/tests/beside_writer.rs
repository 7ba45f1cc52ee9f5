//! What a writer at work, in another process, can do between two looks of a reader.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::segment::{segment_name, segment_number};

/// A directory with a log of that many segments, of which a trim has dropped the first one.
fn trimmed_log(segments: u64) -> (tempfile::TempDir, Arc<dyn Disk>) {
    let mut image = Image::new();
    for number in 1..=segments {
        if number > 1 {
            image.seal();
            image.prepare();
        }
        image.acked_group(&[&number.to_le_bytes()]);
    }
    image.drop_first(1);
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    std::fs::write(dir.path().join(LOCK_NAME), b"").unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    (dir, Arc::new(disk))
}

/// Each listing is old when it arrives: a trim has dropped the oldest segment meanwhile, as long as there are two.
fn trims_after_each_listing(disk: &Arc<dyn Disk>) -> Arc<dyn Disk> {
    let real = Arc::clone(disk);
    Arc::new(Watched::lists(Arc::clone(disk), move |names| {
        let mut segments: Vec<_> = names.iter().filter(|name| segment_number(name).is_some()).collect();
        segments.sort_unstable();
        if segments.len() > 1 {
            real.unlink(segments[0]).unwrap();
        }
    }))
}

/// A listing may miss names that change while it runs, and next to a writer that trims all of them can. The reader took
/// that for an empty log.
#[test]
fn p02_a_listing_that_misses_every_segment_is_not_taken_for_an_empty_log() {
    let (_dir, disk) = trimmed_log(3);
    let listings = AtomicU64::new(0);
    let disk: Arc<dyn Disk> = Arc::new(Watched::lists(disk, move |names| {
        if listings.fetch_add(1, Ordering::Relaxed) < 4 {
            names.retain(|name| name == LOCK_NAME);
        }
    }));
    let (_, recovery) = Reader::open_on(&disk).unwrap();
    assert_eq!(recovery.last, Lsn::new(3));
}

/// A trimmed file is rewritten while it is read: its start is still that of the old life and its end already that of the
/// next. The reader took the place in between for the end of the log, and records were missing that had been acknowledged
/// before it was opened.
#[test]
fn p02_a_file_that_is_rewritten_while_its_end_is_looked_for_is_not_the_end_of_the_log() {
    let mut image = Image::new();
    image.acked_group(&[b"1"]);
    image.acked_group(&[b"2"]);
    image.acked_group(&[b"3"]);
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let second_group = image.files[0].groups[1];
    image.seal();
    image.prepare();
    image.acked_group(&[b"4"]);
    image.drop_first(1);
    let reads = AtomicU64::new(0);
    let path = dir.path().to_owned();
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let disk: Arc<dyn Disk> = Arc::new(Watched::reads(real, move |offset| {
        // The first look at the first group, then the walk.
        if offset == SEGMENT_HEADER_BYTES && reads.fetch_add(1, Ordering::Relaxed) == 1 {
            image.write_to(&path);
            std::fs::rename(path.join(segment_name(1)), path.join("next.tmp"))?;
            let file = std::fs::OpenOptions::new().write(true).open(path.join("next.tmp"))?;
            let rest = usize::try_from(CAPACITY_BYTES).unwrap() - second_group;
            file.write_all_at(&vec![0; rest], second_group as u64)?;
        }
        Ok(())
    }));
    let (reader, recovery) = Reader::open_on(&disk).unwrap();
    assert_eq!(recovery.last, Lsn::new(4));
    assert_eq!(lsns(reader.replay(..).unwrap()), [4]);
}

/// Where the oldest segment went between the listing and the look at it, `Trimmed` named the largest LSN there is as the
/// oldest record: nobody who starts there ever reads anything.
#[test]
fn a_replay_that_meets_a_trim_names_the_oldest_record_also_when_the_next_trim_is_under_way() {
    let (_dir, disk) = trimmed_log(5);
    let (reader, _) = Reader::open_on(&disk).unwrap();
    let kept = reader.inner.segments.iter().take(2).map(|found| found.segment.number);
    assert_eq!(kept.collect::<Vec<_>>(), [2, 3], "the others are kept open");
    disk.unlink(&segment_name(2)).unwrap();
    let inner = &*reader.inner;
    let segments = segments_from(&inner.segments, inner.oldest);
    let disk = trims_after_each_listing(&disk);
    let mut replay = Replay::over(disk, segments, inner.oldest, inner.durable).beside_writer();
    let outcome = replay.next().unwrap();
    assert!(matches!(outcome, Err(Error::Trimmed { oldest }) if oldest == Lsn::new(5)), "{outcome:?}");
}

/// A writer that trims faster than a reader lists and opens: after eight attempts, which a busy machine does not take long
/// to use up, a sound log was called damaged.
#[test]
fn a_reader_does_not_give_up_while_segments_come_and_go() {
    let (_dir, disk) = trimmed_log(60);
    let (reader, recovery) = Reader::open_on(&trims_after_each_listing(&disk)).unwrap();
    assert_eq!(recovery.last, Lsn::new(60));
    assert_eq!(lsns(reader.replay(..).unwrap()), [60]);
}
