//! What was found and created, and what is to be deleted at the end.

use std::collections::{BTreeMap, BTreeSet};

/// Groups so far, and the topics and channels that were found and created.
#[derive(Default)]
pub struct Assigned {
    /// Groups of each topic, in the order in which they came.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Topics made.
    pub made: BTreeSet<TopicLocation>,
    /// Channels that each topic had before.
    pub found: BTreeMap<TopicLocation, Vec<String>>,
    /// Channels made.
    pub channels: BTreeSet<(TopicLocation, String)>,
}

/// A topic of one nsqd, which is named by its HTTP address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicLocation {
    pub http: String,
    pub topic: String,
}
