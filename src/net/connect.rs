//! Connecting a protocol, and what can go wrong until a connection is ready for its work.
//!
//! Something else than the protocol may answer at a port. Frames of brokers begin with their size: bytes of another protocol look like a size that
//! no broker sends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::tls::{connector, date_refusal};
#[cfg(feature = "session")]
use super::transport::Transport;
use super::{ANSWERS_LIKE_HTTP, SPEAKS_TLS, WITHOUT_TLS, address, tcp};

/// Why there is no connection, or no response. `R` is the protocol's refusal.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError<R> {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The bytes that came are not the protocol.
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Refused(R),
    /// The two sides cannot work together as the scenario asks.
    #[error("{0}")]
    Incompatible(String),
}

/// Waits for `work`, but no longer than `limit`.
///
/// # Errors
/// Those of `work`, or [`ConnectError::Timeout`].
pub async fn within<T, R>(
    limit: Duration,
    work: impl Future<Output = Result<T, ConnectError<R>>>,
) -> Result<T, ConnectError<R>> {
    timeout(limit, work).await.unwrap_or(Err(ConnectError::Timeout(limit)))
}

/// Starts TLS on a connection to `address`, whose host the server's certificate must name.
///
/// # Errors
/// When the host cannot be in a certificate, or the handshake fails.
pub async fn encrypt(config: Arc<ClientConfig>, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let (connector, name) = connector(config, address::host(address)).map_err(io::Error::other)?;
    connector.connect(name, stream).await.map_err(explained)
}

/// The reading and the writing half of a connection.
pub type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// Connects to `address`, with TLS where it is configured.
///
/// # Errors
/// When the connection fails, or as [`encrypt`].
pub async fn halves(config: Option<&Arc<ClientConfig>>, address: &str) -> io::Result<Halves> {
    let stream = tcp::connect(address).await?;
    let Some(config) = config else {
        let (reader, writer) = stream.into_split();
        return Ok((Box::new(reader), Box::new(writer)));
    };
    let stream = encrypt(config.clone(), address, stream).await;
    let stream = stream.map_err(|error| io::Error::other(format!("TLS: {error}")))?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

/// Why a handshake failed, also where its own error does not tell it to people.
pub fn explained(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let is_cut = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&error.kind());
    let told = match cause {
        Some(rustls::Error::InvalidCertificate(reason)) => date_refusal(reason),
        // What came is of another protocol, or the connection was closed.
        Some(rustls::Error::InvalidMessage(_)) => Some(format!("{error}: {WITHOUT_TLS}")),
        _ => is_cut.then(|| format!("{error}: {WITHOUT_TLS}")),
    };
    told.map_or(error, io::Error::other)
}

/// As [`encrypt`], as a transport: a task encrypts at the other end of a pair of sockets.
///
/// # Errors
/// As [`encrypt`].
#[cfg(feature = "session")]
pub async fn encrypted(config: Arc<ClientConfig>, address: &str, stream: TcpStream) -> io::Result<Transport> {
    let mut stream = encrypt(config, address, stream).await?;
    let (near, mut far) = tokio::net::UnixStream::pair()?;
    // The end of either stream ends the task.
    tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut far).await });
    Ok(Transport::Upgraded(near))
}

/// What a frame's size says of the port, if it is the beginning of another protocol.
pub fn protocol_of_size(size: u32) -> Option<&'static str> {
    match size.to_be_bytes() {
        // Some servers answer bytes that are not a request with a page and no status line (HTTP/0.9).
        [b'H', b'T', b'T', b'P'] | [b'<', b'!' | b'h' | b'H', ..] => Some(ANSWERS_LIKE_HTTP),
        // An alert or a handshake (RFC 8446, section 5.1).
        [0x15 | 0x16, 3, ..] => Some(SPEAKS_TLS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        let of = |bytes: &[u8; 4]| protocol_of_size(u32::from_be_bytes(*bytes));
        for first in [b"HTTP", b"<!DO", b"<htm", b"<HTM"] {
            assert!(of(first).is_some_and(|words| words.contains("HTTP")), "{first:?}");
        }
        // The alert of a server that was sent something else than TLS.
        assert!(of(&[0x15, 3, 3, 0]).unwrap().contains("broker.security.tls"));
        assert_eq!([of(&[0, 0, 0, 6]), of(b"SSH-")], [None, None]);
    }
}
