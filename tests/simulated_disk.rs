//! The simulated disk does what its documentation says, and a log that breaks the rules is caught by it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;
use support::sim::{Fault, Sim};
use support::strategies::strategy_under_test;
use wo_wal::disk::{Access, Disk};
use wo_wal::{Extent, SyncStrategy};

const SEEDS: std::ops::Range<u64> = 0..40;

fn persist(sim: &Sim, file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    sim.strategy(strategy_under_test()).persist(Extent::new(file.as_fd(), offset, bytes))
}

/// A file whose name and length are stable.
fn stable_file(disk: &dyn Disk, name: &str, bytes: u64) -> File {
    let file = disk.create(name).unwrap();
    disk.reserve(&file, bytes).unwrap();
    disk.sync(&file).unwrap();
    disk.sync_directory().unwrap();
    file
}

/// In how many power cuts the file ends up with these bytes at its start.
fn survivals(prepare: impl Fn(&Sim), name: &str, expected: &[u8]) -> usize {
    let survives = |seed| {
        let sim = Sim::new(seed);
        prepare(&sim);
        sim.power_cut(seed);
        sim.names().iter().any(|seen| seen == name) && sim.read(name).starts_with(expected)
    };
    SEEDS.filter(|&seed| survives(seed)).count()
}

#[test]
fn what_a_barrier_answered_survives() {
    let prepare = |sim: &Sim| {
        let file = stable_file(&*sim.disk(), "log", 4096);
        persist(sim, &file, 0, &[7; 1000]).unwrap();
    };
    assert_eq!(survivals(prepare, "log", &[7; 1000]), SEEDS.count());
}

#[test]
fn a_log_that_never_syncs_loses_data() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = stable_file(&*disk, "log", 4096);
        disk.write_at(&file, &[7; 1000], 0).unwrap();
    };
    let survived = survivals(prepare, "log", &[7; 1000]);
    assert!(0 < survived && survived < SEEDS.count() / 2, "{survived}");
}

#[test]
fn a_name_without_a_directory_sync_may_be_lost() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = disk.create("log").unwrap();
        disk.reserve(&file, 512).unwrap();
        persist(sim, &file, 0, &[7; 512]).unwrap();
    };
    let survived = survivals(prepare, "log", &[7; 512]);
    assert!(0 < survived && survived < SEEDS.count(), "{survived}");
}

#[test]
fn an_unlinked_name_without_a_directory_sync_may_come_back() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        stable_file(&*disk, "log", 512);
        disk.unlink("log").unwrap();
        assert!(sim.names().is_empty());
    };
    let survived = survivals(prepare, "log", &[0; 512]);
    assert!(0 < survived && survived < SEEDS.count(), "{survived}");
}

#[test]
fn a_reservation_without_a_sync_may_be_lost() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = disk.create("log").unwrap();
        disk.reserve(&file, 512).unwrap();
        disk.sync_directory().unwrap();
    };
    let survived = survivals(prepare, "log", &[0; 512]);
    assert!(0 < survived && survived < SEEDS.count(), "{survived}");
}

#[test]
fn a_barrier_makes_nothing_but_its_own_extent_stable() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = stable_file(&*disk, "log", 4096);
        disk.write_at(&file, &[1; 512], 0).unwrap();
        persist(sim, &file, 512, &[2; 512]).unwrap();
    };
    let both = survivals(prepare, "log", &[[1; 512], [2; 512]].concat());
    let only_the_second = survivals(prepare, "log", &[[0; 512], [2; 512]].concat());
    assert!(both > 0 && only_the_second > 0);
    assert_eq!(both + only_the_second, SEEDS.count());
}

#[test]
fn a_failed_sync_lies_afterwards() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = stable_file(&*disk, "log", 512);
        persist(sim, &file, 0, &[1; 512]).unwrap();
        // One call passes, the write; the next one is the sync.
        sim.fail_after(1, Fault { errno: Errno::IO, lasting: false });
        let error = persist(sim, &file, 0, &[2; 512]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
        disk.sync(&file).expect("the second sync finds clean pages");
        let mut cached = [0; 512];
        disk.read_at(&file, &mut cached, 0).unwrap();
        assert_eq!(cached, [2; 512]);
    };
    let old = survivals(prepare, "log", &[1; 512]);
    assert!(0 < old && old < SEEDS.count(), "{old}");
    assert_eq!(old + survivals(prepare, "log", &[2; 512]), SEEDS.count());
}

#[test]
fn every_description_hears_of_a_failed_sync_once() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    let first = stable_file(&*disk, "log", 512);
    let second = disk.open("log", Access::ReadWrite).unwrap();
    disk.write_at(&first, &[1; 512], 0).unwrap();
    sim.fail_after(0, Fault { errno: Errno::IO, lasting: false });
    disk.sync(&first).unwrap_err();
    let later = disk.open("log", Access::ReadWrite).unwrap();
    disk.sync(&first).expect("told already");
    disk.sync(&second).expect_err("not told yet");
    disk.sync(&second).expect("told already");
    disk.sync(&later).expect("opened after the error");
}

#[test]
fn a_killed_process_leaves_its_page_cache() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    let file = stable_file(&*disk, "log", 512);
    disk.write_at(&file, &[1; 512], 0).unwrap();
    disk.rename("log", "other").unwrap();
    sim.kill();
    assert_eq!(sim.read("other"), [1; 512]);
    disk.write_at(&file, &[2; 512], 0).expect_err("its process has ended");
    persist(&sim, &file, 0, &[2; 512]).expect_err("not handed out to this process");
    assert_eq!(sim.read("other"), [1; 512]);
}

#[test]
fn a_process_that_dies_in_a_write_leaves_whole_sectors_of_it() {
    let lengths: std::collections::BTreeSet<_> = SEEDS
        .map(|seed| {
            let sim = Sim::new(seed);
            let disk = sim.disk();
            let file = stable_file(&*disk, "log", 4096);
            sim.crash_after(0);
            disk.write_at(&file, &[1; 2048], 256).unwrap_err();
            assert!(sim.fault_happened());
            disk.list().expect_err("its process has ended");
            sim.kill();
            sim.read("log").iter().map(|&byte| usize::from(byte)).sum::<usize>()
        })
        .collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 256, 768, 1280, 1792]);
}

#[test]
fn the_lock_is_held_until_it_is_dropped_or_its_process_ends() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    let lock = disk.lock().unwrap().expect("free");
    assert!(disk.lock().unwrap().is_none());
    drop(lock);
    let of_the_dead = disk.lock().unwrap().expect("free again");
    sim.kill();
    let of_the_living = sim.disk().lock().unwrap().expect("the kill has released it");
    drop(of_the_dead);
    assert!(sim.disk().lock().unwrap().is_none(), "not the dead process's to release");
    drop(of_the_living);
}

#[test]
fn a_neighbour_takes_the_free_space() {
    let sim = Sim::with_space(1, 8192);
    let disk = sim.disk();
    let file = stable_file(&*disk, "log", 4096);
    sim.take_free_space();
    let full = disk.reserve(&disk.create("more").unwrap(), 1).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    persist(&sim, &file, 0, &[1; 4096]).expect("what is reserved stays usable");
    persist(&sim, &file, 4096, &[1]).expect_err("beyond the reservation");
    disk.unlink("log").unwrap();
    assert_eq!(sim.free_bytes(), 4096);
}

#[test]
fn the_call_that_was_asked_for_fails_and_no_other() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    sim.fail_after(1, Fault { errno: Errno::NOSPC, lasting: false });
    disk.list().unwrap();
    assert!(!sim.fault_happened());
    disk.create("a").unwrap_err();
    assert!(sim.fault_happened());
    disk.create("a").unwrap();
    sim.fail_after(0, Fault { errno: Errno::IO, lasting: true });
    disk.list().unwrap_err();
    disk.list().unwrap_err();
}

#[test]
fn barriers_stand_at_the_gate_written_but_not_stable() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    let first = stable_file(&*disk, "log", 1024);
    let second = disk.open("log", Access::ReadWrite).unwrap();
    sim.gate().close();
    std::thread::scope(|scope| {
        let released = scope.spawn(|| persist(&sim, &first, 0, &[1; 512]));
        sim.gate().wait_until_held(1);
        let held = scope.spawn(|| persist(&sim, &second, 512, &[2; 512]));
        sim.gate().wait_until_held(2);
        assert_eq!(sim.read("log"), [[1; 512], [2; 512]].concat());
        sim.gate().release(0);
        released.join().unwrap().unwrap();
        sim.crash();
        held.join().unwrap().expect_err("its process has ended");
    });
}

#[test]
fn two_writes_of_one_sector_survive_in_their_order() {
    let prepare = |sim: &Sim| {
        let disk = sim.disk();
        let file = stable_file(&*disk, "log", 512);
        persist(sim, &file, 0, &[1; 256]).unwrap();
        disk.write_at(&file, &[2; 256], 256).unwrap();
    };
    assert_eq!(survivals(prepare, "log", &[1; 256]), SEEDS.count());
    let both = survivals(prepare, "log", &[[1; 256], [2; 256]].concat());
    assert!(0 < both && both < SEEDS.count());
}
