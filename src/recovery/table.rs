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
    SameSegment,
    /// In a segment behind it, and perhaps in its own too.
    LaterSegment,
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
            (Files::Sound, Later::SameSegment | Later::LaterSegment) if self.durable_at_place => {
                Verdict::AckedDamage
            }
            // The seal of a segment is stable before the next one gets a group, so the end cannot be before it.
            (Files::Sound, Later::LaterSegment) => Verdict::GroupsBehind,
            (Files::Sound, Later::SameSegment) => Verdict::Torn,
            (Files::Sound, Later::Nowhere) if self.only_zeros => Verdict::CleanEnd,
            (Files::Sound, Later::Nowhere) => Verdict::TornOrRecycled,
        }
    }
}
