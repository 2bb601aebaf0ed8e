//! The real nats-server that `scripts/test` starts, and others of a test's own.

use std::path::PathBuf;
use std::process::Command;

use super::server::variable;

/// Its `host:port`.
pub fn address() -> String {
    variable("BROKERMARK_NATS")
}

/// The folder of `nats-server`.
pub fn programs() -> PathBuf {
    variable("BROKERMARK_NATS_PROGRAMS").into()
}

/// Runs a command of natscli, and returns what it prints.
pub fn command(address: &str, arguments: &[&str]) -> String {
    let output = Command::new(programs().join("nats")).args(["--server", address]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
