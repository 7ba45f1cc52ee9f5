//! The table that tells a torn tail from damage. Pure.
//!
//! The walk ends at the first *place* where no group goes on; `e` is the LSN expected there. From the place on, that
//! segment and every later one are searched for headers that verify.
//!
//! | row | finding | verdict |
//! |---|---|---|
//! | a | only zeros from the place on, no later header | clean end |
//! | b | a later header with a durable LSN at or above `e` | acked data is damaged: refuse |
//! | c | later headers in the place's segment only, each with a durable LSN below `e` | torn and never acked: cut |
//! | d | no later header, bytes that are not zero | torn, or the rest of a recycled file: cut |
//! | e | a header in a later segment; numbers with a gap; a seal without a next segment; no start | refuse |
//! | f | a read fails | that error; it ends the search before there is anything to look up here |

/// What the walk and the search behind its end found: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) files: Files,
    pub(super) later: Later,
    /// Whether a later header's durable LSN is at or above the LSN expected at the place.
    pub(super) durable_at_place: bool,
    /// Whether the place's segment holds only zeros from the place on.
    pub(super) only_zeros: bool,
}

/// Whether the files are those of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Sound,
    /// A number between the first and the last has no segment.
    Gap,
    /// The oldest segment is not number 1 and has no verified first group, so nothing says where the log starts.
    NoStart,
    /// The last group is a seal and no next segment is there. It is named before the seal is written.
    SealedLast,
}

/// Where verified headers were found from the place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    Nowhere,
    /// In the place's segment only.
    InSegment,
    /// In a segment behind it, and perhaps in its own too.
    Behind,
}

/// What the place is. Named by the table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Row a.
    CleanEnd,
    /// Row b.
    AckedDamage,
    /// Row c.
    Torn,
    /// Row d.
    TornOrRecycled,
    /// Row e: groups behind an end that no seal announces.
    GroupsBehind,
    /// Row e.
    MissingSegment,
    /// Row e.
    NoStart,
}

impl Findings {
    pub(super) fn verdict(self) -> Verdict {
        match (self.files, self.later) {
            (Files::Gap | Files::SealedLast, _) => Verdict::MissingSegment,
            (Files::NoStart, _) => Verdict::NoStart,
            // A durable LSN is true for ever, wherever the header that says it is found.
            (Files::Sound, Later::InSegment | Later::Behind) if self.durable_at_place => Verdict::AckedDamage,
            // The seal of a segment is stable before the next one gets a group, so the end cannot be before it.
            (Files::Sound, Later::Behind) => Verdict::GroupsBehind,
            (Files::Sound, Later::InSegment) => Verdict::Torn,
            (Files::Sound, Later::Nowhere) if self.only_zeros => Verdict::CleanEnd,
            (Files::Sound, Later::Nowhere) => Verdict::TornOrRecycled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [Files; 4] = [Files::Sound, Files::Gap, Files::NoStart, Files::SealedLast];
    const LATER: [Later; 3] = [Later::Nowhere, Later::InSegment, Later::Behind];

    fn every_row() -> impl Iterator<Item = Findings> {
        let rows = FILES.into_iter().flat_map(|files| LATER.into_iter().map(move |later| (files, later)));
        let rows = rows.flat_map(|row| [false, true].map(|durable_at_place| (row, durable_at_place)));
        rows.flat_map(|((files, later), durable_at_place)| {
            [false, true].map(|only_zeros| Findings { files, later, durable_at_place, only_zeros })
        })
    }

    /// The table once more, as a list of sentences: each row says which findings it takes, in any order.
    #[test]
    fn exactly_one_row_of_the_table_takes_each_finding() {
        for row in every_row() {
            let Findings { files, later, durable_at_place, only_zeros } = row;
            let sound = files == Files::Sound;
            let durable = durable_at_place && later != Later::Nowhere;
            let letters = [
                (sound && later == Later::Nowhere && only_zeros, Verdict::CleanEnd),
                (sound && durable, Verdict::AckedDamage),
                (sound && later == Later::InSegment && !durable, Verdict::Torn),
                (sound && later == Later::Nowhere && !only_zeros, Verdict::TornOrRecycled),
                (sound && later == Later::Behind && !durable, Verdict::GroupsBehind),
                (files == Files::NoStart, Verdict::NoStart),
                (files == Files::Gap || files == Files::SealedLast, Verdict::MissingSegment),
            ];
            let taken: Vec<Verdict> =
                letters.into_iter().filter(|(takes, _)| *takes).map(|(_, verdict)| verdict).collect();
            assert_eq!(taken, [row.verdict()], "{row:?}");
        }
    }

    #[test]
    fn a_durable_lsn_at_or_above_the_place_is_never_cut() {
        for row in every_row().filter(|row| row.durable_at_place && row.later != Later::Nowhere) {
            let cut = matches!(row.verdict(), Verdict::CleanEnd | Verdict::Torn | Verdict::TornOrRecycled);
            assert!(!cut, "{row:?}");
        }
    }

    #[test]
    fn a_tail_that_no_durable_lsn_covers_is_never_refused_within_its_segment() {
        let rows = every_row().filter(|row| row.files == Files::Sound && row.later != Later::Behind);
        for row in rows.filter(|row| !row.durable_at_place) {
            let cut = matches!(row.verdict(), Verdict::CleanEnd | Verdict::Torn | Verdict::TornOrRecycled);
            assert!(cut, "{row:?}");
        }
    }
}
