//! The `[broker.pulsar]` table.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codec::compression::Compression;
use crate::broker::BrokerOptions;
use crate::net::token::{
    ClientCredentials, Grant, IssuerUrl, TOKEN_COMMAND, TokenSource, problem_of_command, problem_of_url,
};
use crate::scenario::Secret;
use crate::scenario::tables::{ByteSize, DurationText, duration, fraction, size};

/// How messages are sent and received, and as whom.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PulsarOptions {
    /// `tenant/namespace` of the topics.
    pub namespace: String,
    /// Whether the broker stores messages; otherwise it only passes them on to the consumers that are there.
    pub persistent: bool,
    /// The admin interface, where topics are created and removed. Default: the first address's host, port 8080, or 8443 with TLS.
    pub admin: Option<String>,
    /// A JSON Web Token.
    pub token: Option<Secret>,
    /// Instead of a token: a program and its arguments that print one, which is run again before the token ends.
    #[schemars(length(min = 1), extend("x-advice" = TOKEN_COMMAND))]
    pub token_command: Option<Vec<String>>,
    /// Instead of a token: who issues one by OAuth 2.0.
    pub oauth2_issuer_url: Option<String>,
    /// The content of a key file as the Java client's `privateKey`: JSON with `client_id` and `client_secret`.
    pub oauth2_private_key: Option<Secret>,
    pub oauth2_audience: Option<String>,
    pub oauth2_scope: Option<String>,
    /// Whether the messages of one submission go out as one entry.
    pub batching: bool,
    /// How long a message may wait for others that go out in the same entry; left out: only what is submitted together does.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub linger: Option<Duration>,
    /// Most messages of an entry.
    pub batch_messages: usize,
    /// Most payload bytes of an entry.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub batch_bytes: usize,
    /// Whether an entry holds messages of one key only, as key-shared subscriptions want.
    pub batch_by_key: bool,
    pub compression: Compression,
    pub access_mode: AccessMode,
    /// How long a producer with `wait-for-exclusive` waits for its turn.
    #[serde(with = "DurationText")]
    pub exclusive_timeout: Duration,
    /// How a message with a key finds its partition. One without goes to the partitions in turn, a batch at a time.
    pub hashing: Hashing,
    /// Left out: exclusive for the only member of a group, failover for several.
    pub subscription: Option<SubscriptionType>,
    /// How long after it was sent a message is delivered. Then each message is an entry of its own, as with the Java client.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub deliver_after: Option<Duration>,
    /// Share of the entries that a consumer acknowledges negatively when they are delivered for the first time.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub negative_acks: f64,
    /// Messages that a consumer lets the broker send ahead.
    pub receiver_queue: u32,
    /// Whether messages without a receipt are sent again, by a producer of the same name, when the broker has closed their producer or
    /// the connection broke. Only a broker with deduplication does not store them twice then.
    pub resend: bool,
    /// How long a producer tries to get its connection back; then its messages fail, until it has it again.
    #[serde(with = "DurationText")]
    pub send_timeout: Duration,
    /// After this much silence on a connection it is pinged, and after the same time again it is closed.
    #[serde(with = "DurationText")]
    pub keep_alive: Duration,
}

impl Default for PulsarOptions {
    /// The limits of a batch, the hash, the queue and the times are those of the Java client.
    fn default() -> Self {
        PulsarOptions {
            namespace: "public/default".to_owned(),
            persistent: true,
            admin: None,
            token: None,
            token_command: None,
            oauth2_issuer_url: None,
            oauth2_private_key: None,
            oauth2_audience: None,
            oauth2_scope: None,
            batching: true,
            linger: None,
            batch_messages: 1000,
            batch_bytes: 128 << 10,
            batch_by_key: false,
            compression: Compression::None,
            access_mode: AccessMode::Shared,
            exclusive_timeout: Duration::from_secs(300),
            hashing: Hashing::Java,
            subscription: None,
            deliver_after: None,
            negative_acks: 0.0,
            receiver_queue: 1000,
            resend: false,
            send_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(30),
        }
    }
}

/// `ProducerAccessMode`, by its numbers in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessMode {
    Shared = 0,
    Exclusive = 1,
    WaitForExclusive = 2,
    ExclusiveWithFencing = 3,
}

/// Hash of a key that chooses a partition, as `HashingScheme` of the Java client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hashing {
    /// `String.hashCode`.
    Java,
    /// Murmur3, 32 bits, seed 0.
    Murmur3,
}

/// `CommandSubscribe.SubType`, by its numbers in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriptionType {
    Exclusive = 0,
    Shared = 1,
    Failover = 2,
    KeyShared = 3,
}

impl SubscriptionType {
    /// What `options` ask for, or what lets all `members` of a group in.
    ///
    /// # Errors
    /// When it does not let them in.
    pub fn for_group(options: &PulsarOptions, members: usize) -> Result<Self, String> {
        let kind = match options.subscription {
            None if members > 1 => Ok(SubscriptionType::Failover),
            None => Ok(SubscriptionType::Exclusive),
            Some(SubscriptionType::Exclusive) if members > 1 => Err(format!(
                "an exclusive subscription lets one consumer in, but `consumers.members` is {members}: let \
                 `broker.pulsar.subscription` be \"failover\", \"shared\" or \"key-shared\", or leave it out"
            )),
            Some(asked_for) => Ok(asked_for),
        }?;
        let key = match options {
            PulsarOptions { deliver_after: Some(_), .. } => "deliver_after",
            PulsarOptions { negative_acks, .. } if *negative_acks > 0.0 => "negative_acks",
            _ => return Ok(kind),
        };
        match kind {
            SubscriptionType::Shared | SubscriptionType::KeyShared => Ok(kind),
            SubscriptionType::Exclusive | SubscriptionType::Failover => Err(format!(
                "`broker.pulsar.{key}` has an effect on shared subscriptions only: let `broker.pulsar.subscription` be \
                 \"shared\" or \"key-shared\""
            )),
        }
    }

    /// Whether acknowledging a message acknowledges all before it.
    pub fn is_cumulative(self) -> bool {
        matches!(self, SubscriptionType::Exclusive | SubscriptionType::Failover)
    }
}

impl BrokerOptions for PulsarOptions {
    fn check(&self) -> Result<(), String> {
        let parts: Vec<&str> = self.namespace.split('/').collect();
        if parts.len() != 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(format!(
                "`namespace` is `tenant/namespace`, as in \"public/default\", not \"{}\"",
                self.namespace
            ));
        }
        let counts = [
            ("batch_messages", self.batch_messages),
            ("batch_bytes", self.batch_bytes),
            ("receiver_queue", self.receiver_queue as usize),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` is at least 1"));
        }
        if self.linger.is_some_and(|linger| linger.is_zero()) {
            return Err("`linger` is longer than 0s: leave it out, so that messages do not wait".to_owned());
        }
        if self.linger.is_some() && self.deliver_after.is_some() {
            return Err("`linger` is for batches, but messages with `deliver_after` go out one by one: leave one out"
                .to_owned());
        }
        if self.linger.is_some() && !self.batching {
            return Err("`linger` is for batches, but `batching` is false: leave one of them out".to_owned());
        }
        if self.batch_by_key && !self.batching {
            return Err("`batch_by_key` is for batches, but `batching` is false: leave one of them out".to_owned());
        }
        if self.deliver_after.is_some_and(|after| after < Duration::from_millis(1)) {
            return Err("`deliver_after` is 1ms or more: leave it out, so that messages arrive at once".to_owned());
        }
        if self.exclusive_timeout.is_zero() {
            return Err("`exclusive_timeout` is longer than 0s".to_owned());
        }
        // Messages are looked at that often (`connection::MIN_TICK`). In Pulsar's client for Java, 0 would be no limit.
        if self.send_timeout < Duration::from_millis(10) {
            return Err(
                "`send_timeout` is 10ms or more: with less, messages would fail that are answered in time, and 0s \
                        is not \"no limit\""
                    .to_owned(),
            );
        }
        if self.keep_alive.is_zero() {
            return Err("`keep_alive` is longer than 0s".to_owned());
        }
        let ways = [
            ("token", self.token.is_some()),
            ("token_command", self.token_command.is_some()),
            ("oauth2_issuer_url", self.oauth2_issuer_url.is_some()),
        ];
        let mut ways = ways.into_iter().filter(|(_, is_set)| *is_set);
        if let (Some((one, _)), Some((other, _))) = (ways.next(), ways.next()) {
            return Err(format!("`{one}` and `{other}` are two ways to log in: keep one of them"));
        }
        if let Some(problem) = self.token_command.as_deref().and_then(problem_of_command) {
            return Err(problem);
        }
        self.check_oauth2()
    }
}

impl PulsarOptions {
    /// Whether members of a group take the messages of one partition in turn. Otherwise one member has each partition.
    pub fn takes_turns(&self) -> bool {
        self.subscription.is_some_and(|kind| !kind.is_cumulative())
    }

    /// How long a producer of the crate may take to open, where the broker responds within `timeout`.
    #[cfg(feature = "pulsar-rs")]
    pub fn opening_timeout(&self, timeout: Duration) -> Duration {
        match self.access_mode {
            AccessMode::WaitForExclusive => self.exclusive_timeout,
            AccessMode::Shared | AccessMode::Exclusive | AccessMode::ExclusiveWithFencing => timeout,
        }
    }

    fn check_oauth2(&self) -> Result<(), String> {
        let Some(issuer) = &self.oauth2_issuer_url else {
            let useless = [
                ("oauth2_private_key", self.oauth2_private_key.is_some()),
                ("oauth2_audience", self.oauth2_audience.is_some()),
                ("oauth2_scope", self.oauth2_scope.is_some()),
            ];
            return match useless.into_iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => Err(format!("`{key}` needs `oauth2_issuer_url`: name the issuer, or leave it out")),
                None => Ok(()),
            };
        };
        if let Some(problem) = problem_of_url("oauth2_issuer_url", issuer) {
            return Err(problem);
        }
        if self.oauth2_private_key.is_none() {
            let advice =
                "write `oauth2_private_key = { file = \"key.json\" }`, with `client_id` and `client_secret` in it";
            return Err(format!("`oauth2_issuer_url` needs credentials: {advice}"));
        }
        Ok(())
    }

    /// Where tokens are from, if the client logs in with one.
    pub fn token_source(&self) -> Option<TokenSource> {
        let written = self.token.clone().map(TokenSource::Secret);
        let printed = || self.token_command.clone().map(TokenSource::Command);
        written.or_else(printed).or_else(|| self.grant().map(Box::new).map(TokenSource::Issuer))
    }

    fn grant(&self) -> Option<Grant> {
        Some(Grant {
            issuer: IssuerUrl::Discovered(self.oauth2_issuer_url.clone()?),
            client: ClientCredentials::KeyFile(self.oauth2_private_key.clone()?, "broker.pulsar.oauth2_private_key"),
            audience: self.oauth2_audience.clone(),
            scope: self.oauth2_scope.clone(),
        })
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/pulsar/config.rs"]
mod tests;
