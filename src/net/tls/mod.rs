//! TLS: the files that a scenario names, and the certificates and keys in them.

#[cfg(feature = "tls")]
mod identity;

use std::path::PathBuf;

#[cfg(feature = "tls")]
pub use identity::*;

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
