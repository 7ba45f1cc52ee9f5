//! Names as processes see them, names on disk, and the changes in between.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::rng::Rng;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    seen: BTreeMap<String, u64>,
    stable: BTreeMap<String, u64>,
    /// Changes that no directory sync has made stable. A cut lets each through, or not, whatever happens to the others.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Link { name: String, inode: u64 },
    Rename { from: String, to: String, inode: u64 },
    Unlink { name: String },
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.seen.get(name).copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.seen.iter()
    }

    pub(super) fn inodes(&self) -> BTreeSet<u64> {
        self.seen.values().copied().collect()
    }

    pub(super) fn link(&mut self, name: &str, inode: u64) {
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

    pub(super) fn cut(&mut self, rng: &mut Rng, kept_percent: u64) {
        for change in std::mem::take(&mut self.pending) {
            if rng.percent(kept_percent) {
                self.apply(change);
            }
        }
        self.seen = self.stable.clone();
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
