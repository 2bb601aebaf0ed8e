//! Which of the missing messages the broker has removed by its own rules, as retention and a time to live do. They are not lost.
//!
//! The broker is asked once, when consumers have ended and something is missing. What it does not show to be removed stays lost or unread.

use futures_util::future::join_all;

use super::join::subscription;
use crate::broker::{Broker, Removal, RemovalExtent, RemovalRule};
use crate::engine::prepare::TrialContext;
use crate::measure::{Arrived, GroupAccount, SubscriptionIndex, Unreceivable};

/// What the broker tells, by topic; empty: it was not asked.
#[derive(Default)]
pub struct Removals(Vec<Option<Removal>>);

impl Removals {
    /// Asks the broker. Of a share nothing is asked: only all shares together show what is missing.
    pub async fn ask<B: Broker>(context: &TrialContext<'_>, broker: &B) -> Self {
        let (Some(consumers), None) = (&context.scenario.consumers, &context.scenario.part) else {
            return Removals::default();
        };
        let of_topic = |topic: usize| async move {
            let name = |group| subscription(context, consumers, SubscriptionIndex { group, topic }, 0).group;
            let groups: Vec<String> = (0..consumers.groups.len()).map(name).collect();
            broker.removal(&context.topics[topic], &groups).await
        };
        Removals(join_all((0..context.topics.len()).map(of_topic)).await)
    }

    /// The rules by which the broker removes messages.
    pub fn rules(&self) -> Vec<RemovalRule> {
        let mut rules: Vec<_> = self.0.iter().flatten().flat_map(|removal| removal.rules.iter().cloned()).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    /// The group's account, where what the broker has removed counts so. `offsets`: where the topics' partitions began and ended.
    pub fn taken_from(
        &self,
        account: GroupAccount,
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
                RemovalExtent::Undelivered(counts) => {
                    return Unreceivable { passed: counts.get(group).copied().unwrap_or(0), ahead: 0 };
                }
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
        account.with_removed(unreceivable.without(others))
    }
}

/// Offsets that the topics had more when consumers ended than before the load, as far as that is known.
fn written(starts: &[Vec<u64>], ends: &[Option<Vec<u64>>]) -> u64 {
    let of_topic = |(starts, ends): (&Vec<u64>, &Option<Vec<u64>>)| {
        let ends = ends.iter().flatten().enumerate();
        ends.map(|(partition, end)| end.saturating_sub(starts.get(partition).copied().unwrap_or(0))).sum::<u64>()
    };
    starts.iter().zip(ends).map(of_topic).sum()
}
