//! A connection's two ends for protocol modules that never wait: bytes out as far as the socket takes them, frames in as they
//! lie. What a frame is, the module that speaks the protocol says.

mod polled;

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;

pub use self::polled::PolledStream;

/// What one read takes at most; a frame larger than that makes the buffer grow with what has come of it.
const INBOX_BYTES: usize = 256 << 10;

/// With less room than this at its end, what is left unread is moved to the buffer's beginning.
const LEAST_ROOM: usize = 64 << 10;

/// The way to the server.
pub enum Transport {
    Direct(TcpStream),
    /// A task at the other end encrypts or compresses.
    Bridged(UnixStream),
    /// Nobody sleeps until something comes.
    Polled(PolledStream),
}

impl Transport {
    /// Resolves when reading may bring something.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Transport::Direct(stream) => stream.readable().await,
            Transport::Bridged(stream) => stream.readable().await,
            Transport::Polled(stream) => {
                poll_fn(|context| stream.poll_readable(context)).await;
                Ok(())
            }
        }
    }

    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Direct(stream) => stream.poll_read_ready(context),
            Transport::Bridged(stream) => stream.poll_read_ready(context),
            Transport::Polled(stream) => stream.poll_readable(context).map(Ok),
        }
    }

    /// Resolves when writing may take something.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Transport::Direct(stream) => stream.writable().await,
            Transport::Bridged(stream) => stream.writable().await,
            Transport::Polled(_) => {
                yield_now().await;
                Ok(())
            }
        }
    }

    /// A polled socket always may: trying tells, and whoever waits to read from it runs again by itself.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Direct(stream) => stream.poll_write_ready(context),
            Transport::Bridged(stream) => stream.poll_write_ready(context),
            Transport::Polled(_) => Poll::Ready(Ok(())),
        }
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Direct(stream) => stream.try_read(into),
            Transport::Bridged(stream) => stream.try_read(into),
            Transport::Polled(stream) => stream.try_read(into),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Direct(stream) => stream.try_write(bytes),
            Transport::Bridged(stream) => stream.try_write(bytes),
            Transport::Polled(stream) => stream.try_write(bytes),
        }
    }
}

/// Bytes on their way out.
#[derive(Default)]
pub struct WriteBuffer {
    pub bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    /// Bytes the socket has not taken yet.
    pub fn unwritten(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes as much as the socket takes now; whether that was all.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn flush(&mut self, transport: &Transport) -> io::Result<bool> {
        while self.unwritten() > 0 {
            match transport.try_write(&self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What is written already would otherwise pile up as long as the socket is never quite empty.
                    if self.written > INBOX_BYTES {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(true)
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }
}

/// Bytes that came in, and the frames in them.
pub struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    most: usize,
}

impl ReadBuffer {
    /// For frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        ReadBuffer { bytes: vec![0; INBOX_BYTES], start: 0, end: 0, most }
    }

    /// Reads once; 0: nothing is there now.
    ///
    /// # Errors
    /// When the connection has ended or failed.
    pub fn fill(&mut self, transport: &Transport) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() - self.end < LEAST_ROOM {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < LEAST_ROOM {
                // A single frame takes nearly all of it, and decoding refuses what is too large before it is here.
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        match transport.try_read(&mut self.bytes[self.end..]) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether [`ReadBuffer::next`] will return a frame.
    ///
    /// # Errors
    /// Those of `decode`.
    pub fn has_next<'a, F, E>(
        &'a self,
        decode: impl FnOnce(&'a [u8], usize) -> Result<Option<(F, usize)>, E>,
    ) -> Result<bool, E> {
        Ok(decode(&self.bytes[self.start..self.end], self.most)?.is_some())
    }

    /// The next whole frame, which `decode` finds at the beginning of what is unread, with its length; `None`: not all of it
    /// has come.
    ///
    /// # Errors
    /// Those of `decode`, which refuses what is larger than it is told before it is here.
    #[inline]
    pub fn next<'a, F, E>(
        &'a mut self,
        decode: impl FnOnce(&'a [u8], usize) -> Result<Option<(F, usize)>, E>,
    ) -> Result<Option<F>, E> {
        let ReadBuffer { bytes, start, end, most } = self;
        let Some((frame, length)) = decode(&bytes[*start..*end], *most)? else { return Ok(None) };
        *start += length;
        Ok(Some(frame))
    }
}
