//! The task of a publishing connection: writes, reads, and opens a lost connection again.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Protocol, Served, Session};
use crate::net::backoff::Backoff;

/// After a failed write, how long the server may take to say why it closes the connection.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// The interval of heartbeats on a connection without any.
const NO_HEARTBEAT: Duration = Duration::from_secs(3600);

/// Serves the connection, and those that replace it, until the task is aborted.
pub async fn keep<P: Protocol>(session: Arc<Session<P>>, mut served: Served) {
    loop {
        let error = serve(&session, &mut served).await;
        session.lose(&error.to_string());
        let mut backoff = Backoff::RECONNECT;
        served = loop {
            backoff.pause().await;
            if let Some(served) = P::reconnect(&session).await {
                break served;
            }
        };
    }
}

/// Writes and reads until the connection ends, and returns why it did.
async fn serve<P: Protocol>(session: &Arc<Session<P>>, served: &mut Served) -> io::Error {
    let mut scratch = P::Scratch::default();
    let transport = served.transport.clone();
    let heartbeat = served.heartbeat.unwrap_or(NO_HEARTBEAT);
    let mut heard = Instant::now();
    // Half the interval, so that heartbeats are never late and silence is noticed early.
    let mut beat = interval(heartbeat / 2);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let checked = session.protocol.check_interval();
    let mut check = interval(checked.unwrap_or(NO_HEARTBEAT));
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What arrived together with the last response of the handshake is in the buffer already.
    if let Err(error) = P::read(session, served, &mut scratch) {
        return error;
    }
    loop {
        let blocked = match session.flush(&transport) {
            Ok(all) => !all,
            Err(error) => return last_responses(session, served, scratch).await.unwrap_or(error),
        };
        tokio::select! {
            readable = transport.readable() => {
                if let Err(error) = readable.and_then(|()| P::read(session, served, &mut scratch)) {
                    return error;
                }
                heard = Instant::now();
            }
            () = session.work.notified() => {}
            Ok(()) = transport.writable(), if blocked => {}
            _ = check.tick(), if checked.is_some() => P::fail_overdue(session),
            _ = beat.tick(), if served.heartbeat.is_some() => {
                if heard.elapsed() > 2 * heartbeat {
                    let message = format!("no sign of life for {:?}", heard.elapsed());
                    return io::Error::new(io::ErrorKind::TimedOut, message);
                }
                P::heartbeat(&mut session.state().write_buffer.bytes);
            }
        }
    }
}

/// Reads on after a failed write: the server may say why it closes the connection. `None`: it did not end in time.
async fn last_responses<P: Protocol>(
    session: &Arc<Session<P>>,
    served: &mut Served,
    mut scratch: P::Scratch,
) -> Option<io::Error> {
    let transport = served.transport.clone();
    let rest = async {
        loop {
            let read = transport.readable().await.and_then(|()| P::read(session, served, &mut scratch));
            if let Err(error) = read {
                break error;
            }
        }
    };
    timeout(LAST_RESPONSES, rest).await.ok()
}

#[cfg(test)]
#[path = "../../../tests/unit/net/session/serving.rs"]
mod tests;
