//! The input, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;

use crate::failure::Failure;

const BUFFER_BYTES: usize = 64 << 10;

/// The lines of an input: numbered from 1, and never more than a record's worth of bytes in memory.
pub(super) struct Lines<R = BufReader<File>> {
    input: R,
    taken: u64,
    line_bytes_max: u32,
    has_ended: bool,
    input_bytes: Option<u64>,
}

impl Lines {
    pub(super) fn of_standard_input(line_bytes_max: u32) -> Result<Self, Failure> {
        let descriptor = io::stdin().as_fd().try_clone_to_owned().map_err(|source| unreadable(&source))?;
        let mut file = File::from(descriptor);
        let input_bytes = remaining_bytes(&mut file);
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Lines { input, taken: 0, line_bytes_max, has_ended: false, input_bytes })
    }

    /// How much there is to read, where the input is a file.
    pub(super) fn input_bytes(&self) -> Option<u64> {
        self.input_bytes
    }
}

impl<R: BufRead> Lines<R> {
    /// Puts the next line, without its newline, into the buffer and returns its number; `None` at the end. There is no
    /// next line after an error.
    pub(super) fn next_into(&mut self, line: &mut Vec<u8>) -> Result<Option<u64>, Failure> {
        line.clear();
        if self.has_ended {
            return Ok(None);
        }
        let taken = self.take_into(line);
        self.has_ended = !matches!(taken, Ok(Some(_)));
        taken
    }

    fn take_into(&mut self, line: &mut Vec<u8>) -> Result<Option<u64>, Failure> {
        let with_newline = u64::from(self.line_bytes_max) + 1;
        let read = self.input.by_ref().take(with_newline).read_until(b'\n', line);
        if read.map_err(|source| unreadable(&source))? == 0 {
            return Ok(None);
        }
        self.taken += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == with_newline {
            return Err(Failure::usage(format!(
                "input line {}: longer than the largest record, {} bytes; split it",
                self.taken, self.line_bytes_max
            )));
        }
        Ok(Some(self.taken))
    }
}

fn unreadable(source: &io::Error) -> Failure {
    Failure::io(format!("read standard input: {source}"))
}

/// What a regular file still holds behind its position.
fn remaining_bytes(file: &mut File) -> Option<u64> {
    let data = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let position = file.stream_position().ok()?;
    Some(data.len().saturating_sub(position))
}

#[cfg(test)]
mod tests {
    use super::Lines;

    fn lines(input: &[u8]) -> Lines<&[u8]> {
        Lines { input, taken: 0, line_bytes_max: 4, has_ended: false, input_bytes: None }
    }

    fn all(input: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let (mut lines, mut line, mut all) = (lines(input), Vec::new(), Vec::new());
        while let Some(number) = lines.next_into(&mut line).unwrap() {
            all.push((number, line.clone()));
        }
        all
    }

    #[test]
    fn lines_are_numbered_and_lose_only_their_newline() {
        assert_eq!(
            all(b"ab\n\n\r\n\0"),
            [(1, b"ab".to_vec()), (2, Vec::new()), (3, b"\r".to_vec()), (4, b"\0".to_vec())]
        );
        assert_eq!(all(b""), []);
    }

    #[test]
    fn a_line_of_the_largest_size_is_taken_with_and_without_newline() {
        assert_eq!(all(b"abcd\nefgh"), [(1, b"abcd".to_vec()), (2, b"efgh".to_vec())]);
    }

    #[test]
    fn a_longer_line_is_refused_by_number_and_nothing_after_it_is_taken() {
        let (mut lines, mut line) = (lines(b"ab\nabcde\nab\n"), Vec::new());
        assert_eq!(lines.next_into(&mut line).unwrap(), Some(1));
        let refusal = format!("{:?}", lines.next_into(&mut line).unwrap_err());
        assert!(refusal.contains("input line 2") && refusal.contains("4 bytes"), "{refusal}");
        assert_eq!(lines.next_into(&mut line).unwrap(), None);
    }
}
