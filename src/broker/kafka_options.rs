//! Keys of `[broker.kafka]` that both clients of Kafka have: `acks`, `assignment` and `[broker.kafka.transactions]`.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::fraction::is_sampled;
use super::{Progress, Setup, Subscription};
use crate::scenario::tables::{DurationText, duration, fraction};

/// The broker aborts a transaction that is open for a minute (`transaction.timeout.ms`), so it is ended well before.
const MAX_INTERVAL: Duration = Duration::from_secs(30);

/// Which acknowledgements a produce request waits for, by their numbers in it. Written as text or as a number: `"all"`, `"1"`, `1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAcks {
    None = 0,
    Leader = 1,
    All = -1,
}

impl RequiredAcks {
    /// As a scenario has it.
    pub fn name(self) -> &'static str {
        match self {
            RequiredAcks::None => "0",
            RequiredAcks::Leader => "1",
            RequiredAcks::All => "all",
        }
    }
}

impl JsonSchema for RequiredAcks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequiredAcks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "string", "enum": ["all", "0", "1", "-1"] },
            { "type": "integer", "minimum": -1, "maximum": 1, "x-advice": "it is one of `0`, `1` and `\"all\"`" },
        ] })
    }
}

impl<'de> Deserialize<'de> for RequiredAcks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)?.to_string().trim_matches('"') {
            "0" => Ok(RequiredAcks::None),
            "1" => Ok(RequiredAcks::Leader),
            "all" | "-1" => Ok(RequiredAcks::All),
            other => Err(D::Error::unknown_variant(other, &["0", "1", "all"])),
        }
    }
}

/// Who decides which member of a group reads which partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// The group, which decides again whenever a member comes or goes.
    Group,
    /// brokermark, once: members take partitions in turn, and the group knows no members.
    Manual,
}

impl Assignment {
    /// As `asked` for, or by what the member is for: one that commits may have others beside it that brokermark does not know, and a
    /// group is asked. Members that do not commit, or that several processes have, read the same partitions from the beginning to the end.
    pub fn new(asked: Option<Assignment>, subscription: &Subscription) -> Self {
        let is_own = subscription.progress == Progress::Uncommitted || subscription.is_divided;
        asked.unwrap_or(if is_own { Assignment::Manual } else { Assignment::Group })
    }
}

/// Why `setting`, which members of groups have, does not go with members that join none.
pub fn joins_no_group(setting: &str) -> String {
    format!(
        "members with `assignment = \"manual\"` join no group, and those that do not commit have it unless another one is set: remove \
         {setting}, or set `broker.kafka.assignment = \"group\"`"
    )
}

/// Why a group whose members are in several processes is not asked.
pub const DIVIDED: &str = "the members of a group are in several processes, and those that stay would receive again what one that leaves has \
                           received: set `broker.kafka.assignment = \"manual\"`";

/// When a producer's transaction ends, and how.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransactionOptions {
    /// It is ended when it has so many messages, …
    #[serde(deserialize_with = "messages")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub messages: usize,
    /// … or so long after its first one.
    #[serde(deserialize_with = "interval")]
    #[schemars(with = "DurationText")]
    pub interval: Duration,
    /// The share (0 to 1) of each producer's transactions that are aborted, evenly spread.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub abort_share: f64,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions { messages: 1000, interval: Duration::from_secs(1), abort_share: 0.0 }
    }
}

impl TransactionOptions {
    /// Whether to abort a producer's transaction of this number, from 0.
    pub fn aborts(&self, number: u64) -> bool {
        is_sampled(number, self.abort_share)
    }

    /// Refuses what the rest of the scenario does not go with.
    ///
    /// # Errors
    /// A sentence that names the key to change.
    pub fn check<Options>(&self, setup: &Setup<Options>) -> Result<(), String> {
        let (connections, producers) = (setup.config.connections, setup.producers);
        if connections < producers {
            return Err(format!(
                "a transaction belongs to one client, so {producers} producers need as many connections, not {connections}: \
                 set `broker.connections = {producers}`"
            ));
        }
        let in_flight = setup.in_flight / producers.max(1);
        if producers > 0 && in_flight < self.messages {
            return Err(format!(
                "a transaction of {} messages is more than the {in_flight} that a producer may have in flight: \
                 raise `producers.in_flight`, or lower `broker.kafka.transactions.messages`",
                self.messages
            ));
        }
        if setup.config.is_embedded() && self.abort_share > 0.0 {
            let reason =
                "the embedded cluster delivers aborted messages as well: remove `abort_share`, or name a server";
            return Err(reason.to_owned());
        }
        Ok(())
    }
}

fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let messages = i64::deserialize(deserializer)?;
    match usize::try_from(messages) {
        Ok(messages @ 1..=10_000_000) => Ok(messages),
        _ => Err(D::Error::custom(format!("a transaction has 1 to 10,000,000 messages, not {messages}"))),
    }
}

fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval: Duration = duration(deserializer)?;
    if interval.is_zero() || interval > MAX_INTERVAL {
        return Err(D::Error::custom(format!("a transaction ends after 1ms to 30s, not {interval:?}")));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TransactionOptions, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn what_a_transaction_cannot_be_is_refused() {
        for (text, words) in [
            ("messages = 0", "1 to 10,000,000"),
            ("interval = \"0s\"", "1ms to 30s"),
            ("interval = \"1min\"", "1ms to 30s"),
            ("abort_share = 1.1", "between 0 and 1"),
            ("abort_shares = 0.1", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(read(""), Ok(TransactionOptions::default()));
    }
}
