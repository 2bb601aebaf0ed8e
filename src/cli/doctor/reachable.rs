//! Whether an address resolves and accepts connections, how long that takes, and whether it is this machine.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::{Finding, bad, doubtful, good};
use crate::net::address;
use crate::net::tcp::{self, Connected, Unreachable};
use crate::record::readable::duration;

/// The finding on one address of `subject`. It connects as a run does.
pub(super) async fn finding(subject: &'static str, text: &str) -> Finding {
    let Some((host, port)) = address::split(text) else {
        return good(subject, format!("{text}: its client connects by itself"));
    };
    let host = host.trim_matches(['[', ']']);
    let began = Instant::now();
    match tcp::reach(text).await {
        Ok(Connected { stream, passed }) if passed.is_empty() => accepted(subject, text, &stream, began.elapsed()),
        Ok(Connected { stream, passed }) => {
            let passed: Vec<String> = passed.iter().map(ToString::to_string).collect();
            let found = accepted(subject, text, &stream, began.elapsed()).found;
            let found = format!("{found}; its name has other addresses that did not ({})", passed.join("; "));
            doubtful(
                subject,
                found,
                format!("getent ahosts {host}; remove the address, or mend what should answer there"),
            )
        }
        Err(error @ Unreachable::Unresolved { .. }) => {
            bad(subject, format!("{text}: {error}"), format!("getent hosts {host}"))
        }
        Err(error) => bad(subject, format!("{text} cannot be connected to ({error})"), format!("nc -vz {host} {port}")),
    }
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
