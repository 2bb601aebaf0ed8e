//! The `[broker.null]` table, and what happens to each message: exactly the share asked for, evenly spread.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::broker::BrokerOptions;
use crate::broker::fraction::FractionSampler;
use crate::scenario::tables::{DurationText, fraction};

/// What the scripted broker does to messages. All shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullOptions {
    /// From handed over to acknowledged.
    #[serde(with = "DurationText")]
    pub service_time: Duration,
    /// By how much that grows each second.
    #[serde(with = "DurationText")]
    pub service_time_grows: Duration,
    /// Most messages per second that are acknowledged, all connections together: the others wait in a queue without end.
    pub capacity: Option<NonZeroU64>,
    /// Stretches in which nothing is acknowledged.
    pub stalls: Vec<Stall>,
    /// Answered with a refusal.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub fail: f64,
    /// Acknowledged and not delivered.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub lose: f64,
    /// Delivered twice.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Delivered after the message that follows it.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub reorder: f64,
    /// Delivered with one bit changed.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub corrupt: f64,
    /// Never answered.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub ignore: f64,
    /// Answered `late_by` after the others.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub late: f64,
    #[serde(with = "DurationText")]
    pub late_by: Duration,
    /// Delivered, and answered with a refusal.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub fail_after_storing: f64,
    /// Behaves as a broker without offsets.
    pub hide_ends: bool,
    /// What else happens on the way to each group, by its number. Groups without an entry receive all that is stored.
    pub groups: Vec<GroupOptions>,
    /// Each consumer panics after so many messages.
    pub consumer_panics_after: Option<u64>,
    /// Each producer panics after so many messages.
    pub producer_panics_after: Option<u64>,
    /// Each producer takes so many messages, and refuses all others.
    pub producer_refuses_after: Option<u64>,
    /// What a producer refuses then, it refuses for good.
    pub refusals_are_fatal: bool,
    /// A topic with this number, counted from 0, cannot be created.
    pub refuse_topic: Option<usize>,
    /// A topic with this number, counted from 0, is created, and the answer is lost.
    pub forget_topic: Option<usize>,
    /// How long it takes to remove the topics at the end, if there are any.
    #[serde(with = "DurationText")]
    pub removal_time: Duration,
    /// How often the members of a group that commits exchange their partitions.
    #[serde(with = "DurationText")]
    pub rebalance_every: Duration,
}

impl BrokerOptions for NullOptions {}

/// What happens to messages on their way to one group.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupOptions {
    /// Stored, and not delivered to this group.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub lose: f64,
    /// Delivered twice, the second time not marked as a repetition.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Delivered twice, the second time marked as a repetition.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub redeliver: f64,
    /// Marked as a repetition, though delivered once.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub flag: f64,
    /// Most messages per second that each member receives; without it, there is no limit.
    pub rate: Option<u64>,
    /// No member can join.
    pub refuse: bool,
}

/// A stretch in which nothing is acknowledged.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Since the first message.
    #[serde(with = "DurationText")]
    pub at: Duration,
    #[serde(rename = "for", with = "DurationText")]
    pub length: Duration,
}

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageFaults {
    /// Answered with a refusal; delivered all the same if it is `stored`.
    pub failed: bool,
    pub stored: bool,
    pub ignored: bool,
    pub lost: bool,
    pub duplicated: bool,
    pub reordered: bool,
    pub corrupted: bool,
}

/// Decides what happens to the messages of all connections together.
pub struct Script {
    pub options: NullOptions,
    /// Computed once: it is needed for each batch.
    plain: bool,
    samplers: [FractionSampler; 7],
    /// Late answers.
    late: FractionSampler,
    /// When the queue of a limited capacity is empty, in picoseconds since the trial's epoch.
    served_until_ps: AtomicU64,
}

impl Script {
    pub fn new(options: NullOptions) -> Self {
        let plain = options == NullOptions::default();
        let NullOptions { fail, ignore, lose, duplicate, reorder, corrupt, fail_after_storing, late, .. } = options;
        let samplers = [fail, ignore, lose, duplicate, reorder, corrupt, fail_after_storing];
        Script {
            options,
            plain,
            samplers: samplers.map(FractionSampler::new),
            late: FractionSampler::new(late),
            served_until_ps: AtomicU64::new(0),
        }
    }

    /// Whether every message is acknowledged at once and delivered as it is.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether acknowledgements wait for their time.
    pub fn takes_time(&self) -> bool {
        let NullOptions { service_time, service_time_grows, .. } = &self.options;
        !service_time.is_zero()
            || !service_time_grows.is_zero()
            || self.options.capacity.is_some()
            || !self.options.stalls.is_empty()
            || self.options.late > 0.0
    }

    /// What happens to the next message. Only messages that are delivered count for what happens on delivery, so that each share is exact
    /// among them.
    pub fn deal(&self) -> MessageFaults {
        let [fail, ignore, lose, duplicate, reorder, corrupt, fail_after_storing] = &self.samplers;
        if fail.takes_next() {
            return MessageFaults { failed: true, ..MessageFaults::default() };
        }
        if ignore.takes_next() {
            return MessageFaults { ignored: true, ..MessageFaults::default() };
        }
        if lose.takes_next() {
            return MessageFaults { lost: true, ..MessageFaults::default() };
        }
        let stored = fail_after_storing.takes_next();
        MessageFaults {
            failed: stored,
            stored,
            duplicated: duplicate.takes_next(),
            reordered: reorder.takes_next(),
            corrupted: corrupt.takes_next(),
            ..MessageFaults::default()
        }
    }

    /// How long after the others the next message is answered.
    pub fn lateness(&self) -> Duration {
        if self.late.takes_next() { self.options.late_by } else { Duration::ZERO }
    }

    /// When a message that came at `now_ns` has passed the queue, both since the trial's epoch.
    pub fn served_at(&self, now_ns: u64) -> u64 {
        let Some(capacity) = self.options.capacity else { return now_ns };
        let interval_ps = 1_000_000_000_000 / capacity;
        let after = |until_ps: u64| until_ps.max(now_ns * 1000) + interval_ps;
        let updated =
            self.served_until_ps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| Some(after(until)));
        updated.map_or(now_ns, after) / 1000
    }

    /// When a message is acknowledged that was handed over at `accepted_ns`, both since the first message.
    pub fn acknowledged_at(&self, accepted_ns: u64) -> u64 {
        let grown = self.options.service_time_grows.mul_f64(accepted_ns as f64 / 1e9);
        let mut due = accepted_ns + (self.options.service_time + grown).as_nanos() as u64;
        for stall in &self.options.stalls {
            let begin = stall.at.as_nanos() as u64;
            let end = begin + stall.length.as_nanos() as u64;
            if (begin..end).contains(&due) {
                due = end;
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_dealt_exactly() {
        let script = Script::new(NullOptions { fail: 0.01, duplicate: 0.003, ..NullOptions::default() });
        let dealt: Vec<MessageFaults> = (0..100_000).map(|_| script.deal()).collect();
        assert_eq!(dealt.iter().filter(|faults| faults.failed).count(), 1000);
        assert_eq!(dealt.iter().filter(|faults| faults.duplicated).count(), 297, "3 of every 1000 that are delivered");
    }

    #[test]
    fn a_stall_holds_back_what_falls_into_it() {
        let options: NullOptions =
            toml::from_str("service_time = \"1ms\"\nstalls = [{ at = \"1s\", for = \"500ms\" }]").unwrap();
        let script = Script::new(options);
        assert_eq!(script.acknowledged_at(0), 1_000_000);
        assert_eq!(script.acknowledged_at(999_500_000), 1_500_000_000);
        assert_eq!(script.acknowledged_at(1_499_500_000), 1_500_500_000);
    }

    #[test]
    fn a_limited_capacity_makes_messages_wait_for_each_other() {
        let script = Script::new(toml::from_str("capacity = 1000").unwrap());
        assert_eq!([0, 0, 0].map(|now_ns| script.served_at(now_ns)), [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(script.served_at(10_000_000), 11_000_000, "a message that finds an empty queue does not wait");
        assert!(toml::from_str::<NullOptions>("capacity = 0").is_err());
    }

    #[test]
    fn an_impossible_share_is_refused() {
        let error = toml::from_str::<NullOptions>("fail = 1.5").unwrap_err();
        assert!(error.message().contains("between 0 and 1"), "{error}");
    }
}
