//! The process that writes: eight threads on one log with small segments, until it is killed or the log fails.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wo_wal::{Error, Lsn, Recovery, Result, Wal};

use crate::crowd::{Origin, batch, batch_records};
use crate::events::Event;
use crate::failure::{Failure, Outcome, Trouble};
use crate::strategies::Kind;
use crate::support::rng::Rng;

pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024;
const WRITERS: u16 = 8;
/// How often a writer asks again a log that has failed. None of that may be acked.
const ATTEMPTS_AFTER_FAILURE: u32 = 3;

/// Opens a log as all parts of this program do.
pub(crate) fn open(dir: &Path, kind: Kind) -> Outcome<(Wal, Recovery)> {
    let strategy =
        kind.make_patiently().map_err(|error| Trouble(format!("strategy {}: {error}", kind.name())))?;
    let options = Wal::options().segment_bytes(SEGMENT_BYTES).recycle_segments(2).strategy(strategy);
    Ok(options.open(dir).map_err(|error| format!("open: {error}"))?)
}

/// Writes until the log fails; a kill usually comes first.
pub(crate) fn run(dir: &Path, seed: u64, kind: Kind) {
    std::panic::set_hook(Box::new(|panic| say(&Event::Broken { why: panic.to_string() })));
    let wal = match open(dir, kind) {
        Ok((wal, recovery)) => {
            say(&Event::Opened { last_lsn: recovery.last.get() });
            wal
        }
        Err(Failure::Promise(why) | Failure::Trouble(why)) => return say(&Event::Failed { why }),
    };
    let shared = Shared { wal, seed, acked: AtomicU64::new(0), failed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let shared = &shared;
            scope.spawn(move || shared.write(writer));
        }
        scope.spawn(|| shared.trim());
    });
    if shared.wal.close().is_ok() {
        say(&Event::Broken { why: "a failed log closed without an error".to_owned() });
    }
    say(&Event::Ended);
}

/// One write call for the line: pipes keep it in one piece. A parent that is gone needs no answer.
fn say(event: &Event) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(format!("{event}\n").as_bytes()).and_then(|()| output.flush());
}

struct Shared {
    wal: Wal,
    seed: u64,
    /// The highest LSN acked so far.
    acked: AtomicU64,
    /// Set once a call has met the failure: from then on no call that starts may succeed.
    failed: AtomicBool,
}

impl Shared {
    fn write(&self, writer: u16) {
        let mut rng = Rng::new(self.seed.rotate_left(9) ^ u64::from(writer));
        let mut sequence = 0;
        let mut attempts_left = ATTEMPTS_AFTER_FAILURE;
        while attempts_left > 0 {
            let first = Origin { session: self.seed, writer, sequence };
            let had_failed = self.failed.load(Ordering::Acquire);
            match self.append(&mut rng, first) {
                Ok(_) if had_failed => {
                    return say(&Event::Broken {
                        why: format!("{first:?} was acked after the log had failed"),
                    });
                }
                Ok(first_lsn) => {
                    say(&Event::Acked { first_lsn, writer, sequence });
                    self.acked.fetch_max(first_lsn + batch_records(first) - 1, Ordering::Relaxed);
                }
                Err(error @ Error::Poisoned { .. }) => {
                    self.failed.store(true, Ordering::Release);
                    say(&Event::Failed { why: error.to_string() });
                    attempts_left -= 1;
                }
                // Nothing was taken, and the log goes on.
                Err(Error::StorageFull { .. } | Error::Io { .. }) => {
                    say(&Event::Refused { writer, sequence });
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return say(&Event::Broken { why: format!("append: {error}") }),
            }
            sequence += batch_records(first);
        }
    }

    /// The first LSN of a batch that is durable.
    fn append(&self, rng: &mut Rng, first: Origin) -> Result<u64> {
        let records = batch(first);
        match rng.below(10) {
            0..=5 => self.wal.append_batch(&records).map(|lsns| lsns.start().get()),
            6..=8 => {
                let ticket = self.wal.submit_batch(&records)?;
                let first_lsn = ticket.lsns().start().get();
                ticket.wait().map(|_| first_lsn)
            }
            _ => {
                let ticket = self.wal.submit_batch(&records)?;
                self.wal.sync()?;
                Ok(ticket.lsns().start().get())
            }
        }
    }

    /// Trims what lies some way back, now and then everything. Each trim is announced, and the parent's answer awaited,
    /// so that whoever looks at the disk afterwards knows that it may have happened.
    fn trim(&self) {
        let mut rng = Rng::new(self.seed.rotate_left(31));
        let mut trimmed = 0;
        while !self.failed.load(Ordering::Acquire) {
            let acked = self.acked.load(Ordering::Relaxed);
            let kept = if rng.percent(10) { 0 } else { 100 + rng.below(600) };
            let up_to_lsn = acked.saturating_sub(kept);
            if up_to_lsn < trimmed + 50 {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            trimmed = up_to_lsn;
            say(&Event::Trimming { up_to_lsn });
            if std::io::stdin().read_exact(&mut [0]).is_err() {
                return;
            }
            match self.wal.trim(Lsn::new(up_to_lsn)) {
                // A file could not be opened: the log goes on.
                Ok(()) | Err(Error::Io { .. }) => {}
                Err(error @ Error::Poisoned { .. }) => {
                    self.failed.store(true, Ordering::Release);
                    say(&Event::Failed { why: format!("trim: {error}") });
                }
                Err(error) => return say(&Event::Broken { why: format!("trim: {error}") }),
            }
        }
    }
}
