//! Every write and flush that a device was sent, in order, and what the device holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::rng::Rng;

const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;

/// A device's contents; blocks of zeros are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) bytes: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Image {
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut image = Image { bytes: file.metadata()?.len(), blocks: BTreeMap::new() };
        let mut block = vec![0; BLOCK_BYTES];
        for number in 0..image.bytes / BLOCK_BYTES as u64 {
            file.read_exact(&mut block)?;
            if block.iter().any(|byte| *byte != 0) {
                image.blocks.insert(number, block.clone().into_boxed_slice());
            }
        }
        Ok(image)
    }

    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes)?;
        self.blocks
            .iter()
            .try_for_each(|(number, block)| file.write_all_at(block, number * BLOCK_BYTES as u64))
    }

    pub(super) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (number, start) = place(offset);
            let length = bytes.len().min(BLOCK_BYTES - start);
            let block = self.blocks.entry(number).or_insert_with(|| vec![0; BLOCK_BYTES].into_boxed_slice());
            block[start..start + length].copy_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
            offset += length as u64;
        }
    }

    pub(super) fn read(&self, mut offset: u64, bytes: usize) -> Vec<u8> {
        let mut read = Vec::with_capacity(bytes);
        let end = self.bytes.min(offset.saturating_add(bytes as u64));
        while offset < end {
            let (number, start) = place(offset);
            let left = usize::try_from(end - offset).unwrap_or(BLOCK_BYTES);
            let length = left.min(BLOCK_BYTES - start);
            match self.blocks.get(&number) {
                Some(block) => read.extend_from_slice(&block[start..start + length]),
                None => read.resize(read.len() + length, 0),
            }
            offset += length as u64;
        }
        read
    }
}

/// The block of an offset, and where in it.
fn place(offset: u64) -> (u64, usize) {
    let start = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0);
    (offset / BLOCK_BYTES as u64, start)
}

#[derive(Clone, Debug)]
pub(super) enum Entry {
    Write { offset: u64, bytes: Vec<u8> },
    Flush,
}

/// What became of the writes between the last flush and the cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unflushed {
    All,
    None,
    /// Each sector by coin.
    Torn,
}

/// A recording, and how far it was played.
#[derive(Debug)]
pub(super) struct Player<'a> {
    entries: &'a [Entry],
    /// All that was flushed before `flushed`.
    durable: Image,
    flushed: usize,
}

impl<'a> Player<'a> {
    pub(super) fn new(before: Image, entries: &'a [Entry]) -> Self {
        Player { entries, durable: before, flushed: 0 }
    }

    /// What a cut before entry `position` may have left. Positions never go back.
    pub(super) fn cut(&mut self, position: usize, unflushed: Unflushed, rng: &mut Rng) -> Image {
        let past = &self.entries[..position];
        let last_flush = past.iter().rposition(|entry| matches!(entry, Entry::Flush)).unwrap_or(0);
        for entry in &self.entries[self.flushed..last_flush.max(self.flushed)] {
            if let Entry::Write { offset, bytes } = entry {
                self.durable.write(*offset, bytes);
            }
        }
        self.flushed = last_flush.max(self.flushed);
        let mut image = self.durable.clone();
        for entry in &past[self.flushed..] {
            let Entry::Write { offset, bytes } = entry else { continue };
            for (number, sector) in (0..).zip(bytes.chunks(SECTOR_BYTES)) {
                let is_kept = match unflushed {
                    Unflushed::All => true,
                    Unflushed::None => false,
                    Unflushed::Torn => rng.percent(50),
                };
                if is_kept {
                    image.write(offset + number * SECTOR_BYTES as u64, sector);
                }
            }
        }
        image
    }
}
