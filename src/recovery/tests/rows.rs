//! One test per row of the table, and the rows' variants: the clean end (a), damage (b), files that are no log (e) and reads
//! that fail (f).

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::watched::Watched;
use super::*;
use crate::frame::{GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES, memory_bytes};

const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);
const START: usize = memory_bytes(SEGMENT_HEADER_BYTES);

#[test]
fn row_a_zeros_behind_the_last_group_are_a_clean_end() {
    let opened = open(&abc()).unwrap();
    assert_eq!(opened.records().unwrap(), [&b"a"[..], b"b1", b"b2", b"c"]);
    let report = opened.recovered.report;
    assert_eq!((report.oldest, report.last, report.cut_bytes), (Lsn::FIRST, Lsn::new(4), 0));
    assert!(!report.closed_cleanly);
}

#[test]
fn row_a_a_new_log_has_no_records() {
    let opened = open(&Image::new()).unwrap();
    assert_eq!(opened.records().unwrap(), Vec::<Vec<u8>>::new());
    let recovered = opened.recovered;
    assert_eq!((recovered.offset, recovered.chain, recovered.next_lsn), (START as u64, 0, Lsn::FIRST));
    assert_eq!((recovered.report.oldest, recovered.report.last), (Lsn::FIRST, Lsn::ZERO));
    assert!(recovered.segments[0].first_lsn.is_none() && !recovered.unvouched);
}

#[test]
fn row_a_a_segment_that_is_full_to_the_last_byte_ends_there() {
    let mut image = Image::with_capacity(8192);
    image.acked_group(&[&[7; 8192 - START - HEADER - 8]]);
    assert_eq!(image.last().end, 8192);
    let opened = open(&image).unwrap();
    assert_eq!(opened.recovered.offset, 8192);
    assert_eq!(opened.records().unwrap().len(), 1);
}

#[test]
fn row_a_the_log_goes_on_in_a_prepared_segment_after_a_seal() {
    let mut image = abc();
    image.seal();
    image.prepare();
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap().len(), 4);
    let recovered = opened.recovered;
    assert_eq!((recovered.active, recovered.offset), (1, START as u64));
    assert_eq!((recovered.chain, recovered.next_lsn), (image.chain, Lsn::new(5)));
    assert!(recovered.segments[1].first_lsn.is_none() && !recovered.segments[1].has_records);
    assert!(recovered.segments[0].has_records);
}

#[test]
fn row_a_a_prepared_segment_behind_the_active_one_is_not_the_end() {
    let mut image = abc();
    let place = image.last().end;
    image.prepare();
    let recovered = open(&image).unwrap().recovered;
    assert_eq!((recovered.active, recovered.offset), (0, place as u64));
}

#[test]
fn row_b_a_flip_in_a_record_below_a_later_durable_lsn_is_refused() {
    let mut image = abc();
    let second = image.last().groups[1];
    image.last().bytes[second + HEADER + 8] ^= 1;
    assert_eq!(refused_at(open(&image)), ("00000000000000000001.wal".into(), second as u64, 2));
}

#[test]
fn row_b_a_zeroed_header_below_a_later_durable_lsn_is_refused() {
    let mut image = abc();
    let second = image.last().groups[1];
    image.last().bytes[second..second + HEADER].fill(0);
    assert_eq!(refused_at(open(&image)).1, second as u64);
}

#[test]
fn row_b_the_durable_lsn_of_a_dead_group_counts() {
    let mut image = abc();
    image.acked();
    image.group(&[b"dead"]);
    let [third, fourth] = [image.last().groups[2], image.last().groups[3]];
    // The fourth group is torn, but its header says that the third was stable.
    image.last().bytes[fourth + HEADER + 8] ^= 1;
    image.last().bytes[third + HEADER] ^= 1;
    assert_eq!(refused_at(open(&image)), ("00000000000000000001.wal".into(), third as u64, 4));
}

#[test]
fn row_b_a_closing_group_proves_the_last_record() {
    let mut image = abc();
    image.close();
    let third = image.last().groups[2];
    image.last().bytes[third + HEADER + 8] ^= 0x80;
    assert_eq!(refused_at(open(&image)), ("00000000000000000001.wal".into(), third as u64, 4));
}

#[test]
fn row_b_a_durable_lsn_in_a_later_segment_counts() {
    let mut image = three_segments();
    let start = image.files[1].groups[0];
    image.files[1].bytes[start] ^= 1;
    assert_eq!(refused_at(open(&image)), ("00000000000000000002.wal".into(), start as u64, 3));
}

#[test]
fn row_b_a_first_segment_that_does_not_start_at_the_first_record_is_refused() {
    let mut image = Image::new();
    image.next_lsn = 7;
    image.acked();
    image.group(&[b"x"]);
    assert_eq!(refused_at(open(&image)), ("00000000000000000001.wal".into(), START as u64, 1));
}

#[test]
fn row_b_first_groups_that_go_back_are_refused() {
    let mut image = three_segments();
    let mut other = Image::new();
    other.prepare();
    other.group(&[b"another second segment"]);
    image.files[1] = other.files.remove(1);
    assert_eq!(refused_at(open(&image)), ("00000000000000000002.wal".into(), START as u64, 3));
}

#[test]
fn row_e_a_group_behind_a_segment_without_a_seal_is_refused() {
    let mut image = Image::new();
    image.group(&[b"1"]);
    image.prepare();
    // Its durable LSN is 0, so only its being there speaks against the end in segment 1.
    image.group(&[b"2"]);
    let torn = image.last().groups[0] + HEADER + 8;
    image.last().bytes[torn] ^= 1;
    let end = image.files[0].end as u64;
    assert_eq!(refused_at(open(&image)), ("00000000000000000001.wal".into(), end, 2));
}

#[test]
fn row_e_a_segment_header_that_does_not_verify_is_refused() {
    for at in [12, 20, 30, 40, 61, 100] {
        let mut image = three_segments();
        image.files[2].bytes[at] ^= 4;
        assert_eq!(refused_at(open(&image)).0, "00000000000000000003.wal", "byte {at}");
    }
}

#[test]
fn row_e_a_gap_in_the_numbers_is_a_missing_segment() {
    let mut image = three_segments();
    image.files.remove(1);
    assert!(matches!(open(&image).map(drop), Err(Error::MissingSegment { number: 2, .. })));
}

#[test]
fn row_e_a_seal_without_a_next_segment_is_a_missing_segment() {
    let mut image = three_segments();
    image.files.truncate(2);
    assert!(matches!(open(&image).map(drop), Err(Error::MissingSegment { number: 3, .. })));
}

#[test]
fn row_e_an_oldest_segment_above_1_without_a_first_group_is_refused() {
    let mut image = three_segments();
    image.drop_first(1);
    let first = image.files[0].groups[0];
    image.files[0].bytes[first + HEADER + 8] ^= 1;
    assert_eq!(refused_at(open(&image)), ("00000000000000000002.wal".into(), START as u64, 0));
}

#[test]
fn row_e_a_lone_prepared_segment_above_1_is_refused() {
    let mut image = three_segments();
    image.drop_first(2);
    image.files[0].bytes[START..].fill(0);
    assert_eq!(refused_at(open(&image)).0, "00000000000000000003.wal");
}

#[test]
fn row_f_a_read_that_fails_is_an_error_and_never_an_end() {
    let dir = tempfile::tempdir().unwrap();
    three_segments().write_to(dir.path());
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let segments: Vec<Arc<Segment>> =
        (1..=3).map(|number| Arc::new(Segment::open(&*real, number).unwrap())).collect();
    let reads = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&reads);
    let counted = Watched::reads(Arc::clone(&real), move |_| {
        counting.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    recover(&counted, &segments, &mut |_, _, _| Ok(())).unwrap();
    let reads = reads.load(Ordering::Relaxed);
    assert!(reads > 3);
    for nth in 0..reads {
        let left = AtomicU64::new(nth);
        let failing = Watched::reads(Arc::clone(&real), move |_| {
            let good = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            good.map(drop).map_err(|_| std::io::ErrorKind::Other.into())
        });
        let mut persisted = false;
        let outcome = recover(&failing, &segments, &mut |_, _, _| {
            persisted = true;
            Ok(())
        });
        assert!(matches!(outcome, Err(Error::Io { op: "read", .. })), "read {nth}");
        assert!(!persisted, "read {nth}");
    }
}

#[test]
fn row_f_a_file_that_got_shorter_is_an_error_and_never_an_end() {
    let dir = tempfile::tempdir().unwrap();
    abc().write_to(dir.path());
    let disk = RealDisk::open(dir.path()).unwrap();
    let segment = Arc::new(Segment::open(&disk, 1).unwrap());
    segment.open_for_barriers(&disk, 1).unwrap()[0].set_len(START as u64 + 100).unwrap();
    let outcome = recover(&disk, &[segment], &mut |_, _, _| Ok(()));
    assert!(matches!(outcome, Err(Error::Io { op: "read", .. })));
}
