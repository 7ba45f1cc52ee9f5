//! Recovery on real files.

mod damage;
mod rows;
mod rows_cut;
mod tail;

use std::path::Path;
use std::sync::Arc;

use super::image::Image;
use super::{Recovered, recover};
use crate::Lsn;
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::reader::{Replay, segments_from};
use crate::segment::{Segment, list_segments};

/// A persist that recovery asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Persisted {
    number: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// A log in a directory, opened as an open for writing does.
struct Opened {
    disk: Arc<dyn Disk>,
    recovered: Recovered,
    persisted: Vec<Persisted>,
    /// Where the log is, if it is this one's own.
    _dir: Option<tempfile::TempDir>,
}

fn open_directory(path: &Path) -> Result<Opened> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(path).unwrap());
    let segments = list_segments(&*disk)?
        .into_iter()
        .map(|number| Segment::open(&*disk, number).map(Arc::new))
        .collect::<Result<Vec<_>>>()?;
    let mut persisted = Vec::new();
    let recovered = recover(&*disk, &segments, &mut |segment, offset, bytes| {
        let file = segment.open_for_barriers(&*disk, 1).unwrap();
        disk.write_at(&file[0], bytes, offset).unwrap();
        persisted.push(Persisted { number: segment.number, offset, bytes: bytes.to_vec() });
        Ok(())
    })?;
    Ok(Opened { disk, recovered, persisted, _dir: None })
}

impl Opened {
    fn replay_from(&self, first: Lsn) -> Replay {
        let segments = segments_from(&self.recovered.segments, first);
        Replay::over(Arc::clone(&self.disk), segments, first, self.recovered.report.last)
    }

    fn records(&self) -> Result<Vec<Vec<u8>>> {
        self.replay_from(self.recovered.report.oldest)
            .map(|record| record.map(|record| record.payload))
            .collect()
    }
}

/// Writes the image to a directory and opens it.
fn open(image: &Image) -> Result<Opened> {
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path());
    let image_path = dir.path().to_owned();
    Ok(Opened { _dir: Some(dir), ..open_directory(&image_path)? })
}

/// What an open of the image, and the replay after it, return.
fn records_of(image: &Image) -> Result<Vec<Vec<u8>>> {
    open(image)?.records()
}

/// The file number, offset and LSN of a refusal because of damage.
fn refused_at(result: Result<Opened>) -> (String, u64, u64) {
    match result.map(|opened| opened.recovered).unwrap_err() {
        Error::Corrupt { segment, offset, lsn, .. } => {
            (segment.file_name().unwrap().to_str().unwrap().to_owned(), offset, lsn.get())
        }
        other => panic!("not a refusal because of damage: {other}"),
    }
}

/// Three groups, each of which was acked before the next was written; the last one is unproven.
fn abc() -> Image {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.acked_group(&[b"b1", b"b2"]);
    image.group(&[b"c"]);
    image
}

/// Two sealed segments and an active one, with records 1 to 6.
fn three_segments() -> Image {
    let mut image = Image::new();
    for [first, second] in [[b"1", b"2"], [b"3", b"4"], [b"5", b"6"]] {
        if image.next_lsn > 1 {
            image.seal();
            image.prepare();
        }
        image.acked_group(&[first]);
        image.acked_group(&[second]);
    }
    image
}
