//! `wo-wal stat`: what a log looks like, without reading all of it.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wo_wal::{FORMAT_VERSION, Lsn, Reader, SegmentInfo};

use crate::failure::Failure;
use crate::{log_directory, output, probe};

const EXAMPLES: &str = "\
Creates and changes nothing, and takes no lock. Reads the headers and the last segment only: 'wo-wal verify' reads all.
The strategy is the one that an append would use: 'wo-wal probe' says more.

Example:
  wo-wal stat demo.wal";

/// Say how large a log is, which records it holds, and whether it was closed cleanly.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory of the log.
    dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct LogStat {
    format_version: u32,
    records: u64,
    oldest_lsn: u64,
    durable_lsn: u64,
    closed_cleanly: bool,
    torn_tail_bytes: u64,
    /// What is in use of the segments, headers included.
    used_bytes: u64,
    /// What the segments can hold together, headers included.
    segment_bytes: u64,
    /// What all files of the directory take on the disk.
    disk_bytes: u64,
    /// What an append would use, and why; none where that cannot be tried.
    strategy: Option<String>,
    strategy_reason: Option<String>,
    segments: Vec<SegmentStat>,
}

#[derive(Debug, Serialize)]
struct SegmentStat {
    number: u64,
    file: String,
    used_bytes: u64,
    capacity_bytes: u64,
    /// None where the segment is only prepared.
    first_lsn: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_directory::require_log(&arguments.dir)?;
    let stat = LogStat::read(&arguments.dir)?;
    if arguments.json { output::print_json(&stat) } else { output::print(&stat.text(&arguments.dir)) }
}

impl From<&SegmentInfo> for SegmentStat {
    fn from(segment: &SegmentInfo) -> Self {
        let file = segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        SegmentStat {
            number: segment.number,
            file,
            used_bytes: segment.used_bytes,
            capacity_bytes: segment.capacity_bytes,
            first_lsn: segment.first_lsn.map(Lsn::get),
        }
    }
}

impl LogStat {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let (reader, recovery) = Reader::open(dir)?;
        let segments: Vec<SegmentStat> = reader.segments().iter().map(SegmentStat::from).collect();
        let (strategy, strategy_reason) = probe::what_append_would_use(dir).unzip();
        let (oldest, durable) = (reader.oldest_lsn().get(), reader.durable_lsn().get());
        Ok(LogStat {
            format_version: FORMAT_VERSION,
            records: durable.saturating_add(1).saturating_sub(oldest),
            oldest_lsn: oldest,
            durable_lsn: durable,
            closed_cleanly: recovery.closed_cleanly,
            torn_tail_bytes: recovery.cut_bytes,
            used_bytes: segments.iter().map(|segment| segment.used_bytes).sum(),
            segment_bytes: segments.iter().map(|segment| segment.capacity_bytes).sum(),
            disk_bytes: disk_bytes(dir)?,
            strategy,
            strategy_reason,
            segments,
        })
    }

    fn text(&self, dir: &Path) -> String {
        let end = log_directory::describe_end(self.closed_cleanly, self.torn_tail_bytes);
        let mut text = format!(
            "log:      {}\nformat:   version {}\nrecords:  {}, oldest LSN {}, durable LSN {}\nsize:     {} of {} bytes in \
             {} segments are in use, {} bytes on disk\nend:      {end}\n",
            dir.display(),
            self.format_version,
            self.records,
            self.oldest_lsn,
            self.durable_lsn,
            self.used_bytes,
            self.segment_bytes,
            self.segments.len(),
            self.disk_bytes,
        );
        if let Some(reason) = &self.strategy_reason {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "strategy: {reason}");
        }
        for segment in &self.segments {
            let first = segment.first_lsn.map_or("prepared".to_owned(), |lsn| format!("from LSN {lsn}"));
            let SegmentStat { file, used_bytes, capacity_bytes, .. } = segment;
            let _ = writeln!(text, "  {file}  {used_bytes} of {capacity_bytes} bytes, {first}");
        }
        text
    }
}

/// The space that the files of a directory take, which is less than their length where they have holes.
fn disk_bytes(dir: &Path) -> Result<u64, Failure> {
    const UNIT_BYTES: u64 = 512;
    let at = |source: &std::io::Error| Failure::at("list", dir, source);
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(|source| at(&source))? {
        let data = entry.and_then(|entry| entry.metadata());
        match data {
            Ok(data) if data.is_file() => bytes += data.blocks().saturating_mul(UNIT_BYTES),
            Ok(_) => {}
            // Trimmed since it was listed.
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(at(&source)),
        }
    }
    Ok(bytes)
}
