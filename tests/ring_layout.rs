//! `docs/ring-layout.md` against the kernel's structures, the strategy's entries and a live ring.

#![cfg(all(target_os = "linux", feature = "uring"))]
#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

#[path = "support/raw_ring.rs"]
mod raw_ring;
#[path = "support/skip.rs"]
#[allow(unused, reason = "its macro is for programs that take all of the support")]
mod skip;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

use raw_ring::{CqOffsets, Cqe, Params, RawRing, SqOffsets, Sqe, setup};
use wo_wal::strategy::testing::{describe, entry_bytes};
use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};

const DOCUMENT: &str = include_str!("../docs/ring-layout.md");
const ECANCELED: i32 = 125;
const LENGTH: usize = 100;

/// The cells of the table below a heading, without its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = DOCUMENT.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = rest.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells =
        rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('|').trim()));
    let table: Vec<Vec<_>> = cells.map(Iterator::collect).collect();
    assert!(!table.is_empty(), "no table below {heading}");
    table
}

/// A byte table must be gapless, and agree with the mirror of the kernel's structure field by field.
fn assert_fields(heading: &str, total_bytes: usize, mirror: &[(&str, usize)]) {
    let mut end = 0;
    let mut documented = Vec::new();
    for row in table(heading) {
        let offset: usize = row[0].parse().unwrap();
        assert_eq!(offset, end, "{heading}: {} does not start where the field before ends", row[2]);
        end += row[1].parse::<usize>().unwrap();
        documented.push((row[2], offset));
    }
    assert_eq!(end, total_bytes, "{heading}: the fields do not add up");
    assert_eq!(documented, mirror, "{heading}");
}

/// The fields of a structure and where they stand.
macro_rules! fields {
    ($structure:ty: $($field:ident)*) => {
        &[$((stringify!($field), offset_of!($structure, $field))),*]
    };
}

#[test]
fn structures_are_the_kernels() {
    let params = fields!(Params: sq_entries cq_entries flags sq_thread_cpu sq_thread_idle features wq_fd resv sq_off
        cq_off);
    assert_fields("### io_uring_params", size_of::<Params>(), params);
    let sq = fields!(SqOffsets: head tail ring_mask ring_entries flags dropped array resv1 user_addr);
    assert_fields("### io_sqring_offsets", size_of::<SqOffsets>(), sq);
    let cq = fields!(CqOffsets: head tail ring_mask ring_entries overflow cqes flags resv1 user_addr);
    assert_fields("### io_cqring_offsets", size_of::<CqOffsets>(), cq);
    let sqe = fields!(Sqe: opcode flags ioprio fd off addr len op_flags user_data buf_index personality file_index addr3
        pad);
    assert_fields("### Submission queue entry", size_of::<Sqe>(), sqe);
    assert_fields("### Completion queue entry", size_of::<Cqe>(), fields!(Cqe: user_data res flags));
    // The mirror is as large as what the kernel takes and gives: the live tests below would not run otherwise.
    assert_eq!((size_of::<Params>(), size_of::<Sqe>(), size_of::<Cqe>()), (120, 64, 16));
}

#[test]
fn calls_have_their_numbers() {
    let numbers: Vec<i64> = table("## Calls").iter().map(|row| row[1].parse().unwrap()).collect();
    assert_eq!(numbers, [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]);
}

/// An entry made of nothing but a column of the document's table.
fn entry_by_the_table(column: usize, extent: Extent<'_>, generation: u64) -> [u8; 64] {
    let named = BTreeMap::from([
        ("*fd*", u64::try_from(extent.file().as_raw_fd()).unwrap()),
        ("*offset*", extent.offset()),
        ("*address*", extent.bytes().as_ptr().addr() as u64),
        ("*length*", extent.bytes().len() as u64),
        ("*write*", generation * 2),
        ("*fsync*", generation * 2 + 1),
    ]);
    let mut entry = [0; 64];
    for row in table("### Submission queue entry") {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        let cell = row[column];
        let value = named.get(cell).copied().unwrap_or_else(|| cell.parse().unwrap());
        for index in 0..size {
            let place = if cfg!(target_endian = "little") { index } else { size - 1 - index };
            entry[offset + place] = u8::try_from(value >> (8 * index) & 0xff).unwrap();
        }
    }
    entry
}

const LINKED_WRITE: usize = 3;
const FSYNC: usize = 4;
const DSYNC_WRITE: usize = 5;

#[test]
fn the_strategy_builds_the_documents_entries() {
    let file = tempfile::tempfile().unwrap();
    let bytes = vec![7; 70_000];
    for (offset, generation) in [(0, 1), (0x0123_4567_89ab_cdef, 0x7edc_ba98_7654_3210)] {
        let extent = Extent::new(file.as_fd(), offset, &bytes);
        let by_the_table = |column| entry_by_the_table(column, extent, generation);
        let linked = entry_bytes(Form::Linked, extent, generation);
        assert_eq!(linked, [by_the_table(LINKED_WRITE), by_the_table(FSYNC)]);
        assert_eq!(entry_bytes(Form::Dsync, extent, generation), [by_the_table(DSYNC_WRITE)]);
    }
}

/// The results that a cell of the matrix stands for.
fn samples(cell: &str) -> Vec<i32> {
    let length = i32::try_from(LENGTH).unwrap();
    let errno: Vec<i32> =
        (-200..0).filter(|result| ![-ECANCELED, -libc::EINTR, -libc::EAGAIN].contains(result)).collect();
    match cell {
        "length" => vec![length],
        "short" => (1..length).collect(),
        "0" => vec![0],
        "-ECANCELED" => vec![-ECANCELED],
        "0 or -ECANCELED" => vec![0, -ECANCELED],
        "-EINTR or -EAGAIN" => vec![-libc::EINTR, -libc::EAGAIN],
        "-errno" => errno,
        "above length" => (length + 1..length + 50).collect(),
        "above 0" => (1..length + 50).collect(),
        "anything" => (-200..length + 50).collect(),
        other => panic!("no such cell: {other}"),
    }
}

/// Every pair of results, the row that it is in, and the verdict in `describe`'s words.
fn matrix() -> BTreeMap<(i32, i32), (&'static str, String)> {
    let mut pairs = BTreeMap::new();
    for row in table("## The error matrix") {
        let mut fsyncs = samples(row[2]);
        if row[0] == "i" {
            // For a sync these two are errors like every other.
            fsyncs.extend([-libc::EINTR, -libc::EAGAIN]);
        }
        for write in samples(row[1]) {
            for &fsync in &fsyncs {
                let verdict = match row[3] {
                    "error write" => format!("error {}", -write),
                    "error fsync" => format!("error {}", -fsync),
                    verdict => verdict.to_owned(),
                };
                let other = pairs.insert((write, fsync), (row[0], verdict));
                assert!(other.is_none(), "({write}, {fsync}) is in two rows: {} and {other:?}", row[0]);
            }
        }
    }
    pairs
}

#[test]
fn the_matrix_is_complete_and_the_strategys() {
    let matrix = matrix();
    for write in -200..150 {
        for fsync in -200..150 {
            let (row, verdict) =
                matrix.get(&(write, fsync)).unwrap_or_else(|| panic!("no row for {write}, {fsync}"));
            assert_eq!(&describe(LENGTH, write, fsync), verdict, "row {row}: {write}, {fsync}");
        }
    }
}

/// A bare ring, or a visible skip.
fn bare_ring() -> Option<RawRing> {
    RawRing::new(8).map_err(|error| skip::announce(&format!("io_uring_setup: {error}"))).ok()
}

#[test]
fn a_live_ring_keeps_the_documents_invariants() {
    let Some(ring) = bare_ring() else { return };
    let params = ring.params;
    assert_eq!((params.sq_entries, params.cq_entries), (8, 16));
    for row in table("### Features") {
        let bit: u32 = row[0].parse().unwrap();
        assert_ne!(params.features & 1 << bit, 0, "{}", row[1]);
    }
    let (sq, cq) = (params.sq_off, params.cq_off);
    let sq_words = [sq.head, sq.tail, sq.ring_mask, sq.ring_entries, sq.flags, sq.dropped, sq.array];
    assert!(sq_words.iter().all(|&word| word as usize + 4 <= ring.sq_bytes && word % 4 == 0), "{sq:?}");
    let cq_words = [cq.head, cq.tail, cq.ring_mask, cq.ring_entries, cq.overflow, cq.flags];
    assert!(cq_words.iter().all(|&word| word as usize + 4 <= ring.cq_bytes && word % 4 == 0), "{cq:?}");
    let word = |offset| ring.word(offset).load(Ordering::Acquire);
    assert_eq!((word(sq.ring_mask), word(sq.ring_entries)), (7, 8));
    assert_eq!((word(cq.ring_mask), word(cq.ring_entries)), (15, 16));
    assert_eq!([word(sq.head), word(sq.tail), word(cq.head), word(cq.tail), word(cq.overflow)], [0; 5]);
}

#[test]
fn regions_are_where_the_document_says() {
    let offsets: Vec<i64> = table("### Regions")
        .iter()
        .map(|row| i64::from_str_radix(row[1].strip_prefix("0x").unwrap(), 16).unwrap())
        .collect();
    assert_eq!(offsets, [raw_ring::OFF_SQ_RING, raw_ring::OFF_CQ_RING, raw_ring::OFF_SQES]);
    let lengths: Vec<&str> = table("### Regions").iter().map(|row| row[2]).collect();
    let mut params = Params::default();
    let Ok(fd) = setup(8, &mut params) else { return skip::announce("io_uring_setup") };
    let named = BTreeMap::from([
        ("sq_off.array", params.sq_off.array),
        ("cq_off.cqes", params.cq_off.cqes),
        ("sq_entries", params.sq_entries),
        ("cq_entries", params.cq_entries),
    ]);
    for (offset, length) in offsets.into_iter().zip(lengths) {
        let bytes: u32 = length.split(" + ").map(|term| product(term, &named)).sum();
        raw_ring::map(&fd, offset, bytes as usize).unwrap_or_else(|error| panic!("{length}: {error}"));
    }
}

fn product(term: &str, named: &BTreeMap<&str, u32>) -> u32 {
    term.split(" * ")
        .map(|factor| named.get(factor).copied().unwrap_or_else(|| factor.parse().unwrap()))
        .product()
}

/// Runs the document's two entries on a live ring, checks that they come back as they were put down, and tells the row.
fn live(file: impl AsFd, bytes: &[u8]) -> Option<(&'static str, String)> {
    assert_eq!(bytes.len(), LENGTH);
    let extent = Extent::new(file.as_fd(), 0, bytes);
    let entries = [entry_by_the_table(LINKED_WRITE, extent, 9), entry_by_the_table(FSYNC, extent, 9)];
    let mut ring = bare_ring()?;
    let completions = ring.run(&entries);
    assert_eq!([ring.entry(0), ring.entry(1)], entries);
    assert!(completions.iter().all(|completion| completion.flags == 0));
    let result_of =
        |user_data| completions.iter().find(|completion| completion.user_data == user_data).unwrap().res;
    matrix().get(&(result_of(18), result_of(19))).cloned()
}

/// Runs a row on a live ring, and through the strategy: the answer must be the row's.
fn assert_row(row: &str, verdict: &str, file: impl AsFd) {
    let bytes = vec![7; LENGTH];
    let Some(live) = live(&file, &bytes) else { return };
    assert_eq!(live, (matrix_row(row), verdict.to_owned()));
    let answer = match Uring::new().unwrap().persist(Extent::new(file.as_fd(), 0, &bytes)) {
        Ok(()) => "Ok".to_owned(),
        Err(error) => format!("error {}", error.raw_os_error().unwrap()),
    };
    assert_eq!(answer, verdict);
}

fn matrix_row(row: &str) -> &'static str {
    table("## The error matrix").iter().map(|cells| cells[0]).find(|&letter| letter == row).unwrap()
}

#[test]
fn row_a_lives() {
    assert_row("a", "Ok", tempfile::tempfile().unwrap());
}

#[test]
fn row_g_lives() {
    assert_row("g", "error 9", File::open("/dev/null").unwrap());
    assert_row("g", "error 28", File::options().write(true).open("/dev/full").unwrap());
}

/// A pipe can be written and not synced.
#[test]
fn row_i_lives() {
    let (_reader, writer) = io::pipe().unwrap();
    assert_row("i", "error 22", writer);
}
