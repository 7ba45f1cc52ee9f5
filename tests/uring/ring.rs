//! Rings and files for the tests of this program.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};

/// Every form that is for use.
pub(crate) const FORMS: [Form; 2] = [Form::Linked, Form::Dsync];

/// A ring, or a visible skip.
pub(crate) fn ring(form: Form) -> Option<Uring> {
    match Uring::with_form(form) {
        Ok(uring) => Some(uring),
        Err(failure) => {
            crate::skip::announce(&failure.to_string());
            None
        }
    }
}

/// A directory on the file system of the build, which unlike `/tmp` is hardly ever a tmpfs.
pub(crate) fn temporary_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A new file named `file`.
pub(crate) fn create(dir: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(dir.join("file")).unwrap()
}

pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

/// Persists, and returns the errno: 0 is success.
pub(crate) fn errno_of(strategy: &dyn SyncStrategy, file: impl AsFd, offset: u64, bytes: &[u8]) -> i32 {
    match strategy.persist(Extent::new(file.as_fd(), offset, bytes)) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or_else(|| panic!("no errno: {error}")),
    }
}
