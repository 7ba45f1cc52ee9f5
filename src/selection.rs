//! Which strategy runs, and why.

/// Which strategy an open log uses, and why. Chosen once, at open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The strategy's [name](crate::SyncStrategy::name).
    pub strategy: String,
    /// Who chose it.
    pub source: Source,
    /// Why, for people.
    pub reason: String,
}

/// Who chose the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The program, with [`Options::strategy`](crate::Options::strategy).
    Object,
    /// The log itself.
    Auto,
}
