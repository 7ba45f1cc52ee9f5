//! What is made durable before anything is served, and what close is told.

use super::super::walk::Walk;
use super::*;
use crate::frame::{GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES, memory_bytes};

const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);

/// The bytes from the `from`-th group of a file to the place behind its last one, and zeros over the next header.
fn tail_and_zeros(image: &Image, file: usize, from: usize) -> Persisted {
    let file = &image.files[file];
    let start = file.groups[from];
    let mut bytes = file.bytes[start..file.end].to_vec();
    bytes.extend_from_slice(&[0; HEADER]);
    Persisted { number: file.number, offset: start as u64, bytes }
}

#[test]
fn p07_the_last_group_is_made_durable_again_when_no_later_one_proves_it() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.acked_group(&[b"b"]);
    let opened = open(&image).unwrap();
    assert_eq!(opened.persisted, [tail_and_zeros(&image, 0, 1)]);
    assert_eq!(opened.recovered.report.rewritten_groups, 1);
    assert!(opened.recovered.unvouched);
}

#[test]
fn p07_all_groups_in_flight_are_made_durable_again_with_one_persist() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.group(&[b"b"]);
    image.group(&[b"c"]);
    image.group(&[b"d"]);
    let opened = open(&image).unwrap();
    assert_eq!(opened.persisted, [tail_and_zeros(&image, 0, 1)]);
    assert_eq!(opened.recovered.report.rewritten_groups, 3);
}

#[test]
fn p07_a_clean_log_gets_its_closing_group_and_zeros_again() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.close();
    let opened = open(&image).unwrap();
    assert_eq!(opened.persisted, [tail_and_zeros(&image, 0, 1)]);
    let recovered = opened.recovered;
    assert!(recovered.report.closed_cleanly && !recovered.unvouched);
}

#[test]
fn p07_a_new_log_gets_zeros_where_its_first_header_goes() {
    let opened = open(&Image::new()).unwrap();
    let zeros = Persisted { number: 1, offset: SEGMENT_HEADER_BYTES, bytes: vec![0; HEADER] };
    assert_eq!(opened.persisted, [zeros]);
    assert_eq!(opened.recovered.report.rewritten_groups, 0);
}

#[test]
fn p07_zeros_take_the_place_of_a_dead_header() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.group(&[b"torn"]);
    let (second, end) = (image.files[0].groups[1], image.files[0].end);
    image.last().bytes[second + HEADER + 8] ^= 1;
    let opened = open(&image).unwrap();
    // The dead header's durable LSN proves the first group, so only the zeros are left to write.
    let zeros = Persisted { number: 1, offset: second as u64, bytes: vec![0; HEADER] };
    assert_eq!(opened.persisted, [zeros]);
    assert_eq!(opened.recovered.report.cut_bytes, (end - second) as u64);
    // But that header is gone now, so close must not rely on it.
    assert!(opened.recovered.unvouched);
}

#[test]
fn p07_the_zeros_end_where_the_segment_does() {
    let capacity_bytes = 8192;
    for left_bytes in [0, 8, 56, 64, 72] {
        let mut image = Image::with_capacity(capacity_bytes);
        let payload_bytes = capacity_bytes - SEGMENT_HEADER_BYTES - GROUP_HEADER_BYTES - 8 - left_bytes;
        image.group(&[&vec![7; usize::try_from(payload_bytes).unwrap()]]);
        let opened = open(&image).unwrap();
        let [persisted] = &opened.persisted[..] else { panic!("one persist") };
        let zero_bytes = left_bytes.min(GROUP_HEADER_BYTES);
        let end = persisted.offset + persisted.bytes.len() as u64;
        assert_eq!(end, capacity_bytes - left_bytes + zero_bytes, "{left_bytes} bytes left");
    }
}

#[test]
fn p07_a_log_that_ends_with_a_seal_gets_one_persist_in_each_of_the_two_files() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.seal();
    image.prepare();
    let opened = open(&image).unwrap();
    let mut seal = tail_and_zeros(&image, 0, 1);
    seal.bytes.truncate(HEADER);
    let zeros = Persisted { number: 2, offset: SEGMENT_HEADER_BYTES, bytes: vec![0; HEADER] };
    assert_eq!(opened.persisted, [seal, zeros]);
}

#[test]
fn p07_a_group_behind_a_seal_proves_the_segment_before() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.seal();
    image.prepare();
    image.group(&[b"b"]);
    let opened = open(&image).unwrap();
    assert_eq!(opened.persisted, [tail_and_zeros(&image, 1, 0)]);
}

#[test]
fn p07_the_bytes_written_again_are_those_that_were_verified_also_of_a_group_read_in_pieces() {
    let mut image = Image::with_capacity(16 << 20);
    image.acked_group(&[b"a"]);
    let large = vec![0x5a; 5 << 20];
    image.batches(&[&[&large, b"second", &large]]);
    let opened = open(&image).unwrap();
    assert_eq!(opened.persisted, [tail_and_zeros(&image, 0, 1)]);
    assert_eq!(opened.records().unwrap(), [&b"a"[..], &large, b"second", &large]);
}

#[test]
fn p07_a_torn_group_that_was_read_in_pieces_is_not_written_again() {
    let mut image = Image::with_capacity(16 << 20);
    image.acked_group(&[b"a"]);
    let second = image.last().end;
    image.group(&[&vec![0x5a; 9 << 20]]);
    image.last().bytes[second + (8 << 20)] ^= 1;
    let opened = open(&image).unwrap();
    // The dead header's durable LSN proves the first group.
    let zeros = Persisted { number: 1, offset: second as u64, bytes: vec![0; HEADER] };
    assert_eq!(opened.persisted, [zeros]);
}

#[test]
fn p07_the_tail_stands_in_one_segment_also_on_a_walk_over_several() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.seal();
    image.prepare();
    image.group(&[b"b"]);
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let disk = RealDisk::open(dir.path()).unwrap();
    let segments = [1, 2].map(|number| Arc::new(Segment::open(&disk, number).unwrap()));
    let mut walk = Walk::new(&disk, &segments, 0, true);
    walk.run().unwrap();
    let mut persisted = Vec::new();
    let offset = walk.offset;
    walk.tail
        .persist(&segments[walk.last_index], &segments[walk.index], offset, &mut |segment, offset, bytes| {
            persisted.push(Persisted { number: segment.number, offset, bytes: bytes.to_vec() });
            Ok(())
        })
        .unwrap();
    assert_eq!(persisted, [tail_and_zeros(&image, 1, 0)]);
}

#[test]
fn p07_a_second_crash_right_after_open_changes_nothing() {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.group(&[b"b"]);
    image.group(&[b"torn"]);
    let torn = image.files[0].groups[2] + HEADER + 8;
    image.last().bytes[torn] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let first = open_directory(dir.path()).unwrap();
    let second = open_directory(dir.path()).unwrap();
    assert_eq!(first.records().unwrap(), second.records().unwrap());
    assert_eq!(second.recovered.offset, first.recovered.offset);
    assert_eq!(second.recovered.chain, first.recovered.chain);
}

#[test]
fn p07_a_persist_that_fails_makes_open_fail() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.seal();
    image.prepare();
    image.write_to(dir.path());
    let disk = RealDisk::open(dir.path()).unwrap();
    for failing in 0..2 {
        let segments = [1, 2].map(|number| Segment::open(&disk, number).unwrap());
        let mut calls = 0;
        let outcome = recover(&disk, &segments.map(Arc::new), &mut |_, _, _| {
            calls += 1;
            if calls > failing { Err(Error::Closed) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(Error::Closed)));
        assert_eq!(calls, failing + 1, "no persist after one that failed");
    }
}

#[test]
fn an_empty_group_after_a_trim_starts_the_log_and_proves_what_it_says() {
    let mut image = Image::new();
    image.acked_group(&[b"a", b"b"]);
    image.seal();
    image.prepare();
    image.empty();
    image.drop_first(1);
    let recovered = open(&image).unwrap().recovered;
    assert_eq!((recovered.report.oldest, recovered.report.last), (Lsn::new(3), Lsn::new(2)));
    assert_eq!(recovered.segments[0].first_lsn, Some(Lsn::new(3)));
    assert!(!recovered.segments[0].has_records);
    assert!(!recovered.unvouched);
}
