//! A strategy of one's own, put through the contract: `cargo run --example own_strategy --features conformance`.

use std::io;
use std::os::unix::fs::FileExt;

use wo_wal::{Extent, SyncStrategy, conformance};

/// Writes, and syncs data and metadata.
#[derive(Debug)]
struct FullSync;

impl SyncStrategy for FullSync {
    fn name(&self) -> &'static str {
        "full-sync"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = std::fs::File::from(extent.file().try_clone_to_owned()?);
        file.write_all_at(extent.bytes(), extent.offset())?;
        file.sync_all()
    }
}

fn main() {
    let report = conformance::run(|_directory| FullSync);
    print!("{report}");
    report.assert_passed();
}
