//! Connections to servers: addresses, TLS, sockets, and the pauses between attempts. It knows no broker's protocol.

pub mod address;
pub mod backoff;
#[cfg(feature = "tls")]
pub mod connect;
pub mod http;
#[cfg(any(feature = "mqtt", feature = "nats", feature = "rabbitmq", feature = "redis"))]
pub mod idle;
#[cfg(any(feature = "mqtt", feature = "nats", feature = "nsq", feature = "rabbitmq", feature = "redis"))]
pub mod receiving;
#[cfg(feature = "session")]
pub mod session;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
pub mod token;
#[cfg(feature = "session")]
pub mod transport;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is wrong where another protocol than the broker's answers at a port.
pub const ANSWERS_LIKE_HTTP: &str = "this port answers like HTTP: name the port of the broker's own protocol";
pub const SPEAKS_TLS: &str = "this port speaks TLS: set `[broker.security.tls]`";
pub const WITHOUT_TLS: &str = "if this port is without TLS, leave out `broker.security.tls`";

/// How a client uses TLS, as a scenario writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the authorities to trust. Default: those of the system.
    #[schemars(extend("format" = "existing-file"))]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's own certificate, which goes with its `key`.
    #[schemars(extend("format" = "existing-file"))]
    pub certificate: Option<PathBuf>,
    /// PEM file of the certificate's key.
    #[schemars(extend("format" = "existing-file"))]
    pub key: Option<PathBuf>,
    /// Whether the certificate must name the host.
    pub verify_host: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Tls { ca: None, certificate: None, key: None, verify_host: true }
    }
}
