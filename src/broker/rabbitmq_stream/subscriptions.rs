//! A consumer's connection to one node, with its subscriptions there.

use std::io;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::codec::code;
use super::codec::command::{self, Offset};
use super::codec::frame::{ConsumerUpdate, Frame, decode};
use super::connect::Session;
use super::error::{ConnectError, class_of};
use super::incoming;
use crate::broker::{FailureClass, ReceiveError};

/// A connection to one node, with the streams that are read from it.
pub struct Subscriptions {
    session: Session,
    /// Different for each connection of a consumer.
    pub number: u64,
    /// Whether the server decides if the streams are read over this connection.
    is_shared: bool,
    /// By subscription id.
    pub sources: Vec<usize>,
    heard: Instant,
    spoke: Instant,
    /// Why the connection ended.
    ended: Option<io::Error>,
}

impl Subscriptions {
    pub fn new(session: Session, sources: Vec<usize>, is_shared: bool) -> Self {
        let now = Instant::now();
        Subscriptions { session, number: 0, is_shared, sources, heard: now, spoke: now, ended: None }
    }

    /// The interval of heartbeats that both sides agreed on.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.session.heartbeat
    }

    /// Ends a connection that was silent for too long, and sends a heartbeat where it is due.
    pub fn check_heartbeat(&mut self) {
        let Some(heartbeat) = self.session.heartbeat else { return };
        if self.heard.elapsed() > 2 * heartbeat {
            self.ended = Some(io::Error::other(format!("no sign of life for {:?}", self.heard.elapsed())));
        }
        if self.spoke.elapsed() >= heartbeat / 2 {
            command::heartbeat(&mut self.session.write_buffer.bytes);
            self.spoke = Instant::now();
        }
    }

    /// Resolves when data has arrived or the connection has ended. Writes pending bytes meanwhile.
    pub fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_some() {
            return Poll::Ready(());
        }
        let Session { transport, read_buffer, write_buffer, .. } = &mut self.session;
        // After a write of less than everything, the next poll registers the waker again.
        while write_buffer.unwritten() > 0 && transport.poll_writable(context).is_ready() {
            if let Err(error) = write_buffer.flush(transport) {
                self.ended = Some(error);
                return Poll::Ready(());
            }
        }
        loop {
            let filled = ready!(transport.poll_readable(context)).and_then(|()| read_buffer.fill(transport));
            match filled {
                // Not readable after all: the next poll registers the waker again.
                Ok(0) => {}
                Ok(_) => {
                    self.heard = Instant::now();
                    return Poll::Ready(());
                }
                Err(error) => {
                    self.ended = Some(error);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Takes leave of the server and closes the connection.
    pub async fn close(self) {
        self.session.close().await;
    }

    /// Whether [`Subscriptions::take`] has something to do.
    pub fn is_filled(&self) -> bool {
        self.ended.is_some()
            || !self.session.removed.is_empty()
            || !self.session.updates.is_empty()
            || !matches!(self.session.read_buffer.has_next(decode), Ok(false))
    }

    /// Hands over the chunks that have arrived, each with the number of its source, as long as `deliver` wants more.
    ///
    /// # Errors
    /// When the connection or one of its streams is lost.
    pub fn take(
        &mut self,
        mut deliver: impl FnMut(usize, &[u8]) -> Result<ControlFlow<()>, ReceiveError>,
    ) -> Result<(), ReceiveError> {
        if let Some((stream, code)) = self.session.removed.first() {
            return Err(removed(stream, *code));
        }
        let Session { transport, read_buffer, write_buffer, updates, .. } = &mut self.session;
        let mut has_more = false;
        let failed = |error: ConnectError| ReceiveError { class: error.class(), message: error.to_string() };
        while let Some(frame) = incoming::next(read_buffer, write_buffer, transport).map_err(failed)? {
            match frame {
                Frame::Deliver { subscription, chunk } => {
                    let Some(source) = self.sources.get(usize::from(subscription)) else { continue };
                    command::credit(&mut write_buffer.bytes, subscription, 1);
                    if deliver(*source, chunk)?.is_break() {
                        has_more = true;
                        break;
                    }
                }
                Frame::ConsumerUpdate(update) => updates.push(update),
                Frame::MetadataUpdate { code, stream } => return Err(removed(stream, code)),
                // The server keeps it for the time when the subscription is active again (`rabbit_stream_reader.erl`).
                Frame::Credit { code: code::PRECONDITION_FAILED, .. } if self.is_shared => {}
                Frame::Credit { code, subscription } => {
                    let message = format!("credit for subscription {subscription}: {}", code::name(code));
                    return Err(ReceiveError { class: class_of(code), message });
                }
                _ => {}
            }
        }
        if has_more {
            // What has arrived and was not read is no silence of the server.
            self.heard = Instant::now();
        }
        if let Some(error) = self.ended.take_if(|_| !has_more) {
            return Err(lost(error.to_string()));
        }
        if write_buffer.unwritten() > 0 {
            self.spoke = Instant::now();
            write_buffer.flush(transport).map_err(|error| lost(error.to_string()))?;
        }
        Ok(())
    }

    /// What the server has said of subscriptions since the last call.
    pub fn take_updates(&mut self) -> Vec<ConsumerUpdate> {
        std::mem::take(&mut self.session.updates)
    }

    /// Responds to an update: where an active subscription begins. An inactive one has no offset.
    pub fn answer(&mut self, update: ConsumerUpdate, from: Option<Offset>) {
        let Session { transport, write_buffer, .. } = &mut self.session;
        command::consumer_update_response(&mut write_buffer.bytes, update.correlation, from);
        self.spoke = Instant::now();
        if let Err(error) = write_buffer.flush(transport) {
            self.ended = Some(error);
        }
    }
}

/// The server has removed a subscription.
fn removed(stream: &str, code: u16) -> ReceiveError {
    ReceiveError { class: class_of(code), message: format!("{stream}: {}", code::name(code)) }
}

fn lost(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::ConnectionLost, message }
}

/// What arrived is not the protocol.
pub fn other(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::Other, message }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::net::transport::Transport;

    #[tokio::test]
    async fn what_a_full_socket_did_not_take_is_written_while_nothing_arrives() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut theirs, bytes) = (theirs.unwrap().0, vec![0; 32 << 20]);
        let length = bytes.len();
        let mut session = Session::over(Transport::Plain(ours.unwrap()));
        session.write_buffer.bytes = bytes;
        let mut subscriptions = Subscriptions::new(session, Vec::new(), false);
        tokio::select! {
            () = poll_fn(|context| subscriptions.poll_fill(context)) => panic!("nothing was sent to it"),
            read = async { theirs.read_exact(&mut vec![0; length]).await } => assert_eq!(read.unwrap(), length),
        }
    }
}
