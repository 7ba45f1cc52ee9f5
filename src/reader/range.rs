//! Which records a range asks for.

use std::ops::{Bound, RangeBounds};

use crate::Lsn;
use crate::error::{Error, Result};

/// The first and the last record to serve, inclusive; nothing where the first is above the last.
///
/// What is above `durable` is left out, for it is not there yet. An explicit start below `oldest` was trimmed away, which
/// is an error as long as the range asks for anything at all. Zero stands before the first record and counts as 1.
pub(crate) fn resolve(lsns: &impl RangeBounds<Lsn>, oldest: Lsn, durable: Lsn) -> Result<(Lsn, Lsn)> {
    const NOTHING: (Lsn, Lsn) = (Lsn::FIRST, Lsn::ZERO);
    let first = match lsns.start_bound() {
        Bound::Unbounded => oldest,
        Bound::Included(&lsn) => lsn.max(Lsn::FIRST),
        Bound::Excluded(&lsn) if lsn == Lsn::MAX => return Ok(NOTHING),
        Bound::Excluded(&lsn) => lsn.next(),
    };
    let last = match lsns.end_bound() {
        Bound::Unbounded => Lsn::MAX,
        Bound::Included(&lsn) => lsn,
        Bound::Excluded(&lsn) => lsn.previous(),
    };
    if first > last {
        return Ok(NOTHING);
    }
    if first < oldest {
        return Err(Error::Trimmed { oldest });
    }
    Ok((first, last.min(durable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number)
    }

    fn resolved(lsns: impl RangeBounds<Lsn>) -> Option<(u64, u64)> {
        let (first, last) = resolve(&lsns, lsn(5), lsn(9)).ok()?;
        Some(if first > last { (0, 0) } else { (first.get(), last.get()) })
    }

    #[test]
    fn an_open_start_is_the_oldest_record_and_an_open_end_the_durable_one() {
        assert_eq!(resolved(..), Some((5, 9)));
        assert_eq!(resolved(lsn(7)..), Some((7, 9)));
        assert_eq!(resolved(..lsn(7)), Some((5, 6)));
        assert_eq!(resolved(..=lsn(7)), Some((5, 7)));
    }

    #[test]
    fn an_end_above_the_durable_lsn_is_cut() {
        assert_eq!(resolved(lsn(5)..lsn(100)), Some((5, 9)));
        assert_eq!(resolved(lsn(10)..), Some((0, 0)));
        assert_eq!(resolved(lsn(10)..=lsn(12)), Some((0, 0)));
    }

    #[test]
    fn an_explicit_start_below_the_oldest_record_is_trimmed() {
        assert_eq!(resolved(lsn(4)..), None);
        assert_eq!(resolved(Lsn::ZERO..), None);
        assert_eq!(resolved((Bound::Excluded(lsn(3)), Bound::Unbounded)), None);
        assert_eq!(resolved((Bound::Excluded(lsn(4)), Bound::Unbounded)), Some((5, 9)));
    }

    #[test]
    fn zero_counts_as_the_first_record() {
        assert_eq!(resolve(&(Lsn::ZERO..), Lsn::FIRST, lsn(2)).unwrap(), (Lsn::FIRST, lsn(2)));
    }

    #[test]
    fn an_empty_or_inverted_range_asks_for_nothing_wherever_it_lies() {
        assert_eq!(resolved(lsn(3)..lsn(3)), Some((0, 0)));
        #[allow(clippy::reversed_empty_ranges)]
        let inverted = lsn(8)..lsn(6);
        assert_eq!(resolved(inverted), Some((0, 0)));
        assert_eq!(resolved(..Lsn::ZERO), Some((0, 0)));
        assert_eq!(resolved((Bound::Excluded(Lsn::MAX), Bound::Unbounded)), Some((0, 0)));
    }
}
