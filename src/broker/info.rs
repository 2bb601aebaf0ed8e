//! What a broker and its client tell of themselves and of topics, for the record: names, what an acknowledgement means, and what crossed the wire.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::Distribution;

/// A topic as the scenario describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub partitions: u32,
    pub replication: u32,
}

/// What became of a topic that was to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    New,
    /// It existed already, in this shape.
    Existing(Topic),
}

/// Names and versions for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// The client library and its version, `librdkafka 2.12.1`.
    pub client: String,
    /// The broker's own name and version, if it reports them.
    pub broker: Option<String>,
    /// The endpoint runs in this process: its throughput does not describe a broker.
    pub embedded: bool,
}

/// What had happened to a message when the broker acknowledged it, and how that is known. Figures of unequal durability
/// cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Durability {
    /// Place where the message was.
    pub level: DurabilityLevel,
    /// Fewest nodes on which it was there; `null` where that is not known.
    pub copies: Option<u32>,
    /// Settings that decide it, as they were read.
    pub settings: BTreeMap<String, String>,
    /// Source of the settings; `null` where they are unknown.
    pub source: Option<String>,
}

/// Where a message was when it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityLevel {
    /// Not known.
    #[default]
    Unknown,
    /// Nowhere: the broker was not asked to acknowledge, or keeps nothing.
    Nowhere,
    /// In the memory of the broker's process: lost with the process.
    Memory,
    /// In the page cache: lost with the machine's power, not with the process.
    PageCache,
    /// On a disk, synchronised.
    Disk,
}

impl DurabilityLevel {
    /// The place in words.
    pub fn place(self) -> &'static str {
        match self {
            DurabilityLevel::Unknown => "the broker does not tell where",
            DurabilityLevel::Nowhere => "not kept anywhere",
            DurabilityLevel::Memory => "in the broker's memory",
            DurabilityLevel::PageCache => "in the operating system's memory",
            DurabilityLevel::Disk => "on disk",
        }
    }
}

impl Durability {
    /// With these settings.
    pub fn new<'a>(
        level: DurabilityLevel,
        copies: Option<u32>,
        settings: impl IntoIterator<Item = (&'a str, String)>,
        source: &str,
    ) -> Self {
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Durability { level, copies, settings, source: Some(source.to_owned()) }
    }
}

/// In words: "page-cache, 2 copies (acks = all, min.insync.replicas = 2)".
impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.level.serialize(&mut *formatter)?;
        match self.copies {
            None => {}
            Some(1) => formatter.write_str(", 1 copy")?,
            Some(copies) => write!(formatter, ", {copies} copies")?,
        }
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        if settings.is_empty() { Ok(()) } else { write!(formatter, " ({})", settings.join(", ")) }
    }
}

/// What consumers answered to messages that were delivered to them, where they answer each by itself. In messages, whose repeated deliveries count
/// as well; the warm-up is in every count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ConsumerAnswers {
    /// How answers are sent, as the scenario has it.
    pub acknowledge: String,
    /// Messages whose acceptance the broker confirmed: it does not deliver them to the group again.
    pub accepted: u64,
    /// Messages that were given back for another delivery.
    pub released: u64,
    /// Messages that were rejected: the broker does not deliver them to the group again.
    pub rejected: u64,
    /// Messages whose lock began anew.
    pub renewed: u64,
    /// Messages that were left without an answer, so that their lock expires.
    pub left_to_expire: u64,
    /// Messages whose answer the broker refused, as their lock had expired, or did not confirm.
    pub unconfirmed: u64,
    /// The most deliveries of a message.
    pub most_deliveries: u64,
}

impl AddAssign for ConsumerAnswers {
    /// Adds the answers of other consumers.
    fn add_assign(&mut self, other: ConsumerAnswers) {
        if self.acknowledge.is_empty() {
            self.acknowledge = other.acknowledge;
        }
        for (sum, other) in [
            (&mut self.accepted, other.accepted),
            (&mut self.released, other.released),
            (&mut self.rejected, other.rejected),
            (&mut self.renewed, other.renewed),
            (&mut self.left_to_expire, other.left_to_expire),
            (&mut self.unconfirmed, other.unconfirmed),
        ] {
            *sum = sum.saturating_add(other);
        }
        self.most_deliveries = self.most_deliveries.max(other.most_deliveries);
    }
}

/// What a broker tells of messages that it removes from a topic by its own rules, read or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removal {
    /// Rules that apply to the topic.
    pub rules: Vec<RemovalRule>,
    pub extent: RemovalExtent,
}

/// How far removal has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalExtent {
    /// For each partition, the first offset that can still be read: what had a lower one is removed.
    FirstOffsets(Vec<u64>),
    /// As in [`RemovalExtent::FirstOffsets`]. Single messages behind the first offsets may be removed as well, as compaction does.
    FirstOffsetsWithGaps(Vec<u64>),
    /// For each group, in the order in which groups were named: messages that the broker has stored and not delivered.
    Undelivered(Vec<Undelivered>),
    /// For each group, in the order in which groups were named: messages that the broker still has for it. It does not tell what it has
    /// removed; all that is missing and that it does not have was.
    Left(Vec<u64>),
}

/// Messages that a broker has stored and not delivered to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undelivered {
    pub messages: u64,
    /// Whether some of them are still to be delivered, after those that were removed. All of them were removed otherwise.
    pub some_are_left: bool,
}

impl Default for RemovalExtent {
    fn default() -> Self {
        RemovalExtent::FirstOffsets(Vec::new())
    }
}

/// A rule by which a broker removes messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RemovalRule {
    /// Kind of the rule.
    pub cause: RemovalCause,
    /// Name of the setting, as the broker has it.
    pub setting: String,
    /// Value of the setting, with its unit; empty where the broker does not tell it.
    pub value: String,
}

/// Why a broker removes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalCause {
    /// The topic is larger than its limit, or messages are older.
    Retention,
    /// A message has not been acknowledged by the group for too long.
    TimeToLive,
    /// The backlog of a group is larger than its quota.
    Eviction,
    /// A later message has the same key.
    Compaction,
    /// A message was delivered too often without an acknowledgement.
    DeliveryLimit,
}

impl RemovalRule {
    /// Under these names of the broker's own.
    pub fn new(cause: RemovalCause, setting: &str, value: impl Into<String>) -> Self {
        RemovalRule { cause, setting: setting.to_owned(), value: value.into() }
    }
}

/// In words: "retention (max-length-bytes = 10000000)".
impl fmt::Display for RemovalRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            RemovalCause::Retention => "retention",
            RemovalCause::TimeToLive => "time to live",
            RemovalCause::Eviction => "eviction of the backlog",
            RemovalCause::Compaction => "compaction",
            RemovalCause::DeliveryLimit => "delivery limit",
        };
        match self.value.as_str() {
            "" => write!(formatter, "{cause} ({})", self.setting),
            value => write!(formatter, "{cause} ({} = {value})", self.setting),
        }
    }
}

/// The client library's view of its queues and of the broker. `None`: the library does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Telemetry {
    /// Most messages seen waiting in the client's queues.
    pub queue_messages: Option<u64>,
    /// Broker round trip in nanoseconds: 50th and 99th percentile of the library's last window.
    pub round_trip_p50_ns: Option<u64>,
    pub round_trip_p99_ns: Option<u64>,
    /// Time that producers waited because the client's queue was full, summed over them, in nanoseconds.
    pub queue_full_ns: u64,
    /// Connections that carry messages to the broker, and the time for which they took no request although there was one to send: as many
    /// as may be on their way had no response, or the broker did not read. Summed over the connections, in nanoseconds, since the last
    /// call. Both 0 where the client does not tell.
    pub connections: u64,
    pub connections_full_ns: u64,
    /// Answers of the broker to messages that awaited none any more, since the last call: a receipt that came after the message's
    /// deadline, or a second one.
    pub unmatched_answers: u64,
    /// What crossed the wire since the last call, where brokermark's own client sends it.
    pub wire: Option<Wire>,
}

/// What crossed the wire on the way to the broker. Bytes are of messages that the broker took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wire {
    /// Requests sent, repeated ones included.
    pub requests: u64,
    /// Requests that are sent again after a temporary error of the broker or of the network.
    pub retried: u64,
    /// Requests that the broker refused, or responses with which it delayed the client, because a quota was used up.
    pub quota_refusals: u64,
    /// What messages weigh before they are encoded, as the broker's own clients count it.
    pub raw_bytes: u64,
    /// Encoded, before compression.
    pub body_bytes: u64,
    /// As they were sent.
    pub sent_bytes: u64,
    /// Requests for messages that were answered, where a consumer asks for them.
    pub fetches: u64,
    /// Of `fetches`, those whose response delayed the consumer because a quota was used up.
    pub throttled_fetches: u64,
}

impl Telemetry {
    /// The round trips since the last call, which are cleared.
    pub fn take_round_trips(round_trips: &mut Distribution) -> Self {
        let at = |quantile| (!round_trips.is_empty()).then(|| round_trips.histogram().value_at_quantile(quantile));
        let (round_trip_p50_ns, round_trip_p99_ns) = (at(0.5), at(0.99));
        round_trips.clear();
        Telemetry { round_trip_p50_ns, round_trip_p99_ns, ..Telemetry::default() }
    }
}

impl AddAssign for Telemetry {
    /// Adds what another client of the trial has seen. Round trips are those of the slower one.
    fn add_assign(&mut self, other: Telemetry) {
        self.queue_messages = known_sum(self.queue_messages, other.queue_messages);
        self.wire = known_sum(self.wire, other.wire);
        self.round_trip_p50_ns = self.round_trip_p50_ns.max(other.round_trip_p50_ns);
        self.round_trip_p99_ns = self.round_trip_p99_ns.max(other.round_trip_p99_ns);
        self.queue_full_ns += other.queue_full_ns;
        self.connections += other.connections;
        self.connections_full_ns += other.connections_full_ns;
        self.unmatched_answers += other.unmatched_answers;
    }
}

impl Sum for Telemetry {
    fn sum<I: Iterator<Item = Telemetry>>(clients: I) -> Telemetry {
        clients.fold(Telemetry::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// The sum of what is known of both.
pub fn known_sum<T: AddAssign>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one += other;
            Some(one)
        }
        (one, other) => one.or(other),
    }
}

impl AddAssign for Wire {
    fn add_assign(&mut self, other: Wire) {
        self.requests += other.requests;
        self.retried += other.retried;
        self.quota_refusals += other.quota_refusals;
        self.raw_bytes += other.raw_bytes;
        self.body_bytes += other.body_bytes;
        self.sent_bytes += other.sent_bytes;
        self.fetches += other.fetches;
        self.throttled_fetches += other.throttled_fetches;
    }
}

/// A topic that exists and cannot be used yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    /// The name of the topic.
    pub topic: String,
    /// What it lacks, as in "it has no leader for each of its partitions".
    pub reason: String,
}
