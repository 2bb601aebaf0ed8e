//! Which of the missing messages the broker has removed by its own rules, as retention and a time to live do. They are not lost.
//!
//! The broker is asked once, when consumers have ended and something is missing. What it does not show to be removed stays lost or unread.
//! One share of a scenario does not know whether messages are missing. Each share asks, and records which rules may have removed messages.

use futures_util::future::{FutureExt, join_all};

use super::join::subscription;
use crate::broker::{Broker, Removal, RemovalExtent, RemovalRule, Undelivered};
use crate::engine::prepare::TrialContext;
use crate::load::KeySource;
use crate::measure::{Arrived, GroupAccount, SubscriptionIndex, Unreceivable};
use crate::scenario::Partitioning;

/// Different keys, and messages of all groups, of which the latest are found: 20 MB, and about a second.
const MAX_KEYS: u64 = 1 << 20;
const MAX_MESSAGES: u64 = 200_000_000;

/// What the broker tells, by topic; empty: it was not asked.
#[derive(Default)]
pub struct Removals(Vec<Option<Removal>>);

impl Removals {
    /// Asks the broker.
    pub async fn ask<B: Broker>(context: &TrialContext<'_>, broker: &B) -> Self {
        let Some(consumers) = &context.scenario.consumers else { return Removals::default() };
        let of_topic = |topic: usize| async move {
            let name = |group| subscription(context, consumers, SubscriptionIndex { group, topic }, 0).group;
            let groups: Vec<String> = (0..consumers.groups.len()).map(name).collect();
            broker.removal(&context.topics[topic], &groups).await
        };
        Removals(join_all((0..context.topics.len()).map(|topic| of_topic(topic).boxed())).await)
    }

    /// Without the topics of which the broker has removed no message.
    #[must_use]
    pub fn without_complete(mut self, starts: &[Vec<u64>]) -> Self {
        let is_complete = |extent: &RemovalExtent, starts| match extent {
            RemovalExtent::FirstOffsets(firsts) => is_from_the_start(firsts, starts),
            RemovalExtent::Undelivered(counts) => counts.iter().all(|of_group| of_group.messages == 0),
            RemovalExtent::FirstOffsetsWithGaps(_) | RemovalExtent::Left(_) => false,
        };
        for (topic, starts) in self.0.iter_mut().zip(starts) {
            topic.take_if(|removal| is_complete(&removal.extent, starts));
        }
        self
    }

    /// The rules by which the broker removes messages.
    pub fn rules(&self) -> Vec<RemovalRule> {
        let mut rules: Vec<_> = self.0.iter().flatten().flat_map(|removal| removal.rules.iter().cloned()).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    /// Missing messages that compaction does not remove, as they are the latest of their keys. Nothing where it is not known which are
    /// the latest, or where something else may have removed them. `passed_until` by producer. A message may come behind as many later ones as
    /// `reordered`.
    pub fn kept(
        &self,
        (group, arrived): (usize, &Arrived),
        context: &TrialContext<'_>,
        starts: &[Vec<u64>],
        (passed_until, reordered): (&[u64], u64),
    ) -> GroupAccount {
        let (producers, payload) = (&context.scenario.producers, &context.scenario.payload);
        let distinct = producers.keys.distinct();
        let groups = context.verification().map_or(0, |verification| verification.groups() as u64);
        let is_known = (1..=MAX_KEYS).contains(&distinct)
            && context.acks.submitted().saturating_mul(groups) <= MAX_MESSAGES
            && producers.partitioning != Partitioning::RoundRobin
            // Other programs may send the same keys.
            && arrived.foreign == 0
            // The latest message of a key is removed as well if it has no payload.
            && payload.tombstones == 0.0;
        let Some(verification) = context.verification().filter(|_| is_known) else { return GroupAccount::default() };
        let keys = |producer: usize| {
            let source = KeySource::new(producers.keys, producer, producers.count, payload.seed);
            (producer, source.numbers().take(context.acks.window(producer).submitted() as usize))
        };
        let of_topic = |(topic, removal): (usize, &Option<Removal>)| match &removal.as_ref()?.extent {
            RemovalExtent::FirstOffsetsWithGaps(firsts) if is_from_the_start(firsts, &starts[topic]) => {
                let senders = (0..producers.count).filter(|producer| context.topic_of(*producer) == topic).map(keys);
                let passed_until = |producer: usize| passed_until[producer];
                Some(verification.account_of_latest(group, distinct as usize, reordered, senders, passed_until))
            }
            _ => None,
        };
        self.0.iter().enumerate().filter_map(of_topic).fold(GroupAccount::default(), |mut all, of_topic| {
            all += of_topic;
            all
        })
    }

    /// The group's account, where what the broker has removed counts so, but for what it has `kept`. `offsets`: where the topics' partitions
    /// began and ended.
    pub fn taken_from(
        &self,
        (account, kept): (GroupAccount, GroupAccount),
        (group, arrived): (usize, &Arrived),
        context: &TrialContext<'_>,
        offsets: (&[Vec<u64>], &[Option<Vec<u64>>]),
    ) -> GroupAccount {
        let (Some(arrivals), Some(verification)) = (&context.arrivals, context.verification()) else { return account };
        let (starts, ends) = offsets;
        // Otherwise not all offsets that were received are known.
        let has_offsets = arrived.unordered + arrived.order_unchecked == 0;
        let of_topic = |(topic, removal): (usize, &Removal)| {
            let (firsts, has_gaps) = match &removal.extent {
                RemovalExtent::FirstOffsets(firsts) => (firsts, false),
                RemovalExtent::FirstOffsetsWithGaps(firsts) => (firsts, true),
                // Below, for all topics together.
                RemovalExtent::Undelivered(_) | RemovalExtent::Left(_) => return Unreceivable::default(),
            };
            if !has_offsets {
                return Unreceivable::default();
            }
            arrivals.unreceivable(SubscriptionIndex { group, topic }, &starts[topic], firsts, has_gaps)
        };
        let told = self.0.iter().enumerate().filter_map(|(topic, removal)| Some((topic, removal.as_ref()?)));
        let unreceivable = told.map(of_topic).fold(Unreceivable::default(), Unreceivable::plus);
        // Messages without an acknowledgement may be stored, and so may marks of transactions and messages of other programs: then there are
        // more offsets than acknowledged messages.
        let acknowledged = verification.acknowledged();
        let unacknowledged = context.acks.submitted().saturating_sub(acknowledged);
        let not_received = unacknowledged.saturating_sub(account.not_acknowledged_but_stored);
        let others = not_received.max(written(starts, ends).saturating_sub(acknowledged));
        let missing = account.lost + account.unread;
        let gone = Unreceivable { passed: self.left(group).map_or(0, |left| missing.saturating_sub(left)), ahead: 0 };
        let Undelivered { messages, some_are_left } = self.undelivered(group);
        let undelivered = Unreceivable::from_undelivered(messages, some_are_left, account.lost);
        account.with_removed(unreceivable.plus(undelivered).without(others).plus(gone), kept)
    }

    /// Messages of all topics that the broker has not delivered to a group.
    fn undelivered(&self, group: usize) -> Undelivered {
        let of_topic = |removal: &Removal| match &removal.extent {
            RemovalExtent::Undelivered(counts) => counts.get(group).copied(),
            _ => None,
        };
        self.0.iter().flatten().filter_map(of_topic).fold(Undelivered::default(), |sum, of_topic| Undelivered {
            messages: sum.messages + of_topic.messages,
            some_are_left: sum.some_are_left || of_topic.some_are_left,
        })
    }

    /// Messages that the broker still has for a group; `None`: for some topic, their number is not known.
    fn left(&self, group: usize) -> Option<u64> {
        let of_topic = |removal: &Option<Removal>| match &removal.as_ref()?.extent {
            RemovalExtent::Left(counts) => counts.get(group).copied(),
            _ => None,
        };
        // Nothing was told if it was not asked.
        self.0.iter().map(of_topic).sum::<Option<u64>>().filter(|_| !self.0.is_empty())
    }
}

/// Whether partitions can be read from where they began before the load: then retention has removed nothing of the trial.
fn is_from_the_start(firsts: &[u64], starts: &[u64]) -> bool {
    firsts.iter().enumerate().all(|(partition, first)| *first <= starts.get(partition).copied().unwrap_or(0))
}

/// Offsets that the topics had more when consumers ended than before the load, as far as that is known.
fn written(starts: &[Vec<u64>], ends: &[Option<Vec<u64>>]) -> u64 {
    let of_topic = |(starts, ends): (&Vec<u64>, &Option<Vec<u64>>)| {
        let ends = ends.iter().flatten().enumerate();
        ends.map(|(partition, end)| end.saturating_sub(starts.get(partition).copied().unwrap_or(0))).sum::<u64>()
    };
    starts.iter().zip(ends).map(of_topic).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::RemovalCause;

    #[test]
    fn left_messages_of_every_topic_or_not_known() {
        let left =
            |counts: &[u64]| Some(Removal { extent: RemovalExtent::Left(counts.to_vec()), ..Removal::default() });
        assert_eq!(Removals(vec![left(&[1, 2]), left(&[10, 20])]).left(1), Some(22));
        assert_eq!(Removals(vec![left(&[1]), None]).left(0), None);
        assert_eq!(Removals::default().left(0), None);
    }

    #[test]
    fn topics_of_which_nothing_was_removed_have_no_rules() {
        let rules = |extent| {
            let rules = vec![RemovalRule::new(RemovalCause::Retention, "max_bytes", "5")];
            Removals(vec![Some(Removal { rules, extent })]).without_complete(&[vec![3, 3]]).rules().len()
        };
        let undelivered = |messages| RemovalExtent::Undelivered(vec![Undelivered { messages, some_are_left: true }]);
        assert_eq!([vec![3, 3], vec![3, 4]].map(|firsts| rules(RemovalExtent::FirstOffsets(firsts))), [0, 1]);
        assert_eq!([0, 1].map(|messages| rules(undelivered(messages))), [0, 1]);
        // Compaction keeps the first offset, and the number of messages left does not show how many were removed.
        let kept = [RemovalExtent::FirstOffsetsWithGaps(vec![3, 3]), RemovalExtent::Left(vec![0])];
        assert_eq!(kept.map(rules), [1, 1]);
    }
}
