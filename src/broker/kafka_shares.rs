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
    /// Of each member the generation of the group in which it was told, or how often it was told, and its partitions.
    held: BTreeMap<usize, (i32, BTreeSet<u32>)>,
    /// The partitions without a member, and since when.
    lacking: BTreeSet<u32>,
    since: Option<Instant>,
    with_others: BTreeMap<u32, Subject>,
    /// The last generation in which they had all partitions, or else the first one that they were told.
    complete: Option<i32>,
    /// Generations of the group since then.
    rebalances: i32,
}

impl MemberShares {
    pub fn new(group: &str, topic: &str, partitions: u32, members: usize, conditions: Conditions) -> Self {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        MemberShares { group, topic, partitions, members, conditions, state: Mutex::default() }
    }

    /// A member has these partitions in that generation of the group, where the client tells it. What no member of the run has is with another
    /// one if that is still so after `settled`: a partition that moves has no member for a moment.
    pub fn hold(
        self: &Arc<Self>,
        member: usize,
        generation: Option<i32>,
        partitions: &BTreeSet<u32>,
        settled: Duration,
    ) {
        let mut state = self.state.lock();
        let times = state.held.get(&member).map_or(1, |(earlier, _)| earlier + 1);
        state.held.insert(member, (generation.unwrap_or(times), partitions.clone()));
        let is_mixed = |told: i32| state.held.values().any(|(other, _)| *other != told);
        if state.held.len() < self.members || generation.is_some_and(is_mixed) {
            return;
        }
        // Each rebalance tells all members, and the first of them was told most often.
        let generation = state.held.values().map(|(told, _)| *told).max().unwrap_or(times);
        let held: BTreeSet<u32> = state.held.values().flat_map(|(_, partitions)| partitions).copied().collect();
        let lacking: BTreeSet<u32> = (0..self.partitions).filter(|partition| !held.contains(partition)).collect();
        state.rebalances = generation - *state.complete.get_or_insert(generation);
        if !state.with_others.is_empty() {
            let words = self.words(state.rebalances);
            self.conditions.reword(ConditionKind::GroupHasOthers, SubjectKind::ConsumedPartition, &words);
        }
        if lacking.is_empty() {
            state.complete = Some(generation);
        }
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

    /// Tells the condition that began at `since`, if it still lasts.
    fn tell(&self, since: Instant) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.since != Some(since) {
            return;
        }
        let words = self.words(state.rebalances);
        for partition in &state.lacking {
            let name = format!("{}/{partition}", self.topic);
            let subject = || Subject::new(&self.conditions, SubjectKind::ConsumedPartition, &name);
            let subject = state.with_others.entry(*partition).or_insert_with(subject);
            subject.begin_since(ConditionKind::GroupHasOthers, &words, since);
        }
    }

    fn words(&self, rebalances: i32) -> String {
        format!("the group '{}' has members that are not this run's (rebalances: {rebalances})", self.group)
    }

    /// A member leaves: the group assigns its partitions to those that stay.
    pub fn leave(&self, member: usize) {
        let mut state = self.state.lock();
        state.held.remove(&member);
        (state.lacking, state.since) = (BTreeSet::new(), None);
        state.with_others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rebalances_are_counted_until_partitions_are_back() {
        let conditions = Conditions::default();
        let shares = Arc::new(MemberShares::new("group", "topic", 2, 1, conditions.clone()));
        let hold = |generation: i32, partitions: &[u32]| {
            shares.hold(0, Some(generation), &partitions.iter().copied().collect(), Duration::MAX);
            let since = shares.state.lock().since.unwrap();
            shares.tell(since);
            conditions.all().pop().map(|condition| condition.words)
        };
        let words = |rebalances: u32| {
            format!("the group 'group' has members that are not this run's (rebalances: {rebalances})")
        };
        shares.hold(0, Some(3), &[0, 1].into(), Duration::MAX);
        assert_eq!(hold(4, &[0]), Some(words(1)));
        assert_eq!(hold(5, &[0]), Some(words(2)), "one more for another guest");
        assert_eq!(hold(6, &[0, 1]), Some(words(3)), "they are back");
        assert!(conditions.lasting().is_empty());
    }

    /// librdkafka tells no generation. The first member was there before the second.
    #[tokio::test]
    async fn without_generations_the_times_members_are_told_are_counted() {
        let conditions = Conditions::default();
        let shares = Arc::new(MemberShares::new("group", "topic", 3, 2, conditions.clone()));
        let hold = |member, partitions: &[u32]| {
            shares.hold(member, None, &partitions.iter().copied().collect(), Duration::MAX);
            let since = shares.state.lock().since;
            since.into_iter().for_each(|since| shares.tell(since));
            conditions.lasting().iter().map(|one| one.told()).collect::<Vec<_>>()
        };
        hold(0, &[0, 1, 2]);
        hold(0, &[0, 1]);
        assert!(hold(1, &[2]).is_empty(), "all partitions are theirs");
        hold(0, &[0]);
        assert_eq!(hold(1, &[2]).len(), 1);
        assert!(conditions.all().iter().all(|one| one.words.ends_with("(rebalances: 1)")), "{:?}", conditions.all());
    }
}
