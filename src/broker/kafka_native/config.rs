//! The `[broker.kafka]` table of `client = "native"`, and how the partition of a message is chosen: by its key, as librdkafka and Kafka's own client do.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codec::compression::Compression;
use super::share::options::ShareGroupOptions;
use crate::broker::BrokerOptions;
use crate::broker::kafka_cluster::USUAL_BATCH_BYTES;
use crate::broker::kafka_options::{Assignment, RequiredAcks, TransactionOptions, joins_no_group};
use crate::scenario::tables::{ByteSize, DurationText, duration, size};

/// Batches of a partition in flight of which an idempotent producer's broker keeps track (KIP-98).
const MAX_IDEMPOTENT_IN_FLIGHT: usize = 5;

/// The largest `batch_bytes`: a request of more bytes than `socket.request.max.bytes` ends the connection.
const MAX_BATCH_BYTES: u64 = 64 << 20;

/// Of `session_timeout`; a broker's own limit, `group.min.session.timeout.ms`, is 6 s unless it is configured.
const MIN_SESSION: Duration = Duration::from_millis(100);

/// `session.timeout.ms` of both librdkafka and Kafka's own client.
const USUAL_SESSION: Duration = Duration::from_secs(45);

/// Defaults are librdkafka's, so that both clients load a broker in the same way, except for `max_in_flight` and
/// `delivery_timeout`, which are those of Kafka's own client.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaNativeOptions {
    pub acks: RequiredAcks,
    pub compression: Compression,
    /// Whether producers number their batches, so that the broker drops repetitions. Left out: those that send in transactions do.
    pub idempotence: Option<bool>,
    pub partitioner: Partitioner,
    /// How long a batch waits for more messages.
    #[serde(with = "DurationText")]
    pub linger: Duration,
    /// Most bytes of a batch, unless one message has more.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub batch_bytes: u64,
    /// Most produce requests of a connection without a response.
    pub max_in_flight: usize,
    /// How long a message may wait for its acknowledgement, requests that are sent again included.
    #[serde(with = "DurationText")]
    pub delivery_timeout: Duration,
    /// How long a request may wait for its response.
    #[serde(with = "DurationText")]
    pub request_timeout: Duration,
    /// Who decides which member of a group reads which partitions; left out, see [`Assignment::new`].
    pub assignment: Option<Assignment>,
    /// After so long without a sign of life, a group shares out a member's partitions among the others.
    /// Left out: [`USUAL_SESSION`]; a server that shares partitions out decides it itself.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub session_timeout: Option<Duration>,
    /// Whether members of groups keep their partitions while they are away for less than a session (KIP-345).
    pub static_members: bool,
    /// What consumers receive of transactions.
    pub isolation: Isolation,
    /// Each producer sends in transactions.
    pub transactions: Option<TransactionOptions>,
    /// Consumers are members of share groups.
    pub share_group: Option<ShareGroupOptions>,
}

impl Default for KafkaNativeOptions {
    fn default() -> Self {
        KafkaNativeOptions {
            acks: RequiredAcks::All,
            compression: Compression::None,
            idempotence: None,
            partitioner: Partitioner::default(),
            linger: Duration::from_millis(5),
            batch_bytes: USUAL_BATCH_BYTES as u64,
            max_in_flight: 5,
            delivery_timeout: Duration::from_secs(120),
            request_timeout: Duration::from_secs(30),
            assignment: None,
            session_timeout: None,
            static_members: false,
            isolation: Isolation::ReadCommitted,
            transactions: None,
            share_group: None,
        }
    }
}

/// What consumers receive of transactions, by its number in a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    ReadUncommitted = 0,
    /// Nothing of one that is open or was aborted.
    ReadCommitted = 1,
}

impl BrokerOptions for KafkaNativeOptions {
    fn check(&self) -> Result<(), String> {
        if self.transactions.is_some() && self.idempotence == Some(false) {
            return Err("`transactions` need `idempotence`: remove `idempotence = false`".to_owned());
        }
        if self.session_timeout() < MIN_SESSION {
            return Err(format!("`session_timeout` is {MIN_SESSION:?} at least"));
        }
        if self.static_members && self.assignment != Some(Assignment::Group) {
            return Err(joins_no_group("`static_members`"));
        }
        if let Some(share_group) = &self.share_group {
            let is_of_partitions = self.assignment.is_some() || self.static_members || self.session_timeout.is_some();
            if is_of_partitions {
                return Err("members of a `share_group` have no partitions of their own: remove `assignment`, `static_members` and `session_timeout`".to_owned());
            }
            share_group.check()?;
        }
        if self.max_in_flight == 0 {
            return Err("`max_in_flight` is at least 1".to_owned());
        }
        if self.batch_bytes == 0 || self.batch_bytes > MAX_BATCH_BYTES {
            return Err("`batch_bytes` is from 1 B to 64 MiB".to_owned());
        }
        if self.delivery_timeout.is_zero() || self.request_timeout.is_zero() {
            return Err("`delivery_timeout` and `request_timeout` are longer than 0".to_owned());
        }
        let numbering = match self.transactions {
            Some(_) => "transactions",
            None if self.is_idempotent() => "idempotence",
            None => return Ok(()),
        };
        if self.acks != RequiredAcks::All {
            return Err(format!("`{numbering}` needs `acks = \"all\"`"));
        }
        if self.max_in_flight > MAX_IDEMPOTENT_IN_FLIGHT {
            return Err(format!("with `{numbering}`, `max_in_flight` is {MAX_IDEMPOTENT_IN_FLIGHT} at most"));
        }
        Ok(())
    }
}

impl KafkaNativeOptions {
    /// Whether producers that send without transactions number their batches.
    pub fn is_idempotent(&self) -> bool {
        self.idempotence == Some(true)
    }

    /// Whether a batch that is sent again may come behind one that was in flight with it. The broker sorts those that are numbered.
    pub fn may_reorder(&self) -> bool {
        let is_numbered = self.is_idempotent() || self.transactions.is_some();
        !is_numbered && self.max_in_flight > 1 && self.acks != RequiredAcks::None
    }

    /// Of a classic group.
    pub fn session_timeout(&self) -> Duration {
        self.session_timeout.unwrap_or(USUAL_SESSION)
    }
}

/// How the partition of a message is chosen, by librdkafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// Regardless of the key.
    Random,
    /// CRC-32 of the key; messages without a key go to the partition of an empty one.
    Consistent,
    /// The same, but messages without a key, or with an empty one, go to any partition.
    #[default]
    ConsistentRandom,
    /// The hash of Kafka's own client; messages without a key go to the partition of an empty one.
    Murmur2,
    /// The same, but messages without a key go to any partition: the default of Kafka's own client.
    Murmur2Random,
}

impl Partitioner {
    /// The partition of `key`, of `partitions`. `None`: any, so that it is best to fill one batch after the other.
    ///
    /// Source: librdkafka's `rdkafka_msg.c`, `rd_kafka_msg_partitioner_*`.
    #[inline]
    pub fn partition(self, key: Option<&[u8]>, partitions: usize) -> Option<usize> {
        (!self.is_any(key)).then(|| self.hash(key.unwrap_or_default()) as usize % partitions)
    }

    /// Whether messages with that key may go to any partition.
    #[inline]
    pub fn is_any(self, key: Option<&[u8]>) -> bool {
        match self {
            Partitioner::Random => true,
            Partitioner::ConsistentRandom => key.is_none_or(<[u8]>::is_empty),
            Partitioner::Murmur2Random => key.is_none(),
            Partitioner::Consistent | Partitioner::Murmur2 => false,
        }
    }

    /// The number of which the partition of `key` is made.
    fn hash(self, key: &[u8]) -> u32 {
        match self {
            Partitioner::Murmur2 | Partitioner::Murmur2Random => murmur2(key) & 0x7fff_ffff,
            Partitioner::Random | Partitioner::Consistent | Partitioner::ConsistentRandom => crc32fast::hash(key),
        }
    }
}

/// Austin Appleby's MurmurHash2 with the seed of Kafka's own client (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ bytes.len() as u32;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        let block = u32::from_le_bytes(*block).wrapping_mul(MIX);
        hash = hash.wrapping_mul(MIX) ^ (block ^ block >> 24).wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(block)).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MIX);
    hash ^ hash >> 15
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka_native/config.rs"]
mod tests;
