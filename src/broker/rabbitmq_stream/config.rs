//! The `[broker.rabbitmq-stream]` table.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::codec::command::Offset;
use crate::broker::compression::Compression;
use crate::broker::{BrokerOptions, RemovalCause, RemovalRule};
use crate::scenario::tables::{ByteSize, DurationText, duration, size};

/// The smallest limit of frames that brokermark works with: a message and what is around it must fit.
pub const MIN_FRAME_BYTES: u64 = 1 << 10;

/// The longest name that a publisher may have.
const MAX_NAME_BYTES: usize = 200;

/// How streams are created, written and read. An omitted key leaves the server's own setting, unless a default is named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RabbitmqStreamOptions {
    /// What a message is on the wire. Default: AMQP 1.0, as every other client writes it.
    pub body: Body,
    /// Publishers have this name, which turns the server's deduplication on: of several connections, each its number
    /// behind it, and of several processes, each but the first a name of its own. Omitted: publishers have no name.
    #[serde(deserialize_with = "name")]
    #[schemars(length(min = 1))]
    pub publisher: Option<String>,
    /// Messages without a confirmation are published again with their ids when their connection or stream was lost. The server
    /// discards those that it has: `publisher` must be set. Default: they fail.
    pub resend: bool,
    /// Messages of a batch that are published as one entry with one publishing id. Default: each is an entry.
    #[serde(deserialize_with = "sub_entry")]
    #[schemars(range(min = 1))]
    pub sub_entry: Option<u16>,
    /// The compression of sub-entries. Default: none.
    pub compression: Compression,
    /// What the server filters messages by. Default: nothing.
    pub filter: Option<Filter>,
    /// Consumers receive messages with these values only. Default: all.
    #[serde(deserialize_with = "filters")]
    #[schemars(length(min = 1))]
    pub filters: Vec<String>,
    /// Whether messages without a value are received too, with `filters`. Default: no.
    pub match_unfiltered: bool,
    /// Chunks that the server may send ahead of what a consumer has taken. Default: 10.
    #[serde(deserialize_with = "credit")]
    #[schemars(range(min = 1))]
    pub credit: u16,
    /// Where consumers begin, instead of `consumers.from`.
    #[serde(deserialize_with = "start")]
    #[schemars(with = "Option<Start>")]
    pub start: Option<Offset>,
    /// Default: `/`.
    pub virtual_host: String,
    /// Default: the node that leads a stream, as the server's metadata names it.
    pub connect_to: ConnectTo,
    /// The server decides which member of a group reads a stream, and moves streams when members come and go. Default: the streams
    /// are shared out by number.
    pub single_active_consumer: bool,
    /// The members of a stream that consumers read from first. Default: its leader.
    pub consume_from: ConsumeFrom,
    /// Most bytes that a stream keeps which is made.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub max_length: Option<u64>,
    /// How long they keep messages.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub max_age: Option<Duration>,
    /// Size of the files they are kept in, by which they forget.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub segment_size: Option<u64>,
    /// The choice of the node that leads them: `client-local` or `balanced`.
    pub leader_locator: Option<LeaderLocator>,
    /// Two of these without a sign of life end a connection, on both sides. Default: 60 s, or what the server wants if
    /// that is less.
    #[serde(deserialize_with = "heartbeat")]
    #[schemars(with = "DurationText")]
    pub heartbeat: Duration,
    /// Largest frame that is written. Default: what the server allows, which is 1 MiB unless it is configured.
    #[serde(deserialize_with = "frame_bytes")]
    #[schemars(with = "Option<ByteSize>")]
    pub frame_bytes: Option<u64>,
    /// Connections are polled instead of waited for: responses are noticed at once, and one core is always busy. Default: no.
    pub busy_poll: bool,
    /// A message without a confirmation fails after this time. Default: it is waited for as long as the trial lasts.
    #[serde(deserialize_with = "confirm_timeout")]
    #[schemars(with = "Option<DurationText>")]
    pub confirm_timeout: Option<Duration>,
    /// How long producers wait for a lost connection or stream before their messages fail. Default: 30 s.
    #[serde(with = "DurationText")]
    pub reconnect: Duration,
}

impl Default for RabbitmqStreamOptions {
    fn default() -> Self {
        RabbitmqStreamOptions {
            body: Body::Amqp,
            publisher: None,
            resend: false,
            sub_entry: None,
            compression: Compression::None,
            filter: None,
            filters: Vec::new(),
            match_unfiltered: false,
            credit: 10,
            start: None,
            virtual_host: "/".to_owned(),
            connect_to: ConnectTo::Leader,
            single_active_consumer: false,
            consume_from: ConsumeFrom::Leader,
            max_length: None,
            max_age: None,
            segment_size: None,
            leader_locator: None,
            heartbeat: Duration::from_secs(60),
            frame_bytes: None,
            busy_poll: false,
            confirm_timeout: None,
            reconnect: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// An AMQP 1.0 message with the payload as its data section.
    Amqp,
    /// The payload alone. Such a message cannot carry headers.
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// The message's key.
    Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsumeFrom {
    Leader,
    Replica,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectTo {
    Leader,
    /// Only the addresses of the scenario, in turn: where nodes are behind a proxy or advertise addresses that cannot be
    /// reached. A node that does not lead a stream passes on what is published.
    Addresses,
    /// The node that leads a stream, through the addresses of the scenario, which are load balancers: connections are opened
    /// until the right node answers.
    LoadBalancer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LeaderLocator {
    ClientLocal,
    Balanced,
}

impl BrokerOptions for RabbitmqStreamOptions {
    /// Refuses settings that have no effect beside others.
    fn check(&self) -> Result<(), String> {
        if self.compression != Compression::None && self.sub_entry.is_none() {
            return Err(
                "`compression` is of sub-entries: set `sub_entry` as well, or leave `compression` out".to_owned()
            );
        }
        if self.consume_from == ConsumeFrom::Replica && self.connect_to == ConnectTo::Addresses {
            let reason = "`consume_from` has no effect with `connect_to = \"addresses\"`: leave one of them out";
            return Err(reason.to_owned());
        }
        if self.filter.is_some() && self.sub_entry.is_some() {
            return Err("a sub-entry has no value to filter by: leave `filter` or `sub_entry` out".to_owned());
        }
        if self.filters.is_empty() && self.match_unfiltered {
            return Err("`match_unfiltered` has no effect without `filters`: set them as well".to_owned());
        }
        if !self.filters.is_empty() && self.body == Body::Binary {
            let reason =
                "`filters` need the key of each message, which binary bodies do not carry: set `body = \"amqp\"`";
            return Err(reason.to_owned());
        }
        if self.resend && self.publisher.is_none() {
            return Err("`resend` without a name would store messages twice: set `publisher` as well".to_owned());
        }
        // The protocol and the server's `max-age` count whole seconds.
        let is_cut = |time: Duration| time.subsec_nanos() > 0 || time.is_zero();
        if is_cut(self.heartbeat) || self.max_age.is_some_and(is_cut) {
            return Err("`heartbeat` and `max_age` are whole seconds, 1s or more".to_owned());
        }
        Ok(())
    }
}

impl RabbitmqStreamOptions {
    /// Gives the publishers of a process, whose first producer has this number, a name that no other process of the trial uses: of publishers
    /// that share a name and a stream, the server stores one message with each id and confirms the others.
    pub fn name_process(&mut self, first_producer: usize) {
        if let Some(name) = self.publisher.as_mut().filter(|_| first_producer > 0) {
            *name = format!("{name}-from-{first_producer}");
        }
    }

    /// What a subscription says of its filters.
    pub fn filter_properties(&self) -> Vec<(String, String)> {
        let mut properties: Vec<_> = self
            .filters
            .iter()
            .enumerate()
            .map(|(number, value)| (format!("filter.{number}"), value.clone()))
            .collect();
        if !properties.is_empty() {
            properties.push(("match-unfiltered".to_owned(), self.match_unfiltered.to_string()));
        }
        properties
    }

    /// By what streams forget messages: the arguments that they are made with. Those of streams that were there, and of the server's policies,
    /// are not told to clients.
    pub fn removal_rules(&self) -> Vec<RemovalRule> {
        let retains = |name: &str| ["max-length-bytes", "max-age"].contains(&name);
        let mut rules: Vec<RemovalRule> = self
            .arguments(1)
            .into_iter()
            .filter(|(name, _)| retains(name))
            .map(|(name, value)| RemovalRule::new(RemovalCause::Retention, name, value))
            .collect();
        if rules.is_empty() {
            rules.push(RemovalRule::new(
                RemovalCause::Retention,
                "max-length-bytes or max-age of the stream or a policy",
                "",
            ));
        }
        rules
    }

    /// The arguments that streams of `replication` members are made with.
    pub fn arguments(&self, replication: u32) -> Vec<(&'static str, String)> {
        let mut arguments = vec![("initial-cluster-size", replication.to_string())];
        if let Some(bytes) = self.max_length {
            arguments.push(("max-length-bytes", bytes.to_string()));
        }
        if let Some(age) = self.max_age {
            arguments.push(("max-age", format!("{}s", age.as_secs())));
        }
        if let Some(bytes) = self.segment_size {
            arguments.push(("stream-max-segment-size-bytes", bytes.to_string()));
        }
        if let Some(locator) = self.leader_locator {
            let locator = match locator {
                LeaderLocator::ClientLocal => "client-local",
                LeaderLocator::Balanced => "balanced",
            };
            arguments.push(("queue-leader-locator", locator.to_owned()));
        }
        arguments
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    match (1..=MAX_NAME_BYTES).contains(&name.len()) {
        true => Ok(Some(name)),
        false => Err(serde::de::Error::custom(format!("a publisher's name has 1 to {MAX_NAME_BYTES} bytes"))),
    }
}

fn filters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let filters = Vec::<String>::deserialize(deserializer)?;
    match filters.iter().all(|value| (1..=MAX_NAME_BYTES).contains(&value.len())) && !filters.is_empty() {
        true => Ok(filters),
        false => Err(serde::de::Error::custom(format!("write one value or more, each of 1 to {MAX_NAME_BYTES} bytes"))),
    }
}

fn sub_entry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    match u16::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("a sub-entry holds at least 1 message")),
        messages => Ok(Some(messages)),
    }
}

fn credit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u16::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("with a credit of 0 nothing would ever be received")),
        credit => Ok(credit),
    }
}

/// Where consumers begin, as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(deny_unknown_fields, extend("x-advice" = START))]
enum Start {
    Word(StartWord),
    Offset {
        offset: u64,
    },
    Timestamp {
        #[schemars(with = "String")]
        timestamp: jiff::Timestamp,
    },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StartWord {
    First,
    Last,
    Next,
}

const START: &str = "write \"first\", \"last\", \"next\", { offset = 5 } or { timestamp = \"2026-01-31T12:00:00Z\" }";

/// `"first"`, `"last"`, `"next"`, `{ offset = 5 }` or `{ timestamp = "2026-01-31T12:00:00Z" }`.
fn start<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Offset>, D::Error> {
    let offset = match Start::deserialize(deserializer).map_err(|_| serde::de::Error::custom(START))? {
        Start::Word(StartWord::First) => Offset::First,
        Start::Word(StartWord::Last) => Offset::Last,
        Start::Word(StartWord::Next) => Offset::Next,
        Start::Offset { offset } => Offset::Absolute(offset),
        Start::Timestamp { timestamp } => Offset::Timestamp(timestamp.as_millisecond()),
    };
    Ok(Some(offset))
}

fn frame_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let bytes: u64 = size(deserializer)?;
    match (MIN_FRAME_BYTES..=u64::from(u32::MAX)).contains(&bytes) {
        true => Ok(Some(bytes)),
        false => Err(serde::de::Error::custom("frames have limits from 1KiB to 4GiB - 1B")),
    }
}

fn confirm_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let timeout: Duration = duration(deserializer)?;
    match timeout >= Duration::from_millis(10) {
        true => Ok(Some(timeout)),
        false => Err(serde::de::Error::custom("with less than 10ms messages would fail that are confirmed in time")),
    }
}

/// The protocol counts whole seconds, and 0 would mean none at all.
fn heartbeat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let heartbeat: Duration = duration(deserializer)?;
    match heartbeat >= Duration::from_secs(1) {
        true => Ok(heartbeat),
        false => Err(serde::de::Error::custom("heartbeats are not sent more often than once in 1s")),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq_stream/config.rs"]
mod tests;
