//! The `[broker.nsq]` table.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::broker::BrokerOptions;
use crate::scenario::Secret;
use crate::scenario::tables::{ByteSize, DurationText, duration, fraction, size};

/// How nsqd is used. An omitted key leaves nsqd's own setting, unless a default is named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NsqOptions {
    /// `broker.addresses` are HTTP addresses of nsqlookupd, which names every nsqd.
    pub lookup: bool,
    /// How often a consumer asks nsqlookupd for further nsqd. Default: 60 s, as in NSQ's own clients.
    #[serde(deserialize_with = "lookup_interval")]
    #[schemars(with = "DurationText")]
    pub lookup_interval: Duration,
    /// nsqd's HTTP addresses, in the order of `broker.addresses`, for making and removing topics. Left out: of each
    /// address the next higher port, by NSQ's convention; with `lookup`, as nsqlookupd names them. Empty: topics and channels are
    /// created by use and never removed.
    pub http_addresses: Option<Vec<String>>,
    /// Consumers' channel; of several groups the first has it, the others it with their number. Left out: unique to
    /// the trial.
    pub channel: Option<String>,
    /// Messages in flight to one consumer connection. Default: 2500, or what nsqd allows if that is less.
    pub rdy: Option<u64>,
    /// The command for a batch of one message.
    pub single: Single,
    /// How long nsqd keeps a message before it delivers it: each is published by a command of its own.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub defer: Option<Duration>,
    /// Whether topics are ephemeral: nsqd stores none of their messages, and removes them with their last channel.
    pub ephemeral_topics: bool,
    /// Share of the messages that a reader gives back (`REQ`) when they are delivered for the first time.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub requeue: f64,
    /// Share of the messages that a reader asks more time for (`TOUCH`) before it finishes them.
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub touch: f64,
    /// How long nsqd waits for a message to be finished before it delivers it again.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub message_timeout: Option<Duration>,
    /// nsqd's heartbeats: two intervals of silence end a connection, on both sides. Default: 30 s.
    #[serde(deserialize_with = "heartbeat")]
    #[schemars(with = "DurationText")]
    pub heartbeat: Duration,
    /// Bytes that nsqd gathers for a consumer before it writes. 0: it writes each message at once.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub output_buffer: Option<u64>,
    /// How long it gathers.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub output_buffer_timeout: Option<Duration>,
    /// Published bytes of a connection without a response. Beyond it, producers wait. Default: 1 MiB.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub unanswered: u64,
    /// How long producers wait for a lost connection before their messages fail. Default: 30 s.
    #[serde(with = "DurationText")]
    pub reconnect: Duration,
    pub compression: Compression,
    /// From 1 to 9, as far as nsqd allows.
    #[serde(deserialize_with = "deflate_level")]
    #[schemars(range(min = 1, max = 9))]
    pub deflate_level: Option<u32>,
    /// What `AUTH` carries, where nsqd asks an authorisation server.
    pub auth_secret: Option<Secret>,
    /// Largest frame that is accepted. Default: 64 MiB.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub frame_bytes: u64,
}

impl Default for NsqOptions {
    fn default() -> Self {
        NsqOptions {
            lookup: false,
            lookup_interval: Duration::from_secs(60),
            http_addresses: None,
            channel: None,
            rdy: None,
            single: Single::Pub,
            defer: None,
            ephemeral_topics: false,
            requeue: 0.0,
            touch: 0.0,
            message_timeout: None,
            heartbeat: Duration::from_secs(30),
            output_buffer: None,
            output_buffer_timeout: None,
            unanswered: 1 << 20,
            reconnect: Duration::from_secs(30),
            compression: Compression::None,
            deflate_level: None,
            auth_secret: None,
            frame_bytes: 64 << 20,
        }
    }
}

impl BrokerOptions for NsqOptions {
    fn check(&self) -> Result<(), String> {
        let names_http = self.http_addresses.as_ref().is_some_and(|named| !named.is_empty());
        let is_below = |time: Option<Duration>, least: Duration| time.is_some_and(|time| time < least);
        let refusals = [
            (
                self.lookup && names_http,
                "nsqlookupd names the HTTP addresses of nsqd: leave `http_addresses` out, or set it to []",
            ),
            (
                self.deflate_level.is_some() && self.compression != Compression::Deflate,
                "`deflate_level` has no effect without `compression = \"deflate\"`: set it as well, or leave `deflate_level` out",
            ),
            // nsqd takes 0 for its own setting (`SetOutputBuffer` and `SetMsgTimeout` in its `client_v2.go`).
            (
                is_below(self.output_buffer_timeout, Duration::from_millis(1)),
                "`output_buffer_timeout` is 1ms or more: set `output_buffer = 0` to have nsqd gather nothing",
            ),
            (
                is_below(self.defer, Duration::from_millis(1)),
                "`defer` is 1ms or more: leave it out, so that messages arrive at once",
            ),
            (
                is_below(self.message_timeout, Duration::from_secs(1)),
                "`message_timeout` is 1s or more: leave it out for nsqd's own",
            ),
        ];
        match refusals.into_iter().find(|(is_so, _)| *is_so) {
            Some((_, refusal)) => Err(refusal.to_owned()),
            None => Ok(()),
        }
    }
}

impl NsqOptions {
    /// `output_buffer_size` in `IDENTIFY`, where 0 means nsqd's own setting and -1 means no buffer.
    pub fn output_buffer_size(&self) -> Option<i64> {
        self.output_buffer.map(|bytes| if bytes == 0 { -1 } else { i64::try_from(bytes).unwrap_or(i64::MAX) })
    }
}

/// How a batch of one message is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Single {
    Pub,
    Mpub,
}

/// How the connection is compressed, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    None,
    Snappy,
    Deflate,
}

/// As in go-nsq's `Config`: 10 ms or more.
fn lookup_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval: Duration = duration(deserializer)?;
    match interval >= Duration::from_millis(10) {
        true => Ok(interval),
        false => Err(serde::de::Error::custom("nsqlookupd is not asked more often than once in 10ms")),
    }
}

/// nsqd refuses less than a second.
fn heartbeat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let heartbeat: Duration = duration(deserializer)?;
    match heartbeat >= Duration::from_secs(1) {
        true => Ok(heartbeat),
        false => Err(serde::de::Error::custom("nsqd sends no heartbeats more often than once in 1s")),
    }
}

fn deflate_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let level = u32::deserialize(deserializer)?;
    match (1..=9).contains(&level) {
        true => Ok(Some(level)),
        false => Err(serde::de::Error::custom("a level of deflate is a number from 1 to 9")),
    }
}

/// nsqd's limit for the names of topics and channels, which are of `.a-zA-Z0-9_-` (`internal/protocol/names.go`).
const MAX_NAME_BYTES: usize = 64;

/// The end of the names of topics and channels that nsqd does not store (`internal/protocol/names.go`).
pub const EPHEMERAL: &str = "#ephemeral";

/// Hexadecimal digits of a name's hash.
const HASH_DIGITS: usize = 16;

/// `name` if it is short enough, else its beginning and a hash of all of it: the same for the same name, everywhere.
pub fn shorten(name: &str) -> String {
    shorten_to(name, MAX_NAME_BYTES)
}

fn shorten_to(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let mut cut = most - HASH_DIGITS - 1;
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}-{:016x}", &name[..cut], fnv1a(name.as_bytes()))
}

/// FNV-1a of 64 bits, <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The topic of that name which nsqd does not store.
pub fn ephemeral(name: &str) -> String {
    match name.strip_suffix(EPHEMERAL) {
        Some(_) => name.to_owned(),
        None => format!("{}{EPHEMERAL}", shorten_to(name, MAX_NAME_BYTES - EPHEMERAL.len())),
    }
}

/// The channel of group `number`.
pub fn channel(wanted: Option<&str>, group: &str, number: usize) -> String {
    match (wanted, number) {
        (None, _) => shorten(group),
        (Some(name), 0) => name.to_owned(),
        // nsqd knows an ephemeral channel by the end of its name.
        (Some(name), number) => match name.strip_suffix(EPHEMERAL) {
            Some(name) => format!("{name}{number}{EPHEMERAL}"),
            None => format!("{name}{number}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse_for;

    #[test]
    fn a_delay_for_which_consumers_are_not_waited_is_refused() {
        let check = |more: &str| {
            let text = format!(
                "broker = {{ kind = \"nsq\", address = \"h:1\", nsq = {{ defer = \"30s\" }} }}\nrun.messages = 1\n{more}"
            );
            let plan = parse_for(crate::engine::kinds(), &text, "a.toml", &[], Path::new(""));
            plan.map(drop).map_err(|error| error.to_string())
        };
        let refusal = check("consumers = {}").unwrap_err();
        assert!(refusal.contains("`broker.nsq.defer`, messages arrive 30s after"), "{refusal}");
        assert_eq!(check("consumers = {}\nrun.drain_deadline = \"31s\""), Ok(()));
        assert_eq!(check(""), Ok(()), "nothing is waited for");
    }

    #[test]
    fn settings_are_read_with_their_units_and_secrets_stay_hidden() {
        let options: NsqOptions = toml::from_str(
            "rdy = 10_000\ndefer = \"100ms\"\nunanswered = \"64KiB\"\ncompression = \"snappy\"\nauth_secret = \"open sesame\"",
        )
        .unwrap();
        assert_eq!((options.rdy, options.unanswered), (Some(10_000), 65_536));
        assert_eq!((options.defer, options.compression), (Some(Duration::from_millis(100)), Compression::Snappy));
        assert!(!format!("{options:?}").contains("sesame"));
        let error = toml::from_str::<NsqOptions>("auth_secret = { password = \"sesame\" }").unwrap_err();
        assert!(!error.message().contains("sesame"), "{error}");
    }

    #[test]
    fn what_nsqd_would_refuse_is_refused() {
        for (text, words) in [
            ("lookup_interval = \"0s\"", "once in 10ms"),
            ("heartbeat = \"0s\"", "once in 1s"),
            ("heartbeat = \"999ms\"", "once in 1s"),
            ("deflate_level = 0", "from 1 to 9"),
            ("deflate_level = 10", "from 1 to 9"),
        ] {
            let error = toml::from_str::<NsqOptions>(text).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_nsqd_would_replace_by_its_own_setting_is_refused_or_told_otherwise() {
        let read = |text: &str| toml::from_str::<NsqOptions>(text).unwrap();
        for (text, words) in [
            ("output_buffer_timeout = \"0s\"", "set `output_buffer = 0`"),
            ("message_timeout = \"0s\"", "1s or more"),
            ("defer = \"500us\"", "1ms or more"),
            ("deflate_level = 6", "no effect"),
            ("deflate_level = 6\ncompression = \"snappy\"", "no effect"),
        ] {
            let refusal = read(text).check().unwrap_err();
            assert!(refusal.contains(words), "{text}: {refusal}");
        }
        let all = "output_buffer = 0\noutput_buffer_timeout = \"1ms\"\nmessage_timeout = \"1s\"\n\
                   deflate_level = 6\ncompression = \"deflate\"";
        assert_eq!(read(all).check(), Ok(()));
        let sizes = ["output_buffer = 0", "output_buffer = \"16KiB\"", ""].map(|text| read(text).output_buffer_size());
        assert_eq!(sizes, [Some(-1), Some(16_384), None]);
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        assert!(toml::from_str::<NsqOptions>("ready = 1").unwrap_err().message().contains("unknown field `ready`"));
    }

    #[test]
    fn short_names_stay_and_long_ones_stay_apart() {
        assert_eq!(shorten("orders"), "orders");
        let long = format!("{}-{}", "brokermark".repeat(8), 0);
        let other = format!("{}-{}", "brokermark".repeat(8), 1);
        assert_eq!((shorten(&long).len(), shorten(&long) == shorten(&other)), (64, false));
        assert_eq!(shorten(&long), shorten(&long));
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8, "the published test vector");
    }

    #[test]
    fn the_first_group_has_the_channel_as_named() {
        assert_eq!(channel(Some("ch"), "run-0", 0), "ch");
        assert_eq!(channel(Some("ch"), "run-2", 2), "ch2");
        assert_eq!(channel(None, "run-2", 2), "run-2");
        assert_eq!(channel(Some("ch#ephemeral"), "run-0", 0), "ch#ephemeral");
        assert_eq!(channel(Some("ch#ephemeral"), "run-1", 1), "ch1#ephemeral");
        assert_eq!(ephemeral("orders"), "orders#ephemeral");
        assert_eq!(ephemeral("orders#ephemeral"), "orders#ephemeral");
        assert_eq!(ephemeral(&"x".repeat(64)).len(), 64);
    }
}
