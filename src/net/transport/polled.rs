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
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::net::transport::Transport;

    async fn pair() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Transport::Polled(PolledStream::new(ours.unwrap(), count).unwrap()), theirs.unwrap().0)
    }

    static COUNTED: AtomicUsize = AtomicUsize::new(0);

    fn count(poll: &mut dyn FnMut() -> bool) -> bool {
        COUNTED.fetch_add(1, Ordering::Relaxed);
        poll()
    }

    /// On one thread, so that no data comes unless other tasks run between polls.
    #[tokio::test]
    async fn data_from_other_tasks_and_the_end_are_noticed() {
        let (transport, mut peer) = pair().await;
        let peer = async move {
            for _ in 0..100 {
                yield_now().await;
            }
            peer.write_all(b"word").await.unwrap();
        };
        let heard = async {
            transport.readable().await.unwrap();
            let mut word = [0; 8];
            let length = transport.try_read(&mut word).unwrap();
            assert_eq!(&word[..length], b"word");
            transport.readable().await.unwrap();
            assert_eq!(transport.try_read(&mut word).unwrap(), 0, "the end");
        };
        tokio::join!(peer, heard);
        assert!(COUNTED.load(Ordering::Relaxed) > 0);
    }

    #[tokio::test]
    async fn a_full_socket_is_writable_again_when_the_peer_reads() {
        let (transport, mut peer) = pair().await;
        let bytes = vec![7; 64 << 10];
        let mut written = 0;
        while let Ok(count) = transport.try_write(&bytes) {
            written += count;
        }
        let rest = async {
            loop {
                transport.writable().await.unwrap();
                if transport.try_write(&bytes).is_ok() {
                    break;
                }
            }
        };
        let drain = async {
            let mut drained = vec![0; written];
            tokio::io::AsyncReadExt::read_exact(&mut peer, &mut drained).await.unwrap();
        };
        tokio::join!(rest, drain);
    }
}
