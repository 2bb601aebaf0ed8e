//! Sockets and buffers of connections that read and write without blocking: bytes to write, and bytes that were read and hold frames. The caller
//! defines the frames.
//!
//! A socket may be polled instead of waited for. Waking a sleeping thread may take longer than the server takes to respond. A [`PolledStream`] is
//! polled by the connection's task, which yields the core to other tasks and polls again for as long as the connection lives. The price is one
//! busy core. The socket is not registered with the runtime's reactor, so it wakes no other thread either.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::net;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;

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

/// The size of an empty read buffer, which is also the most that one read takes. It grows for a larger frame.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// What an empty read buffer keeps of what it grew to: one frame that is far larger than the others does not hold its memory until the end.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// With less free space than this at its end, the buffer moves its unread bytes to its beginning.
const MIN_FREE_BYTES: usize = 64 << 10;

/// Bytes to write.
#[derive(Default)]
pub struct WriteBuffer {
    pub bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    /// Bytes that the socket has not accepted yet.
    pub fn unwritten(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes as much as the socket accepts now. Returns whether that was everything.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn flush(&mut self, transport: &Transport) -> io::Result<bool> {
        while self.unwritten() > 0 {
            match transport.try_write(&self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Without this, written bytes would pile up for as long as the socket accepts less than everything.
                    if self.written > READ_BUFFER_BYTES {
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

    /// Writes everything, waiting for the socket where necessary.
    ///
    /// # Errors
    /// When the connection has failed.
    pub async fn flush_all(&mut self, transport: &Transport) -> io::Result<()> {
        while !self.flush(transport)? {
            transport.writable().await?;
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }
}

/// Bytes that were read, and the frames in them.
pub struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    most: usize,
}

impl ReadBuffer {
    /// For frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        ReadBuffer { bytes: vec![0; READ_BUFFER_BYTES], start: 0, end: 0, most }
    }

    /// Reads once. Returns 0 when no data is available.
    ///
    /// # Errors
    /// When the connection has ended or failed.
    pub fn fill(&mut self, transport: &Transport) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > MAX_KEPT_BYTES {
                self.bytes = vec![0; READ_BUFFER_BYTES];
            }
        } else if self.bytes.len() - self.end < MIN_FREE_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < MIN_FREE_BYTES {
                // A single frame fills nearly all of it. Decoding rejects a frame that is too large before it has arrived.
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

    /// Whether everything that was read was handed over.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
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

    /// The next whole frame, which `decode` finds at the beginning of the unread bytes, with its length. `None`: it has not
    /// arrived completely.
    ///
    /// # Errors
    /// Those of `decode`, which rejects a frame that is larger than the maximum before it has arrived.
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

/// How long one poll takes at most; then the thread's other tasks run.
const TURN: Duration = Duration::from_micros(50);

/// Runs a poll and counts the CPU time that it takes, which is not work. It returns the poll's result.
pub type CountCpuTime = fn(&mut dyn FnMut() -> bool) -> bool;

/// A connected socket that one task reads.
pub struct PolledStream {
    stream: net::TcpStream,
    count_cpu_time: CountCpuTime,
    /// The last poll found no data, and the thread's other tasks have run since.
    waits: AtomicBool,
}

impl PolledStream {
    /// Takes a connected socket from the runtime.
    ///
    /// # Errors
    /// When the runtime does not release it.
    pub fn new(stream: TcpStream, count_cpu_time: CountCpuTime) -> io::Result<Self> {
        Ok(PolledStream { stream: stream.into_std()?, count_cpu_time, waits: AtomicBool::new(false) })
    }

    /// Ready when a read returns data, an error or the end. Otherwise the task runs again without a wake-up.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // The first poll is a short one: tasks that need the data of the last read may not have run yet.
        let readable = self.has_data()
            || (self.waits.load(Ordering::Relaxed) && (self.count_cpu_time)(&mut || self.has_data_within(TURN)));
        self.waits.store(!readable, Ordering::Relaxed);
        if readable {
            return Poll::Ready(());
        }
        // Dropped unfinished: its first poll has put the task behind all others.
        let behind_others = pin!(yield_now()).poll(context);
        debug_assert!(behind_others.is_pending());
        Poll::Pending
    }

    fn has_data_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            thread::yield_now();
            if self.has_data() {
                return true;
            }
        }
        false
    }

    fn has_data(&self) -> bool {
        !matches!(self.stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// As of a socket that does not block.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(into)
    }

    /// As of a socket that does not block.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.stream).write(bytes)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/net/transport.rs"]
mod tests;
