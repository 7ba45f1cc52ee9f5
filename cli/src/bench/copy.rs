//! A copy of a log that costs what the log costs.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much is in memory at a time.
const STEP_BYTES: usize = 1 << 20;

/// Copies the files of a directory, and makes them and their names durable.
pub(super) fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_file(&entry.path(), &to.join(entry.file_name()))?;
    }
    File::open(to)?.sync_all()
}

/// What is only reserved there is only reserved here: written zeros would be read as data, and be cheaper to overwrite.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let file_bytes = from.metadata()?.len();
    reserve(&to, file_bytes)?;
    let mut buffer = vec![0; STEP_BYTES];
    let mut offset = 0;
    while let Some(data) = next_data(&from, offset, file_bytes)? {
        offset = data.end;
        copy_range(&from, &to, data, &mut buffer)?;
    }
    to.sync_all()
}

/// Not by the system's own copying, which may share blocks between the files: each would have to be parted again.
fn copy_range(from: &File, to: &File, range: Range<u64>, buffer: &mut [u8]) -> io::Result<()> {
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
        let step = &mut buffer[..left.min(STEP_BYTES)];
        from.read_exact_at(step, offset)?;
        to.write_all_at(step, offset)?;
        offset += step.len() as u64;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if bytes > 0 && fallocate(file, FallocateFlags::empty(), 0, bytes).is_ok() {
        return Ok(());
    }
    // A file system that cannot reserve has not done so for the log either.
    file.set_len(bytes)
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// The next stretch from there on that was written; everything that is left where the system does not tell.
#[cfg(target_os = "linux")]
fn next_data(file: &File, offset: u64, file_bytes: u64) -> io::Result<Option<Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    if offset >= file_bytes {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(offset)) {
        Ok(start) => Ok(Some(start..seek(file, SeekFrom::Hole(start))?.min(file_bytes))),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset..file_bytes)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, offset: u64, file_bytes: u64) -> io::Result<Option<Range<u64>>> {
    Ok((offset < file_bytes).then_some(offset..file_bytes))
}

#[cfg(test)]
mod tests {
    use super::{File, FileExt, Range, copy_durably, fs, next_data, reserve};

    const FILE_BYTES: u64 = 4 << 20;

    fn data_of(file: &File) -> Vec<Range<u64>> {
        let next = |last: &Range<u64>| next_data(file, last.end, FILE_BYTES).unwrap();
        std::iter::successors(next(&(0..0)), next).collect()
    }

    /// Zeros were written in their place, which an open then read as data.
    #[test]
    fn what_is_only_reserved_in_a_log_is_only_reserved_in_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        let log = File::create_new(from.join("segment")).unwrap();
        reserve(&log, FILE_BYTES).unwrap();
        for offset in [0, 2 << 20] {
            log.write_all_at(&[7; 10_000], offset).unwrap();
        }
        log.sync_all().unwrap();
        // Before anything reads there: some file systems call reserved space data once it is in the cache.
        let written = data_of(&log);
        copy_durably(&from, &to).unwrap();
        let copy = File::open(to.join("segment")).unwrap();
        assert_eq!(data_of(&copy), written);
        assert!(fs::read(to.join("segment")).unwrap() == fs::read(from.join("segment")).unwrap());
    }
}
