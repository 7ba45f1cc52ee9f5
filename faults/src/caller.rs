//! One caller of one log, whose every call is known: what it was told is noted, and told to the oracle.

use std::fmt::Debug;
use std::path::Path;

use wo_wal::{Error, Lsn, Record, Recovery, Result, Wal};

use crate::support::oracle::{Oracle, Verdict};

#[derive(Debug)]
pub(crate) struct Caller {
    oracle: Oracle,
    /// The LSN that the next record is to get.
    next_lsn: u64,
    has_failed: bool,
    /// Whether the file system may go away under the log: then reading it may fail.
    can_be_cut_off: bool,
    /// The log's directory, which is left out of the answers.
    dir: String,
    /// Every answer so far, as text.
    pub(crate) answers: Vec<String>,
    pub(crate) acks: u64,
    /// The first promise that was broken.
    verdict: Verdict,
}

impl Caller {
    pub(crate) fn new() -> Self {
        Caller {
            oracle: Oracle::default(),
            next_lsn: 1,
            has_failed: false,
            can_be_cut_off: false,
            dir: String::new(),
            answers: Vec::new(),
            acks: 0,
            verdict: Ok(()),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// Whether the log has failed for good.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether some answer since the one with this number tells of an error with these words in it.
    pub(crate) fn was_told(&self, since: usize, words: &str) -> bool {
        self.answers[since..].iter().any(|answer| answer.contains("Err(") && answer.contains(words))
    }

    /// The log, if there is one, is from now on the one in this directory.
    pub(crate) fn lives_in(&mut self, dir: &Path) {
        self.dir = dir.display().to_string();
    }

    /// From now on the file system may go away under the log, or no longer.
    pub(crate) fn can_be_cut_off(&mut self, yes: bool) {
        self.can_be_cut_off = yes;
    }

    /// A log was opened, or not.
    pub(crate) fn opened(&mut self, opened: Result<(Wal, Recovery)>) -> Option<Wal> {
        self.has_failed = false;
        self.told("open", &opened.as_ref().map(|(_, recovery)| recovery));
        let (wal, recovery) = opened.ok()?;
        self.next_lsn = recovery.last.get() + 1;
        self.judge_reading(|oracle| oracle.opened(&wal, &recovery));
        Some(wal)
    }

    pub(crate) fn append(&mut self, wal: &Wal, record: Vec<u8>) -> Result<()> {
        let answer = wal.append(&record);
        self.appended("append", &[record], answer.map(|lsn| lsn..=lsn))
    }

    pub(crate) fn append_batch(&mut self, wal: &Wal, batch: &[Vec<u8>]) -> Result<()> {
        let answer = wal.append_batch(batch);
        self.appended("append batch", batch, answer)
    }

    fn appended(
        &mut self,
        call: &str,
        records: &[Vec<u8>],
        answer: Result<std::ops::RangeInclusive<Lsn>>,
    ) -> Result<()> {
        self.told(call, &answer);
        match answer {
            Ok(lsns) => {
                self.given(*lsns.start(), records);
                if !records.is_empty() {
                    self.acked(*lsns.end());
                }
                Ok(())
            }
            Err(error) => {
                if self.fails(&error) {
                    self.given(Lsn::new(self.next_lsn), records);
                }
                Err(error)
            }
        }
    }

    /// Submits the records one by one, then waits for each.
    pub(crate) fn submit_and_wait(&mut self, wal: &Wal, records: Vec<Vec<u8>>) {
        let mut tickets = Vec::new();
        for record in records {
            let submitted = wal.submit(&record);
            self.told("submit", &submitted.as_ref().map(wo_wal::Ticket::lsn));
            match submitted {
                Ok(ticket) => {
                    self.given(ticket.lsn(), &[record]);
                    tickets.push(ticket);
                }
                Err(error) => {
                    if self.fails(&error) {
                        self.given(Lsn::new(self.next_lsn), &[record]);
                    }
                }
            }
        }
        for ticket in tickets {
            let answer = ticket.wait();
            self.told("wait", &answer);
            match answer {
                Ok(lsn) => self.acked(lsn),
                Err(error) => self.has_failed |= self.fails(&error),
            }
        }
    }

    pub(crate) fn sync(&mut self, wal: &Wal) {
        let answer = wal.sync();
        self.told("sync", &answer);
        match answer {
            Ok(lsn) => self.acked(lsn),
            Err(error) => self.has_failed |= self.fails(&error),
        }
    }

    pub(crate) fn trim(&mut self, wal: &Wal, up_to: Lsn) -> Result<()> {
        self.judge(|oracle| {
            oracle.trimming(up_to);
            Ok(())
        });
        let answer = wal.trim(up_to);
        self.told("trim", &(&answer, wal.oldest_lsn(), wal.durable_lsn()));
        if let Err(error) = &answer {
            self.fails(error);
        }
        answer
    }

    /// All that a log in use serves; noted as well.
    pub(crate) fn replay(&mut self, wal: &Wal) -> Vec<Record> {
        let records = wal.replay(..).and_then(Iterator::collect::<Result<Vec<_>>>);
        self.told("replay", &records.as_ref().map(Vec::len));
        self.judge_reading(|oracle| oracle.running(wal));
        records.unwrap_or_default()
    }

    pub(crate) fn close(&mut self, wal: &Wal) {
        let answer = wal.close();
        self.told("close", &answer);
    }

    /// Notes what did not go as it must.
    pub(crate) fn broken(&mut self, why: &str) {
        self.judge(|_| Err(why.to_owned()));
    }

    fn told(&mut self, call: &str, answer: &impl Debug) {
        let answer = format!("{call}: {answer:?}");
        self.answers.push(if self.dir.is_empty() { answer } else { answer.replace(&self.dir, "") });
    }

    /// True where this is the first that is heard of the failure: then the records of the call may be in the log.
    fn fails(&mut self, error: &Error) -> bool {
        matches!(error, Error::Poisoned { .. }) && !std::mem::replace(&mut self.has_failed, true)
    }

    fn given(&mut self, first: Lsn, records: &[Vec<u8>]) {
        if records.is_empty() {
            return;
        }
        if first.get() != self.next_lsn {
            self.broken(&format!("LSN {first} was given where {} was due", self.next_lsn));
        }
        self.next_lsn = first.get() + records.len() as u64;
        self.judge(|oracle| {
            oracle.given(first, records);
            Ok(())
        });
    }

    fn acked(&mut self, up_to: Lsn) {
        self.acks += 1;
        if self.has_failed {
            self.broken(&format!("LSN {up_to} was acked after the log had failed"));
        }
        self.judge(|oracle| oracle.acked(up_to));
    }

    fn judge_reading(&mut self, judgement: impl FnOnce(&mut Oracle) -> Verdict) {
        let could_not_read = |why: &String| why.starts_with("replay: ") || why.starts_with("in replay: ");
        let is_excused = self.can_be_cut_off;
        self.judge(|oracle| match judgement(oracle) {
            Err(why) if is_excused && could_not_read(&why) => Ok(()),
            verdict => verdict,
        });
    }

    fn judge(&mut self, judgement: impl FnOnce(&mut Oracle) -> Verdict) {
        let verdict = judgement(&mut self.oracle);
        if self.verdict.is_ok() {
            self.verdict = verdict;
        }
    }
}
