//! Every write and flush that a device was sent, in order, and what the device holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::rng::Rng;

const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;

/// Where the superblocks of ext4 and btrfs are, each with a checksum over all of it. A torn one keeps its file system from
/// being mounted, whatever the log has done, so these are kept or lost whole.
const SUPERBLOCKS: [std::ops::Range<u64>; 2] = [1024..2048, 65536..69632];

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

/// Where the bytes begin that share a sector's fate.
fn unit(offset: u64) -> u64 {
    let superblock = SUPERBLOCKS.iter().find(|superblock| superblock.contains(&offset));
    superblock.map_or(offset, |superblock| superblock.start)
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
            let mut last_unit = None;
            for (number, sector) in (0..).zip(bytes.chunks(SECTOR_BYTES)) {
                let offset = offset + number * SECTOR_BYTES as u64;
                let unit = unit(offset);
                let is_kept = match (unflushed, last_unit) {
                    (Unflushed::All, _) => true,
                    (Unflushed::None, _) => false,
                    (Unflushed::Torn, Some((last, is_kept))) if last == unit => is_kept,
                    (Unflushed::Torn, _) => rng.percent(50),
                };
                last_unit = Some((unit, is_kept));
                if is_kept {
                    image.write(offset, sector);
                }
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many sectors of a written stretch a torn cut has kept.
    fn kept_sectors(offset: u64, sectors: usize, seed: u64) -> usize {
        let bytes = vec![7; sectors * SECTOR_BYTES];
        let before = Image { bytes: 1 << 20, ..Image::default() };
        let tape = [Entry::Write { offset, bytes: bytes.clone() }];
        let image = Player::new(before, &tape).cut(1, Unflushed::Torn, &mut Rng::new(seed));
        image.read(offset, bytes.len()).chunks(SECTOR_BYTES).filter(|sector| sector[0] == 7).count()
    }

    /// An ext4 was cut right after it had written its superblock at the mount: one sector of it was kept, the other not, and
    /// "Found ext4 filesystem with invalid superblock checksum" was taken for a loss of the log's.
    #[test]
    fn a_superblock_is_never_torn_and_everything_else_is() {
        let whole = |offset, sectors| {
            let kept = (0..100).map(|seed| kept_sectors(offset, sectors, seed));
            kept.filter(|kept| *kept == 0 || *kept == sectors).count()
        };
        assert_eq!(whole(1024, 2), 100);
        assert_eq!(whole(65536, 8), 100);
        assert!(whole(8192, 2) < 80, "the control: sectors elsewhere have coins of their own");
    }
}
