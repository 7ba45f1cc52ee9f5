//! One record as text or bytes.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use wo_wal::RecordRef;

/// How `cat` prints a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The record's bytes and a newline.
    Raw,
    /// The LSN, a tab, the record's bytes and a newline.
    Lsn,
    /// One object on a line: lsn, `ends_batch`, and payload (text) or `payload_hex` (where it is not UTF-8).
    Json,
    /// The LSN, a tab, and the record's bytes as hexadecimal digits.
    Hex,
}

/// Prints a record. The writer should be buffered.
pub(crate) fn write(out: &mut impl Write, format: Format, record: &RecordRef<'_>) -> io::Result<()> {
    match format {
        Format::Raw => out.write_all(record.payload)?,
        Format::Lsn => {
            write!(out, "{}\t", record.lsn)?;
            out.write_all(record.payload)?;
        }
        Format::Json => serde_json::to_writer(&mut *out, &JsonRecord::from(record))?,
        Format::Hex => write!(out, "{}\t{}", record.lsn, Hex(record.payload))?,
    }
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    lsn: u64,
    ends_batch: bool,
    #[serde(flatten)]
    payload: Payload<'a>,
}

#[derive(Serialize)]
enum Payload<'a> {
    #[serde(rename = "payload")]
    Text(&'a str),
    #[serde(rename = "payload_hex")]
    Bytes(Hex<'a>),
}

impl<'a> From<&RecordRef<'a>> for JsonRecord<'a> {
    fn from(record: &RecordRef<'a>) -> Self {
        let payload = match std::str::from_utf8(record.payload) {
            Ok(text) => Payload::Text(text),
            Err(_) => Payload::Bytes(Hex(record.payload)),
        };
        JsonRecord { lsn: record.lsn.get(), ends_batch: record.ends_batch, payload }
    }
}

/// Bytes as lower-case hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        const CHUNK_BYTES: usize = 256;
        let mut digits = [0; 2 * CHUNK_BYTES];
        for chunk in self.0.chunks(CHUNK_BYTES) {
            for (pair, byte) in digits.chunks_exact_mut(2).zip(chunk) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            f.write_str(std::str::from_utf8(&digits[..2 * chunk.len()]).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

impl Serialize for Hex<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Hex;

    #[test]
    fn hexadecimal_digits_over_more_than_one_chunk() {
        let bytes = [[0x00, 0x9a, 0xff].as_slice(), &[0x5c; 300]].concat();
        assert_eq!(Hex(&bytes).to_string(), format!("009aff{}", "5c".repeat(300)));
    }
}
