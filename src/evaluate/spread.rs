//! How figures differ from one partition, or one consumer, to the next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::sections::per_second;
use crate::broker::Topic;
use crate::engine::Outcome;
use crate::measure::{CompactDistribution, ConsumerTally, MAX_PARTITIONS, PartitionTally};
use crate::record::{
    ConsumerFigures, ConsumerSpread, Consumers, Extent, PartitionFigures, Partitions, independent_values_needed,
};
use crate::scenario::Trial;

/// Most that a record lists one by one: with more, it would be about little else.
const MAX_LISTED: usize = 32;

/// What was acknowledged in single partitions; `None` where fewer than two are known.
pub(super) fn partitions(outcome: &Outcome) -> Option<Partitions> {
    let found = outcome.partitions.as_ref()?;
    let figures = |of: &PartitionTally| {
        let (p50_ns, p99_ns) = percentiles(of.latency.as_ref(), of.moments);
        let topic = of.name.topic.to_string();
        PartitionFigures { topic, partition: of.name.partition, acknowledged: of.acknowledged, p50_ns, p99_ns }
    };
    let has_partitions = found.partitions.iter().any(|of| of.name.partition.is_some());
    let is_used = |of: &&PartitionTally| of.name.partition.is_some() || !has_partitions || of.acknowledged > 0;
    let mut all: Vec<PartitionFigures> = found.partitions.iter().filter(is_used).map(figures).collect();
    let unwritten = unwritten(&outcome.topics, &all);
    all.extend(unwritten);
    all.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
    Some(Partitions {
        partitions: all.len() as u64,
        unknown: found.unknown,
        acknowledged: Extent::from_values(all.iter().map(|of| of.acknowledged)).filter(|_| all.len() > 1)?,
        p50_ns: known(all.iter().map(|of| (of.acknowledged, of.p50_ns))),
        p99_ns: known(all.iter().map(|of| (of.acknowledged, of.p99_ns))),
        listed: listed(all, |of| (of.p99_ns, of.p50_ns), |of| of.acknowledged),
    })
}

/// Partitions to which nothing was written, of topics of which other partitions were: a client may name those only that it writes to.
fn unwritten(topics: &[Topic], written: &[PartitionFigures]) -> Vec<PartitionFigures> {
    let all: u64 = topics.iter().map(|topic| u64::from(topic.partitions)).sum();
    if all > MAX_PARTITIONS as u64 {
        return Vec::new();
    }
    let written: BTreeSet<(&str, u32)> =
        written.iter().filter_map(|of| Some((of.topic.as_str(), of.partition?))).collect();
    let is_known =
        |topic: &&Topic| written.range((topic.name.as_str(), 0)..=(topic.name.as_str(), u32::MAX)).next().is_some();
    let partitions = topics
        .iter()
        .filter(is_known)
        .flat_map(|topic| (0..topic.partitions).map(move |partition| (topic.name.as_str(), partition)));
    let missing = partitions.filter(|partition| !written.contains(partition));
    let empty = |(topic, partition): (&str, u32)| PartitionFigures {
        topic: topic.to_owned(),
        partition: Some(partition),
        ..PartitionFigures::default()
    };
    missing.map(empty).collect()
}

/// What single consumers received; `None` where no group has two of them. Of a share, the others may be in another one.
pub(super) fn consumers(trial: &Trial, outcome: &Outcome) -> Option<Consumers> {
    let is_timed = trial.scenario.consumers.as_ref().is_some_and(|consumers| consumers.end_to_end);
    let window_ns = outcome.totals.window.length_ns();
    let figures = |of: &ConsumerTally| {
        let (p50_ns, p99_ns) = percentiles(of.end_to_end.as_ref().filter(|_| is_timed), of.moments);
        let topic = outcome.topics.get(of.subscription.topic).map(|topic| topic.name.clone());
        ConsumerFigures {
            group: of.subscription.group,
            topic: topic.unwrap_or_default(),
            member: of.member,
            consumed: of.consumed,
            consumed_per_second: per_second(of.in_window, window_ns),
            end_to_end_p50_ns: p50_ns,
            end_to_end_p99_ns: p99_ns,
        }
    };
    let all: Vec<ConsumerFigures> = outcome.consumers.iter().map(figures).collect();
    let mut groups: BTreeMap<usize, Vec<&ConsumerFigures>> = BTreeMap::new();
    all.iter().for_each(|of| groups.entry(of.group).or_default().push(of));
    let least = if trial.scenario.part.is_some() { 1 } else { 2 };
    groups.retain(|_, of| of.len() >= least);
    let groups: Vec<ConsumerSpread> = groups.into_iter().filter_map(|(group, of)| spread(group, &of)).collect();
    (!groups.is_empty()).then(|| Consumers { groups, listed: listed_consumers(all) })
}

fn spread(group: usize, consumers: &[&ConsumerFigures]) -> Option<ConsumerSpread> {
    Some(ConsumerSpread {
        group,
        consumers: consumers.len() as u64,
        consumed: Extent::from_values(consumers.iter().map(|of| of.consumed))?,
        end_to_end_p50_ns: known(consumers.iter().map(|of| (of.consumed, of.end_to_end_p50_ns))),
        end_to_end_p99_ns: known(consumers.iter().map(|of| (of.consumed, of.end_to_end_p99_ns))),
    })
}

/// Of those with messages; `None` if one of them lacks the figure.
fn known(figures: impl Iterator<Item = (u64, Option<u64>)>) -> Option<Extent> {
    let figures: Option<Vec<u64>> = figures.filter(|(messages, _)| *messages > 0).map(|(_, figure)| figure).collect();
    Extent::from_values(figures?.into_iter())
}

/// Median and 99th percentile in nanoseconds, the latter if enough values are independent of each other.
fn percentiles(latency: Option<&CompactDistribution>, independent: u64) -> (Option<u64>, Option<u64>) {
    let Some(latency) = latency.filter(|latency| !latency.is_empty()) else { return (None, None) };
    let is_certain = independent >= independent_values_needed(0.99);
    (Some(latency.value_at_quantile(0.5)), is_certain.then(|| latency.value_at_quantile(0.99)))
}

/// Those that a record lists.
pub fn listed_consumers(all: Vec<ConsumerFigures>) -> Vec<ConsumerFigures> {
    listed(all, |of| (of.end_to_end_p99_ns, of.end_to_end_p50_ns), |of| of.consumed)
}

/// Of more than may be listed: half of them the slowest, a quarter those with the fewest and a quarter those with the most messages. They
/// stay in their order.
fn listed<T>(all: Vec<T>, slowness: impl Fn(&T) -> (Option<u64>, Option<u64>), messages: impl Fn(&T) -> u64) -> Vec<T> {
    if all.len() <= MAX_LISTED {
        return all;
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    let mut chosen = BTreeSet::new();
    let mut choose = |order: &[usize], until: usize| {
        let mut free = order.iter();
        while chosen.len() < until
            && let Some(index) = free.next()
        {
            chosen.insert(*index);
        }
    };
    order.sort_by_key(|index| Reverse(slowness(&all[*index])));
    choose(&order, MAX_LISTED / 2);
    order.sort_by_key(|index| messages(&all[*index]));
    choose(&order, MAX_LISTED * 3 / 4);
    order.reverse();
    choose(&order, MAX_LISTED);
    all.into_iter().enumerate().filter(|(index, _)| chosen.contains(index)).map(|(_, figures)| figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(member: usize, consumed: u64, p99_ns: Option<u64>) -> ConsumerFigures {
        ConsumerFigures { member, consumed, end_to_end_p99_ns: p99_ns, ..ConsumerFigures::default() }
    }

    #[test]
    fn many_consumers_list_those_that_differ_the_most() {
        let all = (0..100).map(|member| figures(member, 1000 + member as u64, Some((member as u64 * 37) % 100)));
        let all: Vec<ConsumerFigures> = all.collect();
        let listed = listed_consumers(all.clone());
        let members: Vec<usize> = listed.iter().map(|of| of.member).collect();
        assert_eq!(members.len(), MAX_LISTED);
        assert!(members.is_sorted());
        assert!([0, 1, 2, 97, 98, 99].iter().all(|extreme| members.contains(extreme)), "{members:?}");
        let slowest = all.iter().filter(|of| of.end_to_end_p99_ns >= Some(84)).map(|of| of.member);
        assert!(slowest.into_iter().all(|slow| members.contains(&slow)), "{members:?}");
    }

    #[test]
    fn partition_without_messages_is_listed() {
        let topic = |name: &str, partitions| Topic { name: name.to_owned(), partitions, replication: 1 };
        let written = |topic: &str, partition| PartitionFigures {
            topic: topic.to_owned(),
            partition,
            acknowledged: 5,
            ..PartitionFigures::default()
        };
        let topics = [topic("a", 3), topic("b", 2)];
        let found = unwritten(&topics, &[written("a", Some(1)), written("b", None)]);
        let names: Vec<_> = found.iter().map(|of| (of.topic.as_str(), of.partition, of.acknowledged)).collect();
        assert_eq!(names, [("a", Some(0), 0), ("a", Some(2), 0)], "of topic b, no partition is known");
        assert_eq!(unwritten(&[topic("a", 5000)], &[written("a", Some(1))]), [], "too many");
    }

    #[test]
    fn consumer_with_few_messages_hides_the_extent() {
        let spread = |of: &[ConsumerFigures]| spread(0, &of.iter().collect::<Vec<_>>()).unwrap();
        let idle = spread(&[figures(0, 0, None), figures(1, 50, Some(7)), figures(2, 50, Some(9))]);
        assert_eq!(idle.consumed, Extent { smallest: 0, largest: 50 });
        assert_eq!(idle.end_to_end_p99_ns, Some(Extent { smallest: 7, largest: 9 }));
        let few = spread(&[figures(0, 3, None), figures(1, 50, Some(7))]);
        assert_eq!(few.end_to_end_p99_ns, None);
    }

    #[test]
    fn a_99th_percentile_needs_independent_values() {
        let mut latency = CompactDistribution::new();
        assert_eq!(percentiles(Some(&latency), 5000), (None, None));
        latency.record_n(1_000_000, 5000);
        assert!(matches!(percentiles(Some(&latency), 5000), (Some(_), Some(_))));
        assert!(matches!(percentiles(Some(&latency), 999), (Some(_), None)));
    }
}
