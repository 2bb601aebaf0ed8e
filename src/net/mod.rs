//! Connections to servers: addresses, TLS, sockets, and the pauses between attempts. It knows no broker's protocol.

pub mod address;
pub mod backoff;
#[cfg(feature = "tls")]
pub mod connect;
pub mod http;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod session;
pub mod tcp;
pub mod tls;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod transport;
