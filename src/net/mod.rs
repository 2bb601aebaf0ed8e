//! Connections to servers: addresses, TLS, sockets, and the pauses between attempts. It knows no broker's protocol.

pub mod address;
pub mod backoff;
#[cfg(any(
    feature = "kafka-native",
    feature = "nsq",
    feature = "pulsar",
    feature = "rabbitmq-stream",
    feature = "sls"
))]
pub mod connect;
#[cfg(any(feature = "nsq", feature = "pulsar", feature = "sls"))]
pub mod http;
#[cfg(any(feature = "nsq", feature = "pulsar", feature = "sls"))]
pub mod percent;
pub mod plain_http;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod session;
pub mod tcp;
pub mod tls;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod transport;
