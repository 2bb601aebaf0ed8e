//! The `[broker.redis]` table.

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::BrokerOptions;
use crate::scenario::tables::{DurationText, duration};

/// How Redis or Valkey is used. An omitted key leaves the server's own setting, unless a default is named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedisOptions {
    pub mode: Mode,
    /// Number of the server's database. Default: 0.
    pub database: u32,
    /// Version of the protocol. Version 3 needs Redis 6. Default: 2.
    #[schemars(range(min = 2, max = 3))]
    pub resp: u8,
    /// Entries that a stream keeps (`MAXLEN`): it removes older ones.
    pub max_length: Option<NonZeroU32>,
    /// Age at which a stream removes an entry (`MINID`).
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub max_age: Option<Duration>,
    /// Whether a stream removes exactly what it must, instead of whole nodes of it.
    pub exact: bool,
    /// Replicas that must have a message before it is acknowledged (`WAIT`).
    pub wait_replicas: Option<NonZeroU32>,
    /// Whether a message must be in the server's append-only file, synchronised, before it is acknowledged (`WAITAOF`, Redis 7.2 and later).
    pub wait_local_file: bool,
    /// Time without a reply after which a message fails. Default: 30 s.
    #[serde(with = "DurationText")]
    pub ack_timeout: Duration,
    /// Messages that a consumer asks for at once. Default: 500.
    pub count: NonZeroU32,
    /// Whether members of a group acknowledge what they have received (`XACK`); without it, they read with `NOACK`. Default: true.
    pub acknowledge: bool,
    /// Time without an acknowledgement after which a member takes over the entry of another one (`XAUTOCLAIM`).
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub claim_after: Option<Duration>,
    /// How consumers subscribe to a channel.
    pub subscribe: Subscribe,
    /// How consumers take messages from a list.
    pub pop: Pop,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            mode: Mode::Streams,
            database: 0,
            resp: 2,
            max_length: None,
            max_age: None,
            exact: false,
            wait_replicas: None,
            wait_local_file: false,
            ack_timeout: Duration::from_secs(30),
            count: NonZeroU32::new(500).expect("500 is not 0"),
            acknowledge: true,
            claim_after: None,
            subscribe: Subscribe::Channel,
            pop: Pop::Brpop,
        }
    }
}

impl BrokerOptions for RedisOptions {
    fn check(&self) -> Result<(), String> {
        let refused = |sentence: &str| Err(sentence.to_owned());
        if self.ack_timeout.is_zero() || self.claim_after.is_some_and(|after| after.is_zero()) {
            return refused("`ack_timeout` and `claim_after` must be longer than 0");
        }
        if self.max_length.is_some() && self.max_age.is_some() {
            return refused("a stream is trimmed by `max_length` or by `max_age`: keep one of them");
        }
        if self.claim_after.is_some() && !self.acknowledge {
            return refused(
                "without acknowledgements no entry waits for one: remove `claim_after` or `acknowledge = false`",
            );
        }
        let of_streams = [
            ("max_length", self.max_length.is_some()),
            ("max_age", self.max_age.is_some()),
            ("exact", self.exact),
            ("acknowledge", !self.acknowledge),
            ("claim_after", self.claim_after.is_some()),
        ];
        let stray = of_streams.into_iter().find(|(_, is_set)| *is_set && self.mode != Mode::Streams);
        if let Some((key, _)) = stray {
            return Err(format!("`{key}` is about streams: set `mode = \"streams\"`, or remove it"));
        }
        if self.subscribe != Subscribe::Channel && self.mode != Mode::Pubsub {
            return refused("`subscribe` is about channels: set `mode = \"pubsub\"`, or remove it");
        }
        if self.pop != Pop::Brpop && self.mode != Mode::List {
            return refused("`pop` is about lists: set `mode = \"list\"`, or remove it");
        }
        let counts = self.mode == Mode::Streams || self.pop == Pop::Blmpop;
        if self.count != RedisOptions::default().count && !counts {
            return refused("`count` is about streams, and lists with `pop = \"blmpop\"`: remove it");
        }
        if self.exact && self.max_length.is_none() && self.max_age.is_none() {
            return refused("`exact` has no effect without `max_length` or `max_age`: set one of them, or remove it");
        }
        if self.mode == Mode::Pubsub && self.database > 0 {
            return refused("channels are the same in every database: remove `database`");
        }
        if self.mode == Mode::Pubsub && (self.wait_replicas.is_some() || self.wait_local_file) {
            return refused("a channel stores nothing: remove `wait_replicas` and `wait_local_file`");
        }
        Ok(())
    }
}

impl RedisOptions {
    /// Whether an acknowledgement waits for replicas or for a file.
    pub fn waits(&self) -> bool {
        self.wait_replicas.is_some() || self.wait_local_file
    }
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A stream for each topic, and a consumer group for each group.
    Streams,
    /// A channel for each topic: at most once.
    Pubsub,
    /// A list for each topic, as a queue.
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Subscribe {
    /// `SUBSCRIBE`
    Channel,
    /// `PSUBSCRIBE` with a pattern that only the channel matches.
    Pattern,
    /// `SSUBSCRIBE`, and `SPUBLISH` to send (Redis 7 and later).
    Sharded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pop {
    /// One message, as Celery and Sidekiq take it.
    Brpop,
    /// Up to `count` messages (Redis 7 and later).
    Blmpop,
    /// One message, which stays in a list of the consumer until it is done.
    Blmove,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_go_together_refused() {
        for (keys, reason) in [
            ("max_length = 5\nmax_age = '1s'", "keep one of them"),
            ("mode = 'list'\nmax_length = 5", "`max_length` is about streams"),
            ("mode = 'pubsub'\nacknowledge = false", "`acknowledge` is about streams"),
            ("acknowledge = false\nclaim_after = '1s'", "remove `claim_after`"),
            ("claim_after = '0s'", "longer than 0"),
            ("subscribe = 'sharded'", "`mode = \"pubsub\"`"),
            ("pop = 'blmove'", "`mode = \"list\"`"),
            ("mode = 'pubsub'\nwait_replicas = 1", "stores nothing"),
            ("mode = 'pubsub'\ncount = 5", "`count` is about streams"),
            ("mode = 'list'\npop = 'blmove'\ncount = 5", "`pop = \"blmpop\"`"),
            ("mode = 'pubsub'\ndatabase = 1", "remove `database`"),
            ("exact = true", "without `max_length` or `max_age`"),
        ] {
            let options: RedisOptions = toml::from_str(keys).unwrap();
            let refusal = options.check().unwrap_err();
            assert!(refusal.contains(reason), "{keys}: {refusal}");
        }
        for keys in
            ["", "count = 5\nexact = true\nmax_age = '1s'", "mode = 'list'\npop = 'blmpop'\ncount = 5\ndatabase = 1"]
        {
            let options: RedisOptions = toml::from_str(keys).unwrap();
            assert_eq!(options.check(), Ok(()), "{keys}");
        }
    }
}
