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
    Kafka,
}

/// Starts the endpoint, prints its address and waits for the end of the process.
///
/// # Errors
/// A sentence when it cannot be started.
pub fn emulate(arguments: &EmulateArguments, out: &mut dyn Write) -> Result<(), String> {
    match arguments.endpoint {
        Endpoint::Kafka => {
            let cluster = crate::emulator::kafka::EmbeddedKafka::start()?;
            announce(out, &cluster.address())?;
            wait()
        }
    }
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
