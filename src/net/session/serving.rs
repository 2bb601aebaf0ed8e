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
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::super::PublishingConnection;
    use super::*;
    use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};

    /// Its frames are single bytes, which it hands on.
    struct Bytes(UnboundedSender<u8>);

    impl Protocol for Bytes {
        type State = ();
        type Message = ();
        type Error = ();
        type Scratch = ();

        const MAX_UNWRITTEN: usize = 1;

        fn pending((): &()) -> usize {
            0
        }

        fn read(session: &Arc<Session<Self>>, served: &mut Served, (): &mut ()) -> io::Result<()> {
            served.read_buffer.fill(&served.transport)?;
            let first = |bytes: &[u8], _: usize| Ok::<_, io::Error>(bytes.first().map(|byte| (*byte, 1)));
            while let Some(byte) = served.read_buffer.next(first)? {
                session.protocol.0.send(byte).map_err(io::Error::other)?;
            }
            Ok(())
        }

        async fn reconnect(_session: &Arc<Session<Self>>) -> Option<Served> {
            None
        }

        fn lost(&self, _reason: &str) {}

        fn take_pending((): &mut ()) -> Vec<()> {
            Vec::new()
        }

        fn fail(&self, _messages: Vec<()>, (): &()) {}
    }

    #[tokio::test]
    async fn bytes_after_the_handshake_are_read_first() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut theirs = theirs.unwrap().0;
        theirs.write_all(b"ab").await.unwrap();
        let transport = Arc::new(Transport::Plain(ours.unwrap()));
        let mut read_buffer = ReadBuffer::new(1);
        transport.readable().await.unwrap();
        read_buffer.fill(&transport).unwrap();
        let (sender, mut bytes) = unbounded_channel();
        let served = Served { transport, read_buffer, heartbeat: None };
        let _connection = PublishingConnection::start(Bytes(sender), (), served, WriteBuffer::default());
        let received = timeout(Duration::from_secs(60), async { [bytes.recv().await, bytes.recv().await] });
        assert_eq!(received.await.unwrap(), [Some(b'a'), Some(b'b')]);
    }
}
