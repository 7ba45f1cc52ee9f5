//! What a writer process tells its parent, one line each, through a pipe: out of reach of any fault on the log's file
//! system.

use std::fmt;
use std::str::FromStr;

use crate::crowd::{Crowd, Origin};
use crate::support::oracle::Verdict;

/// One line. The session of an [`Origin`] is the process's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The log is open and ends there.
    Opened { last_lsn: u64 },
    /// A batch is durable, from this LSN on.
    Acked { first_lsn: u64, writer: u16, sequence: u64 },
    /// Nothing of a batch was taken.
    Refused { writer: u16, sequence: u64 },
    /// A trim is about to be asked for. The process waits for an answer before it asks.
    Trimming { up_to_lsn: u64 },
    /// The log is poisoned, which a writer, the trimmer or an open has met.
    Failed { why: String },
    /// What may not happen has happened.
    Broken { why: String },
    /// The log was closed, and the process is about to end.
    Ended,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { last_lsn } => write!(formatter, "opened {last_lsn}"),
            Event::Acked { first_lsn, writer, sequence } => {
                write!(formatter, "acked {first_lsn} {writer} {sequence}")
            }
            Event::Refused { writer, sequence } => write!(formatter, "refused {writer} {sequence}"),
            Event::Trimming { up_to_lsn } => write!(formatter, "trimming {up_to_lsn}"),
            Event::Failed { why } => write!(formatter, "failed {}", one_line(why)),
            Event::Broken { why } => write!(formatter, "broken {}", one_line(why)),
            Event::Ended => write!(formatter, "ended"),
        }
    }
}

/// At most so long that a pipe takes it in one piece.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character == '\n' { ' ' } else { character }).take(900).collect()
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
        let writer = |number: u64| u16::try_from(number).map_err(|error| format!("{line:?}: {error}"));
        match (word, &numbers[..]) {
            ("opened", [last_lsn]) => Ok(Event::Opened { last_lsn: *last_lsn }),
            ("acked", [first_lsn, number, sequence]) => {
                Ok(Event::Acked { first_lsn: *first_lsn, writer: writer(*number)?, sequence: *sequence })
            }
            ("refused", [number, sequence]) => {
                Ok(Event::Refused { writer: writer(*number)?, sequence: *sequence })
            }
            ("trimming", [up_to_lsn]) => Ok(Event::Trimming { up_to_lsn: *up_to_lsn }),
            ("failed", _) => Ok(Event::Failed { why: rest.to_owned() }),
            ("broken", _) => Ok(Event::Broken { why: rest.to_owned() }),
            ("ended", []) => Ok(Event::Ended),
            _ => Err(format!("a writer said {line:?}")),
        }
    }
}

impl Event {
    /// Tells the oracle. `vouching` says whether an ack or an open counts, or came after the cut and tells nothing.
    pub(crate) fn tell(&self, crowd: &mut Crowd, session: u64, vouching: bool) -> Verdict {
        match self {
            Event::Opened { last_lsn } if vouching => crowd.vouched(*last_lsn),
            Event::Acked { first_lsn, writer, sequence } if vouching => {
                crowd.acked(*first_lsn, Origin { session, writer: *writer, sequence: *sequence })
            }
            Event::Refused { writer, sequence } => {
                crowd.refused(Origin { session, writer: *writer, sequence: *sequence });
                Ok(())
            }
            Event::Trimming { up_to_lsn } => {
                crowd.trimming(*up_to_lsn);
                Ok(())
            }
            Event::Broken { why } => Err(format!("the writer: {why}")),
            Event::Opened { .. } | Event::Acked { .. } | Event::Failed { .. } | Event::Ended => Ok(()),
        }
    }
}
