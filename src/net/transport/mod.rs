//! Sockets and buffers of connections that read and write without blocking. The caller defines the frames.

mod buffers;
mod polled;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;

pub use self::buffers::{ReadBuffer, WriteBuffer};
pub use self::polled::{CountCpuTime, PolledStream};

/// A connected socket.
pub enum Transport {
    Plain(TcpStream),
    /// One end of a local socket pair. A task at the other end encrypts or compresses.
    Upgraded(UnixStream),
    /// Read by polling instead of waiting.
    Polled(PolledStream),
}

impl Transport {
    /// Resolves when data may be readable.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.readable().await,
            Transport::Upgraded(stream) => stream.readable().await,
            Transport::Polled(stream) => {
                poll_fn(|context| stream.poll_readable(context)).await;
                Ok(())
            }
        }
    }

    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(stream) => stream.poll_read_ready(context),
            Transport::Upgraded(stream) => stream.poll_read_ready(context),
            Transport::Polled(stream) => stream.poll_readable(context).map(Ok),
        }
    }

    /// Resolves when the socket may accept data.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.writable().await,
            Transport::Upgraded(stream) => stream.writable().await,
            Transport::Polled(_) => {
                yield_now().await;
                Ok(())
            }
        }
    }

    /// A polled socket is always ready: the write itself reports that it would block, and the reading task runs again without a wake-up.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(stream) => stream.poll_write_ready(context),
            Transport::Upgraded(stream) => stream.poll_write_ready(context),
            Transport::Polled(_) => Poll::Ready(Ok(())),
        }
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_read(into),
            Transport::Upgraded(stream) => stream.try_read(into),
            Transport::Polled(stream) => stream.try_read(into),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_write(bytes),
            Transport::Upgraded(stream) => stream.try_write(bytes),
            Transport::Polled(stream) => stream.try_write(bytes),
        }
    }
}
