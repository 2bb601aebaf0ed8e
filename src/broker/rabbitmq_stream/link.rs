//! A connection's two ends for those who never wait: bytes out as far as the socket takes them, frames in as they lie.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::codec::Malformed;
use super::codec::frame::{Frame, decode};

/// What one read takes at most; a frame larger than that makes the buffer grow with what has come of it.
const INBOX_BYTES: usize = 256 << 10;

/// With less room than this at its end, what is left unread is moved to the buffer's beginning.
const LEAST_ROOM: usize = 64 << 10;

/// Larger than any chunk a server keeps: it ends one when it has this much to write or 4096 entries.
const MOST_FRAME_BYTES: usize = 512 << 20;

/// The way to the server.
pub enum Link {
    Direct(TcpStream),
    /// A task at the other end encrypts.
    Encrypted(UnixStream),
}

impl Link {
    /// Shakes hands and starts the task that encrypts.
    ///
    /// # Errors
    /// When the server does not shake hands or is not trusted.
    pub async fn encrypt(stream: TcpStream, host: &str, config: Arc<rustls::ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(format!("{host} is no name that a certificate can be for")))?;
        let mut encrypted = TlsConnector::from(config).connect(name, stream).await?;
        let (ours, mut theirs) = UnixStream::pair()?;
        // Either end of it ends the other: the task lives as long as the connection.
        tokio::spawn(async move { copy_bidirectional(&mut encrypted, &mut theirs).await });
        Ok(Link::Encrypted(ours))
    }

    /// Resolves when reading may bring something.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Link::Direct(stream) => stream.readable().await,
            Link::Encrypted(stream) => stream.readable().await,
        }
    }

    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Link::Direct(stream) => stream.poll_read_ready(context),
            Link::Encrypted(stream) => stream.poll_read_ready(context),
        }
    }

    /// Resolves when writing may take something.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Link::Direct(stream) => stream.writable().await,
            Link::Encrypted(stream) => stream.writable().await,
        }
    }

    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Link::Direct(stream) => stream.poll_write_ready(context),
            Link::Encrypted(stream) => stream.poll_write_ready(context),
        }
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Direct(stream) => stream.try_read(into),
            Link::Encrypted(stream) => stream.try_read(into),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Link::Direct(stream) => stream.try_write(bytes),
            Link::Encrypted(stream) => stream.try_write(bytes),
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
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn flush(&mut self, link: &Link) -> io::Result<bool> {
        while self.unwritten() > 0 {
            match link.try_write(&self.bytes[self.written..]) {
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
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Inbox { bytes: vec![0; INBOX_BYTES], start: 0, end: 0 }
    }
}

impl Inbox {
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
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether [`Inbox::next`] will return a frame.
    ///
    /// # Errors
    /// When what came is no frame.
    pub fn has_frame(&self) -> Result<bool, Malformed> {
        Ok(decode(&self.bytes[self.start..self.end], MOST_FRAME_BYTES)?.is_some())
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When what came is no frame.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        let Inbox { bytes, start, end } = self;
        let Some((frame, length)) = decode(&bytes[*start..*end], MOST_FRAME_BYTES)? else { return Ok(None) };
        *start += length;
        Ok(Some(frame))
    }
}
