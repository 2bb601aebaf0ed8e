//! A connection whose client must take what it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep};

/// Fails a write that has made no progress for so long: a client that reads nothing must not keep its connection for ever.
pub struct Patient<I> {
    io: I,
    patience: Duration,
    /// Set while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<I: Unpin> Patient<I> {
    pub fn new(io: I, patience: Duration) -> Self {
        Patient { io, patience, deadline: None }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut I>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.io), context) {
            self.deadline = None;
            return Poll::Ready(done);
        }
        let patience = self.patience;
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: Read + Unpin> Read for Patient<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: Write + Unpin> Write for Patient<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.bounded(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, |io, context| io.poll_shutdown(context))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.bounded(context, |io, context| io.poll_write_vectored(context, parts))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_nothing_ends_the_connection_and_one_that_reads_does_not() {
        let (here, mut there) = tokio::io::duplex(10);
        let mut patient = Patient::new(TokioIo::new(here), Duration::from_millis(50));
        let mut write = async || poll_fn(|context| Pin::new(&mut patient).poll_write(context, &[0; 20])).await;
        assert_eq!(write().await.unwrap(), 10);
        let reading = tokio::spawn(async move {
            there.read_exact(&mut [0; 10]).await.unwrap();
            there
        });
        let mut there = reading.await.unwrap();
        assert_eq!(write().await.unwrap(), 10, "there is space again");
        assert_eq!(write().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        there.read_exact(&mut [0; 10]).await.unwrap();
    }
}
