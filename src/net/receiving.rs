//! A connection that a consumer reads in the engine's own task: `poll` reads, and the consumer decodes when it hands messages over.

use std::io;
use std::task::Context;
use std::time::{Duration, Instant};

use super::transport::{ReadBuffer, Transport, WriteBuffer};

/// A connection with what was read and what is to be written.
pub struct ReceivingConnection {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub write_buffer: WriteBuffer,
    /// Since when there has been nothing to take; `None`: the consumer takes, or works on what it has taken.
    waiting: Option<Instant>,
    /// Whether something was read that was not decoded yet.
    pub unread: bool,
    /// Why the connection ended.
    pub end: Option<io::Error>,
}

impl ReceivingConnection {
    /// After a handshake, which may have read more than its answers.
    pub fn new(transport: Transport, read_buffer: ReadBuffer) -> Self {
        let write_buffer = WriteBuffer::default();
        ReceivingConnection { transport, read_buffer, write_buffer, waiting: None, unread: true, end: None }
    }

    /// Writes pending bytes and reads once. Returns whether there is something to take.
    pub fn poll(&mut self, context: &mut Context<'_>) -> bool {
        while self.write_buffer.unwritten() > 0 && self.transport.poll_writable(context).is_ready() {
            // An error shows again when the connection is read.
            if self.write_buffer.flush(&self.transport).is_err() {
                break;
            }
        }
        while !self.unread && self.end.is_none() && self.transport.poll_readable(context).is_ready() {
            match self.read_buffer.fill(&self.transport) {
                // It was not readable after all: the next poll registers the waker again.
                Ok(0) => {}
                Ok(_) => self.unread = true,
                Err(error) => self.end = Some(error),
            }
        }
        let has_something = self.unread || self.end.is_some();
        self.waiting = if has_something { None } else { self.waiting.or_else(|| Some(Instant::now())) };
        has_something
    }

    /// For how long the server has sent nothing while it was waited for. The consumer's own work is not the server's silence: what the server
    /// has sent meanwhile is not read yet.
    pub fn silence(&self) -> Duration {
        self.waiting.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn server_is_silent_only_while_it_is_waited_for() {
        const LONG: Duration = Duration::from_secs(60);
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut connection = ReceivingConnection::new(Transport::Upgraded(near), ReadBuffer::new(1 << 10));
        let mut idle = Context::from_waker(Waker::noop());
        connection.unread = false;
        assert!(!connection.poll(&mut idle));
        connection.waiting = Instant::now().checked_sub(LONG);
        assert!(!connection.poll(&mut idle) && connection.silence() >= LONG);
        far.write_all(b"message").await.unwrap();
        poll_fn(|context| if connection.poll(context) { Poll::Ready(()) } else { Poll::Pending }).await;
        // It is worked on, for as long as it takes.
        assert_eq!(connection.silence(), Duration::ZERO);
        connection.unread = false;
        assert!(!connection.poll(&mut idle) && connection.silence() < LONG);
    }
}
