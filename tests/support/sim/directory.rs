//! A directory that forgets: names as processes see them, names on disk, and the changes in between.

use std::collections::{BTreeMap, BTreeSet};

pub(super) type InodeNumber = u64;

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Directory {
    seen: BTreeMap<String, InodeNumber>,
    stable: BTreeMap<String, InodeNumber>,
    /// Changes that no directory sync has made stable. A power cut lets each through, or not, whatever happens to the
    /// others.
    pending: Vec<Change>,
}

#[derive(Clone, Debug, Hash)]
enum Change {
    Link { name: String, inode: InodeNumber },
    Rename { from: String, to: String, inode: InodeNumber },
    Unlink { name: String },
}

impl Directory {
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.seen.keys()
    }

    pub(super) fn get(&self, name: &str) -> Option<InodeNumber> {
        self.seen.get(name).copied()
    }

    /// The files that have a name now, each once.
    pub(super) fn inodes(&self) -> BTreeSet<InodeNumber> {
        self.seen.values().copied().collect()
    }

    pub(super) fn link(&mut self, name: &str, inode: InodeNumber) {
        self.seen.insert(name.to_owned(), inode);
        self.pending.push(Change::Link { name: name.to_owned(), inode });
    }

    /// `None` when there is no such name.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let inode = self.seen.remove(from)?;
        self.seen.insert(to.to_owned(), inode);
        self.pending.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Some(())
    }

    /// `None` when there is no such name.
    pub(super) fn unlink(&mut self, name: &str) -> Option<()> {
        self.seen.remove(name)?;
        self.pending.push(Change::Unlink { name: name.to_owned() });
        Some(())
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.apply(change);
        }
    }

    /// How many changes a power cut decides about.
    pub(super) fn undecided(&self) -> usize {
        self.pending.len()
    }

    /// Lets each change that was not synced through where the choice among two is 1.
    pub(super) fn cut_power(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        for change in std::mem::take(&mut self.pending) {
            if choose(2) == 1 {
                self.apply(change);
            }
        }
        self.seen = self.stable.clone();
    }

    /// True when a name, now or after some power cut, leads to the file.
    pub(super) fn reaches(&self, inode: InodeNumber) -> bool {
        let pending = self.pending.iter().any(|change| match change {
            Change::Link { inode: other, .. } | Change::Rename { inode: other, .. } => *other == inode,
            Change::Unlink { .. } => false,
        });
        pending || self.seen.values().chain(self.stable.values()).any(|other| *other == inode)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Link { name, inode } => {
                self.stable.insert(name, inode);
            }
            Change::Rename { from, to, inode } => {
                if self.stable.get(&from) == Some(&inode) {
                    self.stable.remove(&from);
                }
                self.stable.insert(to, inode);
            }
            Change::Unlink { name } => {
                self.stable.remove(&name);
            }
        }
    }
}
