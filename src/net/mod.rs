//! Connections to servers: addresses, TLS, sockets, and the pauses between attempts. It knows no broker's protocol.

pub mod address;
pub mod backoff;
#[cfg(feature = "tls")]
pub mod connect;
pub mod http;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod session;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod transport;

use std::path::PathBuf;

/// How a client uses TLS. Every file is PEM.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    /// Certificates of the authorities to trust; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Whether the server's certificate must name its host.
    pub verify_host: bool,
}
