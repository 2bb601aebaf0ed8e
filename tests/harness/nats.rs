//! The real nats-server that `scripts/test` starts, and others of a test's own.

use std::path::PathBuf;

use super::server::variable;

/// Its `host:port`.
pub fn address() -> String {
    variable("BROKERMARK_NATS")
}

/// The folder of `nats-server`.
pub fn programs() -> PathBuf {
    variable("BROKERMARK_NATS_PROGRAMS").into()
}
