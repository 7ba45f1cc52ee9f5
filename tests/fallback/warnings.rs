//! What the selection says of the file system, and that an open logs it once.

use std::path::Path;
use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};
use serial_test::parallel;
use wo_wal::{WO_IO, Wal};

use crate::again;

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Kept;

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LOGGED.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

fn times_logged(text: &str) -> usize {
    LOGGED.lock().unwrap().iter().filter(|line| line.contains(text)).count()
}

/// Opens a log below `$DIR/mnt`, in a process of its own where the script has mounted something there, and looks at what is
/// said: one warning with these words, or none.
fn says(test: &str, mount: &str, warning: Option<&str>) {
    let Some(dir) = again::directory() else {
        again::run_mounted_with(test, mount, |command| command.env_remove(WO_IO));
        return;
    };
    log::set_logger(&Kept).unwrap();
    log::set_max_level(LevelFilter::Info);
    let (wal, _) = open(&dir);
    wal.append(b"record").unwrap();
    let selection = wal.strategy();
    assert_eq!(times_logged(&selection.reason), 1, "the reason is logged once");
    match warning {
        None => assert!(selection.warnings.is_empty(), "{:?}", selection.warnings),
        Some(words) => {
            assert_eq!(selection.warnings.len(), 1, "{:?}", selection.warnings);
            assert!(selection.warnings[0].contains(words), "{:?}", selection.warnings);
            assert_eq!(times_logged(words), 1, "the warning is logged once");
        }
    }
    again::say("done");
}

fn open(dir: &Path) -> (Wal, wo_wal::Recovery) {
    Wal::options().segment_bytes(64 << 10).open(dir.join("mnt/log")).unwrap()
}

#[test]
#[parallel]
fn on_ext4_there_is_nothing_to_warn_of() {
    if again::directory().is_some() || again::has("mkfs.ext4") {
        says("warnings::on_ext4_there_is_nothing_to_warn_of", &again::loop_mount("ext4", 8), None);
    }
}

#[test]
#[parallel]
fn tmpfs_forgets_the_log() {
    let mount = "mkdir \"$DIR/mnt\"; mount -t tmpfs none \"$DIR/mnt\"";
    says("warnings::tmpfs_forgets_the_log", mount, Some("on tmpfs a sync does nothing"));
}

/// The mount's options were searched for `volatile`, but newer kernels (seen in 6.18) list `fsync=volatile`: no warning.
#[test]
#[parallel]
fn a_volatile_overlay_may_forget_the_log() {
    let mount = "cd \"$DIR\"; mkdir mnt base; mount -t tmpfs none base; mkdir base/lower base/upper base/work
        mount -t overlay -o volatile,lowerdir=base/lower,upperdir=base/upper,workdir=base/work none mnt; cd /";
    says("warnings::a_volatile_overlay_may_forget_the_log", mount, Some("mounted volatile"));
}

#[test]
#[parallel]
fn btrfs_overwrites_in_place_where_it_may() {
    if again::directory().is_some() || again::has("mkfs.btrfs") {
        let mount = again::loop_mount("btrfs", 128);
        says("warnings::btrfs_overwrites_in_place_where_it_may", &mount, None);
    }
}

/// What is compressed is not overwritten in place, so btrfs refuses what the log asks for.
#[test]
#[parallel]
fn btrfs_that_copies_on_write_may_poison_a_full_log() {
    if again::directory().is_some() || again::has("mkfs.btrfs") {
        let mount = again::loop_mount("btrfs", 128) + "; mkdir \"$DIR/mnt/log\"; chattr +c \"$DIR/mnt/log\"";
        says(
            "warnings::btrfs_that_copies_on_write_may_poison_a_full_log",
            &mount,
            Some("btrfs copies on write here"),
        );
    }
}
