//! How far a stream has been read, which outlives the connections that read it.

use std::collections::BTreeSet;

use super::codec::command::Offset;

/// How far a stream has been read, and where it could not be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamProgress {
    pub stream: String,
    pub from: Offset,
    /// The offset of the next message, once that is known: from then on, new subscriptions begin there.
    pub next: Option<u64>,
    /// Attempts to subscribe that have failed since the last success, and the nodes of those in the current round.
    pub attempts: usize,
    pub tried: BTreeSet<String>,
}

impl StreamProgress {
    pub fn new(stream: String, from: Offset) -> Self {
        StreamProgress { stream, from, next: None, attempts: 0, tried: BTreeSet::new() }
    }
}

/// With the number of its source.
pub type Numbered = (usize, StreamProgress);
