//! The endpoint's settings: `[broker.sls.emulator]`, and the arguments of `brokermark emulate sls`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::faults::FaultRule;
use crate::scenario::deserialize::{duration, size};
use crate::scenario::units::{Rate, parse_rate};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmulatorOptions {
    /// Bytes per second that each shard takes; `None`: any number.
    #[serde(deserialize_with = "shard_rate")]
    pub shard_rate: Option<f64>,
    /// Which bytes those are.
    pub basis: Basis,
    /// Compressed bytes of logs that each shard keeps for reading; older ones go.
    #[serde(deserialize_with = "size")]
    pub keep: u64,
    pub faults: Vec<FaultRule>,
    /// How long a client may take for the head of a request, and for its body.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
    /// Log stores that are there from the beginning, with their shards.
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

/// Where the endpoint listens, and whom it lets in.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    /// `host:port`; port 0: any that is free.
    pub listen: String,
    /// `None`: anybody, unsigned.
    pub key: Option<Key>,
    /// PEM files of the certificates and of their key, to speak HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Who is let in.
#[derive(Clone)]
pub struct Key {
    pub id: String,
    pub secret: String,
    /// Of temporary credentials (STS): every request has to show it.
    pub security_token: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.id)
    }
}

/// Which bytes a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
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
