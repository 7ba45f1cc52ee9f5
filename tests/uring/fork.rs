//! A forked child, in which the rings do not exist.
#![allow(unsafe_code, reason = "there is no safe fork, and the tests need one")]

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, WaitOptions, waitpid};
use wo_wal::strategy::{Extent, Form, SyncStrategy, Uring};
use wo_wal::{Error, Io, Wal};

use crate::again;
use crate::ring::{create, errno_of, ring, temporary_directory};

/// Runs the body in a forked child; true if it said so.
fn forked(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the body makes system calls and allocates, which glibc allows a forked child, and takes no lock that
    // another thread of this process could hold; it leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // A panic must not leave this function: the child would go on as the test harness.
        let status = i32::from(!catch_unwind(AssertUnwindSafe(body)).unwrap_or(false));
        // SAFETY: ends the child without running what the parent has registered to run at its own exit.
        unsafe { libc::_exit(status) };
    }
    let child = Pid::from_raw(child).expect("a fork");
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status() == Some(0)
}

#[test]
fn p11_a_forked_child_is_refused_and_the_parent_goes_on() {
    let Some(_dir) = again::directory() else {
        // A process with one thread more than this test's: fork copies only the caller.
        let dir = temporary_directory();
        again::run("fork::p11_a_forked_child_is_refused_and_the_parent_goes_on", dir.path(), &[]);
        return;
    };
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    assert_eq!(errno_of(&uring, &file, 0, b"parent"), 0);
    assert!(forked(|| is_refused(uring.persist(Extent::new(file.as_fd(), 0, b"child.")))));
    assert!(forked(|| is_refused(uring.persist(Extent::new(file.as_fd(), 0, b"")))));
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"parent");
    for round in 0..20 {
        assert_eq!(errno_of(&uring, &file, 6 + round, b"!"), 0);
    }
    assert_eq!(uring.assisted_barriers(), 0);
    again::say("done");
}

fn is_refused(result: std::io::Result<()>) -> bool {
    result.is_err_and(|error| error.raw_os_error().is_none())
}

#[test]
fn p11_a_forked_child_that_drops_the_strategy_harms_nobody() {
    let Some(_dir) = again::directory() else {
        let dir = temporary_directory();
        again::run("fork::p11_a_forked_child_that_drops_the_strategy_harms_nobody", dir.path(), &[]);
        return;
    };
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    assert_eq!(errno_of(&uring, &file, 0, b"parent"), 0);
    let mut uring = Some(uring);
    let mappings = ring_mappings();
    assert!(!mappings.is_empty(), "the control: a ring's mappings are seen");
    let survived = forked(|| {
        assert!(ring_mappings().is_empty(), "the mappings are not inherited");
        // Something else where the rings were: a child that unmapped those would lose it.
        let inside: Vec<*const u8> = mappings.iter().map(|&address| occupy(address)).collect();
        drop(uring.take());
        // SAFETY: mapped above; if it is no longer, the child dies of it, which is the test's answer.
        inside.iter().all(|&address| unsafe { address.read_volatile() } == 0) && own_ring_works(&file)
    });
    assert!(survived);
    assert_eq!(errno_of(uring.as_ref().unwrap(), &file, 0, b"parent"), 0);
    again::say("done");
}

/// A forked child can have a ring of its own.
fn own_ring_works(file: &File) -> bool {
    Uring::new().is_ok_and(|uring| uring.persist(Extent::new(file.as_fd(), 0, b"child.")).is_ok())
}

/// Where this process has rings mapped.
fn ring_mappings() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rings = maps.lines().filter(|line| line.contains("io_uring"));
    rings.map(|line| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()).collect()
}

/// Maps a page of zeros at a free address.
fn occupy(address: usize) -> *const u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let wanted = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `NOREPLACE` takes nothing away from anybody.
    let page = unsafe { libc::mmap(wanted, 4096, libc::PROT_READ, flags, -1, 0) };
    assert_eq!(page, wanted, "the address was not free");
    page.cast_const().cast()
}

/// A log made by the first process of a container, whose child became the first process of a container in it. Both have
/// the id 1. The child's record got the LSN that the parent's next record got too, and its close unlocked the directory.
#[test]
fn p11_a_forked_child_with_the_id_of_its_parent_is_refused() {
    let Some(dir) = again::directory() else {
        let dir = temporary_directory();
        let test = "fork::p11_a_forked_child_with_the_id_of_its_parent_is_refused";
        again::run(test, dir.path(), &["unshare", "--pid", "--fork"]);
        return;
    };
    let (wal, _) = Wal::options().io(Io::Fsync).open(&dir).unwrap();
    wal.append(b"parent").unwrap();
    let parent = std::process::id();
    // SAFETY: changes nothing but where children of this thread are numbered.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        again::say("has no right to a namespace");
        return;
    }
    let child = || {
        let refused = std::process::id() == parent
            && matches!(wal.append(b"child"), Err(Error::Forked))
            && matches!(wal.close(), Err(Error::Forked));
        drop(wal.clone());
        refused
    };
    assert!(forked(child));
    assert!(matches!(Wal::open(&dir), Err(Error::Locked { .. })));
    assert_eq!(wal.append(b"parent again").unwrap().get(), 2);
    wal.close().unwrap();
    again::say("done");
}

/// Emulators of a kernel (qemu in user mode, before 7.2) answer every advice with Ok and do nothing. The page that should
/// have been wiped told the child that it was its parent: its record was acknowledged, and then written over.
#[test]
fn p11_a_forked_child_is_refused_where_the_kernel_only_says_that_it_wipes_pages() {
    let Some(dir) = again::directory() else {
        if !again::can_trace() {
            return;
        }
        let dir = temporary_directory();
        let test = "fork::p11_a_forked_child_is_refused_where_the_kernel_only_says_that_it_wipes_pages";
        let trace = dir.path().join("trace");
        let wrapper = ["strace", "-f", "-qq", "-o", trace.to_str().unwrap()];
        let injection = ["-e", "trace=madvise", "-e", "inject=madvise:retval=0"];
        let said = again::run(test, dir.path(), &[&wrapper[..], &injection[..]].concat());
        let trace = std::fs::read_to_string(&trace).unwrap();
        assert!(said.is_none() || trace.contains("(INJECTED)"), "the control\n{trace}");
        return;
    };
    let (wal, _) = Wal::options().io(Io::Fsync).open(dir.join("log")).unwrap();
    wal.append(b"parent").unwrap();
    assert!(forked(|| matches!(wal.append(b"child"), Err(Error::Forked))));
    assert_eq!(wal.append(b"parent again").unwrap().get(), 2);
    wal.close().unwrap();
    again::say("done");
}
