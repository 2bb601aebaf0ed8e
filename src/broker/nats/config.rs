//! The `[broker.nats]` table.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::{BrokerOptions, Topic};
use crate::scenario::Secret;
use crate::scenario::tables::{ByteSize, DurationText, duration, size};

/// Messages that wait for a group or in a client.
const QUEUE: NonZeroU32 = NonZeroU32::new(65_536).expect("65,536 is not 0");

/// How NATS is used. An omitted key leaves the server's own setting, unless a default is named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NatsOptions {
    pub mode: Mode,
    /// Where a stream keeps its messages.
    pub storage: Storage,
    /// When a stream removes a message that no limit removes.
    pub retention: Retention,
    /// Age at which a stream removes a message.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub max_age: Option<Duration>,
    /// Size of a stream, beyond which `discard` applies.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub max_bytes: Option<u64>,
    /// What a full stream does: remove the oldest message, or refuse the new one.
    pub discard: Discard,
    /// For how long the server recognises a repeated `Nats-Msg-Id`. With it, each message has such a header of its own.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub duplicate_window: Option<Duration>,
    /// How batches of a producer are stored.
    pub batches: Batches,
    /// Time without an acknowledgement after which a message fails. Default: 30 s.
    #[serde(with = "DurationText")]
    pub ack_timeout: Duration,
    /// How a consumer of JetStream receives messages.
    pub consumer: ConsumerType,
    /// What consumers acknowledge: each message, the last one of several, or none.
    pub ack_policy: Acknowledge,
    /// Time without an acknowledgement of a consumer after which the server delivers a message again.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub ack_wait: Option<Duration>,
    /// Messages of a group that await the acknowledgement of a consumer. Beyond it, the server delivers no more. Default: 65,536.
    pub max_ack_pending: NonZeroU32,
    /// Messages that a consumer asks for at once, unless they are pushed. Default: 500.
    pub pull_batch: NonZeroU32,
    /// Messages that wait in the client for a consumer that does not pull. The client drops what is more. Default: 65,536.
    pub pending_messages: NonZeroU32,
    /// Token to log in with.
    pub token: Option<Secret>,
    /// Seed of an nkey to log in with.
    pub nkey: Option<Secret>,
    /// File with a user's JWT and nkey, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
}

impl Default for NatsOptions {
    fn default() -> Self {
        NatsOptions {
            mode: Mode::Jetstream,
            storage: Storage::File,
            retention: Retention::Limits,
            max_age: None,
            max_bytes: None,
            discard: Discard::Old,
            duplicate_window: None,
            batches: Batches::Single,
            ack_timeout: Duration::from_secs(30),
            consumer: ConsumerType::Pull,
            ack_policy: Acknowledge::Explicit,
            ack_wait: None,
            max_ack_pending: QUEUE,
            pull_batch: NonZeroU32::new(500).expect("500 is not 0"),
            pending_messages: QUEUE,
            token: None,
            nkey: None,
            credentials: None,
        }
    }
}

impl BrokerOptions for NatsOptions {
    fn check(&self) -> Result<(), String> {
        let logins = [self.token.is_some(), self.nkey.is_some(), self.credentials.is_some()];
        if logins.into_iter().filter(|login| *login).count() > 1 {
            return Err("`token`, `nkey` and `credentials` are three ways to log in: keep one of them".to_owned());
        }
        if self.ack_timeout.is_zero() {
            return Err("`ack_timeout` must be longer than 0".to_owned());
        }
        if self.mode != Mode::Jetstream
            && let Some(key) = self.jetstream_key()
        {
            return Err(format!("`{key}` is about JetStream: set `mode = \"jetstream\"`, or remove it"));
        }
        if let Some(key) = self.zero_key() {
            return Err(format!("`{key}` is more than 0: leave it out for the server's own, which 0 stands for"));
        }
        if let Some((key, beside)) = self.key_without_effect() {
            return Err(format!("`{key}` has no effect {beside}: remove it"));
        }
        self.check_consumer()?;
        // nats-server refuses the consumer, with error 10098.
        if self.retention == Retention::WorkQueue && self.ack_policy != Acknowledge::Explicit {
            return Err("`retention = \"work_queue\"` needs `ack_policy = \"explicit\"`".to_owned());
        }
        Ok(())
    }
}

impl NatsOptions {
    /// The stream of a topic that is created.
    pub fn stream_config(&self, topic: &Topic) -> stream::Config {
        stream::Config {
            name: topic.name.clone(),
            subjects: vec![topic.name.clone()],
            storage: self.storage.into(),
            retention: self.retention.into(),
            discard: self.discard.into(),
            // 0 and -1: without a limit.
            max_age: self.max_age.unwrap_or_default(),
            max_bytes: self.max_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            duplicate_window: self.duplicate_window.unwrap_or_default(),
            num_replicas: topic.replication as usize,
            allow_atomic_publish: self.batches == Batches::Atomic,
            allow_batch_publish: self.batches == Batches::Fast,
            ..stream::Config::default()
        }
    }

    /// The first key that has an effect only with JetStream.
    fn jetstream_key(&self) -> Option<&'static str> {
        let default = NatsOptions::default();
        let keys = [
            ("storage", self.storage != default.storage),
            ("retention", self.retention != default.retention),
            ("max_age", self.max_age.is_some()),
            ("max_bytes", self.max_bytes.is_some()),
            ("discard", self.discard != default.discard),
            ("duplicate_window", self.duplicate_window.is_some()),
            ("batches", self.batches != default.batches),
            ("consumer", self.consumer != default.consumer),
            ("ack_policy", self.ack_policy != default.ack_policy),
            ("ack_wait", self.ack_wait.is_some()),
            ("max_ack_pending", self.max_ack_pending != default.max_ack_pending),
            ("pull_batch", self.pull_batch != default.pull_batch),
        ];
        keys.into_iter().find_map(|(key, is_set)| is_set.then_some(key))
    }

    /// The first key with a value of 0, in place of which the server has a default, or no limit.
    fn zero_key(&self) -> Option<&'static str> {
        let times =
            [("max_age", self.max_age), ("duplicate_window", self.duplicate_window), ("ack_wait", self.ack_wait)];
        let zero_time = times.into_iter().find_map(|(key, time)| (time == Some(Duration::ZERO)).then_some(key));
        zero_time.or((self.max_bytes == Some(0)).then_some("max_bytes"))
    }

    /// The first key that has no effect, and the setting that takes it away.
    fn key_without_effect(&self) -> Option<(&'static str, &'static str)> {
        let default = NatsOptions::default();
        let pulls = self.mode == Mode::Jetstream && self.consumer == ConsumerType::Pull;
        let acknowledges = self.ack_policy != Acknowledge::None;
        let (pushed, none) = ("with `consumer = \"push\"`", "with `ack_policy = \"none\"`");
        let keys = [
            ("discard", "without `max_bytes`", self.discard != default.discard && self.max_bytes.is_none()),
            (
                "pending_messages",
                "with `consumer = \"pull\"`",
                pulls && self.pending_messages != default.pending_messages,
            ),
            ("pull_batch", pushed, self.consumer == ConsumerType::Push && self.pull_batch != default.pull_batch),
            ("ack_wait", none, !acknowledges && self.ack_wait.is_some()),
            ("max_ack_pending", none, !acknowledges && self.max_ack_pending != default.max_ack_pending),
        ];
        keys.into_iter().find_map(|(key, beside, is_so)| is_so.then_some((key, beside)))
    }

    /// Refuses what the type of the consumers does not have.
    fn check_consumer(&self) -> Result<(), String> {
        let refused = |sentence: &str| Err(sentence.to_owned());
        let (pending, batch) = (self.pending_messages.get(), self.pull_batch.get());
        match self.consumer {
            // The next batch is asked for while half of one is on its way.
            ConsumerType::Ordered if pending / 2 < batch => {
                refused("the client drops what is more than `pending_messages`: make it twice `pull_batch` at least")
            }
            ConsumerType::Pull => Ok(()),
            ConsumerType::Push if self.ack_policy == Acknowledge::None => refused(
                "`consumer = \"push\"` needs acknowledgements, which limit what the server sends (`max_ack_pending`): \
                 remove `ack_policy = \"none\"`, or use \"ordered\"",
            ),
            ConsumerType::Push if self.max_ack_pending > self.pending_messages => refused(
                "the server may push `max_ack_pending` messages, but the client drops what is more than \
                 `pending_messages`: make `pending_messages` as large",
            ),
            ConsumerType::Push => Ok(()),
            ConsumerType::Ordered if self.ack_policy != Acknowledge::None => {
                refused("`consumer = \"ordered\"` acknowledges nothing: set `ack_policy = \"none\"`")
            }
            ConsumerType::Ordered if self.retention != Retention::Limits => refused(
                "`consumer = \"ordered\"` acknowledges nothing, so that the stream would keep or lose messages: set \
                 `retention = \"limits\"`",
            ),
            ConsumerType::Ordered => Ok(()),
        }
    }
}

/// Which part of NATS carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A stream for each topic: each message is acknowledged when the stream has it.
    Jetstream,
    /// Subjects: at most once, without an acknowledgement.
    Core,
    /// Subjects: a consumer's reply is the acknowledgement of a message.
    Request,
}

/// What JetStream does with the messages of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Batches {
    /// Stores and acknowledges each by itself.
    Single,
    /// Stores all or none of them, with one acknowledgement (nats-server 2.12 and later). A batch is at most 1,000 messages.
    Atomic,
    /// Stores each as it arrives, with one acknowledgement of those that are stored (nats-server 2.14 and later).
    Fast,
}

/// How a consumer of JetStream receives messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsumerType {
    /// The members of a group ask for messages.
    Pull,
    /// The server sends each message to one member of a group.
    Push,
    /// The only member of a group asks for messages, in the order of the stream, and begins again behind the last one if some are missing.
    Ordered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    File,
    Memory,
}

impl From<Storage> for StorageType {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::File => StorageType::File,
            Storage::Memory => StorageType::Memory,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// When a limit is reached.
    Limits,
    /// When each group has acknowledged it.
    Interest,
    /// When one consumer has acknowledged it.
    WorkQueue,
}

impl From<Retention> for RetentionPolicy {
    fn from(retention: Retention) -> Self {
        match retention {
            Retention::Limits => RetentionPolicy::Limits,
            Retention::Interest => RetentionPolicy::Interest,
            Retention::WorkQueue => RetentionPolicy::WorkQueue,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    Old,
    New,
}

impl From<Discard> for DiscardPolicy {
    fn from(discard: Discard) -> Self {
        match discard {
            Discard::Old => DiscardPolicy::Old,
            Discard::New => DiscardPolicy::New,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    Explicit,
    All,
    None,
}

impl From<Acknowledge> for AckPolicy {
    fn from(policy: Acknowledge) -> Self {
        match policy {
            Acknowledge::Explicit => AckPolicy::Explicit,
            Acknowledge::All => AckPolicy::All,
            Acknowledge::None => AckPolicy::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_two_logins_refused() {
        let options: NatsOptions = toml::from_str("token = { env = 'A' }\nnkey = { env = 'B' }").unwrap();
        assert!(options.check().unwrap_err().contains("keep one of them"));
    }
    #[test]
    fn options_work_queue_without_explicit_acks_refused() {
        let options: NatsOptions = toml::from_str("retention = 'work_queue'\nack_policy = 'all'").unwrap();
        assert!(options.check().unwrap_err().contains("explicit"));
    }

    #[test]
    fn options_that_a_consumer_type_does_not_have_refused() {
        for (keys, reason) in [
            ("consumer = 'push'\nack_policy = 'none'", "needs acknowledgements"),
            ("consumer = 'push'\nmax_ack_pending = 200000", "`pending_messages` as large"),
            (
                "consumer = 'ordered'\nack_policy = 'none'\npull_batch = 1000\npending_messages = 1999",
                "twice `pull_batch`",
            ),
            ("consumer = 'ordered'", "set `ack_policy = \"none\"`"),
            ("consumer = 'ordered'\nack_policy = 'none'\nretention = 'interest'", "`retention = \"limits\"`"),
            ("consumer = 'push'\nmode = 'core'", "`consumer` is about JetStream"),
            ("batches = 'fast'\nmode = 'request'", "`batches` is about JetStream"),
            ("max_bytes = '1MB'\nmode = 'core'", "`max_bytes` is about JetStream"),
            ("pull_batch = 7\nmode = 'core'", "`pull_batch` is about JetStream"),
            ("ack_wait = '0s'", "`ack_wait` is more than 0"),
            ("duplicate_window = '0s'", "`duplicate_window` is more than 0"),
            ("max_age = '0s'", "`max_age` is more than 0"),
            ("max_bytes = 0", "`max_bytes` is more than 0"),
            ("discard = 'new'", "`discard` has no effect without `max_bytes`"),
            ("pending_messages = 7", "`pending_messages` has no effect with `consumer = \"pull\"`"),
            ("consumer = 'push'\npull_batch = 7", "`pull_batch` has no effect with `consumer = \"push\"`"),
            ("ack_policy = 'none'\nack_wait = '1s'", "`ack_wait` has no effect with `ack_policy = \"none\"`"),
            ("ack_policy = 'none'\nmax_ack_pending = 7", "`max_ack_pending` has no effect"),
        ] {
            let options: NatsOptions = toml::from_str(keys).unwrap();
            let refusal = options.check().unwrap_err();
            assert!(refusal.contains(reason), "{keys}: {refusal}");
        }
        for keys in [
            "consumer = 'ordered'\nack_policy = 'none'\npull_batch = 7\npending_messages = 70",
            "discard = 'new'\nmax_bytes = '1MB'\npull_batch = 7\nack_wait = '1s'\nmax_ack_pending = 7",
            "mode = 'core'\npending_messages = 7",
            "mode = 'request'\npending_messages = 7",
        ] {
            let options: NatsOptions = toml::from_str(keys).unwrap();
            assert_eq!(options.check(), Ok(()), "{keys}");
        }
    }
}
