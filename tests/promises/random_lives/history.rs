//! What a run's log has answered, and what it left on the disk: equal for equal schedules on every strategy.

use wo_wal::{Record, Recovery};

#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// An open's report, and every record it serves.
    Opened { recovery: Recovery, records: Vec<Record> },
    /// A call's answer, in words.
    Answer(String),
    /// The end of a life: how many calls the disk had taken by then, and every file as the next process sees it.
    Left { disk_calls: u64, files: Vec<(String, Vec<u8>)> },
}

/// Everything in order.
#[derive(Debug, Default)]
pub(super) struct History {
    kept: bool,
    events: Vec<Event>,
}

impl History {
    pub(super) fn new(kept: bool) -> Self {
        History { kept, events: Vec::new() }
    }

    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if self.kept {
            self.events.push(event());
        }
    }

    /// The first difference, in words.
    pub(super) fn differs_from(&self, other: &History) -> Option<String> {
        let pairs = self.events.iter().zip(&other.events).enumerate();
        for (place, (event, other)) in pairs {
            if event != other {
                return Some(format!("event {place}: {}", difference(event, other)));
            }
        }
        let lengths = (self.events.len(), other.events.len());
        (lengths.0 != lengths.1).then(|| format!("{} events against {}", lengths.0, lengths.1))
    }
}

fn difference(event: &Event, other: &Event) -> String {
    match (event, other) {
        (Event::Opened { recovery, records }, Event::Opened { recovery: reported, records: served }) => {
            if recovery != reported {
                return format!("{recovery:?} against {reported:?}");
            }
            let differs = records.iter().zip(served).find(|(record, other)| record != other);
            match differs {
                Some((record, _)) => format!("record {} is another one", record.lsn),
                None => format!("{} records against {}", records.len(), served.len()),
            }
        }
        (Event::Left { disk_calls, files }, Event::Left { disk_calls: calls, files: others }) => {
            let differs = files.iter().zip(others).find(|(file, other)| file != other);
            format!(
                "{disk_calls} calls against {calls}, first other file: {:?}",
                differs.map(|(file, _)| &file.0)
            )
        }
        _ => format!("{event:.200?} against {other:.200?}"),
    }
}
