//! What a dropped strategy leaves behind. Alone in its program: it looks at the descriptors of the whole process.
#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

#[path = "support/ring.rs"]
mod ring;

use std::os::fd::AsFd;

use ring::ring;
use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};

#[test]
fn a_thousand_rings_leave_no_descriptor_behind() {
    if ring(Form::Linked).is_none() {
        return;
    }
    let file = tempfile::tempfile().unwrap();
    for _ in 0..1000 {
        let uring = Uring::new().unwrap();
        assert!(open_rings() > 0, "the control: a ring is seen");
        uring.persist(Extent::new(file.as_fd(), 0, b"x")).unwrap();
    }
    assert_eq!(open_rings(), 0);
}

fn open_rings() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("io_uring")).count()
}
