//! The `[broker.null]` table, and what happens to each message: exactly the share asked for, evenly spread.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::scenario::tables::{DurationText, duration};

/// What the scripted broker does to messages. All shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullOptions {
    /// From handed over to acknowledged.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub service_time: Duration,
    /// By how much that grows each second.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub service_time_grows: Duration,
    /// Most messages per second that are acknowledged, all connections together: the others wait in a queue without end.
    pub capacity: Option<NonZeroU64>,
    /// Stretches in which nothing is acknowledged.
    pub stalls: Vec<Stall>,
    /// Answered with a refusal.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub fail: f64,
    /// Acknowledged and not delivered.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub lose: f64,
    /// Delivered twice.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Delivered after the message that follows it.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub reorder: f64,
    /// Delivered with one bit changed.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub corrupt: f64,
    /// Never answered.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub ignore: f64,
    /// Answered `late_by` after the others.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub late: f64,
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub late_by: Duration,
    /// Delivered, and answered with a refusal.
    #[serde(deserialize_with = "share")]
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
    /// How long it takes to remove the topics at the end, if there are any.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub removal_time: Duration,
    /// How often the members of a group that commits exchange their partitions.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub rebalance_every: Duration,
}

/// What happens to messages on their way to one group.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupOptions {
    /// Stored, and not delivered to this group.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub lose: f64,
    /// Delivered twice, the second time not marked as a repetition.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Delivered twice, the second time marked as a repetition.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub redeliver: f64,
    /// Marked as a repetition, though delivered once.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub flag: f64,
    /// Most messages per second that each member receives; without it, there is no limit.
    pub rate: Option<u64>,
}

/// A stretch in which nothing is acknowledged.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Since the first message.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub at: Duration,
    #[serde(rename = "for", deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub length: Duration,
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(serde::de::Error::custom(format!("{share} is not a share: it must lie between 0 and 1")))
    }
}

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// Answered with a refusal; delivered all the same if it is `stored`.
    pub failed: bool,
    pub stored: bool,
    pub ignored: bool,
    pub lost: bool,
    pub duplicated: bool,
    pub reordered: bool,
    pub corrupted: bool,
}

/// Decides the fates of all connections' messages together.
pub struct Script {
    pub options: NullOptions,
    /// Computed once: it is needed for each batch.
    plain: bool,
    dealers: [Dealer; 7],
    /// Of late answers.
    late: Dealer,
    /// When the queue of a limited capacity is empty, in picoseconds since the trial's epoch.
    served_until_ps: AtomicU64,
}

/// Picks exactly the share asked for, evenly spread.
#[derive(Debug, Default)]
pub struct Dealer(AtomicU64);

impl Dealer {
    /// Of `n` calls with the same share, exactly `floor(n × share)` return true.
    pub fn picks(&self, share: f64) -> bool {
        if share == 0.0 {
            return false;
        }
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        ((before + 1) as f64 * share).floor() > (before as f64 * share).floor()
    }
}

impl Script {
    pub fn new(options: NullOptions) -> Self {
        let plain = options == NullOptions::default();
        Script {
            options,
            plain,
            dealers: Default::default(),
            late: Dealer::default(),
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

    /// The next message's fate. Only messages that are delivered are dealt a fate of delivery, so that each share is
    /// exact among them.
    pub fn deal(&self) -> Fate {
        let options = &self.options;
        let [fail, ignore, lose, duplicate, reorder, corrupt, fail_after_storing] = &self.dealers;
        if fail.picks(options.fail) {
            return Fate { failed: true, ..Fate::default() };
        }
        if ignore.picks(options.ignore) {
            return Fate { ignored: true, ..Fate::default() };
        }
        if lose.picks(options.lose) {
            return Fate { lost: true, ..Fate::default() };
        }
        let stored = fail_after_storing.picks(options.fail_after_storing);
        Fate {
            failed: stored,
            stored,
            duplicated: duplicate.picks(options.duplicate),
            reordered: reorder.picks(options.reorder),
            corrupted: corrupt.picks(options.corrupt),
            ..Fate::default()
        }
    }

    /// How long after the others the next message is answered.
    pub fn lateness(&self) -> Duration {
        if self.late.picks(self.options.late) { self.options.late_by } else { Duration::ZERO }
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
        let fates: Vec<Fate> = (0..100_000).map(|_| script.deal()).collect();
        assert_eq!(fates.iter().filter(|fate| fate.failed).count(), 1000);
        assert_eq!(fates.iter().filter(|fate| fate.duplicated).count(), 297, "3 of every 1000 that are delivered");
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
