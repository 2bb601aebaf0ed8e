//! A connection that a consumer reads in the engine's own task: `poll` reads, and the consumer decodes when it hands messages over. A lost one is
//! opened again by a task.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use super::backoff::Backoff;
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

/// Opens a consumer's connection.
pub trait Opener: Send + Sync + 'static {
    /// A connection, and what the consumer keeps of it.
    type Up: Send + 'static;
    type Error: Send;

    /// Connects to the first server that answers, from the one of this number on.
    ///
    /// # Errors
    /// When none does, or it refuses.
    fn open(&self, number: usize) -> impl Future<Output = Result<Self::Up, Self::Error>> + Send;
}

/// A consumer's connection, or the task that opens it again.
pub struct Line<Up> {
    /// The number of the server that it is connected to, or that the task tries first.
    number: usize,
    state: LineState<Up>,
}

enum LineState<Up> {
    Up(Box<Up>),
    Down(AbortOnDropHandle<Up>),
}

impl<Up: Send + 'static> Line<Up> {
    /// A connection to the server of this number.
    pub fn new(number: usize, up: Up) -> Self {
        Line { number, state: LineState::Up(Box::new(up)) }
    }

    /// A task connects, to the server of this number or a later one.
    pub fn opening(number: usize, opener: &Arc<impl Opener<Up = Up>>) -> Self {
        let (opener, mut next) = (opener.clone(), number);
        let task = tokio::spawn(async move {
            let mut backoff = Backoff::RECONNECT;
            loop {
                backoff.pause().await;
                if let Ok(up) = opener.open(next).await {
                    return up;
                }
                next += 1;
            }
        });
        Line { number, state: LineState::Down(AbortOnDropHandle::new(task)) }
    }

    /// The connection, if it is up or has come back. Otherwise the task wakes this one.
    pub fn poll(&mut self, context: &mut Context<'_>, opener: &Arc<impl Opener<Up = Up>>) -> Option<&mut Up> {
        if let LineState::Down(coming) = &mut self.state {
            match Pin::new(coming).poll(context) {
                Poll::Ready(Ok(up)) => self.state = LineState::Up(Box::new(up)),
                // It has panicked.
                Poll::Ready(Err(_)) => {
                    *self = Line::opening(self.number, opener);
                    context.waker().wake_by_ref();
                }
                Poll::Pending => {}
            }
        }
        self.up()
    }

    /// The connection, if it is up.
    #[inline]
    pub fn up(&mut self) -> Option<&mut Up> {
        match &mut self.state {
            LineState::Up(up) => Some(up),
            LineState::Down(_) => None,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self.state, LineState::Up(_))
    }

    /// Ends the connection. A task connects to the next server.
    pub fn reopen(&mut self, opener: &Arc<impl Opener<Up = Up>>) {
        *self = Line::opening(self.number + 1, opener);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::task::Waker;

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

    /// The numbers of the servers that were tried: the third attempt is the first one that succeeds, and the first one panics.
    #[derive(Default)]
    struct Attempts(Mutex<Vec<usize>>);

    impl Opener for Attempts {
        type Up = usize;
        type Error = ();

        async fn open(&self, number: usize) -> Result<usize, ()> {
            let attempts = {
                let mut numbers = self.0.lock().unwrap();
                numbers.push(number);
                numbers.len()
            };
            assert!(attempts > 1, "the first attempt panics");
            if attempts > 2 { Ok(number) } else { Err(()) }
        }
    }

    #[tokio::test]
    async fn lost_connection_is_opened_again_from_the_next_server_on() {
        let opener = Arc::new(Attempts::default());
        let mut line = Line::new(4, 4);
        line.reopen(&opener);
        assert!(!line.is_up() && line.up().is_none());
        let number = poll_fn(|context| line.poll(context, &opener).map_or(Poll::Pending, |up| Poll::Ready(*up))).await;
        assert_eq!((number, line.is_up()), (6, true));
        assert_eq!(*opener.0.lock().unwrap(), [5, 5, 6]);
    }
}
