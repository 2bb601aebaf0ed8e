//! The `[broker.kafka]` table of `client = "native"`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codec::compression::Compression;
use super::produce::partitioner::Partitioner;
use crate::broker::BrokerOptions;
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
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub linger: Duration,
    /// Most bytes of a batch, unless one message has more.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub batch_bytes: u64,
    /// Most produce requests of a connection without a response.
    pub max_in_flight: usize,
    /// How long a message may wait for its acknowledgement, requests that are sent again included.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub delivery_timeout: Duration,
    /// How long a request may wait for its response.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "DurationText")]
    pub request_timeout: Duration,
    /// Who decides which member of a group reads which partitions; left out, see [`Assignment::of`].
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
}

impl Default for KafkaNativeOptions {
    fn default() -> Self {
        KafkaNativeOptions {
            acks: RequiredAcks::All,
            compression: Compression::None,
            idempotence: None,
            partitioner: Partitioner::default(),
            linger: Duration::from_millis(5),
            batch_bytes: 1_000_000,
            max_in_flight: 5,
            delivery_timeout: Duration::from_secs(120),
            request_timeout: Duration::from_secs(30),
            assignment: None,
            session_timeout: None,
            static_members: false,
            isolation: Isolation::ReadCommitted,
            transactions: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka_native::KafkaNativeBroker;
    use crate::broker::registry;

    fn parse(text: &str) -> Result<KafkaNativeOptions, String> {
        registry::options::<KafkaNativeBroker>(text.parse().unwrap()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn batches_without_numbers_may_change_their_order() {
        let may = |text| parse(text).unwrap().may_reorder();
        assert!(may(""));
        for text in ["idempotence = true", "max_in_flight = 1", "acks = \"0\"", "[transactions]"] {
            assert!(!may(text), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        assert_eq!(parse(""), Ok(KafkaNativeOptions::default()));
        let options = parse("acks = \"1\"\nlinger = \"0s\"\nbatch_bytes = \"64 KiB\"\ncompression = \"lz4\"").unwrap();
        assert_eq!(options.acks, RequiredAcks::Leader);
        assert_eq!(options.linger, Duration::ZERO);
        assert_eq!(options.batch_bytes, 65_536);
        assert_eq!(options.compression, Compression::Lz4);
        for (text, acks) in [("acks = 1", RequiredAcks::Leader), ("acks = -1", RequiredAcks::All)] {
            assert_eq!(parse(text).unwrap().acks, acks, "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (text, key) in [
            ("idempotence = true\nacks = \"1\"", "acks"),
            ("idempotence = true\nmax_in_flight = 6", "max_in_flight"),
            ("acks = \"1\"\n[transactions]", "acks"),
            ("max_in_flight = 6\n[transactions]", "max_in_flight"),
            ("idempotence = false\n[transactions]", "idempotence"),
            ("[transactions]\nmessages = 0", "1 to 10,000,000"),
            ("max_in_flight = 0", "max_in_flight"),
            ("batch_bytes = \"1 GiB\"", "batch_bytes"),
            ("request_timeout = \"0s\"", "request_timeout"),
            ("session_timeout = \"0s\"", "session_timeout"),
            ("static_members = true", "assignment = \"group\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(key), "{text}: {error}");
        }
    }
}
