//! The `[broker.sls]` table, and what a scenario makes of it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::{BrokerError, BrokerOptions};
use crate::emulator::sls::EmulatorOptions;
use crate::net::address;
use crate::scenario::tables::{ByteSize, DurationText, size};
use crate::scenario::{BrokerConfig, Secret};

/// Most a request may hold, whatever the settings: the service refuses more.
pub const MAX_BATCH_BYTES: usize = 8 << 20;
/// Most logs of one request.
pub const MAX_BATCH_LOGS: usize = 40_960;

/// The embedded endpoint's credentials when the scenario gives none.
pub const EMBEDDED_KEY: (&str, &str) = ("brokermark", "brokermark");

/// How the producer collects, sends and tries again. The names and defaults are those of the service's own Java producer.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlsOptions {
    pub project: String,
    /// The host name the service believes it has, if `broker.address` is not it.
    pub endpoint: Option<String>,
    pub access_key_id: Option<Secret>,
    pub access_key_secret: Option<Secret>,
    /// The token of temporary credentials (STS).
    pub security_token: Option<Secret>,
    pub signature: SignatureVersion,
    /// The region that version 4 signs for, `cn-hangzhou`.
    pub region: Option<String>,
    /// Bytes of logs without an outcome.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub total_size: usize,
    /// A batch of this size leaves.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "ByteSize")]
    pub batch_size: usize,
    /// A batch of so many logs leaves.
    pub batch_count: usize,
    /// A batch of this age leaves.
    #[serde(with = "DurationText")]
    pub linger: Duration,
    /// How long a producer waits for space in `total_size`.
    #[serde(with = "DurationText")]
    pub max_block: Duration,
    /// Threads that compress and post; each has one request in flight.
    pub io_threads: usize,
    /// How often a batch that failed retriably is sent again.
    pub retries: u32,
    #[serde(with = "DurationText")]
    pub backoff: Duration,
    #[serde(with = "DurationText")]
    pub max_backoff: Duration,
    /// How long the service may take to respond.
    #[serde(with = "DurationText")]
    pub request_timeout: Duration,
    pub compression: Compression,
    /// How often a consumer that is up to date asks for new logs.
    #[serde(with = "DurationText")]
    pub pull_interval: Duration,
    /// Settings of the endpoint of `address = "embedded"`.
    pub emulator: EmulatorOptions,
}

impl Default for SlsOptions {
    fn default() -> Self {
        SlsOptions {
            project: "brokermark".to_owned(),
            endpoint: None,
            access_key_id: None,
            access_key_secret: None,
            security_token: None,
            signature: SignatureVersion::V1,
            region: None,
            total_size: 100 << 20,
            batch_size: 512 << 10,
            batch_count: 4096,
            linger: Duration::from_secs(2),
            max_block: Duration::from_secs(60),
            io_threads: 8,
            retries: 10,
            backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(50),
            request_timeout: Duration::from_secs(60),
            compression: Compression::Lz4,
            pull_interval: Duration::from_millis(50),
            emulator: EmulatorOptions::default(),
        }
    }
}

/// The way in which requests are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureVersion {
    V1,
    V4,
}

/// How bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    /// The value of `x-log-compresstype`; `None`: the header is omitted.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some("lz4"),
            Compression::Zstd => Some("zstd"),
        }
    }
}

/// Who asks.
#[derive(Clone)]
pub struct Credentials {
    pub key_id: String,
    pub key_secret: String,
    pub security_token: Option<String>,
}

impl BrokerOptions for SlsOptions {
    fn check(&self) -> Result<(), String> {
        let positive = [
            ("total_size", self.total_size),
            ("batch_size", self.batch_size),
            ("batch_count", self.batch_count),
            ("io_threads", self.io_threads),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` must be at least 1"));
        }
        if self.batch_size > MAX_BATCH_BYTES || self.batch_count > MAX_BATCH_LOGS {
            return Err(format!(
                "a request holds at most {MAX_BATCH_BYTES} bytes (`batch_size`) and {MAX_BATCH_LOGS} logs (`batch_count`)"
            ));
        }
        if self.io_threads > 1024 {
            return Err("`io_threads` is at most 1024".to_owned());
        }
        if self.linger.is_zero() || self.pull_interval.is_zero() {
            return Err("`linger` and `pull_interval` must be longer than 0".to_owned());
        }
        if self.signature == SignatureVersion::V4 && self.region.is_none() {
            return Err("signature version 4 needs the `region`, as in \"cn-hangzhou\"".to_owned());
        }
        // It becomes part of a header.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if self.region.as_ref().is_some_and(|region| !region.bytes().all(plain)) {
            return Err("a `region` has letters, digits and hyphens only, as \"cn-hangzhou\"".to_owned());
        }
        if self.project.is_empty() {
            return Err("`project` must be named".to_owned());
        }
        self.emulator.check().map_err(|reason| format!("`emulator`: {reason}"))
    }
}

impl SlsOptions {
    /// Why the service itself cannot be used with these settings, in words that name the key.
    pub fn contradiction(&self, addresses: &[String]) -> Option<String> {
        if self.access_key_id.is_none() || self.access_key_secret.is_none() {
            return Some("requests are signed: give `broker.sls.access_key_id` and `broker.sls.access_key_secret`, best as { env = \"NAME\" }".to_owned());
        }
        let hosts = addresses.iter().chain(&self.endpoint).map(|address| address::host(address));
        let doubled = |host: &&str| {
            host.strip_prefix(&self.project).is_some_and(|rest| rest.starts_with('.') && rest.contains(".log."))
        };
        let host = hosts.into_iter().find(doubled)?;
        let rest = &host[self.project.len() + 1..];
        Some(format!(
            "the project is put in front of the host: `broker.address` is {rest}, without the `broker.sls.project`"
        ))
    }

    /// The credentials, read now.
    ///
    /// # Errors
    /// When they are not given, or cannot be read.
    pub fn credentials(&self, config: &BrokerConfig) -> Result<Credentials, BrokerError> {
        let read = |secret: &Option<Secret>| {
            secret.as_ref().map(Secret::reveal).transpose().map_err(BrokerError::Configuration)
        };
        let (key_id, key_secret) = (read(&self.access_key_id)?, read(&self.access_key_secret)?);
        let security_token = read(&self.security_token)?;
        let (key_id, key_secret) = match (key_id, key_secret) {
            (Some(key_id), Some(key_secret)) => (key_id, key_secret),
            (None, None) if config.is_embedded() => (EMBEDDED_KEY.0.to_owned(), EMBEDDED_KEY.1.to_owned()),
            _ => {
                return Err(BrokerError::Configuration(
                    "give `access_key_id` and `access_key_secret` in `[broker.sls]`, best as { env = \"NAME\" }"
                        .to_owned(),
                ));
            }
        };
        let sendable = |text: &str| !text.is_empty() && text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !sendable(&key_id) || !security_token.as_deref().is_none_or(sendable) {
            return Err(BrokerError::Configuration(
                "an access key or token is empty or has characters that no request can carry".to_owned(),
            ));
        }
        Ok(Credentials { key_id, key_secret, security_token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::registry;
    use crate::broker::sls::SlsBroker;

    fn read(text: &str) -> Result<SlsOptions, toml::de::Error> {
        registry::options::<SlsBroker>(toml::from_str(text).unwrap())
    }

    #[test]
    fn the_seeds_settings_are_read() {
        let options = read(
            "total_size = \"104857600B\"\nbatch_size = \"3MiB\"\nbatch_count = 40960\nlinger = \"2s\"\nio_threads = 32\n\
             access_key_id = \"id\"\naccess_key_secret = { env = \"SECRET\" }\ncompression = \"zstd\"",
        )
        .unwrap();
        assert_fields!(options, { total_size: 104_857_600, batch_size: 3_145_728, batch_count: 40_960 });
        assert_eq!(options.compression, Compression::Zstd);
        assert_eq!(read("total_size = \"100MiB\"").unwrap().total_size, 100 << 20);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, word) in [
            ("io_threads = 0", "io_threads"),
            ("batch_size = \"9MiB\"", "batch_size"),
            ("batch_count = 40961", "batch_count"),
            ("signature = \"v4\"", "region"),
            ("access_key_secret = { env = \"A\", file = \"b\" }", "{ env = "),
            ("region = \"cn hangzhou\"", "region"),
            ("linger = \"0s\"", "linger"),
            ("nonsense = 1", "nonsense"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message().contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn project_in_the_host_and_a_missing_key_are_refused() {
        let contradiction = |address: &str, keys: &str| {
            let options = read(&format!("project = 'logs'\n{keys}")).unwrap();
            options.contradiction(&[address.to_owned()])
        };
        let keys = "access_key_id = 'id'\naccess_key_secret = 'hush'";
        assert_eq!(contradiction("cn-hangzhou.log.aliyuncs.com:443", keys), None);
        assert_eq!(contradiction("logs.example:80", keys), None);
        let doubled = contradiction("logs.cn-hangzhou.log.aliyuncs.com:443", keys).unwrap();
        assert!(doubled.contains("`broker.address` is cn-hangzhou.log.aliyuncs.com,"), "{doubled}");
        assert!(contradiction("cn-hangzhou.log.aliyuncs.com:443", "").unwrap().contains("`broker.sls.access_key_id`"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let options = read("access_key_id = \"id\"\naccess_key_secret = \"hush\"").unwrap();
        assert!(!format!("{options:?}").contains("hush"));
    }
}
