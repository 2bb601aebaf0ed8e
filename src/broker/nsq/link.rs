//! A connection's two ends for those who never wait: bytes out as far as the socket takes them, frames in as they lie.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

use tokio::net::{TcpStream, UnixStream};

use super::codec::{Frame, Malformed, decode};

/// What one read takes at most; a frame larger than that makes the buffer grow.
const INBOX_BYTES: usize = 256 << 10;

/// With less room than this at its end, what is left unread is moved to the buffer's beginning.
const LEAST_ROOM: usize = 64 << 10;

/// The way to nsqd.
pub enum Link {
    Direct(TcpStream),
    /// A task at the other end encrypts or compresses: see [`super::bridge`].
    Bridged(UnixStream),
}

impl Link {
    /// Resolves when reading may bring something.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Link::Direct(stream) => stream.readable().await,
            Link::Bridged(stream) => stream.readable().await,
        }
    }

    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Link::Direct(stream) => stream.poll_read_ready(context),
            Link::Bridged(stream) => stream.poll_read_ready(context),
        }
    }

    /// Resolves when writing may take something.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Link::Direct(stream) => stream.writable().await,
            Link::Bridged(stream) => stream.writable().await,
        }
    }

    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Link::Direct(stream) => stream.poll_write_ready(context),
            Link::Bridged(stream) => stream.poll_write_ready(context),
        }
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Direct(stream) => stream.try_read(into),
            Link::Bridged(stream) => stream.try_read(into),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Link::Direct(stream) => stream.try_write(bytes),
            Link::Bridged(stream) => stream.try_write(bytes),
        }
    }
}

/// Bytes on their way out.
#[derive(Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    written: usize,
}

impl Outbox {
    /// Bytes the socket has not taken yet.
    pub fn unwritten(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes as much as the socket takes now; whether that was all.
    pub fn flush(&mut self, link: &Link) -> io::Result<bool> {
        while self.unwritten() > 0 {
            match link.try_write(&self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
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
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    most: usize,
}

impl Inbox {
    /// Takes frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Inbox { bytes: vec![0; INBOX_BYTES], start: 0, end: 0, most }
    }

    /// Reads once; 0: nothing is there now.
    ///
    /// # Errors
    /// When the connection has ended or failed.
    pub fn fill(&mut self, link: &Link) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() - self.end < LEAST_ROOM {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < LEAST_ROOM {
                // A single frame takes nearly all of it, and `next` refuses what is too large before it is here.
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        match link.try_read(&mut self.bytes[self.end..]) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "nsqd closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When what came is no frame.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        let Inbox { bytes, start, end, most } = self;
        let Some((frame, length)) = decode(&bytes[*start..*end], *most)? else { return Ok(None) };
        *start += length;
        Ok(Some(frame))
    }
}
