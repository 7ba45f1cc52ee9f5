//! Why a cycle did not end as it should.

/// Either the log broke a promise, or this program could not do its part. They must not be taken for each other: a
/// negative control that only met trouble has shown nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The log lost, changed or invented something, or did not answer.
    Promise(String),
    /// The machine did not do what the layer needs.
    Trouble(String),
}

/// The second kind, for code that judges no log.
#[derive(Debug)]
pub(crate) struct Trouble(pub(crate) String);

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Failure::Promise(why)
    }
}

impl From<Trouble> for Failure {
    fn from(Trouble(why): Trouble) -> Self {
        Failure::Trouble(why)
    }
}

/// What a cycle comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;
