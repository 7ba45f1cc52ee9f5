//! Every flipped bit, every cut and every zeroed range of small logs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::*;
use crate::frame::{SEGMENT_HEADER_BYTES, memory_bytes};
use crate::recovery::image::File;

const START: usize = memory_bytes(SEGMENT_HEADER_BYTES);
const CAPACITY_BYTES: u64 = 8192;

/// One directory that is written again and again.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(image: &Image) -> Self {
        let dir = tempfile::tempdir().unwrap();
        image.write_to(dir.path());
        Bench { dir }
    }

    /// Overwrites in place: a file that is cut to nothing first would wait for the disk at each close.
    fn records_with(&self, file: &File) -> Result<Vec<Vec<u8>>> {
        let path = self.dir.path().join(crate::segment::segment_name(file.number));
        let on_disk = OpenOptions::new().write(true).open(path).unwrap();
        on_disk.write_all_at(&file.bytes, 0).unwrap();
        open_directory(self.dir.path())?.records()
    }
}

fn small() -> Image {
    let mut image = Image::with_capacity(CAPACITY_BYTES);
    image.acked_group(&[b"first"]);
    let batches: [&[&[u8]]; 2] = [&[b"", b"in a batch"], &[b"alone and longer"]];
    image.batches(&batches);
    image.acked();
    image.group(&[b"x", b"y"]);
    image
}

fn whole() -> Vec<Vec<u8>> {
    [&b"first"[..], b"", b"in a batch", b"alone and longer", b"x", b"y"].map(<[u8]>::to_vec).to_vec()
}

#[test]
fn p08_of_a_cleanly_closed_log_every_flip_in_a_group_is_refused() {
    let mut image = small();
    let records_end = image.last().end;
    image.close();
    let bench = Bench::new(&image);
    assert_eq!(bench.records_with(&image.files[0]).unwrap(), whole());
    for at in START..records_end {
        for bit in 0..8 {
            let mut file = image.files[0].clone();
            file.bytes[at] ^= 1 << bit;
            let outcome = bench.records_with(&file);
            assert!(matches!(outcome, Err(Error::Corrupt { .. })), "byte {at}, bit {bit}: {outcome:?}");
        }
    }
}

#[test]
fn p08_a_flip_in_or_behind_the_closing_group_changes_nothing_that_is_returned() {
    let mut image = small();
    let records_end = image.last().end;
    image.close();
    let bench = Bench::new(&image);
    for at in records_end..image.files[0].end + 200 {
        for bit in 0..8 {
            let mut file = image.files[0].clone();
            file.bytes[at] ^= 1 << bit;
            assert_eq!(bench.records_with(&file).unwrap(), whole(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn p08_a_flip_in_a_segment_header_is_refused() {
    let mut image = small();
    image.close();
    let bench = Bench::new(&image);
    for at in 0..START {
        let mut file = image.files[0].clone();
        file.bytes[at] ^= 1 << (at % 8);
        let outcome = bench.records_with(&file);
        let refused = matches!(
            outcome,
            Err(Error::Corrupt { .. } | Error::NotASegment { .. } | Error::UnsupportedVersion { .. })
        );
        assert!(refused, "byte {at}: {outcome:?}");
    }
}

#[test]
fn p08_a_chop_at_any_byte_of_the_unacked_tail_is_no_error_and_returns_a_prefix() {
    let image = small();
    let bench = Bench::new(&image);
    let mut longest = 0;
    for cut in image.files[0].groups[2]..=image.files[0].end {
        let mut file = image.files[0].clone();
        file.bytes[cut..].fill(0);
        let records = bench.records_with(&file).unwrap();
        assert_eq!(records, whole()[..records.len()], "cut at {cut}");
        assert!(
            records.len() == 4 || records.len() == 6,
            "a group is there whole or not at all: cut at {cut}"
        );
        assert!(records.len() >= longest, "a longer file returns no less: cut at {cut}");
        longest = records.len();
    }
    assert_eq!(longest, 6);
}

#[test]
fn p08_a_chop_below_a_durable_lsn_that_is_still_there_is_refused_and_one_above_all_is_a_prefix() {
    let image = small();
    let bench = Bench::new(&image);
    let end = image.files[0].end;
    for start in (START..end).step_by(8) {
        for stop in (start + 8..=end).step_by(8) {
            let mut file = image.files[0].clone();
            file.bytes[start..stop].fill(0);
            // Where the last group's header survives, it says that the first four records were stable.
            let mark_survives = stop <= file.groups[2];
            let changed = file.bytes != image.files[0].bytes;
            match bench.records_with(&file) {
                Ok(records) => {
                    assert_eq!(records, whole()[..records.len()], "zeros from {start} to {stop}");
                    assert!(!mark_survives || !changed, "silent loss: zeros from {start} to {stop}");
                }
                Err(Error::Corrupt { .. }) => {}
                Err(other) => panic!("zeros from {start} to {stop}: {other}"),
            }
        }
    }
}

#[test]
fn p02_any_subset_of_the_sectors_of_groups_in_flight_is_a_prefix() {
    let mut image = Image::with_capacity(CAPACITY_BYTES);
    image.acked_group(&[b"acked"]);
    for in_flight in 0..3u8 {
        image.group(&[&[in_flight; 400]]);
    }
    let bench = Bench::new(&image);
    let first = image.files[0].groups[1];
    let sectors: Vec<usize> = (first / 512..=image.files[0].end / 512).collect();
    for subset in 0..1u32 << sectors.len() {
        let mut file = image.files[0].clone();
        for (bit, sector) in sectors.iter().enumerate() {
            if subset & 1 << bit == 0 {
                // The sector with the acked group is there; only what was written to it since is not.
                let start = (sector * 512).max(first);
                file.bytes[start..(sector + 1) * 512].fill(0);
            }
        }
        let records = bench.records_with(&file).unwrap();
        assert_eq!(records[0], b"acked", "subset {subset:b}");
        for (index, record) in records[1..].iter().enumerate() {
            assert_eq!(record[..], [u8::try_from(index).unwrap(); 400], "subset {subset:b}");
        }
    }
}

#[test]
fn p08_any_flip_in_two_sealed_segments_is_met_by_open_or_by_replay() {
    let mut image = Image::with_capacity(CAPACITY_BYTES);
    for record in [&b"one"[..], b"two", b"three"] {
        if image.next_lsn > 1 {
            image.seal();
            image.prepare();
        }
        image.acked_group(&[record]);
        image.acked_group(&[record]);
    }
    image.close();
    let bench = Bench::new(&image);
    for file in &image.files[..2] {
        for at in START..file.end {
            let mut damaged = file.clone();
            damaged.bytes[at] ^= 1 << (at % 8);
            let outcome = bench.records_with(&damaged);
            assert!(
                matches!(outcome, Err(Error::Corrupt { .. })),
                "segment {}, byte {at}: {outcome:?}",
                file.number
            );
        }
        assert_eq!(bench.records_with(file).unwrap().len(), 6);
    }
}
