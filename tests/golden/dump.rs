//! Segments as text: a line `= NAME BYTES` for each file, then `OFFSET HEX` for each row that is not all zeros.

use std::fmt::Write;
use std::path::{Path, PathBuf};

const ROW_BYTES: usize = 32;

/// File names and contents, by name.
pub(crate) type Segments = Vec<(String, Vec<u8>)>;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1").join(name).with_extension("txt")
}

pub(crate) fn read_dump(name: &str) -> Segments {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let mut segments = Segments::new();
    for line in text.lines() {
        let (key, value) = line.trim_start_matches("= ").split_once(' ').unwrap();
        if line.starts_with('=') {
            segments.push((key.to_owned(), vec![0; value.parse().unwrap()]));
            continue;
        }
        let (_, bytes) = segments.last_mut().unwrap();
        let offset = usize::from_str_radix(key, 16).unwrap();
        for (index, byte) in bytes[offset..][..value.len() / 2].iter_mut().enumerate() {
            *byte = u8::from_str_radix(&value[2 * index..][..2], 16).unwrap();
        }
    }
    segments
}

pub(crate) fn text(segments: &Segments) -> String {
    let mut text = String::new();
    for (name, bytes) in segments {
        writeln!(text, "= {name} {}", bytes.len()).unwrap();
        for (row, index) in bytes.chunks(ROW_BYTES).zip(0..) {
            if row.iter().any(|&byte| byte != 0) {
                write!(text, "{:06x} ", index * ROW_BYTES).unwrap();
                for byte in row {
                    write!(text, "{byte:02x}").unwrap();
                }
                text.push('\n');
            }
        }
    }
    text
}

/// All segments of a directory.
pub(crate) fn read_segments(directory: &Path) -> Segments {
    let names =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.to_ascii_lowercase().ends_with(".wal")).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), std::fs::read(directory.join(&name)).unwrap())).collect()
}

pub(crate) fn write_segments(directory: &Path, segments: &Segments) {
    for (name, bytes) in segments {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}
