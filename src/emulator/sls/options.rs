//! The endpoint's settings: `[broker.sls.emulator]`, and the arguments of `brokermark emulate sls`. Among them are errors on purpose:
//! an exact share of the requests that write, or those of given numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::scenario::tables::{self, ByteSize, DurationText, fraction, size};
use crate::scenario::units::{Rate, parse_rate};

/// Most shards of one store.
pub const MAX_SHARDS: u32 = 256;

/// Most shards of all stores: each costs memory even without logs.
pub const MAX_SHARDS_OF_ALL: usize = 16_384;

/// Most threads of the endpoint.
const MAX_THREADS: usize = 1024;

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmulatorOptions {
    /// Bytes per second that each shard takes; `None`: any number.
    #[serde(deserialize_with = "shard_rate")]
    #[schemars(with = "Option<tables::Rate>")]
    pub shard_rate: Option<f64>,
    /// The bytes that count towards it.
    pub basis: Basis,
    /// Compressed bytes of logs that each shard keeps for reading; older ones go.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub keep: u64,
    pub faults: Vec<FaultRule>,
    /// Time limit for the head of a request, and again for its body.
    #[serde(with = "DurationText")]
    pub patience: Duration,
    /// Log stores to create at the start, with their shards.
    pub stores: BTreeMap<String, u32>,
    pub threads: usize,
    /// Whether clients may list, look at, create and remove log stores.
    pub management: bool,
}

impl Default for EmulatorOptions {
    fn default() -> Self {
        EmulatorOptions {
            shard_rate: None,
            basis: Basis::Compressed,
            keep: 64 << 20,
            faults: Vec::new(),
            patience: Duration::from_secs(60),
            stores: BTreeMap::new(),
            threads: 1,
            management: true,
        }
    }
}

impl EmulatorOptions {
    /// Refuses numbers that cannot be.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn check(&self) -> Result<(), String> {
        if let Some((name, shards)) = self.stores.iter().find(|(_, shards)| !(1..=MAX_SHARDS).contains(*shards)) {
            return Err(format!("the log store '{name}' cannot have {shards} shards: write 1 to {MAX_SHARDS}"));
        }
        let of_all: u64 = self.stores.values().map(|shards| u64::from(*shards)).sum();
        if of_all > MAX_SHARDS_OF_ALL as u64 {
            return Err(format!("the log stores have {of_all} shards together: write at most {MAX_SHARDS_OF_ALL}"));
        }
        if self.threads > MAX_THREADS {
            return Err(format!("the endpoint cannot have {} threads: write at most {MAX_THREADS}", self.threads));
        }
        if self.faults.iter().any(|rule| rule.at.contains(&0)) {
            return Err("a fault cannot be at request 0: write 1 for the first request".to_owned());
        }
        let shares: f64 = self.faults.iter().map(|rule| rule.share).sum();
        // Written in decimals, they may not add up exactly.
        if shares > 1.0 + 1e-9 {
            return Err(format!("the faults have {shares} of all requests together: write shares of 1 at most in all"));
        }
        Ok(())
    }
}

/// The address of the endpoint, and who may use it.
#[derive(Debug, Clone, Default)]
pub struct ListenOptions {
    /// `host:port`; port 0: any that is free.
    pub listen: String,
    /// `None`: every client, unsigned.
    pub key: Option<Key>,
    /// PEM files of the certificates and of their key, to speak HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Who is let in.
#[derive(Clone)]
pub struct Key {
    pub id: String,
    pub secret: String,
    /// The token of temporary credentials (STS), which every request must carry.
    pub security_token: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.id)
    }
}

/// Which bytes a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Logs as protobuf.
    Raw,
    /// Bodies as they are sent.
    Compressed,
}

/// `5MB/s`, in bytes per second.
///
/// # Errors
/// A sentence that explains how to write a rate.
pub fn parse_shard_rate(text: &str) -> Result<f64, String> {
    match parse_rate(text).map_err(|error| error.to_string())? {
        Rate::BytesPerSecond(rate) => Ok(rate),
        Rate::MessagesPerSecond(_) => {
            Err(format!("\"{text}\" counts messages: a shard's rate is in bytes, as \"5MB/s\""))
        }
    }
}

fn shard_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    parse_shard_rate(&String::deserialize(deserializer)?).map(Some).map_err(serde::de::Error::custom)
}

/// What is done to a request instead of, or after, accepting its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// 403 `WriteQuotaExceed`.
    Quota,
    /// 403 `ShardWriteQuotaExceed`.
    ShardQuota,
    /// 503 `ServerBusy`.
    Busy,
    /// 500 `InternalServerError`.
    Internal,
    /// 401 `Unauthorized`.
    Unauthorized,
    /// 502 with a page instead of the service's error.
    Garbage,
    /// 200 without a request id: nothing was accepted.
    NoRequestId,
    /// No response.
    Timeout,
    /// The connection ends without a response.
    Reset,
    /// The logs are accepted, then the connection ends: another attempt writes them twice.
    AcceptedReset,
    /// 400 `PostBodyInvalid`, which no retry would help.
    Invalid,
}

/// Which requests it is done to.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    pub kind: FaultKind,
    /// The share of all requests, from 0 to 1, evenly spread. Where another rule has a request of it, the next one takes its place.
    #[serde(default, deserialize_with = "fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Numbers of requests, from 1.
    #[serde(default)]
    pub at: Vec<u64>,
}

/// `quota=0.05`, or `reset@3,7`.
impl FromStr for FaultRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("\"{text}\" is not a fault: write `quota=0.05` for a share, or `reset@3,7` for requests by number")
        };
        let kind = |name: &str| <FaultKind as clap::ValueEnum>::from_str(name, false).map_err(|_| wrong());
        if let Some((name, share)) = text.split_once('=') {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{share} is not a share: it must lie between 0 and 1"));
            }
            return Ok(FaultRule { kind: kind(name)?, share, at: Vec::new() });
        }
        let (name, numbers) = text.split_once('@').ok_or_else(wrong)?;
        let at = numbers.split(',').map(|number| number.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        Ok(FaultRule { kind: kind(name)?, share: 0.0, at })
    }
}

/// The rules at work.
pub struct Faults {
    rules: Vec<FaultRule>,
    dealt: Mutex<Dealt>,
}

struct Dealt {
    requests: u64,
    /// Requests of its share that each rule has had.
    of_shares: Vec<u64>,
}

impl Faults {
    pub fn new(rules: &[FaultRule]) -> Self {
        let dealt = Dealt { requests: 0, of_shares: vec![0; rules.len()] };
        Faults { rules: rules.to_vec(), dealt: Mutex::new(dealt) }
    }

    /// What is to be done to the next request.
    pub fn deal(&self) -> Option<FaultKind> {
        let mut dealt = self.dealt.lock();
        dealt.requests += 1;
        let number = dealt.requests;
        if let Some(rule) = self.rules.iter().find(|rule| rule.at.contains(&number)) {
            return Some(rule.kind);
        }
        let due = |rule: &FaultRule| (number as f64 * rule.share) as u64;
        let (rule, had) = self.rules.iter().zip(&mut dealt.of_shares).find(|(rule, had)| **had < due(rule))?;
        *had += 1;
        Some(rule.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_numbers_are_exact() {
        let rules: Vec<FaultRule> = ["quota=0.05", "reset@3,7"].iter().map(|text| text.parse().unwrap()).collect();
        let faults = Faults::new(&rules);
        let dealt: Vec<Option<FaultKind>> = (0..1000).map(|_| faults.deal()).collect();
        assert_eq!(dealt.iter().filter(|fault| **fault == Some(FaultKind::Quota)).count(), 50);
        assert_eq!((dealt[2], dealt[6]), (Some(FaultKind::Reset), Some(FaultKind::Reset)));
        for wrong in ["quota", "quota=2", "nonsense=0.1", "reset@x"] {
            assert!(wrong.parse::<FaultRule>().is_err(), "{wrong}");
        }
        assert!(toml::from_str::<FaultRule>("kind = 'busy'\nshare = 5.0").is_err());
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_with_what_to_write() {
        let read = |text: &str| toml::from_str::<EmulatorOptions>(text).unwrap().check();
        let of_shares =
            |share: f64| format!("faults = [{{ kind = 'busy', share = {share} }}, {{ kind = 'reset', share = 0.5 }}]");
        for (text, reason) in [
            ("stores = { orders = 257 }", "'orders' cannot have 257 shards: write 1 to 256"),
            ("stores = { orders = 0 }", "write 1 to 256"),
            ("threads = 100000", "write at most 1024"),
            ("faults = [{ kind = 'busy', at = [3, 0] }]", "write 1 for the first request"),
            (of_shares(0.6).as_str(), "the faults have 1.1 of all requests together"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(reason), "{refusal}");
        }
        assert_eq!(read(&format!("stores = {{ orders = 256 }}\nthreads = 1024\n{}", of_shares(0.5))), Ok(()));
        let stores = (0..65).map(|number| (format!("store-{number}"), 256)).collect();
        let refusal = EmulatorOptions { stores, ..EmulatorOptions::default() }.check().unwrap_err();
        assert!(refusal.contains("16640 shards together: write at most 16384"), "{refusal}");
    }

    #[test]
    fn a_rule_takes_no_requests_from_the_share_of_another() {
        let rules: Vec<FaultRule> =
            ["quota=0.4", "busy=0.25", "timeout=0.25", "reset@20"].iter().map(|text| text.parse().unwrap()).collect();
        let faults = Faults::new(&rules);
        let dealt: Vec<Option<FaultKind>> = (0..1000).map(|_| faults.deal()).collect();
        let count = |kind| dealt.iter().filter(|fault| **fault == Some(kind)).count();
        assert_eq!(dealt[19], Some(FaultKind::Reset));
        assert!(count(FaultKind::Quota) >= 398, "{}", count(FaultKind::Quota));
        for kind in [FaultKind::Busy, FaultKind::Timeout] {
            assert!(count(kind) >= 248, "{kind:?}: {}", count(kind));
        }
    }
}
