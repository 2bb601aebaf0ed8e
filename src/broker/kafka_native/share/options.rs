//! The `[broker.kafka.share_group]` table: consumers are members of share groups (KIP-932), and what they answer.

use std::num::NonZeroU16;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::tables::{DurationText, duration, fraction};

/// `max.poll.records` of Kafka's own client.
const USUAL_RECORDS: NonZeroU16 = NonZeroU16::new(500).expect("it is not 0");

/// How members of share groups fetch messages, and what they answer. The shares are of the messages that are delivered for the first time; the
/// others are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShareGroupOptions {
    /// How answers are sent.
    pub acknowledge: Acknowledge,
    /// Most messages of a fetch; a batch is not divided, so there may be more.
    pub max_records: NonZeroU16,
    /// How long a member may keep a message without an answer, before another one gets it. Left out: the broker's setting.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub lock_duration: Option<Duration>,
    /// Share of the messages that are given back for another delivery.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub release: f64,
    /// Share that is rejected: the broker does not deliver them again.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub reject: f64,
    /// Share whose lock is renewed once before they are accepted.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub renew: f64,
    /// Share that is not answered, so that its lock expires.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub expire: f64,
}

/// How answers to messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledge {
    /// With the next fetch.
    #[default]
    Implicit,
    /// By a request of their own, whose response the member awaits before its next fetch.
    Explicit,
}

impl Acknowledge {
    /// As a scenario has it.
    pub fn name(self) -> &'static str {
        match self {
            Acknowledge::Implicit => "implicit",
            Acknowledge::Explicit => "explicit",
        }
    }
}

impl Default for ShareGroupOptions {
    fn default() -> Self {
        ShareGroupOptions {
            acknowledge: Acknowledge::Implicit,
            max_records: USUAL_RECORDS,
            lock_duration: None,
            release: 0.0,
            reject: 0.0,
            renew: 0.0,
            expire: 0.0,
        }
    }
}

impl ShareGroupOptions {
    /// Refuses settings that do not go together.
    ///
    /// # Errors
    /// A sentence that names the keys.
    pub fn check(&self) -> Result<(), String> {
        if self.release + self.reject + self.renew + self.expire > 1.0 {
            return Err(
                "`release`, `reject`, `renew` and `expire` are shares of the same messages: their sum is 1 at most"
                    .to_owned(),
            );
        }
        if self.renew > 0.0 && self.acknowledge == Acknowledge::Implicit {
            return Err("`renew` needs requests of its own: set `acknowledge = \"explicit\"`".to_owned());
        }
        if self.lock_duration.is_some_and(|lock| lock.as_millis() == 0) {
            return Err("`lock_duration` is 1ms at least".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_same_messages_are_one_at_most() {
        let check = |text: &str| toml::from_str::<ShareGroupOptions>(text).unwrap().check();
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("release = 0.5\nreject = 0.25\nexpire = 0.25"), Ok(()));
        assert!(check("release = 0.5\nreject = 0.5\nexpire = 0.1").unwrap_err().contains("sum is 1 at most"));
        assert!(check("renew = 0.1").unwrap_err().contains("acknowledge = \"explicit\""));
        assert!(toml::from_str::<ShareGroupOptions>("release = 1.5").is_err());
    }
}
