//! The end of a log's session: everything staged is led, vouched for, and answered.

use super::lead::Commit;
use super::state::{Phase, thread_mark};
use crate::error::Result;
use crate::sync::PoisonError;

impl Commit {
    /// Stages no more, makes durable what is staged, and vouches for it. Later and concurrent calls get the first one's
    /// answer. The caller releases the directory's lock afterwards, also after an error.
    pub(crate) fn close(&self) -> Result<()> {
        self.check_process()?;
        let me = thread_mark();
        let mut state = self.lock();
        loop {
            match &state.phase {
                Phase::Open => break,
                // Called by whoever is told that a barrier of this very close has failed: nobody else would finish it.
                Phase::Closing { by } if *by == me => break,
                Phase::Closing { .. } => state = self.progress(state),
                Phase::Closed(result) => {
                    let result = result.clone();
                    self.leave(state);
                    return result;
                }
            }
        }
        state.phase = Phase::Closing { by: me };
        state.note_progress();
        let closing = Closing { commit: self };
        while !state.ledger.is_idle() {
            state = self.progress(state);
        }
        if state.ledger.poison().is_none() && state.ledger.is_unvouched() {
            state = self.write_empty(state, false, true);
        }
        self.leave(state);
        closing.finish()
    }

    fn finish_close(&self) -> Result<()> {
        let result = self.lock().ledger.poison().cloned().map_or(Ok(()), Err);
        self.preparer.stop();
        // Whoever works with the files still ends before the lock on the directory can be released.
        drop(self.files.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.lock();
        state.phase = Phase::Closed(result.clone());
        state.note_progress();
        self.leave(state);
        result
    }
}

/// A close that has begun. Whatever ends it, also a strategy that panics under its lead, the log is closed afterwards:
/// nobody waits for a closer that is gone.
struct Closing<'a> {
    commit: &'a Commit,
}

impl Closing<'_> {
    fn finish(self) -> Result<()> {
        let commit = self.commit;
        std::mem::forget(self);
        commit.finish_close()
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // The panic that is on its way says more than the result, which the next close gets.
        let _ = self.commit.finish_close();
    }
}
