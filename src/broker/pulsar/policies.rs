//! What the broker tells of a topic's policies and statistics: what a receipt meant, what was removed, and what may be published.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::broker::{Durability, DurabilityLevel, Removal, RemovalCause, RemovalExtent, RemovalRule, Undelivered};

/// The answer to `GET …/persistence?applied=true` (Pulsar's `PersistencePolicies`): the policies of the topic, else of its
/// namespace, else of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    bookkeeper_ensemble: u32,
    bookkeeper_write_quorum: u32,
    bookkeeper_ack_quorum: u32,
}

/// The answer to `GET …/stats` (Pulsar's `TopicStats`), as far as it tells what was removed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStats {
    /// Messages that were published.
    msg_in_counter: u64,
    /// Bytes of them.
    bytes_in_counter: i64,
    subscriptions: BTreeMap<String, SubscriptionStats>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubscriptionStats {
    /// Messages that were delivered, repetitions included.
    msg_out_counter: u64,
    /// Entries that were not acknowledged.
    msg_backlog: u64,
    /// Entries that the time to live has removed.
    total_msg_expired: u64,
}

/// The answer to `GET namespaces/…` (Pulsar's `Policies`), as far as it limits producers.
#[derive(Debug, Deserialize)]
pub struct Policies {
    /// By cluster.
    #[serde(default, rename = "publishMaxMessageRate")]
    publish_max_message_rate: BTreeMap<String, PublishRate>,
}

impl Policies {
    /// What producers may publish, in words; `None`: there is no limit.
    pub fn publish_rate(&self) -> Option<String> {
        self.publish_max_message_rate.values().find_map(PublishRate::told)
    }
}

/// Limits of each topic in a second; 0 or less: none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublishRate {
    publish_throttling_rate_in_msg: i64,
    publish_throttling_rate_in_byte: i64,
}

impl PublishRate {
    fn told(&self) -> Option<String> {
        let limits =
            [(self.publish_throttling_rate_in_msg, "messages"), (self.publish_throttling_rate_in_byte, "bytes")];
        let limits = limits.into_iter().filter(|(limit, _)| *limit > 0);
        let limits: Vec<String> = limits.map(|(limit, unit)| format!("{limit} {unit}/s")).collect();
        (!limits.is_empty()).then(|| limits.join(" and "))
    }
}

/// A value of the answer to `GET …/backlogQuotaMap?applied=true`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BacklogQuota {
    /// In bytes; -1: unlimited.
    limit_size: i64,
    /// In seconds; -1: unlimited.
    limit_time: i64,
    policy: String,
}

impl Default for BacklogQuota {
    fn default() -> Self {
        BacklogQuota { limit_size: -1, limit_time: -1, policy: String::new() }
    }
}

impl TopicStats {
    /// What was published and not delivered to a subscription. How many messages the entries of its backlog have is not told. Counters begin
    /// again when the broker unloads the topic; then there seem to be fewer. A quota that is larger than all that was published has evicted
    /// nothing.
    pub fn removal(
        &self,
        time_to_live: Option<i64>,
        quotas: impl Iterator<Item = BacklogQuota>,
        subscriptions: &[String],
    ) -> Option<Removal> {
        let of = |name: &String| self.subscriptions.get(name);
        let undelivered = |stats: &SubscriptionStats| Undelivered {
            messages: self.msg_in_counter.saturating_sub(stats.msg_out_counter),
            some_are_left: stats.msg_backlog > 0,
        };
        let has_expired = subscriptions.iter().filter_map(of).any(|stats| stats.total_msg_expired > 0);
        let expiry = time_to_live
            .filter(|seconds| *seconds > 0 && has_expired)
            .map(|seconds| RemovalRule::new(RemovalCause::TimeToLive, "message_ttl_in_seconds", seconds.to_string()));
        let eviction = |quota: BacklogQuota| {
            let size = Some(quota.limit_size).filter(|limit| *limit <= self.bytes_in_counter).unwrap_or(-1);
            let limits = [(size, "B"), (quota.limit_time, "s")].into_iter().filter(|(limit, _)| *limit >= 0);
            let limits: Vec<String> = limits.map(|(limit, unit)| format!("{limit} {unit}")).collect();
            let policy = "consumer_backlog_eviction";
            let is_set = quota.policy == policy && !limits.is_empty();
            is_set.then(|| RemovalRule::new(RemovalCause::Eviction, policy, limits.join(" or ")))
        };
        let rules: Vec<RemovalRule> = expiry.into_iter().chain(quotas.filter_map(eviction)).collect();
        let counts = subscriptions.iter().map(|name| of(name).map(undelivered).unwrap_or_default()).collect();
        (!rules.is_empty()).then_some(Removal { rules, extent: RemovalExtent::Undelivered(counts) })
    }
}

/// Of a persistent topic. A bookie answers when its journal has the entry. Whether it has synchronised the journal
/// (`journalSyncData`, on by default) is the bookies' setting, which the broker does not tell.
pub fn durability(persistence: Option<Persistence>) -> Durability {
    let Some(Persistence { bookkeeper_ensemble, bookkeeper_write_quorum, bookkeeper_ack_quorum }) = persistence else {
        return Durability::default();
    };
    let settings = [
        ("ensemble", bookkeeper_ensemble.to_string()),
        ("write-quorum", bookkeeper_write_quorum.to_string()),
        ("ack-quorum", bookkeeper_ack_quorum.to_string()),
        ("journalSyncData", "unknown".to_owned()),
    ];
    Durability::new(DurabilityLevel::Unknown, Some(bookkeeper_ack_quorum), settings, "the topic's persistence policies")
}

/// Of a topic that stores nothing.
pub fn non_persistent_durability() -> Durability {
    Durability::new(DurabilityLevel::Nowhere, None, [], "the topic is not persistent")
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/pulsar/policies.rs"]
mod tests;
