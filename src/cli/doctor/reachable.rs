//! Whether an address resolves and accepts connections, how long that takes, and whether it is this machine.

use std::time::{Duration, Instant};

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::{Finding, bad, doubtful, good};
use crate::net::address;
use crate::record::readable::duration;

/// How long an address may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The finding on one address of `subject`.
pub(super) async fn finding(subject: &'static str, text: &str) -> Finding {
    let Some((host, port)) = address::split(text) else {
        return good(subject, format!("{text}: its client connects by itself"));
    };
    let host = host.trim_matches(['[', ']']);
    let resolved = match lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect::<Vec<_>>(),
        Err(error) => return bad(subject, format!("{host} does not resolve: {error}"), format!("getent hosts {host}")),
    };
    let mut refusals = Vec::new();
    for one in &resolved {
        let began = Instant::now();
        match timeout(PATIENCE, TcpStream::connect(one)).await {
            Ok(Ok(stream)) => return accepted(subject, text, &stream, began.elapsed()),
            Ok(Err(error)) => refusals.push(format!("{one}: {error}")),
            Err(_) => refusals.push(format!("{one}: no answer within {} s", PATIENCE.as_secs())),
        }
    }
    bad(subject, format!("{text} cannot be connected to ({})", refusals.join("; ")), format!("nc -vz {host} {port}"))
}

fn accepted(subject: &'static str, text: &str, stream: &TcpStream, taken: Duration) -> Finding {
    let taken = duration(taken.as_nanos() as f64);
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(own), Ok(peer)) if own.ip() == peer.ip() => doubtful(
            subject,
            format!("{text} accepts a connection after {taken}, and is on this machine: both share its processor"),
            "for figures to rely on, run brokermark on a machine of its own",
        ),
        (_, Ok(peer)) => {
            good(subject, format!("{text} resolves to {} and accepts a connection after {taken}", peer.ip()))
        }
        (_, Err(_)) => good(subject, format!("{text} accepts a connection after {taken}")),
    }
}
