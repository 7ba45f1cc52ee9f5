//! `docs/format.md` against the bytes that the library writes: the tables are gapless, and the example is real.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

use std::path::Path;

use wo_wal::Wal;

const DOCUMENT: &str = include_str!("../docs/format.md");
/// What the example was written with.
const EXAMPLE_IDS_SEED: u64 = 1;
const FIRST_GROUP_OFFSET: usize = 4096;

/// One row of a byte table.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    name: String,
}

/// The text from a heading to the next one.
fn section(heading: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(heading).unwrap_or_else(|| panic!("no heading {heading}"));
    rest.split_once("\n#").map_or(rest, |(section, _)| section)
}

/// The byte table below a heading.
fn byte_table(heading: &str) -> Vec<Field> {
    let rows = section(heading).lines().filter(|line| line.starts_with('|'));
    let fields: Vec<Field> = rows
        .filter_map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let offset = cells[1].parse().ok()?;
            Some(Field { offset, size: cells[2].parse().unwrap(), name: cells[3].to_owned() })
        })
        .collect();
    assert!(!fields.is_empty(), "no table below {heading}");
    fields
}

fn assert_gapless(heading: &str, total_bytes: usize) -> Vec<Field> {
    let fields = byte_table(heading);
    let mut end = 0;
    for field in &fields {
        assert_eq!(field.offset, end, "{heading}: {} does not start where the field before ends", field.name);
        end += field.size;
    }
    assert_eq!(end, total_bytes, "{heading}: the fields do not add up");
    fields
}

/// A line of the example: where its bytes stand in the file, the bytes, and which field they are.
#[derive(Debug)]
struct ExampleLine {
    offset: usize,
    bytes: Vec<u8>,
    note: &'static str,
}

/// Offset, hexadecimal bytes, and a note, separated by two spaces.
fn example() -> Vec<ExampleLine> {
    let (_, block) = section("## An example").split_once("```text\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(example_line).collect()
}

fn example_line(line: &'static str) -> ExampleLine {
    let mut parts = line.splitn(3, "  ");
    let offset = parts.next().unwrap().parse().unwrap();
    let digits = parts.next().unwrap().split(' ');
    let bytes = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    ExampleLine { offset, bytes, note: parts.next().unwrap_or_default().trim() }
}

/// Writes the log that the document describes and returns its first segment.
fn write_example(directory: &Path) -> Vec<u8> {
    let (wal, _) = Wal::options().ids(EXAMPLE_IDS_SEED).open(directory).unwrap();
    // Nobody waits before the sync, so one barrier takes all three.
    let batch = wal.submit_batch(["one", "two, longer"]).unwrap();
    let single = wal.submit(b"three").unwrap();
    wal.sync().unwrap();
    assert_eq!((batch.wait().unwrap().get(), single.wait().unwrap().get()), (2, 3));
    wal.close().unwrap();
    std::fs::read(directory.join("00000000000000000001.wal")).unwrap()
}

#[test]
fn tables_are_gapless() {
    assert_gapless("### Segment header", 4096);
    assert_gapless("### Group header", 64);
    assert_gapless("### Record header", 8);
}

#[test]
fn example_is_what_the_library_writes() {
    let directory = tempfile::tempdir().unwrap();
    let segment = write_example(&directory.path().join("log"));
    let lines = example();
    assert_eq!(lines[0].offset, FIRST_GROUP_OFFSET);
    let mut end = FIRST_GROUP_OFFSET;
    for line in &lines {
        assert_eq!(line.offset, end, "{}: the example has a gap", line.note);
        end += line.bytes.len();
        assert_eq!(line.bytes, segment[line.offset..end], "{}: the library writes other bytes", line.note);
    }
    let group_bytes = u32::from_le_bytes(segment[FIRST_GROUP_OFFSET + 4..][..4].try_into().unwrap());
    assert_eq!(end, FIRST_GROUP_OFFSET + group_bytes as usize, "the example is not one whole group");
}

#[test]
fn example_follows_the_tables() {
    let lines = example();
    let group_header = byte_table("### Group header");
    let record_header = byte_table("### Record header");
    let expected = group_header.iter().chain(record_header.iter().cycle());
    let fields = lines.iter().filter(|line| !line.note.starts_with("payload of"));
    for (line, field) in fields.zip(expected) {
        assert_eq!(line.note.split(':').next(), Some(field.name.as_str()));
        assert_eq!(line.bytes.len(), field.size, "{}", field.name);
    }
    let headers = lines.iter().filter(|line| line.note.starts_with("length_and_flag"));
    assert_eq!(headers.count(), 3, "the example has a batch of two records and one more");
}
