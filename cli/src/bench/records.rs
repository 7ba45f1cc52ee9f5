//! Records that say who appended them and which they are, so that a log can be checked afterwards.

/// Writer and sequence number stand in front.
pub(super) const RECORD_BYTES_MIN: usize = 16;

/// Fills a record with bytes that follow from the writer and the sequence number.
pub(super) fn fill(record: &mut [u8], writer: u64, sequence: u64) {
    let mut state = writer.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence;
    for chunk in record.chunks_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = (state ^ (state >> 33)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    record[..8].copy_from_slice(&writer.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
}

/// Takes all records of a log in its order: those of each writer have to be there, whole, once, in the writer's order.
#[derive(Debug)]
pub(super) struct Checker {
    next_sequence: Vec<u64>,
    expected: Vec<u8>,
}

impl Checker {
    pub(super) fn new(writers: usize, record_bytes: usize) -> Self {
        Checker { next_sequence: vec![0; writers], expected: vec![0; record_bytes] }
    }

    /// An error says which record is wrong.
    pub(super) fn take(&mut self, record: &[u8]) -> Result<(), String> {
        let writer = record.first_chunk().map_or(u64::MAX, |field| u64::from_le_bytes(*field));
        let known = usize::try_from(writer).ok().and_then(|writer| self.next_sequence.get_mut(writer));
        let next_sequence =
            known.ok_or_else(|| format!("a record of a writer that does not exist, {writer}"))?;
        fill(&mut self.expected, writer, *next_sequence);
        if record != self.expected {
            return Err(format!("record {next_sequence} of writer {writer} is not what was appended"));
        }
        *next_sequence += 1;
        Ok(())
    }

    /// So many of each writer were acknowledged, and none was in doubt.
    pub(super) fn finish(self, acknowledged: &[u64]) -> Result<(), String> {
        if self.next_sequence == acknowledged {
            return Ok(());
        }
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let (found, expected) = (sum(&self.next_sequence), sum(acknowledged));
        Err(format!("{expected} records were acknowledged, {found} are there"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Checker, fill};

    fn record(writer: u64, sequence: u64) -> Vec<u8> {
        let mut record = vec![0; 30];
        fill(&mut record, writer, sequence);
        record
    }

    #[test]
    fn what_was_acknowledged_is_accepted_in_any_order_of_writers() {
        let mut checker = Checker::new(2, 30);
        for (writer, sequence) in [(1, 0), (0, 0), (1, 1)] {
            checker.take(&record(writer, sequence)).unwrap();
        }
        checker.finish(&[1, 2]).unwrap();
    }

    #[test]
    fn what_is_missing_twice_changed_or_from_nowhere_is_refused() {
        let mut checker = Checker::new(2, 30);
        checker.take(&record(0, 0)).unwrap();
        let mut changed = record(0, 1);
        changed[29] ^= 1;
        for wrong in [record(0, 0), record(0, 2), changed, record(2, 0), vec![0; 3], vec![]] {
            assert!(checker.take(&wrong).is_err(), "{wrong:?}");
        }
        assert!(checker.finish(&[2, 0]).unwrap_err().contains("2 records were acknowledged, 1 are there"));
    }
}
