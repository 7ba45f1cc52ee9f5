//! Where the log ends: the walk, the table of verdicts, and what must be made durable before anything is served.

mod search;
mod table;
mod tail;
mod walk;

#[cfg(test)]
pub(crate) mod image;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod watched;

use std::sync::Arc;

use self::search::{Behind, search};
use self::table::{Files, Findings, Later, Verdict};
use self::walk::Walk;
use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::frame::{GroupHeader, SEGMENT_HEADER_BYTES};
use crate::planted::{Fault, planted};
use crate::segment::{Checked, GroupReader, Segment, Succession};

/// What opening a log found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The oldest record that is there, or the LSN that the next record gets where none is.
    pub oldest: Lsn,
    /// The last record that is there, [`Lsn::ZERO`] in a new log. Where all records were trimmed it is the last of those,
    /// one below `oldest`.
    pub last: Lsn,
    /// How many bytes of a torn tail, which was never acknowledged, were cut: from the end of the log to the end of the
    /// last dead group behind it whose header still shows that it was written to this segment. It is a lower bound where a
    /// crash took the headers too. What a recycled file still holds from its former life is no loss and is not counted. A
    /// read-only open cuts nothing; it reports what an open for writing would, and next to a writer at work that may be what
    /// is just being written.
    pub cut_bytes: u64,
    /// How many groups were not yet proven stable by the log itself and were therefore made durable again. One or two are
    /// normal, also after a clean close. A read-only open writes nothing and reports 0.
    pub rewritten_groups: u64,
    /// Whether the log ends with the group that [`Wal::close`](crate::Wal::close) writes, or never had a record. False
    /// after a crash; also after a close that had nothing to prove, because a trim had already done that.
    pub closed_cleanly: bool,
}

impl Recovery {
    /// What there is to say of a log that has no segment yet.
    pub(crate) fn of_new_log() -> Self {
        Recovery {
            oldest: Lsn::FIRST,
            last: Lsn::ZERO,
            cut_bytes: 0,
            rewritten_groups: 0,
            closed_cleanly: true,
        }
    }
}

/// A log whose end is known and stable, ready to be served and appended to.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// All segments, in the order of their numbers.
    pub(crate) segments: Vec<RecoveredSegment>,
    /// The segment that the log goes on in, by its index. Those behind it hold no group.
    pub(crate) active: usize,
    /// Where in it the next group goes.
    pub(crate) offset: u64,
    /// The next group's chain value.
    pub(crate) chain: u32,
    /// The next record's LSN.
    pub(crate) next_lsn: Lsn,
    /// A live record lies above the durable LSN of every live group: close has to write a group that covers it.
    pub(crate) unvouched: bool,
    pub(crate) report: Recovery,
}

/// A segment and what is known of its groups.
#[derive(Clone, Debug)]
pub(crate) struct RecoveredSegment {
    pub(crate) segment: Arc<Segment>,
    /// The LSN that its first group starts with; `None` without a group.
    pub(crate) first_lsn: Option<Lsn>,
    /// Exact for the active segment. A sealed one is not read in full and counts as having some.
    pub(crate) has_records: bool,
}

/// Writes bytes at an offset of a segment and makes them durable: the barrier, which recovery does not know.
pub(crate) type Persist<'a> = dyn FnMut(&Segment, u64, &[u8]) -> Result<()> + 'a;

/// Finds the end of a log and makes what open serves durable. `segments` are all segments of the directory, ascending,
/// at least one.
pub(crate) fn recover(
    disk: &dyn Disk,
    segments: &[Arc<Segment>],
    persist: &mut Persist<'_>,
) -> Result<Recovered> {
    let mut end = find_end(disk, segments, Opener::Writer)?;
    let tail = end.walk.tail.take();
    end.report.rewritten_groups = tail.groups();
    let (last, active) = (&segments[end.walk.last_index], &segments[end.walk.index]);
    tail.persist(last, active, end.walk.offset, persist)?;
    Ok(end.into_recovered(segments))
}

/// The same, without making anything durable, in a directory that a writer may be working on. Also returns the highest
/// durable LSN on disk and the segment that holds the groups above it, which are as yet unproven.
pub(crate) fn inspect(disk: &dyn Disk, segments: &[Arc<Segment>]) -> Result<(Recovered, Lsn, usize)> {
    let end = find_end(disk, segments, Opener::Reader)?;
    let (mark, last_index) = (end.walk.tail.mark(), end.walk.last_index);
    Ok((end.into_recovered(segments), mark, last_index))
}

/// Who asks for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    /// Holds the lock: nobody writes meanwhile.
    Writer,
    /// Takes no lock: somebody may be writing, so what stands behind the place may be younger than the place.
    Reader,
}

/// The end of a log, not yet stable.
#[derive(Debug)]
struct End<'a> {
    walk: Walk<'a>,
    report: Recovery,
}

fn find_end<'a>(disk: &'a dyn Disk, segments: &'a [Arc<Segment>], opener: Opener) -> Result<End<'a>> {
    if let Some(number) = missing_number(segments) {
        refuse_files(Files::Gap, || missing_segment(disk, number))?;
    }
    let firsts = first_groups(disk, segments)?;
    let start = firsts.iter().rposition(Option::is_some);
    let oldest_known = segments[0].number == 1 || firsts[0].is_some();
    refuse_files(if oldest_known { Files::Sound } else { Files::NoStart }, || no_start(&segments[0]))?;
    if !fit_together(segments, &firsts, start) {
        // The walk from the very start names the place.
        let mut walk = Walk::new(disk, segments, 0, false);
        walk.run()?;
        return Err(damage_at(&walk, segments));
    }
    let start = start.unwrap_or(0);
    let mut walk = Walk::new(disk, segments, start, opener == Opener::Writer);
    for (known, first) in walk.first_lsns.iter_mut().zip(&firsts[..start]) {
        *known = first.map(|header| header.first_lsn);
    }
    walk.run()?;
    let mut behind = search(disk, segments, walk.index, walk.offset)?;
    let mut verdict = look_up(&walk, &behind).verdict();
    if opener == Opener::Reader && matches!(verdict, Verdict::AckedDamage | Verdict::GroupsBehind) {
        walk.run()?;
        // A live writer went on between the walk and the search: all that the search found is now part of the chain.
        let explained =
            walk.next_lsn() > behind.mark && behind.later_segment.is_none_or(|later| later <= walk.index);
        if explained && !walk.sealed_last {
            verdict = Verdict::CleanEnd;
            behind = Behind::nothing(walk.offset);
        }
    }
    refuse(disk, &walk, segments, verdict)?;
    walk.tail.cover(behind.mark);
    let report = report(&walk, verdict, &behind);
    Ok(End { walk, report })
}

/// The first number that should have a segment and has none.
fn missing_number(segments: &[Arc<Segment>]) -> Option<u64> {
    let gap = segments.windows(2).find(|pair| pair[0].number.checked_add(1) != Some(pair[1].number));
    match gap {
        Some(pair) => Some(pair[0].number.saturating_add(1)),
        None => segments.is_empty().then_some(1),
    }
}

/// What the table says about files that are not even walked.
fn refuse_files(files: Files, error: impl FnOnce() -> Error) -> Result<()> {
    let findings = Findings { files, later: Later::Nowhere, durable_at_place: false, only_zeros: true };
    match findings.verdict() {
        Verdict::MissingSegment | Verdict::NoStart => Err(error()),
        _ => Ok(()),
    }
}

fn missing_segment(disk: &dyn Disk, number: u64) -> Error {
    Error::MissingSegment { dir: disk.path().to_owned(), number }
}

/// The verified first group of each segment.
fn first_groups(disk: &dyn Disk, segments: &[Arc<Segment>]) -> Result<Vec<Option<GroupHeader>>> {
    let mut reader = GroupReader::for_first_groups();
    segments.iter().map(|segment| first_group(&mut reader, disk, segment)).collect()
}

fn first_group(reader: &mut GroupReader, disk: &dyn Disk, segment: &Segment) -> Result<Option<GroupHeader>> {
    let Ok(header) = reader.header(disk, segment, SEGMENT_HEADER_BYTES)? else {
        return Ok(None);
    };
    let checked = reader.check(disk, segment, SEGMENT_HEADER_BYTES, &header, None)?;
    Ok((!matches!(checked, Checked::Flawed(_))).then_some(header))
}

/// A segment gets its first group when all before it are sealed and stable. So those before `start`, the last one with a
/// first group, need not be read in full to know that they are part of the log; but their first groups must be there.
fn fit_together(segments: &[Arc<Segment>], firsts: &[Option<GroupHeader>], start: Option<usize>) -> bool {
    let Some(start) = start.filter(|&start| start > 0) else {
        return true;
    };
    let mut next_lsn = Lsn::ZERO;
    let all_follow = firsts[..=start].iter().all(|first| {
        let follows = first.is_some_and(|header| header.first_lsn >= next_lsn);
        next_lsn = first.map_or(next_lsn, |header| header.next_lsn());
        follows
    });
    let starts = Succession::at_start_of(segments[0].number);
    all_follow && firsts[0].is_some_and(|header| starts.check(&header).is_ok())
}

fn no_start(segment: &Segment) -> Error {
    segment.corrupt(SEGMENT_HEADER_BYTES, Lsn::ZERO, "the oldest segment has no first group that verifies")
}

fn damage_at(walk: &Walk<'_>, segments: &[Arc<Segment>]) -> Error {
    segments[walk.index].corrupt(walk.offset, walk.next_lsn(), walk.flaw)
}

fn look_up(walk: &Walk<'_>, behind: &Behind) -> Findings {
    Findings {
        files: if walk.sealed_last { Files::SealedLast } else { Files::Sound },
        later: match behind.later_segment {
            Some(_) => Later::Behind,
            None if behind.in_segment => Later::InSegment,
            None => Later::Nowhere,
        },
        durable_at_place: behind.mark >= walk.next_lsn() && !planted(Fault::DurableMarkIgnored),
        only_zeros: behind.only_zeros,
    }
}

/// The verdicts that open does not go on with.
fn refuse(disk: &dyn Disk, walk: &Walk<'_>, segments: &[Arc<Segment>], verdict: Verdict) -> Result<()> {
    match verdict {
        Verdict::CleanEnd | Verdict::Torn | Verdict::TornOrRecycled => Ok(()),
        Verdict::AckedDamage | Verdict::GroupsBehind => Err(damage_at(walk, segments)),
        Verdict::NoStart => Err(no_start(&segments[0])),
        Verdict::MissingSegment => Err(missing_segment(disk, segments[walk.index].number.saturating_add(1))),
    }
}

fn report(walk: &Walk<'_>, verdict: Verdict, behind: &Behind) -> Recovery {
    let nothing_dead = verdict != Verdict::Torn && !behind.begun;
    Recovery {
        oldest: walk.first_lsns[0].unwrap_or(walk.next_lsn()),
        last: walk.next_lsn().previous(),
        cut_bytes: behind.dead_end - walk.offset,
        rewritten_groups: 0,
        closed_cleanly: nothing_dead && walk.last_flags.is_none_or(|flags| flags.closed),
    }
}

impl End<'_> {
    fn into_recovered(self, segments: &[Arc<Segment>]) -> Recovered {
        let walk = &self.walk;
        let described = segments.iter().enumerate().map(|(index, segment)| RecoveredSegment {
            segment: Arc::clone(segment),
            first_lsn: walk.first_lsns[index],
            has_records: if index == walk.index { walk.has_records } else { index < walk.index },
        });
        let vouching = if planted(Fault::DeadMarksVouch) { walk.tail.mark() } else { walk.live_mark };
        Recovered {
            segments: described.collect(),
            active: walk.index,
            offset: walk.offset,
            chain: walk.chain(),
            next_lsn: walk.next_lsn(),
            unvouched: walk.next_lsn().previous() > vouching,
            report: self.report,
        }
    }
}
