//! TCP connections to `host:port`, where the host may have several addresses.
//!
//! An address that is silent must not hide one that answers: the next one is tried as well after a while (RFC 8305, "Happy Eyeballs"),
//! and the first connection wins. Every protocol and `doctor` connect here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout_at};

use super::address;

/// How long an address is tried before the next one is tried as well: the "Connection Attempt Delay" that RFC 8305, section 5,
/// recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// How long all addresses together may take, resolving the name included: `socket.connection.setup.timeout.ms` of Kafka's clients.
pub const LIMIT: Duration = Duration::from_secs(10);

/// A connection, and the addresses of its name that did not become one.
#[derive(Debug)]
pub struct Connected {
    pub stream: TcpStream,
    /// Attempts that were refused, and attempts without an answer yet when another one had its own.
    pub passed: Vec<Attempt>,
}

/// An address that did not become the connection, and what happened there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct Attempt {
    pub address: SocketAddr,
    pub reason: String,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("the name \"{host}\" does not resolve: {reason}")]
    Unresolved { host: String, reason: String },
    /// The text was an address itself, which its reader knows.
    #[error("{reason}")]
    Address { reason: String },
    #[error("{}", attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Name { attempts: Vec<Attempt> },
}

/// A connection to `host:port` that sends small writes at once.
///
/// # Errors
/// When the name does not resolve, or none of its addresses accepts within [`LIMIT`]. The error names the name and its addresses.
pub async fn connect(address: &str) -> io::Result<TcpStream> {
    reach(address).await.map(|connected| connected.stream).map_err(io::Error::other)
}

/// As [`connect`], with what happened at the other addresses.
///
/// # Errors
/// As [`connect`].
pub async fn reach(address: &str) -> Result<Connected, Unreachable> {
    let deadline = Instant::now() + LIMIT;
    if let Ok(literal) = address.parse::<SocketAddr>() {
        let connected = first_of(&[literal], deadline).await;
        return connected.map_err(|attempts| Unreachable::Address {
            reason: attempts.into_iter().map(|attempt| attempt.reason).collect(),
        });
    }
    let unresolved = |reason: String| Unreachable::Unresolved { host: address::host(address).to_owned(), reason };
    let found = timeout_at(deadline, lookup_host(address)).await;
    let found = found.map_err(|_| unresolved(format!("no answer within {LIMIT:?}")))?;
    let found: Vec<SocketAddr> = found.map_err(|error| unresolved(error.to_string()))?.collect();
    first_of(&found, deadline).await.map_err(|attempts| {
        if attempts.is_empty() { unresolved("it has no address".to_owned()) } else { Unreachable::Name { attempts } }
    })
}

/// The first of `addresses` that accepts a connection; otherwise what happened at each.
async fn first_of(addresses: &[SocketAddr], deadline: Instant) -> Result<Connected, Vec<Attempt>> {
    let began = Instant::now();
    let ordered = interleaved(addresses);
    let attempt = |address: SocketAddr, reason: String| Attempt { address, reason };
    let unanswered = |address: SocketAddr| {
        attempt(address, format!("no answer within {:?}", Duration::from_millis(began.elapsed().as_millis() as u64)))
    };
    let attempt_at = |address| async move {
        match timeout_at(deadline, open(address)).await {
            Ok(opened) => opened.map(|stream| (address, stream)).map_err(|error| attempt(address, error.to_string())),
            Err(_) => Err(unanswered(address)),
        }
    };
    let attempts = ordered.iter().copied().map(attempt_at).collect();
    let ((winner, stream), mut passed) = in_turn(attempts, HEAD_START).await?;
    let failed: Vec<SocketAddr> = passed.iter().map(|attempt| attempt.address).collect();
    let before = ordered.iter().copied().take_while(|address| *address != winner);
    passed.extend(before.filter(|address| !failed.contains(address)).map(unanswered));
    Ok(Connected { stream, passed })
}

tokio::task_local! {
    /// The address of this machine that connections of a task come from.
    static SOURCE: IpAddr;
}

/// Does `work`, whose connections come from this address of this machine.
pub async fn connecting_from<T>(source: IpAddr, work: impl Future<Output = T>) -> T {
    SOURCE.scope(source, work).await
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = match SOURCE.try_get() {
        Ok(source) => open_from(source, address).await?,
        Err(_) => TcpStream::connect(address).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn open_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let unusable = |error: io::Error| io::Error::new(error.kind(), format!("from {source}: {error}"));
    socket.bind(SocketAddr::new(source, 0)).map_err(unusable)?;
    socket.connect(address).await.map_err(unusable)
}

/// Each address once, the families in turn, beginning with the family that the system prefers (RFC 8305, section 4).
fn interleaved(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_none_or(SocketAddr::is_ipv6);
    let (mut one, mut other) = (addresses.iter(), addresses.iter());
    let mut ordered: Vec<SocketAddr> = Vec::with_capacity(addresses.len());
    for _ in addresses {
        let of_family =
            [one.find(|address| address.is_ipv6() == preferred), other.find(|address| address.is_ipv6() != preferred)];
        for address in of_family.into_iter().flatten() {
            if !ordered.contains(address) {
                ordered.push(*address);
            }
        }
    }
    ordered
}

/// Addresses that never answer.
#[cfg(test)]
pub mod silent {
    use std::net::SocketAddr;

    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::task::JoinSet;

    /// A socket that listens and whose queue of connections is full: further ones stay unanswered, until this is dropped.
    pub struct Silent {
        pub address: SocketAddr,
        _listener: TcpListener,
        _first: TcpStream,
        _others: JoinSet<()>,
    }

    /// At this address, whose port may be 0.
    pub async fn at(address: &str) -> Silent {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address.parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let first = TcpStream::connect(address).await.unwrap();
        let mut others = JoinSet::new();
        for _ in 0..4 {
            others.spawn(async move {
                let connected = TcpStream::connect(address).await;
                std::future::pending::<()>().await;
                drop(connected);
            });
        }
        tokio::task::yield_now().await;
        Silent { address, _listener: listener, _first: first, _others: others }
    }
}

/// Begins one attempt after the other, until one succeeds: the next when one fails, or when none has ended for `patience`. Attempts that
/// were begun go on meanwhile, and end with the first success. Also returns the errors of those that had failed before.
///
/// # Errors
/// Those of all attempts, in the order in which they failed.
pub async fn in_turn<T, E>(
    attempts: Vec<impl Future<Output = Result<T, E>>>,
    patience: Duration,
) -> Result<(T, Vec<E>), Vec<E>> {
    let mut waiting = attempts.into_iter();
    let (mut begun, mut errors) = (FuturesUnordered::new(), Vec::new());
    loop {
        let next = waiting.next();
        let may_be_more = next.is_some();
        begun.extend(next);
        tokio::select! {
            ended = begun.next() => match ended {
                Some(Ok(result)) => return Ok((result, errors)),
                Some(Err(error)) => errors.push(error),
                None => return Err(errors),
            },
            () = sleep(patience), if may_be_more => {}
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/net/tcp.rs"]
mod tests;
