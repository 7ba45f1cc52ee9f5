//! One test body, run through the strategy under test on a real directory and on the simulated disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use wo_wal::{Lsn, Options, Record, Recovery, Result, SyncStrategy, Wal};

use super::sim::Sim;
use super::steered::{Control, Steered};
use super::strategies::strategy_under_test;

/// The smallest segment there is: rotation comes early.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;

/// Where a log lives in a test.
#[derive(Debug)]
pub(crate) struct Env {
    place: Place,
    max_in_flight: usize,
}

#[derive(Debug)]
enum Place {
    /// The last directory is the log's; the others belonged to processes that were killed.
    Real(Vec<TempDir>),
    Simulated(Sim),
}

/// Runs the body on every disk and with one and two barriers in flight; a failure names the one it happened on.
pub(crate) fn for_each_disk(body: impl Fn(&mut Env)) {
    for max_in_flight in [1, 2] {
        run(Env { place: Place::Real(vec![temporary_directory()]), max_in_flight }, &body);
        run(Env { place: Place::Simulated(Sim::new(1)), max_in_flight }, &body);
    }
}

fn run(mut env: Env, body: impl Fn(&mut Env)) {
    struct Context(String);
    impl Drop for Context {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("on {}", self.0);
            }
        }
    }
    let place = match &env.place {
        Place::Real(_) => "a real directory",
        Place::Simulated(_) => "the simulated disk",
    };
    let _context = Context(format!("{place}, {} in flight", env.max_in_flight));
    body(&mut env);
}

/// A copy of a directory; `None` when the log's preparer has changed a name meanwhile: then it would be a state that never
/// was.
fn snapshot(directory: &Path) -> Option<TempDir> {
    let names = || -> BTreeSet<_> {
        let entries = fs::read_dir(directory).expect("the log's directory");
        entries.map(|entry| entry.expect("a directory entry").file_name()).collect()
    };
    let before = names();
    let copy = temporary_directory();
    for name in &before {
        fs::copy(directory.join(name), copy.path().join(name)).ok()?;
    }
    (names() == before).then_some(copy)
}

/// A copy of a directory whose log is idle, as a kill would leave it.
pub(crate) fn killed(directory: &Path) -> TempDir {
    let snapshot = std::iter::repeat_with(|| snapshot(directory)).take(1000).flatten().next();
    snapshot.expect("names that stay for as long as a copy takes")
}

fn temporary_directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

impl Env {
    pub(crate) fn simulated(sim: &Sim, max_in_flight: usize) -> Self {
        Env { place: Place::Simulated(sim.clone()), max_in_flight }
    }

    pub(crate) fn sim(&self) -> Option<&Sim> {
        match &self.place {
            Place::Real(_) => None,
            Place::Simulated(sim) => Some(sim),
        }
    }

    /// The place's own barrier.
    pub(crate) fn strategy(&self) -> Arc<dyn SyncStrategy> {
        match &self.place {
            Place::Real(_) => strategy_under_test(),
            Place::Simulated(sim) => {
                Arc::new(sim.strategy(strategy_under_test()).with_max_in_flight(self.max_in_flight))
            }
        }
    }

    /// Options with the smallest segments and the place's own barrier.
    pub(crate) fn options(&self) -> Options {
        self.options_with(self.strategy())
    }

    /// Options with another barrier, which should end in the place's own.
    pub(crate) fn options_with(&self, strategy: Arc<dyn SyncStrategy>) -> Options {
        let options = Wal::options().segment_bytes(SEGMENT_BYTES).strategy(strategy);
        match &self.place {
            Place::Real(_) => options,
            Place::Simulated(sim) => options.disk(sim.disk()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match &self.place {
            Place::Real(directories) => directories.last().expect("one at least").path(),
            Place::Simulated(_) => Path::new("/simulated"),
        }
    }

    pub(crate) fn open_with(&self, options: Options) -> Result<(Wal, Recovery)> {
        options.open(self.path())
    }

    /// Opens the log, which must work.
    pub(crate) fn open(&self) -> Wal {
        self.open_with(self.options()).expect("the log opens").0
    }

    /// Opens the log with a barrier that the test controls.
    pub(crate) fn open_steered(&self) -> (Wal, Arc<Control>) {
        let control = Arc::<Control>::default();
        let steered = Steered::new(self.strategy(), control.clone()).with_max_in_flight(self.max_in_flight);
        let (wal, _) = self.open_with(self.options_with(Arc::new(steered))).expect("the log opens");
        (wal, control)
    }

    pub(crate) fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// Ends the process that has the log open, as a kill does: nothing of what it still does reaches the log's files.
    pub(crate) fn kill(&mut self) {
        match &mut self.place {
            Place::Simulated(sim) => sim.kill(),
            Place::Real(directories) => {
                let old = directories.last().expect("one at least").path();
                directories.push(killed(old));
            }
        }
    }

    /// Cuts the power where that can be done; on a real directory it is a kill.
    pub(crate) fn power_cut(&mut self, seed: u64) {
        match &self.place {
            Place::Simulated(sim) => sim.power_cut(seed),
            Place::Real(_) => self.kill(),
        }
    }

    /// The segments' names, sorted.
    pub(crate) fn segments(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| name.strip_suffix(".wal").is_some());
        names
    }

    /// All names but the lock's, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = match &self.place {
            Place::Simulated(sim) => sim.names(),
            Place::Real(_) => fs::read_dir(self.path())
                .expect("the log's directory")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"))
                .collect(),
        };
        names.retain(|name| name != "LOCK");
        names.sort_unstable();
        names
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        match &self.place {
            Place::Simulated(sim) => sim.read(name),
            Place::Real(_) => fs::read(self.path().join(name)).expect("the file"),
        }
    }

    /// Puts other bytes into a file while nobody has the log open.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        match &self.place {
            Place::Simulated(sim) => sim.replace(name, bytes),
            Place::Real(_) => fs::write(self.path().join(name), bytes).expect("writing the file"),
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        match &self.place {
            Place::Simulated(sim) => sim.remove(name),
            Place::Real(_) => fs::remove_file(self.path().join(name)).expect("removing the file"),
        }
    }

    /// All files with their bytes, to compare.
    pub(crate) fn image(&self) -> Vec<(String, Vec<u8>)> {
        self.names().into_iter().map(|name| (name.clone(), self.read(&name))).collect()
    }

    /// Makes the directory hold these files and no others.
    pub(crate) fn restore(&self, image: &[(String, Vec<u8>)]) {
        for name in self.names() {
            if image.iter().all(|(kept, _)| *kept != name) {
                self.remove(&name);
            }
        }
        for (name, bytes) in image {
            self.replace(name, bytes);
        }
    }
}

/// Every record of the log, which must be readable.
pub(crate) fn replay_all(wal: &Wal) -> Vec<Record> {
    wal.replay(..).expect("a replay").collect::<Result<_>>().expect("every record")
}

/// The payloads of every record of the log.
pub(crate) fn payloads(wal: &Wal) -> Vec<Vec<u8>> {
    replay_all(wal).into_iter().map(|record| record.payload).collect()
}

pub(crate) fn lsn(number: u64) -> Lsn {
    Lsn::new(number)
}
