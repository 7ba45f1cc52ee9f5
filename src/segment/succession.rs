//! Whether a group goes on where the previous one ended.

use crate::Lsn;
use crate::frame::{Flaw, GroupHeader};
use crate::planted::{Fault, planted};

/// What the next group must say to be the log's next group. It holds across segments, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Succession {
    /// `None` until the first group of a trimmed log says where that log starts.
    next: Option<Next>,
    session_id: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    lsn: Lsn,
    chain: u32,
}

impl Succession {
    /// At the start of the segment with this number, its predecessor unread. The log starts in segment 1; of any other the
    /// first group is believed.
    pub(crate) fn at_start_of(number: u64) -> Self {
        Succession { next: (number == 1).then_some(Next { lsn: Lsn::FIRST, chain: 0 }), session_id: None }
    }

    /// Whether a group whose header was verified is the next one.
    pub(crate) fn check(&self, header: &GroupHeader) -> Result<(), Flaw> {
        if let Some(next) = self.next {
            if header.first_lsn != next.lsn {
                return Err("the group starts with another LSN");
            }
            if header.chain != next.chain && !planted(Fault::ChainNotChecked) {
                return Err("the group's chain value does not continue its predecessor");
            }
        }
        match self.session_id {
            _ if planted(Fault::SessionNotChecked) => Ok(()),
            Some(session_id) if session_id != header.session_id && !header.flags.first_of_session => {
                Err("the group is of another session than its predecessor")
            }
            _ => Ok(()),
        }
    }

    /// Goes past a group that was verified whole.
    pub(crate) fn pass(&mut self, header: &GroupHeader) {
        self.next = Some(Next { lsn: header.next_lsn(), chain: header.crc });
        self.session_id = Some(header.session_id);
    }

    /// The LSN that the next group starts with; zero while that is not known.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next.map_or(Lsn::ZERO, |next| next.lsn)
    }

    /// The chain value that the next group has.
    pub(crate) fn chain(&self) -> u32 {
        self.next.map_or(0, |next| next.chain)
    }
}
