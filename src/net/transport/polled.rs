//! A socket that is polled instead of waited for.
//!
//! Waking a sleeping thread may take longer than the server takes to respond. Here the connection's task polls the socket,
//! yields the core to other tasks, and polls again for as long as the connection lives. The price is one busy core. The
//! socket is not registered with the runtime's reactor, so it wakes no other thread either.

use std::io::{self, ErrorKind, Read, Write};
use std::net;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::yield_now;

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
#[path = "../../../tests/unit/net/transport/polled.rs"]
mod tests;
