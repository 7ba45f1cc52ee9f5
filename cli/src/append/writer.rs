//! One writer: take a line, make it durable, print the ack, take the next.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Instant;

use super::Shared;
use super::gate::Acked;
use crate::failure::Failure;

/// Starts the writers. They end with the input, or when the gate closes; one that waits for input then is left behind.
pub(super) fn spawn(shared: &Arc<Shared>, threads: u16) {
    // All are counted before the first one can end.
    for _ in 0..threads {
        shared.gate.add_writer();
    }
    for number in 1..=threads {
        let mine = Presence(Arc::clone(shared));
        let started =
            thread::Builder::new().name(format!("writer-{number}")).spawn(move || mine.0.write_lines());
        if let Err(source) = started {
            shared.gate.stop(Failure::io(format!(
                "start writer {number} of {threads}: {source}; ask for fewer with --threads"
            )));
        }
    }
}

/// Signs the writer off, however it ends.
struct Presence(Arc<Shared>);

impl Drop for Presence {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.gate.stop(Failure::io("a writer failed unexpectedly; this is a bug"));
        }
        self.0.gate.remove_writer();
    }
}

impl Shared {
    fn write_lines(&self) {
        let mut line = Vec::new();
        loop {
            let taken = self.lines.lock().unwrap_or_else(PoisonError::into_inner).next_into(&mut line);
            match taken {
                Ok(Some(number)) if self.gate.enter() => self.gate.leave(self.write(number, &line)),
                Ok(_) => return,
                Err(failure) => return self.gate.stop(failure),
            }
        }
    }

    fn write(&self, number: u64, line: &[u8]) -> Result<(), Failure> {
        let start = Instant::now();
        let lsn = self
            .wal
            .append(line)
            .map_err(|error| Failure::from(error).while_doing(&format!("input line {number}")))?;
        self.gate.count(&Acked { lsn, payload_bytes: line.len(), took: start.elapsed() });
        self.acks.as_ref().map_or(Ok(()), |acks| acks.print(lsn, number))
    }
}
