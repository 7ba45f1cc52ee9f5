//! Planted faults: a rule of the log switched off on purpose, to show that a test notices.
//!
//! Only in a build with `--cfg wo_wal_planted`, which is made for that and for nothing else (`.ci/planted`). There the
//! environment variable `WO_WAL_PLANTED`, read once, names the fault of this process. In every other build
//! [`planted`] is false for ever, the environment is not read, and nothing of this is left in the code.

/// A rule that can be switched off, by what is then done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "some hooks stand in code that not every build has")]
pub(crate) enum Fault {
    // ---- the barrier
    /// A strategy writes and does not sync.
    BarrierSkipped,
    /// The ring's FSYNC is not linked to its WRITE.
    LinkDropped,
    /// A strategy repeats a sync that failed.
    SyncRepeated,
    /// A failed barrier is asked of the strategy once more.
    BarrierRepeated,
    /// A group is settled before its barrier.
    AckBeforeBarrier,
    /// A barrier that returns settles the groups before its own, whose barriers have not.
    SettledOutOfOrder,
    /// A failed barrier counts as done.
    FailureIgnored,
    /// All barriers in flight go through one open file description.
    DescriptionShared,
    /// Of the followers of a group that is settled, one is woken.
    OneFollowerWoken,
    /// What was written before an event is raised need not be seen by those who see the event.
    RaisedWithoutOrder,
    /// A replay goes on to what is staged.
    ReplayAheadOfBarrier,
    /// A reader of another process serves what only the page cache may have.
    ReaderAheadOfBarrier,

    // ---- recovery
    /// The chain value of a group is not compared.
    ChainNotChecked,
    /// The session id of a group is not compared.
    SessionNotChecked,
    /// All segments have the same id, also when a file is used again.
    SegmentsAlike,
    /// All sessions have the same id.
    SessionsAlike,
    /// Open does not write zeros over the place of the next header.
    ZerosNotWritten,
    /// Open does not make the unproven tail durable again.
    TailNotPersisted,
    /// A durable LSN on disk does not tell damage from a torn tail.
    DurableMarkIgnored,
    /// Close counts on durable LSNs in headers that open has erased.
    DeadMarksVouch,

    // ---- names and files
    /// A name counts although the directory was not synced at open.
    OpenWithoutDirectorySync,
    /// A new log's directory is not synced in its parent.
    ParentNotSynced,
    /// A prepared segment is used before the directory sync of its name.
    NameNotSynced,
    /// A removed name is never synced.
    RemovalNotSynced,
    /// The names that one trim removes share a directory sync.
    RemovalsShareSync,
    /// A removed file is rewritten before the directory sync of its removal.
    EarlyReuse,
    /// The next segment starts before the seal is durable.
    SealNotAwaited,
    /// A trim removes a segment although the next one holds no stable group.
    UnstableNext,
    /// A new log reserves its spare after its first segment.
    SpareAfterFirst,
    /// An append uses up the prepared segment also without a spare.
    SpareNotNeeded,
    /// A removed file is given back although the log needs one.
    RefillLast,
    /// A trim leaves the log in the small spare.
    StaysInSpare,
}

/// Whether this process does this wrong.
#[cfg(not(wo_wal_planted))]
#[inline(always)]
#[allow(clippy::inline_always, reason = "a constant: what it guards is not even compiled")]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// Whether this process does this wrong.
#[cfg(wo_wal_planted)]
pub(crate) fn planted(fault: Fault) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("WO_WAL_PLANTED").ok());
    chosen.as_ref().is_some_and(|name| *name == format!("{fault:?}"))
}
