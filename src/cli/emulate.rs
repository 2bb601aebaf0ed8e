//! `brokermark emulate`: an endpoint of this process for other clients.

use std::io::Write;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct EmulateArguments {
    #[command(subcommand)]
    pub endpoint: Endpoint,
}

#[derive(Debug, Subcommand)]
pub enum Endpoint {
    /// librdkafka's mock cluster: speaks Kafka's protocol over loopback, keeps 5 MiB of each partition
    #[cfg_attr(not(feature = "kafka"), command(hide = true))]
    Kafka,
    /// Aliyun's log service: verifies signatures and bodies, enforces quotas, injects faults, counts every log
    #[cfg(feature = "sls-emulator")]
    Sls(Box<sls::SlsArguments>),
    #[cfg(not(feature = "sls-emulator"))]
    #[command(hide = true)]
    Sls {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        ignored: Vec<std::ffi::OsString>,
    },
}

/// Starts the endpoint, prints its address and waits for the end of the process.
///
/// # Errors
/// A sentence when it cannot be started, or this build does not have it.
pub fn emulate(arguments: &EmulateArguments, out: &mut dyn Write) -> Result<(), String> {
    match &arguments.endpoint {
        #[cfg(feature = "kafka")]
        Endpoint::Kafka => {
            let cluster = crate::emulator::kafka::EmbeddedKafka::start()?;
            run_until_signal(&cluster.address(), out)
        }
        #[cfg(not(feature = "kafka"))]
        Endpoint::Kafka => {
            let _ = out;
            Err("this build has no emulator of Kafka: build brokermark with the feature `kafka`".to_owned())
        }
        #[cfg(feature = "sls-emulator")]
        Endpoint::Sls(arguments) => {
            let emulator = sls::start(arguments)?;
            run_until_signal(&emulator.address().to_string(), out)
        }
        #[cfg(not(feature = "sls-emulator"))]
        Endpoint::Sls { .. } => Err(crate::emulator::NO_SLS.to_owned()),
    }
}

/// Prints the address and waits for the first signal that asks to end.
#[cfg(any(feature = "kafka", feature = "sls-emulator"))]
fn run_until_signal(address: &str, out: &mut dyn Write) -> Result<(), String> {
    let written = writeln!(out, "{address}").and_then(|()| out.flush());
    written.map_err(|error| format!("the address cannot be printed: {error}"))?;
    let failed = |error: std::io::Error| format!("cannot wait for signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(super::run::interrupt::first_signal()).map_err(failed)
}

#[cfg(feature = "sls-emulator")]
mod sls {
    use std::net::ToSocketAddrs;
    use std::path::PathBuf;
    use std::time::Duration;

    use clap::Args;

    use crate::emulator::sls::{Basis, Emulator, EmulatorOptions, FaultRule, Key, ListenOptions, parse_shard_rate};
    use crate::scenario::units::{parse_duration, parse_size};
    use crate::secrets::Secret;

    /// The access key id and its secret, unless others are given.
    const DEFAULT_CREDENTIAL: &str = "brokermark";

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
        #[arg(long, value_name = "RATE", value_parser = parse_shard_rate)]
        pub shard_rate: Option<f64>,
        /// Which bytes count towards the shard rate
        #[arg(long, value_enum, default_value = "compressed")]
        pub basis: Basis,
        /// Compressed bytes of logs that each shard keeps for reading
        #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
        pub keep: u64,
        /// Inject a fault into a share of the write requests (quota=0.05) or into requests by number (reset@3,7); may be repeated
        #[arg(long = "fault", value_name = "FAULT")]
        pub faults: Vec<FaultRule>,
        /// Time limit for the head of a request, and again for its body
        #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
        pub patience: Duration,
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
        pub certificate: Option<PathBuf>,
        /// PEM file of their key
        #[arg(long, value_name = "FILE", requires = "certificate")]
        pub key: Option<PathBuf>,
    }

    pub fn start(arguments: &SlsArguments) -> Result<Emulator, String> {
        let secret = arguments.access_key_secret.reveal()?;
        let listen = &arguments.listen;
        if secret == DEFAULT_CREDENTIAL && !is_loopback(listen) {
            return Err(format!(
                "other machines can reach {listen}, and the default secret is public: set `--access-key-secret`"
            ));
        }
        let options = EmulatorOptions {
            shard_rate: arguments.shard_rate,
            basis: arguments.basis,
            keep: arguments.keep,
            faults: arguments.faults.clone(),
            patience: arguments.patience,
            stores: arguments.stores.iter().map(|name| (name.clone(), arguments.shards)).collect(),
            threads: arguments.threads,
            management: !arguments.without_management,
        };
        let key = Key {
            id: arguments.access_key_id.clone(),
            secret,
            security_token: arguments.security_token.as_ref().map(Secret::reveal).transpose()?,
        };
        let tls = arguments.certificate.clone().zip(arguments.key.clone());
        Emulator::start(&options, ListenOptions { listen: listen.clone(), key: Some(key), tls })
    }

    /// Whether only this machine can connect to `listen`. An address that cannot be read is refused when it is listened at.
    fn is_loopback(listen: &str) -> bool {
        listen.to_socket_addrs().is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
    }
}
