//! One simulated file: what reads see, what a power cut leaves, and every version in between.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::MemfdFlags;

use crate::support::rng::Rng;

/// What a device writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Inode {
    /// The page cache as a real file, for reads and for the system calls of a real strategy.
    memory: File,
    /// The page cache once more. Only the methods here change it, so it tells what a sector looked like after each
    /// write, also while a strategy is at work on `memory`.
    cache: Vec<u8>,
    /// What is there after a power cut, with one version of each dirty sector put over it.
    disk: Vec<u8>,
    /// By sector: its contents after each write that no sync has made stable.
    dirty: BTreeMap<usize, Vec<Version>>,
    /// False while the length comes from a reservation that was never synced.
    length_is_stable: bool,
    /// How many write-backs failed; each description hears of it once.
    pub(super) write_back_errors: u64,
}

#[derive(Clone, Debug)]
struct Version {
    write: u64,
    bytes: Box<[u8]>,
}

impl Inode {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Inode {
            memory: memory_file(&[])?,
            cache: Vec::new(),
            disk: Vec::new(),
            dirty: BTreeMap::new(),
            length_is_stable: false,
            write_back_errors: 0,
        })
    }

    pub(super) fn memory(&self) -> &File {
        &self.memory
    }

    /// The number by which `fstat` tells whose description a file is.
    pub(super) fn memory_number(&self) -> io::Result<u64> {
        Ok(self.memory.metadata()?.ino())
    }

    pub(super) fn cache(&self) -> &[u8] {
        &self.cache
    }

    /// By sector, as a file system in which each may have a block of its own would say it.
    pub(super) fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        let first = usize::try_from(offset).ok()? / SECTOR_BYTES;
        let is_hole = |sector: &&[u8]| **sector == [0; SECTOR_BYTES][..sector.len()];
        let mut sectors = self.cache.chunks(SECTOR_BYTES).skip(first);
        let start = first + sectors.by_ref().position(|sector| !is_hole(&sector))?;
        let more = sectors.take_while(|sector| !is_hole(sector)).count();
        let bytes = |sector: usize| (sector * SECTOR_BYTES) as u64;
        Some(bytes(start).max(offset)..bytes(start + 1 + more))
    }

    pub(super) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.cache.len() {
            self.memory.set_len(bytes as u64)?;
            grow(&mut self.cache, bytes);
            grow(&mut self.disk, bytes);
            self.length_is_stable = false;
        }
        Ok(())
    }

    /// Writes into the page cache: a new version of each sector touched.
    pub(super) fn write(&mut self, write: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, offset as u64)?;
        let end = offset + bytes.len();
        if end > self.cache.len() {
            grow(&mut self.cache, end);
        }
        self.cache[offset..end].copy_from_slice(bytes);
        for sector in sectors(offset, bytes.len()) {
            let bytes = self.cache[sector_range(sector, self.cache.len())].into();
            self.dirty.entry(sector).or_default().push(Version { write, bytes });
        }
        Ok(())
    }

    /// A sync that reached these sectors, as they were after this write.
    pub(super) fn make_stable(&mut self, sectors: Range<usize>, up_to_write: u64) {
        for sector in sectors {
            let Some(versions) = self.dirty.get_mut(&sector) else { continue };
            let stable = versions.partition_point(|version| version.write <= up_to_write);
            if let Some(last) = versions.drain(..stable).next_back() {
                put_sector(&mut self.disk, sector, &last.bytes);
            }
            if versions.is_empty() {
                self.dirty.remove(&sector);
            }
        }
        self.length_is_stable = true;
    }

    /// A sync of the whole file.
    pub(super) fn make_all_stable(&mut self) {
        self.make_stable(sectors(0, self.cache.len()), u64::MAX);
    }

    /// A sync that failed: every page is clean afterwards and some never arrived. The cache keeps the new bytes.
    pub(super) fn fail_write_back(&mut self, rng: &mut Rng) {
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            if let Some(last) = versions.last().filter(|_| rng.percent(40)) {
                put_sector(&mut self.disk, sector, &last.bytes);
            }
        }
        self.write_back_errors += 1;
    }

    /// Among how many contents a power cut chooses for each sector, and whether it may take the length away.
    pub(super) fn undecided(&self) -> impl Iterator<Item = usize> {
        let contents =
            self.dirty.iter().map(|(sector, versions)| self.contents_after_cut(*sector, versions).len());
        contents.filter(|contents| *contents > 1).chain((!self.length_is_stable).then_some(2))
    }

    /// What a power cut may leave of a sector, each once: the old bytes, then those of every write since.
    fn contents_after_cut<'a>(&'a self, sector: usize, versions: &'a [Version]) -> Vec<&'a [u8]> {
        let old = &self.disk[sector_range(sector, self.disk.len())];
        let mut contents = vec![old];
        for version in versions {
            if !contents.contains(&&*version.bytes) {
                contents.push(&version.bytes);
            }
        }
        contents
    }

    /// Loses the page cache. Of each dirty sector the old bytes or any version since may have arrived.
    pub(super) fn cut_power(&mut self, choose: &mut dyn FnMut(usize) -> usize) -> io::Result<()> {
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            let contents = self.contents_after_cut(sector, &versions);
            if contents.len() == 1 {
                continue;
            }
            let chosen = contents[choose(contents.len())].to_vec();
            // The old bytes of a sector behind the file's end are none.
            if !chosen.is_empty() {
                put_sector(&mut self.disk, sector, &chosen);
            }
        }
        if !self.length_is_stable && choose(2) == 0 {
            self.disk.clear();
        }
        self.length_is_stable = true;
        self.write_back_errors = 0;
        self.cache.clone_from(&self.disk);
        self.detach()
    }

    /// Adds everything that a later power cut, or a process, could tell apart.
    pub(super) fn hash_into(&self, hasher: &mut impl Hasher) {
        for bytes in [&self.cache, &self.disk] {
            // Two checksums that have nothing to do with each other; a collision would only leave a state out.
            (bytes.len(), crc32fast::hash(bytes)).hash(hasher);
            let mut other = crc32fast::Hasher::new_with_initial(0x9e37_79b9);
            bytes.chunks(4099).for_each(|chunk| {
                other.update(chunk);
                other.update(&[0xa5]);
            });
            other.finalize().hash(hasher);
        }
        for (sector, versions) in &self.dirty {
            let contents = self.contents_after_cut(*sector, versions);
            if contents.len() > 1 {
                (sector, contents).hash(hasher);
            }
        }
        (self.length_is_stable, self.write_back_errors).hash(hasher);
    }

    /// Moves to a new real file, so that nothing a dead process still does reaches this one.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.memory = memory_file(&self.cache)?;
        Ok(())
    }

    pub(super) fn copy(&self) -> io::Result<Self> {
        Ok(Inode {
            memory: memory_file(&self.cache)?,
            cache: self.cache.clone(),
            disk: self.disk.clone(),
            dirty: self.dirty.clone(),
            length_is_stable: self.length_is_stable,
            write_back_errors: self.write_back_errors,
        })
    }

    /// Replaces the file's bytes, everywhere: damage, or what a backup brought back.
    pub(super) fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.dirty.clear();
        self.cache = bytes.to_vec();
        self.disk = bytes.to_vec();
        self.length_is_stable = true;
        self.memory.set_len(bytes.len() as u64)?;
        self.memory.write_all_at(bytes, 0)
    }
}

/// The sectors that this range of bytes touches.
pub(super) fn sectors(offset: usize, bytes: usize) -> Range<usize> {
    offset / SECTOR_BYTES..(offset + bytes).div_ceil(SECTOR_BYTES)
}

fn sector_range(sector: usize, file_bytes: usize) -> Range<usize> {
    let start = (sector * SECTOR_BYTES).min(file_bytes);
    start..(start + SECTOR_BYTES).min(file_bytes)
}

/// Adds zeros. `Vec::resize` writes them one by one in a build without optimisation.
fn grow(image: &mut Vec<u8>, bytes: usize) {
    let mut grown = vec![0; bytes];
    grown[..image.len()].copy_from_slice(image);
    *image = grown;
}

fn put_sector(image: &mut Vec<u8>, sector: usize, bytes: &[u8]) {
    let start = sector * SECTOR_BYTES;
    if image.len() < start + bytes.len() {
        grow(image, start + bytes.len());
    }
    image[start..start + bytes.len()].copy_from_slice(bytes);
}

fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("simulated", MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    Ok(file)
}
