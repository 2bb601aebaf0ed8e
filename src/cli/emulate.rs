//! `brokermark emulate`: an endpoint of this process for other clients.

use std::io::Write;

use clap::{Args, Subcommand};

#[cfg(feature = "sls")]
use crate::secrets::Secret;

#[derive(Debug, Args)]
pub struct EmulateArguments {
    #[command(subcommand)]
    pub endpoint: Endpoint,
}

#[derive(Debug, Subcommand)]
pub enum Endpoint {
    /// librdkafka's mock cluster: speaks Kafka's protocol over loopback, keeps 5 MiB of each partition
    #[cfg(feature = "kafka")]
    Kafka,
    /// Aliyun's log service: verifies signatures and bodies, enforces quotas, injects faults, counts every log
    #[cfg(feature = "sls")]
    Sls(Box<SlsArguments>),
}

/// Options of the emulated log service.
/// The access key id and its secret, unless others are given.
#[cfg(feature = "sls")]
const DEFAULT_CREDENTIAL: &str = "brokermark";

#[cfg(feature = "sls")]
#[derive(Debug, Args)]
pub struct SlsArguments {
    /// Address to listen at; port 0 for any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// A log store to create at the start; may be repeated
    #[arg(long = "store", value_name = "NAME")]
    pub stores: Vec<String>,
    /// Shards of those stores
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub shards: u32,
    /// Bytes each shard accepts per second, as in 5MB/s [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = crate::emulator::sls::parse_shard_rate)]
    pub shard_rate: Option<f64>,
    /// Which bytes count towards the shard rate
    #[arg(long, value_enum, default_value = "compressed")]
    pub basis: crate::emulator::sls::Basis,
    /// Compressed bytes of logs that each shard keeps for reading
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = crate::scenario::units::parse_size)]
    pub keep: u64,
    /// Inject a fault into a share of the write requests (quota=0.05) or into requests by number (reset@3,7); may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<crate::emulator::sls::FaultRule>,
    /// Time limit for the head of a request, and again for its body
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::scenario::units::parse_duration)]
    pub patience: std::time::Duration,
    /// Server threads
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub threads: usize,
    /// Let clients only write and read logs: they may not list, look at, create or remove log stores
    #[arg(long)]
    pub without_management: bool,
    /// The access key id that clients must use
    #[arg(long, value_name = "ID", default_value = DEFAULT_CREDENTIAL)]
    pub access_key_id: String,
    /// The secret of that access key; best `env:NAME` or `file:PATH`, because other users of this machine see command lines
    #[arg(long, value_name = "SECRET", default_value = DEFAULT_CREDENTIAL)]
    pub access_key_secret: Secret,
    /// A security token that every request must carry, as with temporary credentials (STS); also `env:NAME` or `file:PATH`
    #[arg(long, value_name = "TOKEN")]
    pub security_token: Option<Secret>,
    /// PEM file of the server certificates; enables HTTPS
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<std::path::PathBuf>,
    /// PEM file of their key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<std::path::PathBuf>,
}

/// Starts the endpoint, prints its address and waits for the end of the process.
///
/// # Errors
/// A sentence when it cannot be started.
pub fn emulate(arguments: &EmulateArguments, out: &mut dyn Write) -> Result<(), String> {
    match &arguments.endpoint {
        #[cfg(feature = "kafka")]
        Endpoint::Kafka => {
            let cluster = crate::emulator::kafka::EmbeddedKafka::start()?;
            announce(out, &cluster.address())?;
            wait()
        }
        #[cfg(feature = "sls")]
        Endpoint::Sls(given) => {
            let secret = given.access_key_secret.reveal()?;
            if secret == DEFAULT_CREDENTIAL && !is_loopback(&given.listen) {
                return Err(format!(
                    "{} can be reached from other machines, and everybody knows the default secret: give one with \
                     `--access-key-secret`",
                    given.listen
                ));
            }
            let options = crate::emulator::sls::EmulatorOptions {
                shard_rate: given.shard_rate,
                basis: given.basis,
                keep: given.keep,
                faults: given.faults.clone(),
                patience: given.patience,
                stores: given.stores.iter().map(|name| (name.clone(), given.shards)).collect(),
                threads: given.threads,
                management: !given.without_management,
            };
            let key = crate::emulator::sls::Key {
                id: given.access_key_id.clone(),
                secret,
                security_token: given.security_token.as_ref().map(Secret::reveal).transpose()?,
            };
            let entrance = crate::emulator::sls::Entrance {
                listen: given.listen.clone(),
                key: Some(key),
                tls: given.certificate.clone().zip(given.key.clone()),
            };
            let emulator = crate::emulator::sls::Emulator::start(&options, entrance)?;
            announce(out, &emulator.address().to_string())?;
            wait()
        }
    }
}

/// Whether only this machine can connect to `listen`. An address that cannot be read is refused when it is listened at.
#[cfg(feature = "sls")]
fn is_loopback(listen: &str) -> bool {
    use std::net::ToSocketAddrs;
    listen.to_socket_addrs().is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}

fn announce(out: &mut dyn Write, address: &str) -> Result<(), String> {
    let written = writeln!(out, "{address}").and_then(|()| out.flush());
    written.map_err(|error| format!("the address cannot be printed: {error}"))
}

/// Waits for the first signal that asks to end.
fn wait() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    runtime.block_on(super::run::interrupt::first_signal()).map_err(|error| format!("cannot wait for signals: {error}"))
}
