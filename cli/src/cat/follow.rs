//! `wo-wal cat --follow`: a reader per change of the directory.
//!
//! A reader sees the log as it was when it was opened. The writer may be any process, so the only signal there is are the
//! files themselves: their names, lengths and times of change. A new reader costs a read of the unsealed segment.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wo_wal::Reader;

use super::Printer;
use crate::failure::Failure;
use crate::log_directory;

/// Between two looks at the files.
const POLL_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// File systems stamp a change with a clock that stands still for up to this long, so a change that follows closely may
/// leave no trace in the files' times.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Prints what is there and then what becomes durable, until the last record asked for, an error, or a closed pipe.
pub(super) fn run(dir: &Path, printer: &mut Printer) -> Result<(), Failure> {
    loop {
        // Before the reader is opened: a change after this is seen as one, whether or not the reader saw it.
        let seen = Fingerprint::take(dir)?;
        let (reader, _) = Reader::open(dir)?;
        if let Some(last) = printer.last
            && reader.durable_lsn() < last
        {
            return Err(Failure::io(format!(
                "{}: the log ends at LSN {}, before LSN {last} that was printed: it is another log now; start again",
                dir.display(),
                reader.durable_lsn()
            )));
        }
        printer.print(&reader)?;
        if printer.is_done() {
            return Ok(());
        }
        seen.wait_for_change(dir, printer)?;
    }
}

/// What the directory looked like at one moment.
#[derive(PartialEq, Eq)]
struct Files(Vec<(OsString, u64, i64, i64)>);

struct Fingerprint {
    files: Files,
    /// False when the last change is so recent that another one could leave the same times.
    is_settled: bool,
}

impl Fingerprint {
    fn take(dir: &Path) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let files = Files::list(dir).map_err(|source| Failure::at("list", dir, &source))?;
        let settled_before = now.saturating_sub(CLOCK_STEP);
        let is_settled = files.newest() < settled_before;
        Ok(Fingerprint { files, is_settled })
    }

    fn wait_for_change(&self, dir: &Path, printer: &Printer) -> Result<(), Failure> {
        loop {
            pause_unless_closed(&printer.out.get_ref())?;
            if !self.is_settled || Fingerprint::take(dir)?.files != self.files {
                return Ok(());
            }
        }
    }
}

impl Files {
    fn list(dir: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(log_directory::is_segment_name) {
                continue;
            }
            match entry.metadata() {
                Ok(data) => files.push((name, data.len(), data.mtime(), data.mtime_nsec())),
                // Trimmed since it was listed.
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(source),
            }
        }
        files.sort_unstable();
        Ok(Files(files))
    }

    /// When the last change was stamped, since the epoch.
    fn newest(&self) -> Duration {
        let stamps = self.0.iter().map(|&(_, _, seconds, nanos)| {
            Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0))
        });
        stamps.max().unwrap_or_default()
    }
}

/// Waits one pause, or less when nobody reads standard output any more.
fn pause_unless_closed(out: &impl AsFd) -> Result<(), Failure> {
    let mut watched = [PollFd::new(out, PollFlags::empty())];
    match poll(&mut watched, Some(&POLL_PAUSE)) {
        Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => Err(Failure::ClosedPipe),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(source) => Err(Failure::output(&source.into())),
    }
}
