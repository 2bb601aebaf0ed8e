//! Which partitions of a topic the members of this run have, so that it is seen which ones other members of their group have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};

/// The members of a group on a topic.
pub struct MemberShares {
    group: String,
    topic: String,
    partitions: u32,
    members: usize,
    conditions: Conditions,
    state: Mutex<SharesState>,
}

#[derive(Default)]
struct SharesState {
    /// Of each member the generation of the group in which it was told, and its partitions.
    held: BTreeMap<usize, (i32, BTreeSet<u32>)>,
    /// The partitions that none of them has, and since when.
    lacking: BTreeSet<u32>,
    since: Option<Instant>,
    with_others: BTreeMap<u32, Subject>,
}

impl MemberShares {
    pub fn new(group: &str, topic: &str, partitions: u32, members: usize, conditions: Conditions) -> Self {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        MemberShares { group, topic, partitions, members, conditions, state: Mutex::default() }
    }

    /// A member has these partitions in that generation of the group. What no member of the run has is with another one if that is still so
    /// after `settled`: a partition that moves has no member for a moment.
    pub fn hold(self: &Arc<Self>, member: usize, generation: i32, partitions: &BTreeSet<u32>, settled: Duration) {
        let mut state = self.state.lock();
        state.held.insert(member, (generation, partitions.clone()));
        if state.held.len() < self.members || state.held.values().any(|(other, _)| *other != generation) {
            return;
        }
        let held: BTreeSet<u32> = state.held.values().flat_map(|(_, partitions)| partitions).copied().collect();
        let lacking: BTreeSet<u32> = (0..self.partitions).filter(|partition| !held.contains(partition)).collect();
        state.with_others.retain(|partition, _| lacking.contains(partition));
        if state.lacking == lacking {
            return;
        }
        let since = Instant::now();
        (state.lacking, state.since) = (lacking, Some(since));
        let shares = self.clone();
        tokio::spawn(async move {
            sleep(settled).await;
            shares.tell(since);
        });
    }

    /// Tells what has been so since then, if it still is.
    fn tell(&self, since: Instant) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.since != Some(since) {
            return;
        }
        for partition in &state.lacking {
            let name = format!("{}/{partition}", self.topic);
            let subject = || Subject::new(&self.conditions, SubjectKind::ConsumedPartition, &name);
            let words = format!("the group '{}' has members that are not this run's", self.group);
            let subject = state.with_others.entry(*partition).or_insert_with(subject);
            subject.begin_since(ConditionKind::GroupHasOthers, &words, since);
        }
    }

    /// A member leaves: the group assigns its partitions to those that stay.
    pub fn leave(&self, member: usize) {
        let mut state = self.state.lock();
        state.held.remove(&member);
        (state.lacking, state.since) = (BTreeSet::new(), None);
        state.with_others.clear();
    }
}
