//! `kernel.io_uring_disabled`, which is the whole machine's: no other test of this program runs meanwhile.

use std::fs;

use serial_test::serial;

use crate::cases::{falls_back, has_ring, in_child, make_log, ring_works};
use crate::conditions::{as_nobody, directory_of_nobody, is_root};

const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

/// The switch in another position; put back when dropped.
struct Switched {
    original: String,
}

impl Switched {
    fn to(position: &str) -> Self {
        let original = fs::read_to_string(SWITCH).unwrap();
        fs::write(SWITCH, position).unwrap();
        Switched { original }
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        fs::write(SWITCH, &self.original).unwrap();
    }
}

/// Whether the switch is there and can be turned; announces the skip if not.
fn can_switch() -> bool {
    if !is_root("turn the kernel's switch") || !has_ring() {
        return false;
    }
    let there = fs::OpenOptions::new().write(true).open(SWITCH).is_ok();
    if !there {
        crate::skip::announce("kernel.io_uring_disabled cannot be written to");
    }
    there
}

#[test]
#[serial]
fn rings_for_the_privileged_only() {
    in_child("switch::rings_for_the_privileged_only", |dir| {
        if !can_switch() {
            return;
        }
        let theirs = directory_of_nobody();
        as_nobody(|| make_log(theirs.path()));
        make_log(dir);
        let switched = Switched::to("1");
        ring_works(dir);
        let selection = as_nobody(|| falls_back(theirs.path(), "io_uring_setup", libc::EPERM));
        drop(switched);
        assert!(selection.reason.contains("kernel.io_uring_disabled, which reads 1 here"), "{selection:?}");
        as_nobody(|| ring_works(theirs.path()));
    });
}

#[test]
#[serial]
fn rings_for_nobody() {
    in_child("switch::rings_for_nobody", |dir| {
        if !can_switch() {
            return;
        }
        make_log(dir);
        let switched = Switched::to("2");
        let selection = falls_back(dir, "io_uring_setup", libc::EPERM);
        drop(switched);
        assert!(selection.reason.contains("kernel.io_uring_disabled, which reads 2 here"), "{selection:?}");
        ring_works(dir);
    });
}
