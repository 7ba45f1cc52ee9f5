//! stub to be replaced
#[derive(Debug)]
pub(crate) struct Pace;
#[derive(Debug)]
pub(crate) struct Provided;
#[derive(Debug)]
pub(crate) struct SegmentStore;
