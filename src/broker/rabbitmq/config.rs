//! The `[broker.rabbitmq]` table.

use std::num::{NonZeroU8, NonZeroU16, NonZeroU64};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::codec::Value;
use crate::broker::{BrokerOptions, RemovalCause, RemovalRule};
use crate::scenario::tables::{ByteSize, DurationText, duration, fraction, size};

/// How queues are made and used. An omitted key leaves the server's own setting, unless a default is named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RabbitmqOptions {
    /// Default: `/`.
    pub virtual_host: String,
    /// The type of the queues.
    pub queue: QueueType,
    /// What messages are published to. Default: the server's default exchange; of several groups, each has a queue of its own, and a
    /// fanout exchange copies the messages to them.
    pub exchange: Option<Exchange>,
    /// Whether messages survive a restart of the server. Default: true.
    pub persistent: bool,
    /// Whether the server confirms messages. Without it, a message counts as acknowledged when it is written to the socket. Default: true.
    pub confirms: bool,
    /// Whether the server returns a message that no queue takes, which then fails. Default: true with `confirms`.
    pub mandatory: Option<bool>,
    /// Priority of each message. A classic queue is made with it as its highest priority.
    pub priority: Option<NonZeroU8>,
    /// Age at which a queue removes a message.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub message_ttl: Option<Duration>,
    /// Messages of a queue, beyond which `overflow` applies.
    pub length_limit: Option<NonZeroU64>,
    /// Bytes of payload of a queue, beyond which `overflow` applies.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub length_limit_bytes: Option<u64>,
    /// What a full queue does.
    pub overflow: Option<Overflow>,
    /// Exchange that gets the messages that a queue removes.
    pub dead_letter_exchange: Option<String>,
    /// Routing key that these messages get. Default: their own.
    pub dead_letter_routing_key: Option<String>,
    /// Deliveries of a message, after which a quorum queue removes it.
    pub delivery_limit: Option<NonZeroU64>,
    /// Whether one consumer of a queue receives all messages, and the others wait. Default: false.
    pub single_active_consumer: bool,
    /// Messages that a consumer may have without having acknowledged them. Default: 1,000.
    pub prefetch: NonZeroU16,
    /// What a consumer acknowledges by one command.
    pub acknowledge: Acknowledge,
    /// Messages that a consumer acknowledges by one command. Default: what it received at once.
    pub acknowledge_every: Option<NonZeroU16>,
    /// Share of the messages that a consumer rejects and requeues when they are delivered for the first time.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub requeue: f64,
    /// Two of these without a sign of life end a connection. Default: 30 s.
    #[serde(deserialize_with = "heartbeat")]
    #[schemars(with = "DurationText")]
    pub heartbeat: Duration,
    /// How long messages and consumers wait for a lost connection before they fail. Default: 30 s.
    #[serde(with = "DurationText")]
    pub reconnect: Duration,
}

const DEFAULT_PREFETCH: NonZeroU16 = NonZeroU16::new(1000).expect("1000 is not 0");

impl Default for RabbitmqOptions {
    fn default() -> Self {
        RabbitmqOptions {
            virtual_host: "/".to_owned(),
            queue: QueueType::Quorum,
            exchange: None,
            persistent: true,
            confirms: true,
            mandatory: None,
            priority: None,
            message_ttl: None,
            length_limit: None,
            length_limit_bytes: None,
            overflow: None,
            dead_letter_exchange: None,
            dead_letter_routing_key: None,
            delivery_limit: None,
            single_active_consumer: false,
            prefetch: DEFAULT_PREFETCH,
            acknowledge: Acknowledge::Multiple,
            acknowledge_every: None,
            requeue: 0.0,
            heartbeat: Duration::from_secs(30),
            reconnect: Duration::from_secs(30),
        }
    }
}

impl BrokerOptions for RabbitmqOptions {
    fn check(&self) -> Result<(), String> {
        let is_classic = self.queue == QueueType::Classic;
        let refusals = [
            (
                self.delivery_limit.is_some() && is_classic,
                "`delivery_limit` is of quorum queues: set `queue = \"quorum\"`, or leave it out",
            ),
            (
                self.overflow == Some(Overflow::RejectPublishDlx) && !is_classic,
                "`overflow = \"reject-publish-dlx\"` is of classic queues: set `queue = \"classic\"`, or `overflow = \"reject-publish\"`",
            ),
            (
                self.overflow.is_some() && self.length_limit.is_none() && self.length_limit_bytes.is_none(),
                "`overflow` needs a `length_limit` or `length_limit_bytes`",
            ),
            (
                self.dead_letter_routing_key.is_some() && self.dead_letter_exchange.is_none(),
                "`dead_letter_routing_key` needs a `dead_letter_exchange`: \"\" is the server's default exchange",
            ),
            (
                self.mandatory == Some(true) && !self.confirms,
                "`mandatory` needs `confirms`: without them, a message has its outcome before it can be returned",
            ),
            (
                self.requeue > 0.0 && self.acknowledge == Acknowledge::Automatic,
                "`requeue` needs acknowledgements: set `acknowledge` to \"each\" or \"multiple\"",
            ),
            (
                self.acknowledge_every.is_some() && self.acknowledge != Acknowledge::Multiple,
                "`acknowledge_every` needs `acknowledge = \"multiple\"`",
            ),
            (
                self.acknowledge_every.is_some_and(|every| every > self.prefetch),
                "`acknowledge_every` is more than `prefetch`: a consumer would wait for messages that the server holds back",
            ),
            (
                self.prefetch != DEFAULT_PREFETCH && self.acknowledge == Acknowledge::Automatic,
                "`prefetch` has no effect with `acknowledge = \"automatic\"`: leave one of them out",
            ),
            // AMQP 0.9.1 counts whole seconds, and the server takes whole milliseconds.
            (self.heartbeat.subsec_nanos() > 0, "`heartbeat` is whole seconds"),
            (
                self.message_ttl.is_some_and(|ttl| !ttl.subsec_nanos().is_multiple_of(1_000_000)),
                "`message_ttl` is whole milliseconds",
            ),
        ];
        match refusals.into_iter().find(|(is_so, _)| *is_so) {
            Some((_, refusal)) => Err(refusal.to_owned()),
            None => Ok(()),
        }
    }
}

impl RabbitmqOptions {
    pub fn mandatory(&self) -> bool {
        self.mandatory.unwrap_or(self.confirms)
    }

    /// The exchange that the messages of a topic go to, if there are so many groups. `None`: the server's default exchange.
    pub fn exchange(&self, groups: usize) -> Option<Exchange> {
        self.exchange.or((groups > 1).then_some(Exchange::Fanout))
    }

    /// The rules by which queues that are declared with these settings remove messages.
    pub fn removal_rules(&self) -> Vec<RemovalRule> {
        let drops = matches!(self.overflow, None | Some(Overflow::DropHead));
        let limit = |limit: Option<u64>| limit.filter(|_| drops).map(|limit| limit.to_string());
        let ttl = self.message_ttl.map(|ttl| format!("{} ms", ttl.as_millis()));
        let rules = [
            (RemovalCause::TimeToLive, "x-message-ttl", ttl),
            (RemovalCause::Retention, "x-max-length", limit(self.length_limit.map(NonZeroU64::get))),
            (RemovalCause::Retention, "x-max-length-bytes", limit(self.length_limit_bytes)),
            (RemovalCause::DeliveryLimit, "x-delivery-limit", self.delivery_limit.map(|limit| limit.to_string())),
        ];
        let is_set = |(cause, setting, value): (_, _, Option<String>)| Some(RemovalRule::new(cause, setting, value?));
        rules.into_iter().filter_map(is_set).collect()
    }

    /// The arguments that queues are declared with (rabbitmq.com/docs/queues, "Optional Arguments").
    pub fn queue_arguments(&self, replication: u32) -> Vec<(&'static str, Value<'_>)> {
        let text = |value: Option<&'static str>| value.map(Value::Text);
        let number = |value: Option<u64>| value.map(Value::Number);
        let is_quorum = self.queue == QueueType::Quorum;
        // Quorum queues have two priorities without the argument.
        let priority = self.priority.filter(|_| !is_quorum);
        let all = [
            ("x-queue-type", text(Some(self.queue.name()))),
            ("x-quorum-initial-group-size", number(is_quorum.then_some(replication.into()))),
            ("x-max-priority", number(priority.map(|priority| priority.get().into()))),
            ("x-message-ttl", number(self.message_ttl.map(|ttl| ttl.as_millis() as u64))),
            ("x-max-length", number(self.length_limit.map(NonZeroU64::get))),
            ("x-max-length-bytes", number(self.length_limit_bytes)),
            ("x-overflow", text(self.overflow.map(Overflow::name))),
            ("x-dead-letter-exchange", self.dead_letter_exchange.as_deref().map(Value::Text)),
            ("x-dead-letter-routing-key", self.dead_letter_routing_key.as_deref().map(Value::Text)),
            ("x-delivery-limit", number(self.delivery_limit.map(NonZeroU64::get))),
            ("x-single-active-consumer", self.single_active_consumer.then_some(Value::True)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// AMQP 0.9.1 sends it in 16 bits; 0 turns heartbeats off.
fn heartbeat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    use serde::de::Error;

    let heartbeat: Duration = duration(deserializer)?;
    if heartbeat < Duration::from_secs(1) || heartbeat > Duration::from_secs(u16::MAX.into()) {
        return Err(D::Error::custom("a heartbeat is from 1s to 65535s"));
    }
    Ok(heartbeat)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueType {
    /// Replicated by Raft.
    Quorum,
    /// On one node.
    Classic,
}

impl QueueType {
    pub fn name(self) -> &'static str {
        match self {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl Exchange {
    /// The server's name of its type.
    pub fn name(self) -> &'static str {
        match self {
            Exchange::Direct => "direct",
            Exchange::Fanout => "fanout",
            Exchange::Topic => "topic",
            Exchange::Headers => "headers",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The oldest messages are removed.
    DropHead,
    /// New messages are refused.
    RejectPublish,
    /// New messages are refused, and go to the dead letter exchange.
    RejectPublishDlx,
}

impl Overflow {
    fn name(self) -> &'static str {
        match self {
            Overflow::DropHead => "drop-head",
            Overflow::RejectPublish => "reject-publish",
            Overflow::RejectPublishDlx => "reject-publish-dlx",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// Each message.
    Each,
    /// Several messages, by the number of the last one.
    Multiple,
    /// Nothing: the server takes a message as acknowledged when it has sent it.
    Automatic,
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/config.rs"]
mod tests;
