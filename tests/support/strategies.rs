//! Which strategies a test runs through.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use wo_wal::strategy::{Form, Fsync, Uring};
use wo_wal::{Extent, SyncStrategy, WO_IO};

/// The strategy that `WO_IO` asks for, as the log's own choice would be; `fsync` where it asks for none.
///
/// The project's checks run the tests with each word, so that what is tested through this is tested on both.
pub(crate) fn strategy_under_test() -> Arc<dyn SyncStrategy> {
    // One for all tests of the program: rings are given back some time after they were closed, and count until then.
    static RING: OnceLock<Arc<Uring>> = OnceLock::new();
    match std::env::var_os(WO_IO) {
        Some(word) if word == "uring" => RING.get_or_init(|| Arc::new(ring(Form::Linked))).clone(),
        _ => Arc::new(Fsync::new()),
    }
}

fn ring(form: Form) -> Uring {
    Uring::with_form(form).unwrap_or_else(|failure| panic!("{WO_IO} asks for a ring: {failure}"))
}

/// Every strategy of the crate and one of somebody else. Where there is no ring, that is announced as a skip.
pub(crate) fn every_strategy() -> Vec<Arc<dyn SyncStrategy>> {
    let mut strategies: Vec<Arc<dyn SyncStrategy>> = vec![Arc::new(Fsync::new()), Arc::new(SmallSteps)];
    for form in [Form::Linked, Form::Dsync] {
        match Uring::with_form(form) {
            Ok(uring) => strategies.push(Arc::new(uring)),
            Err(failure) => super::skip::announce(&format!("{form:?}: {failure}")),
        }
    }
    strategies
}

/// A strategy such as somebody else might bring: many small writes and a full sync.
#[derive(Debug)]
struct SmallSteps;

impl SyncStrategy for SmallSteps {
    fn name(&self) -> &'static str {
        "small steps"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = File::from(extent.file().try_clone_to_owned()?);
        let mut offset = extent.offset();
        for step in extent.bytes().chunks(700) {
            file.write_all_at(step, offset)?;
            offset += step.len() as u64;
        }
        file.sync_all()
    }
}
