//! The rows of the table that are cut: torn groups (c), and bytes without a header (d).

use super::*;
use crate::frame::{GROUP_HEADER_BYTES, GroupFlags, SEGMENT_HEADER_BYTES, memory_bytes};
use crate::recovery::search::search;
use crate::segment::segment_name;

const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);
const START: usize = memory_bytes(SEGMENT_HEADER_BYTES);

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
fn row_c_a_torn_group_is_cut_whatever_its_size() {
    // Within the window, beyond it, and too large to be held.
    for payload_bytes in [1000, 300_000, 5 << 20] {
        let capacity_bytes = (2 * payload_bytes as u64 + (64 << 10)).next_multiple_of(4096);
        let mut image = Image::with_capacity(capacity_bytes);
        image.acked_group(&[b"a"]);
        let second = image.last().end;
        let payload = vec![0x5a; payload_bytes];
        image.batches(&[&[&payload, &payload]]);
        let last_byte = image.last().end - 1;
        assert_eq!(records_of(&image).unwrap().len(), 3);
        // Whether the first record ends its batch, which only the checksum over the record headers covers; a payload; the end.
        for at in [second + HEADER + 3, second + HEADER + 8 + payload_bytes / 2, last_byte] {
            let mut torn = image.clone();
            torn.last().bytes[at] ^= 0x80;
            assert_eq!(records_of(&torn).unwrap(), [b"a"], "{payload_bytes} bytes, flip at {at}");
        }
    }
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

/// The search reads no holes, so it has to put the zeros of one behind what ends at it.
#[test]
fn row_d_a_header_torn_at_the_end_of_a_block_with_a_hole_behind_it_counts_as_cut_bytes() {
    const BLOCK: usize = 64 << 10;
    let mut image = Image::with_capacity(1 << 20);
    image.last().end = BLOCK - 32;
    image.group(&[b"torn"]);
    image.last().bytes[BLOCK..].fill(0);
    // The walk stops right before the header.
    let place = BLOCK - 32;
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let file = std::fs::OpenOptions::new().write(true).open(dir.path().join(segment_name(1))).unwrap();
    file.set_len(BLOCK as u64).unwrap();
    file.set_len(1 << 20).unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let segments = [Arc::new(Segment::open(&disk, 1).unwrap())];
    let behind = search(&disk, &segments, 0, place as u64).unwrap();
    assert!(behind.begun && !behind.only_zeros);
    assert_eq!(behind.dead_end, place as u64 + GROUP_HEADER_BYTES);
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
