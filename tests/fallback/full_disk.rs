//! A full disk says nothing about the ring, and must not change the pick.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serial_test::parallel;
use wo_wal::WO_IO;

use crate::again;
use crate::cases::{has_ring, make_log, names, ring_works};

/// Writes into a file until there is no byte left.
fn fill(path: &Path) {
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    for piece in [1 << 16, 1 << 12, 1] {
        let full = loop {
            if let Err(error) = file.write_all(&vec![0; piece]).and_then(|()| file.sync_all()) {
                break error;
            }
        };
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }
}

fn picks_the_ring_when_full(test: &str, mount: &str) {
    let Some(dir) = again::directory() else {
        again::run_mounted_with(test, mount, |command| command.env_remove(WO_IO));
        return;
    };
    if has_ring() {
        let dir = dir.join("mnt/log");
        make_log(&dir);
        fill(&dir.join("../filler"));
        let before = names(&dir);
        ring_works(&dir);
        // Made by somebody who had no space for its block.
        File::options().write(true).open(dir.join("LOCK")).unwrap().set_len(0).unwrap();
        fill(&dir.join("../filler"));
        ring_works(&dir);
        assert!(fs::metadata(dir.join("LOCK")).unwrap().len() < 4096, "the control: there was no space");
        assert_eq!(wo_wal::probe(&dir).unwrap().selection.strategy, "uring");
        assert_eq!(names(&dir), before);
    }
    again::say("done");
}

#[test]
#[parallel]
fn ext4_without_a_free_byte() {
    if again::directory().is_some() || again::has("mkfs.ext4") {
        let mount = again::loop_mount("ext4", 8);
        picks_the_ring_when_full("full_disk::ext4_without_a_free_byte", &mount);
    }
}

#[test]
#[parallel]
fn tmpfs_without_a_free_byte() {
    let mount = "mkdir \"$DIR/mnt\"; mount -t tmpfs -o size=1M none \"$DIR/mnt\"";
    picks_the_ring_when_full("full_disk::tmpfs_without_a_free_byte", mount);
}
