//! The `[broker.mqtt]` table.

use std::num::NonZeroU16;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::BrokerOptions;
use crate::scenario::tables::{DurationText, duration};

/// How an MQTT server is used.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MqttOptions {
    pub version: Version,
    /// Quality of service of messages and of subscriptions. Default: 1.
    #[schemars(range(max = 2))]
    pub qos: u8,
    /// Whether the members of a group share its messages (`$share/<group>/<topic>`). Without it, each member gets all of them. Default: true.
    pub shared: bool,
    /// Whether the server keeps the last message of a topic for later subscribers.
    pub retain: bool,
    /// Age at which the server discards a message that it has not delivered. Version 5 only.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub message_expiry: Option<Duration>,
    /// Whether a number takes the place of a topic's name that was sent before, as far as the server allows. Version 5 only.
    pub topic_aliases: bool,
    /// Time for which the server keeps what a consumer that is disconnected has not received; 0: nothing is kept. Default: 5 min.
    #[serde(with = "DurationText")]
    pub session_expiry: Duration,
    /// Messages that may await the acknowledgement of a consumer. Version 5 only. Default: 65,535.
    pub receive_maximum: NonZeroU16,
    /// Longest silence of a client; 0: without a limit. Default: 60 s.
    #[serde(with = "DurationText")]
    pub keep_alive: Duration,
    /// Time without an acknowledgement after which a message fails. Default: 30 s.
    #[serde(with = "DurationText")]
    pub ack_timeout: Duration,
    /// Message that the server publishes when it loses a connection of producers.
    pub will: Option<Will>,
}

/// A message of the server's, for a client that is gone without a word.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Will {
    pub topic: String,
    #[serde(default)]
    pub payload: String,
    /// Quality of service. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 2))]
    pub qos: u8,
    /// Whether the server keeps it for later subscribers.
    #[serde(default)]
    pub retain: bool,
    /// Time from the loss of the connection until the server publishes it. Version 5 only. Default: 0.
    #[serde(default, with = "DurationText")]
    pub delay: Duration,
}

impl Default for MqttOptions {
    fn default() -> Self {
        MqttOptions {
            version: Version::V5,
            qos: 1,
            shared: true,
            retain: false,
            message_expiry: None,
            topic_aliases: false,
            session_expiry: Duration::from_secs(300),
            receive_maximum: NonZeroU16::MAX,
            keep_alive: Duration::from_secs(60),
            ack_timeout: Duration::from_secs(30),
            will: None,
        }
    }
}

impl BrokerOptions for MqttOptions {
    fn check(&self) -> Result<(), String> {
        let refused = |sentence: &str| Err(sentence.to_owned());
        if self.qos.max(self.will.as_ref().map_or(0, |will| will.qos)) > 2 {
            return refused("`qos` is 0, 1 or 2");
        }
        if let Some(will) = &self.will {
            // MQTT 5, 4.7.1 and 4.7.3.
            if will.topic.is_empty() || will.topic.contains(['+', '#']) {
                return refused("`will.topic` is the name of a topic, without wildcards");
            }
            if will.topic.len().max(will.payload.len()) > u16::MAX.into() {
                return Err(format!("`will.topic` and `will.payload` have at most {} bytes", u16::MAX));
            }
        }
        let will_delay = self.will.as_ref().map_or(Duration::ZERO, |will| will.delay);
        if self.ack_timeout.is_zero() {
            return refused("`ack_timeout` must be longer than 0");
        }
        let whole_seconds = [
            ("keep_alive", self.keep_alive, u64::from(u16::MAX)),
            ("session_expiry", self.session_expiry, u64::from(u32::MAX)),
            ("message_expiry", self.message_expiry.unwrap_or_default(), u64::from(u32::MAX)),
            ("will.delay", will_delay, u64::from(u32::MAX)),
        ];
        for (key, duration, most) in whole_seconds {
            if duration.subsec_nanos() > 0 || duration.as_secs() > most {
                return Err(format!("`{key}` is whole seconds, at most {most}"));
            }
        }
        let of_latest = [
            ("message_expiry", self.message_expiry.is_some()),
            ("topic_aliases", self.topic_aliases),
            ("receive_maximum", self.receive_maximum != NonZeroU16::MAX),
            ("will.delay", !will_delay.is_zero()),
        ];
        match of_latest.into_iter().find(|(_, is_set)| *is_set && self.version != Version::V5) {
            Some((key, _)) => Err(format!("MQTT 3.1.1 has no `{key}`: set `version = \"5\"`, or remove it")),
            None => Ok(()),
        }
    }
}

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    #[serde(rename = "5")]
    V5,
    #[serde(rename = "3.1.1")]
    V311,
}

impl Version {
    pub fn name(self) -> &'static str {
        if self == Version::V5 { "5" } else { "3.1.1" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_go_together_refused() {
        for (keys, reason) in [
            ("qos = 3", "0, 1 or 2"),
            ("ack_timeout = '0s'", "longer than 0"),
            ("keep_alive = '1500ms'", "`keep_alive` is whole seconds"),
            ("keep_alive = '20h'", "at most 65535"),
            ("version = '3.1.1'\nmessage_expiry = '5s'", "no `message_expiry`"),
            ("version = '3.1.1'\ntopic_aliases = true", "no `topic_aliases`"),
            ("version = '3.1.1'\nreceive_maximum = 20", "no `receive_maximum`"),
            ("version = '3.1.1'\nwill = { topic = 'gone', delay = '5s' }", "no `will.delay`"),
            ("will = { topic = 'gone', delay = '1500ms' }", "`will.delay` is whole seconds"),
            ("will = { topic = 'gone/#' }", "without wildcards"),
            ("will = { topic = 'gone', qos = 3 }", "0, 1 or 2"),
        ] {
            let options: MqttOptions = toml::from_str(keys).unwrap();
            let refusal = options.check().unwrap_err();
            assert!(refusal.contains(reason), "{keys}: {refusal}");
        }
        assert_eq!(MqttOptions::default().check(), Ok(()));
    }
}
