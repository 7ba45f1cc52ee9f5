//! Groups, records and segment headers: what was encoded is decoded, and nothing else is.

use super::*;
use crate::Lsn;

const SEGMENT_ID: u64 = 0x0123_4567_89ab_cdef;
const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);

fn header_of(record_count: u32, body: &[u8], record_headers: &[u8]) -> GroupHeader {
    GroupHeader {
        group_bytes: u32::try_from(HEADER + body.len()).unwrap(),
        segment_id: SEGMENT_ID,
        session_id: 0xfeed,
        first_lsn: Lsn::new(41),
        durable_lsn: Lsn::new(40),
        record_count,
        flags: GroupFlags { first_of_session: true, ..GroupFlags::default() },
        chain: 0xdead_beef,
        records_crc: records_crc(SEGMENT_ID, record_headers),
        crc: 0,
    }
}

/// A group of these records, each with whether it ends its batch, and zeros behind the last one.
fn group(records: &[(&[u8], bool)], padding_bytes: usize) -> Vec<u8> {
    let (mut body, mut record_headers) = (Vec::new(), Vec::new());
    for &(payload, ends_batch) in records {
        let header = RecordHeader::of(payload, ends_batch);
        record_headers.extend_from_slice(&header.encode());
        encode_record(&mut body, header, payload);
    }
    body.resize(body.len() + padding_bytes, 0);
    let mut bytes = vec![0; HEADER];
    header_of(u32::try_from(records.len()).unwrap(), &body, &record_headers).encode(&mut bytes);
    bytes.extend_from_slice(&body);
    bytes
}

/// Records of all the lengths around the alignment, one longer than the gathered headers, in two batches.
fn sample() -> Vec<u8> {
    let long = [0x55; 700];
    let records: [(&[u8], bool); 7] = [
        (b"", true),
        (b"1", false),
        (b"seven b", false),
        (b"eight by", true),
        (&long, true),
        (b"nine byte", true),
        (b"", true),
    ];
    group(&records, 16)
}

/// Verifies a group as open and replay do; `pieces` are the lengths that the body is handed in with.
fn verify(bytes: &[u8], pieces: impl IntoIterator<Item = usize>) -> Result<(), Flaw> {
    let header = GroupHeader::decode(bytes, SEGMENT_ID).ok_or("header")?;
    let mut body = bytes.get(HEADER..header.group_bytes as usize).ok_or("length")?;
    let mut check = GroupCheck::new(&header);
    for piece_bytes in pieces {
        let (piece, rest) = body.split_at(piece_bytes.min(body.len()));
        check.push(piece)?;
        body = rest;
    }
    check.push(body)?;
    check.finish()
}

fn verify_whole(bytes: &[u8]) -> Result<(), Flaw> {
    let header = GroupHeader::decode(bytes, SEGMENT_ID).ok_or("header")?;
    let body = bytes.get(HEADER..header.group_bytes as usize).ok_or("length")?;
    GroupCheck::whole(&header, body)
}

#[test]
fn a_header_is_decoded_as_it_was_encoded() {
    for flags in 0..8 {
        let flags =
            GroupFlags { sealed: flags & 1 != 0, closed: flags & 2 != 0, first_of_session: flags & 4 != 0 };
        let header = GroupHeader { flags, ..header_of(0, &[], &[]) };
        let mut bytes = [0; HEADER];
        let crc = header.encode(&mut bytes);
        assert_eq!(GroupHeader::decode(&bytes, SEGMENT_ID), Some(GroupHeader { crc, ..header }));
        assert!(GroupHeader::begins(&bytes, SEGMENT_ID));
    }
}

#[test]
fn records_are_decoded_as_they_were_encoded() {
    let payloads: [&[u8]; 4] = [b"", b"x", b"eight by", &[7; 1000]];
    let records: Vec<(&[u8], bool)> = payloads.iter().map(|&payload| (payload, payload.len() != 1)).collect();
    let bytes = group(&records, 0);
    verify_whole(&bytes).unwrap();
    let mut body = &bytes[HEADER..];
    for (payload, ends_batch) in records {
        let (header, decoded, taken) = first_record(body).unwrap();
        assert_eq!((decoded, header.ends_batch), (payload, ends_batch));
        assert!(header.matches(decoded));
        body = &body[taken..];
    }
    assert!(body.is_empty());
    assert!(first_record(body).is_none());
}

#[test]
fn a_group_verifies_whole_and_in_pieces_of_any_size() {
    let bytes = sample();
    verify_whole(&bytes).unwrap();
    for piece_bytes in (8..bytes.len()).step_by(8) {
        verify(&bytes, std::iter::repeat_n(piece_bytes, bytes.len() / piece_bytes)).unwrap();
    }
    for first in (0..bytes.len()).step_by(8) {
        for second in (0..bytes.len() - first).step_by(8) {
            verify(&bytes, [first, second]).unwrap();
        }
    }
}

#[test]
fn every_flipped_bit_of_a_group_is_rejected_whole_and_in_pieces() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(verify_whole(&flipped).is_err(), "byte {at}, bit {bit}");
            assert!(
                verify(&flipped, std::iter::repeat_n(8, bytes.len() / 8)).is_err(),
                "byte {at}, bit {bit}"
            );
            assert!(verify(&flipped, [64]).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_group_that_lost_its_end_is_rejected() {
    let bytes = sample();
    let header = GroupHeader::decode(&bytes, SEGMENT_ID).unwrap();
    for end in (HEADER..bytes.len()).step_by(8) {
        let mut check = GroupCheck::new(&header);
        let pushed = check.push(&bytes[HEADER..end]);
        assert!(pushed.and_then(|()| check.finish()).is_err(), "cut at {end}");
    }
}

#[test]
fn records_do_not_go_beyond_their_group() {
    for payload_bytes in [1_u32, 8, 9, 4096, 1 << 20, (1 << 31) - 1] {
        // A record header that says so, though the group has nothing behind it; every checksum holds.
        let mut record = RecordHeader::of(b"", true).encode();
        record[..4].copy_from_slice(&(payload_bytes | 1 << 31).to_le_bytes());
        let mut bytes = vec![0; HEADER];
        header_of(1, &record, &record).encode(&mut bytes);
        bytes.extend_from_slice(&record);
        assert_eq!(verify_whole(&bytes), Err("record length beyond the end of the group"));
        assert_eq!(verify(&bytes, [8]), Err("record length beyond the end of the group"));
    }
}

#[test]
fn p03_a_group_that_ends_inside_a_batch_is_rejected() {
    assert_eq!(verify_whole(&group(&[(b"a", true), (b"b", false)], 0)), Err("the group ends inside a batch"));
    assert_eq!(verify_whole(&group(&[(b"a", false), (b"b", true)], 0)), Ok(()));
}

#[test]
fn padding_behind_the_last_record_is_less_than_a_block_of_zeros() {
    let records: [(&[u8], bool); 1] = [(b"a", true)];
    let block = memory_bytes(BLOCK_BYTES);
    assert_eq!(verify_whole(&group(&records, block - 8)), Ok(()));
    assert!(verify_whole(&group(&records, block)).is_err());
    assert!(verify(&group(&records, block), std::iter::repeat_n(8, 1000)).is_err());
    assert_eq!(verify_whole(&group(&[], block - 8)), Ok(()));
}

#[test]
fn more_pieces_than_the_group_has_bytes_are_rejected() {
    let bytes = sample();
    let header = GroupHeader::decode(&bytes, SEGMENT_ID).unwrap();
    let mut check = GroupCheck::new(&header);
    check.push(&bytes[HEADER..]).unwrap();
    assert!(check.push(&[0; 8]).is_err());
}

#[test]
fn a_header_whose_checksum_holds_is_still_bounded() {
    let sound = header_of(1, &[0; 8], &[0; 8]);
    let unsound = [
        GroupHeader { group_bytes: 63, ..sound },
        GroupHeader { group_bytes: 56, record_count: 0, ..sound },
        GroupHeader { group_bytes: 76, ..sound },
        GroupHeader { group_bytes: u32::MAX - 7, ..sound },
        GroupHeader { record_count: 2, ..sound },
        GroupHeader { record_count: u32::MAX, ..sound },
        GroupHeader { first_lsn: Lsn::ZERO, durable_lsn: Lsn::ZERO, ..sound },
        GroupHeader { durable_lsn: Lsn::new(41), ..sound },
        GroupHeader { first_lsn: Lsn::MAX, ..sound },
        GroupHeader { first_lsn: Lsn::MAX.previous(), ..sound },
    ];
    let decoded = |header: &GroupHeader| {
        let mut bytes = [0; HEADER];
        header.encode(&mut bytes);
        GroupHeader::decode(&bytes, SEGMENT_ID)
    };
    assert!(decoded(&sound).is_some());
    for header in &unsound {
        assert_eq!(decoded(header), None, "{header:?}");
    }
    let mut unknown_flag = [0; HEADER];
    sound.encode(&mut unknown_flag);
    unknown_flag[44] |= 8;
    assert_eq!(GroupHeader::decode(&unknown_flag, SEGMENT_ID), None);
}

#[test]
fn a_header_of_another_segment_does_not_verify() {
    let bytes = sample();
    assert_eq!(GroupHeader::decode(&bytes, SEGMENT_ID ^ 1), None);
    // Not even with this segment's id written over it.
    let mut other = bytes.clone();
    other[8..16].copy_from_slice(&(SEGMENT_ID ^ 1).to_le_bytes());
    assert_eq!(GroupHeader::decode(&other, SEGMENT_ID ^ 1), None);
}

#[test]
fn zero_is_never_valid() {
    let zeros = [0; memory_bytes(SEGMENT_HEADER_BYTES)];
    assert_eq!(GroupHeader::decode(&zeros, 0), None);
    assert!(!GroupHeader::begins(&zeros, 0));
    assert_eq!(SegmentHeader::decode(&zeros), Err(SegmentHeaderFlaw::Foreign));
}

#[test]
fn a_segment_header_is_decoded_as_it_was_encoded() {
    let header = SegmentHeader { number: 7, capacity_bytes: 64 << 10, id: SEGMENT_ID };
    assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
}

#[test]
fn every_flipped_bit_of_a_segment_header_is_rejected() {
    let header = SegmentHeader { number: 7, capacity_bytes: 64 << 10, id: SEGMENT_ID };
    let bytes = header.encode();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes;
            flipped[at] ^= 1 << bit;
            assert!(SegmentHeader::decode(&flipped).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_segment_header_that_was_cut_is_damaged_and_one_without_magic_is_foreign() {
    let header = SegmentHeader { number: 7, capacity_bytes: 64 << 10, id: SEGMENT_ID };
    let bytes = header.encode();
    assert!(matches!(SegmentHeader::decode(&bytes[..4095]), Err(SegmentHeaderFlaw::Damaged(_))));
    assert!(matches!(SegmentHeader::decode(&[]), Err(SegmentHeaderFlaw::Damaged(_))));
    assert_eq!(SegmentHeader::decode(b"a foreign file"), Err(SegmentHeaderFlaw::Foreign));
}

#[test]
fn i11_a_newer_version_is_told_from_damage() {
    let header = SegmentHeader { number: 7, capacity_bytes: 64 << 10, id: SEGMENT_ID };
    let mut bytes = header.encode();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    // What a newer version puts elsewhere in the block is its own affair.
    bytes[50] = 1;
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(SegmentHeader::decode(&bytes), Err(SegmentHeaderFlaw::Version(2)));
}

#[test]
fn a_segment_header_whose_checksum_holds_is_still_bounded() {
    let sound = SegmentHeader { number: 7, capacity_bytes: 8192, id: SEGMENT_ID };
    assert!(SegmentHeader::decode(&sound.encode()).is_ok());
    let unsound = [
        SegmentHeader { number: 0, ..sound },
        SegmentHeader { capacity_bytes: 0, ..sound },
        SegmentHeader { capacity_bytes: 4096, ..sound },
        SegmentHeader { capacity_bytes: 8200, ..sound },
        SegmentHeader { id: 0, ..sound },
    ];
    for header in unsound {
        assert!(matches!(SegmentHeader::decode(&header.encode()), Err(SegmentHeaderFlaw::Damaged(_))));
    }
}
