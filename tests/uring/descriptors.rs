//! What a dropped strategy leaves behind.

use std::os::fd::AsFd;

use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};

use crate::again;
use crate::ring::ring;

#[test]
fn a_thousand_rings_leave_no_descriptor_behind() {
    let Some(_dir) = again::directory() else {
        // Alone in a process: other tests have rings open.
        let dir = crate::ring::temporary_directory();
        again::run("descriptors::a_thousand_rings_leave_no_descriptor_behind", dir.path(), &[]);
        return;
    };
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
    again::say("done");
}

fn open_rings() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("io_uring")).count()
}
