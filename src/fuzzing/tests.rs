//! Makes the corpus of the fuzz targets, and holds the checked-in files against it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::frame::{GroupFlags, RecordHeader, encode_record};
use crate::recovery::image::Image;

/// Set it to write the corpus anew, after a change of the format or of what is in it.
const WRITE: &str = "WO_WAL_WRITE_CORPUS";

const SMALL_BYTES: u64 = 8192;
const HEADER: usize = memory_bytes(GROUP_HEADER_BYTES);
const START: usize = memory_bytes(SEGMENT_HEADER_BYTES);

type Corpus = BTreeMap<String, Vec<u8>>;

/// The bytes of a log's only file, without the zeros at its end.
fn file(image: &Image) -> Vec<u8> {
    trimmed(&image.files[0].bytes)
}

fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes[..end].to_vec()
}

/// Three groups, one of them with batches of several records, and a closing one.
fn closed() -> Image {
    let mut image = Image::with_capacity(SMALL_BYTES);
    image.acked_group(&[b"first"]);
    let batches: [&[&[u8]]; 2] = [&[b"", b"in a batch", b"to its end"], &[b"alone"]];
    image.batches(&batches);
    image.acked();
    image.group(&[&[0x5a; 300], b"last"]);
    image.close();
    image
}

/// The log with the header of its n-th group changed; its checksum holds.
fn with_header(group: usize, change: impl FnOnce(&mut GroupHeader)) -> Vec<u8> {
    let mut image = closed();
    let (start, id) = (image.files[0].groups[group], image.files[0].id);
    let bytes = &mut image.last().bytes[start..];
    let mut header = GroupHeader::decode(bytes, id).unwrap();
    change(&mut header);
    header.encode(bytes);
    file(&image)
}

/// A log of one group with one record header that says `payload_bytes`, though nothing stands behind it.
fn with_record_length(payload_bytes: u32) -> Vec<u8> {
    let mut image = Image::with_capacity(SMALL_BYTES);
    let mut record = RecordHeader::of(b"", true).encode();
    record[..4].copy_from_slice(&(payload_bytes | 1 << 31).to_le_bytes());
    let id = image.files[0].id;
    let header = GroupHeader {
        group_bytes: u32::try_from(HEADER + record.len()).unwrap(),
        segment_id: id,
        session_id: 1,
        first_lsn: Lsn::FIRST,
        durable_lsn: Lsn::ZERO,
        record_count: 1,
        flags: GroupFlags { first_of_session: true, ..GroupFlags::default() },
        chain: 0,
        records_crc: records_crc(id, &record),
        crc: 0,
    };
    header.encode(&mut image.last().bytes[START..]);
    image.last().bytes[START + HEADER..][..8].copy_from_slice(&record);
    file(&image)
}

fn logs() -> Corpus {
    let mut corpus = Corpus::new();
    let mut add = |name: &str, bytes: Vec<u8>| assert!(corpus.insert(name.to_owned(), bytes).is_none());

    add("empty-file", Vec::new());
    add("foreign-file", b"not a segment".to_vec());
    add("new-log", file(&Image::with_capacity(SMALL_BYTES)));
    add("closed", file(&closed()));
    let mut open = closed();
    let close = open.files[0].groups[3];
    open.last().bytes[close..].fill(0);
    add("not-closed", file(&open));

    let mut sealed = Image::with_capacity(SMALL_BYTES);
    sealed.acked_group(&[b"record"]);
    sealed.seal();
    add("sealed-without-a-next-segment", file(&sealed));
    let mut flags_only = Image::with_capacity(SMALL_BYTES);
    flags_only.put(&[], GroupFlags { sealed: true, closed: true, ..GroupFlags::default() });
    add("sealed-and-closed-without-a-record", file(&flags_only));

    let mut full = Image::with_capacity(SMALL_BYTES);
    full.acked_group(&[&vec![1; memory_bytes(SMALL_BYTES) - START - HEADER - 8]]);
    add("full-to-the-last-byte", file(&full));
    let mut many = Image::with_capacity(SMALL_BYTES);
    many.group(&vec![&b""[..]; 500]);
    add("many-empty-records", file(&many));

    let mut two_sessions = Image::with_capacity(SMALL_BYTES);
    two_sessions.acked_group(&[b"first session"]);
    two_sessions.new_session();
    two_sessions.acked_group(&[b"second session"]);
    add("two-sessions", file(&two_sessions));

    for (name, from_end) in [("record", 40), ("header", 100), ("middle", 420)] {
        let bytes = file(&open);
        add(&format!("cut-in-{name}"), bytes[..bytes.len() - from_end].to_vec());
    }
    for (name, at) in [
        ("segment-header", 40),
        ("first-group-length", START + 4),
        ("first-group-durable-lsn", START + 32),
        ("first-group-checksum", START + 60),
        ("first-record-length", START + HEADER),
        ("first-payload", START + HEADER + 8),
        ("padding", START + HEADER + 8 + 5),
    ] {
        let mut bytes = file(&closed());
        bytes[at] ^= 0x10;
        add(&format!("flip-in-{name}"), bytes);
    }

    add("group-beyond-the-segment", with_header(2, |header| header.group_bytes = 8192));
    add("group-of-2-gib", with_header(2, |header| header.group_bytes = 0x7fff_f000));
    add("group-shorter-than-its-records", with_header(1, |header| header.group_bytes = 96));
    add("group-without-its-records", with_header(1, |header| header.record_count = 0));
    add("group-with-too-many-records", with_header(1, |header| header.record_count = 7));
    add("another-first-lsn", with_header(1, |header| header.first_lsn = Lsn::new(9)));
    add("another-chain-value", with_header(1, |header| header.chain ^= 1));
    add("another-session", with_header(1, |header| header.session_id ^= 1));
    add("lsn-near-the-end", with_header(0, |header| header.first_lsn = Lsn::new(u64::MAX - 3)));
    add("durable-lsn-far-above", {
        with_header(3, |header| {
            header.first_lsn = Lsn::new(1 << 40);
            header.durable_lsn = Lsn::new((1 << 40) - 1);
        })
    });
    for payload_bytes in [8, 4096, 1 << 24, (1 << 31) - 1] {
        add(&format!("record-of-{payload_bytes}-bytes-in-an-empty-group"), with_record_length(payload_bytes));
    }

    let mut payload_with_header = Image::with_capacity(SMALL_BYTES);
    payload_with_header.acked_group(&[b"x"]);
    let inner = file(&payload_with_header)[START..].to_vec();
    payload_with_header.group(&[&inner]);
    payload_with_header.close();
    add("group-header-in-a-payload", file(&payload_with_header));

    add("capacity-beyond-the-file", segment_header(1, 1 << 40));
    add("capacity-of-one-block", segment_header(1, 4096));
    add("another-number", segment_header(2, SMALL_BYTES));
    add("large-group", large_group(|_| ()));
    add("large-group-torn", large_group(|bytes| bytes[START + HEADER + 16 + 8 + 4] ^= 1));
    corpus
}

fn segment_header(number: u64, capacity_bytes: u64) -> Vec<u8> {
    trimmed(&SegmentHeader { number, capacity_bytes, id: 3 }.encode())
}

/// A group of more than 8 MiB whose last record is zeros, in a file that ends before them: they are read as zeros.
fn large_group(damage: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut image = Image::with_capacity(16 << 20);
    let zeros = vec![0; 9 << 20];
    let batches: [&[&[u8]]; 2] = [&[b"first"], &[b"", &zeros]];
    image.batches(&batches);
    let bytes = &mut image.last().bytes;
    damage(bytes);
    trimmed(bytes)
}

fn groups() -> Corpus {
    const SEGMENT_ID: u64 = 0x5eed;
    let mut corpus = Corpus::new();
    for (name, records) in [
        ("empty", &[][..]),
        ("one-record", &[&b"record"[..]]),
        ("empty-records", &[&b""[..]; 9]),
        ("several", &[&b"a"[..], b"eight by", &[7; 900], b""]),
    ] {
        let (mut body, mut record_headers) = (Vec::new(), Vec::new());
        for (index, payload) in records.iter().enumerate() {
            let header = RecordHeader::of(payload, index != 1);
            record_headers.extend_from_slice(&header.encode());
            encode_record(&mut body, header, payload);
        }
        let header = GroupHeader {
            group_bytes: u32::try_from(HEADER + body.len()).unwrap(),
            segment_id: SEGMENT_ID,
            session_id: 1,
            first_lsn: Lsn::FIRST,
            durable_lsn: Lsn::ZERO,
            record_count: u32::try_from(records.len()).unwrap(),
            flags: GroupFlags::default(),
            chain: 0,
            records_crc: records_crc(SEGMENT_ID, &record_headers),
            crc: 0,
        };
        for piece in [0, 1, 12] {
            let mut bytes = vec![0; 1 + HEADER];
            bytes[0] = piece;
            header.encode(&mut bytes[1..]);
            bytes.extend_from_slice(&body);
            assert!(corpus.insert(format!("{name}-in-pieces-of-{}", (piece + 1) * 8), bytes).is_none());
        }
    }
    corpus
}

fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

fn compare(target: &str, corpus: &Corpus) {
    let directory = directory(target);
    if std::env::var_os(WRITE).is_some() {
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, bytes) in corpus {
            std::fs::write(directory.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in corpus {
        let on_disk = std::fs::read(directory.join(name)).unwrap_or_default();
        assert!(on_disk == *bytes, "{target}/{name}: write the corpus anew with {WRITE}=1");
    }
}

#[test]
fn the_corpus_is_what_this_file_makes() {
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").exists() {
        let skips = std::env::var_os("WO_WAL_NO_SKIP").is_none_or(|value| value != "1");
        assert!(skips, "the corpus is not there");
        println!("SKIP the_corpus_is_what_this_file_makes: the package does not contain the fuzz targets");
        return;
    }
    compare("segment", &logs());
    compare("group", &groups());
}

#[test]
fn the_corpus_has_logs_that_open_and_logs_that_do_not() {
    let outcomes: BTreeMap<String, Result<u64>> =
        logs().into_iter().map(|(name, bytes)| (name, segment(&bytes))).collect();
    let records = |name: &str| outcomes[name].as_ref().ok().copied();
    assert_eq!(records("new-log"), Some(0));
    assert_eq!(records("closed"), Some(7));
    assert_eq!(records("not-closed"), Some(7));
    assert_eq!(records("cut-in-record"), Some(5));
    assert_eq!(records("full-to-the-last-byte"), Some(1));
    assert_eq!(records("many-empty-records"), Some(500));
    assert_eq!(records("two-sessions"), Some(2));
    assert_eq!(records("large-group"), Some(3));
    assert_eq!(records("large-group-torn"), Some(0));
    assert_eq!(records("group-header-in-a-payload"), Some(2));
    assert!(matches!(outcomes["sealed-without-a-next-segment"], Err(Error::MissingSegment { .. })));
    assert!(matches!(outcomes["foreign-file"], Err(Error::NotASegment { .. })));
    assert!(matches!(outcomes["flip-in-first-payload"], Err(Error::Corrupt { .. })));
    assert!(matches!(outcomes["durable-lsn-far-above"], Err(Error::Corrupt { .. })));
}

#[test]
fn signing_a_log_that_is_sound_changes_nothing() {
    let mut image = Image::with_capacity(SMALL_BYTES);
    image.acked_group(&[b"first", b"second"]);
    let bytes = &image.files[0].bytes;
    let mut signed = bytes.clone();
    let id = sign_segment_header(&mut signed).unwrap();
    sign_group(&mut signed[START..], id);
    assert!(signed == *bytes);
}
