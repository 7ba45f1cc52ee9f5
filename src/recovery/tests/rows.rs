//! One test per row of the table, and the rows' variants.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::watched::Watched;
use super::*;
use crate::frame::{GROUP_HEADER_BYTES, GroupFlags, SEGMENT_HEADER_BYTES, memory_bytes};

const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);
const START: usize = memory_bytes(SEGMENT_HEADER_BYTES);

/// Three groups, each of which was acked before the next was written; the last one is unproven.
fn abc() -> Image {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.acked_group(&[b"b1", b"b2"]);
    image.group(&[b"c"]);
    image
}

/// Two sealed segments and an active one, with records 1 to 6.
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
fn row_c_a_torn_group_that_was_never_acked_is_cut() {
    let mut image = abc();
    let third = image.last().groups[2];
    let end = image.last().end;
    image.last().bytes[third + HEADER + 8] ^= 1;
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap(), [&b"a"[..], b"b1", b"b2"]);
    let recovered = opened.recovered;
    assert_eq!((recovered.offset, recovered.next_lsn), (third as u64, Lsn::new(4)));
    assert_eq!(recovered.report.cut_bytes, (end - third) as u64);
    assert!(!recovered.report.closed_cleanly);
}

#[test]
fn row_c_groups_behind_the_first_torn_one_are_cut_too_when_several_were_in_flight() {
    let mut image = abc();
    image.group(&[b"d"]);
    image.group(&[b"e"]);
    let [third, end] = [image.last().groups[2], image.last().end];
    image.last().bytes[third] = 0;
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap().len(), 3);
    assert_eq!(opened.recovered.report.cut_bytes, (end - third) as u64);
}

#[test]
fn row_c_a_torn_first_group_behind_a_seal_is_cut() {
    let mut image = abc();
    image.seal();
    image.prepare();
    image.group(&[b"d"]);
    image.last().bytes[START + HEADER + 8] ^= 1;
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap().len(), 4);
    assert_eq!((opened.recovered.active, opened.recovered.offset), (1, START as u64));
}

#[test]
fn row_c_a_group_that_another_session_left_does_not_continue_an_equal_new_one() {
    let mut image = Image::new();
    image.acked_group(&[b"x"]);
    let fork = image.clone();
    image.group(&[b"same"]);
    image.group(&[b"ghost"]);
    let second = image.last().groups[1];
    let dead = image.files[0].bytes[image.files[0].groups[2]..].to_vec();

    // The next open cut both; its first group has the same bytes but for the session.
    let mut again = fork;
    again.new_session();
    again.group(&[b"same"]);
    let end = again.last().end;
    again.last().bytes[end..].copy_from_slice(&dead);
    let opened = open(&again).unwrap();
    assert_eq!(opened.records().unwrap(), [&b"x"[..], b"same"]);
    assert_eq!(again.last().groups[1], second);
}

#[test]
fn row_c_a_session_that_does_not_say_it_is_new_does_not_continue() {
    let mut image = Image::new();
    image.acked_group(&[b"x"]);
    let mut other = image.clone();
    other.new_session();
    // Its first group is lost; the second one would fit but for its session.
    other.encode(&[], GroupFlags::default());
    let mut second = other.encode(&[&[b"y"]], GroupFlags::default());
    // The chain value of what is there, so that only the session differs.
    let header = crate::frame::GroupHeader::decode(&second, image.files[0].id).unwrap();
    crate::frame::GroupHeader { chain: image.chain, ..header }.encode(&mut second);
    let end = image.last().end;
    image.last().bytes[end..end + second.len()].copy_from_slice(&second);
    assert_eq!(records_of(&image).unwrap(), [b"x"]);
}

#[test]
fn row_c_a_group_with_another_chain_value_does_not_continue() {
    let mut image = Image::new();
    image.acked_group(&[b"x"]);
    image.durable_lsn = 0;
    image.chain ^= 1;
    image.group(&[b"y"]);
    assert_eq!(records_of(&image).unwrap(), [b"x"]);
}

#[test]
fn row_c_a_group_with_another_first_lsn_does_not_continue() {
    let mut image = Image::new();
    image.acked_group(&[b"x"]);
    image.durable_lsn = 0;
    image.next_lsn += 1;
    image.group(&[b"y"]);
    assert_eq!(records_of(&image).unwrap(), [b"x"]);
}

#[test]
fn row_c_a_torn_group_behind_a_closing_one_is_not_clean() {
    let mut image = abc();
    image.close();
    image.new_session();
    image.group(&[b"torn"]);
    let torn = image.last().groups[4];
    image.last().bytes[torn + HEADER + 8] ^= 1;
    assert!(!open(&image).unwrap().recovered.report.closed_cleanly);
    image.last().bytes[torn + 32] ^= 1;
    assert!(!open(&image).unwrap().recovered.report.closed_cleanly, "nor when the header is torn");
}

#[test]
fn row_c_dead_headers_are_found_wherever_the_pieces_of_the_search_meet() {
    let piece = crate::segment::WINDOW_BYTES;
    for place in (START + piece - 72..=START + piece + 8).step_by(8) {
        let mut image = Image::with_capacity(1 << 20);
        image.last().end = place;
        image.group(&[b"dead"]);
        let report = open(&image).unwrap().recovered.report;
        let end = image.last().end;
        assert_eq!((report.last, report.cut_bytes), (Lsn::ZERO, (end - START) as u64), "header at {place}");
    }
}

#[test]
fn row_c_a_length_beyond_the_segment_is_not_believed_though_its_checksum_holds() {
    for group_bytes in [60 << 10, 64 << 10, 3 << 20, 5 << 20, 0x7fff_f000] {
        let mut image = abc();
        let third = image.last().groups[2];
        let id = image.last().id;
        let bytes = &mut image.last().bytes[third..];
        let header = crate::frame::GroupHeader::decode(bytes, id).unwrap();
        crate::frame::GroupHeader { group_bytes, ..header }.encode(bytes);
        let report = open(&image).unwrap().recovered.report;
        let cut_bytes = u64::from(group_bytes).min(crate::recovery::image::CAPACITY_BYTES - third as u64);
        assert_eq!((report.last, report.cut_bytes), (Lsn::new(3), cut_bytes));
    }
}

#[test]
fn row_c_a_first_group_that_is_cut_says_nothing_about_where_the_log_starts() {
    let mut image = Image::new();
    image.next_lsn = 7;
    image.group(&[b"x"]);
    let opened = open(&image).unwrap();
    let report = opened.recovered.report;
    assert_eq!((report.oldest, report.last), (Lsn::FIRST, Lsn::ZERO));
    assert_eq!(opened.recovered.segments[0].first_lsn, None);
    assert_eq!(opened.records().unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn row_d_bytes_without_any_header_are_cut() {
    let mut image = abc();
    let third = image.last().groups[2];
    image.last().bytes[third..third + HEADER].fill(0);
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap().len(), 3);
    assert_eq!(opened.recovered.offset, third as u64);
}

#[test]
fn row_d_a_torn_header_counts_as_cut_bytes() {
    let mut image = abc();
    let third = image.last().groups[2];
    // The second half of the header did not arrive, nor did the record.
    image.last().bytes[third + 32..].fill(0);
    let report = open(&image).unwrap().recovered.report;
    assert_eq!((report.last, report.cut_bytes), (Lsn::new(3), GROUP_HEADER_BYTES));
}

#[test]
fn row_d_what_a_recycled_file_still_holds_is_neither_served_nor_reported() {
    let mut former = Image::new();
    for _ in 0..20 {
        former.acked_group(&[b"former life"]);
    }
    let mut image = Image::new();
    image.acked_group(&[b"former life"]);
    image.close();
    let end = image.last().end;
    let former_file = former.last();
    // The rest of the file has headers of the same number and form, with the id of its former life.
    let mut rest = former_file.bytes.clone();
    for &group in &former_file.groups {
        let header = crate::frame::GroupHeader::decode(&rest[group..], former_file.id).unwrap();
        let former_header = crate::frame::GroupHeader { segment_id: 99, durable_lsn: Lsn::new(1), ..header };
        if former_header.first_lsn > Lsn::new(1) {
            former_header.encode(&mut rest[group..]);
        }
    }
    image.last().bytes[end..].copy_from_slice(&rest[end..]);
    let opened = open(&image).unwrap();
    assert_eq!(opened.records().unwrap().len(), 1);
    let report = opened.recovered.report;
    assert_eq!((report.cut_bytes, report.closed_cleanly), (0, true));
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
