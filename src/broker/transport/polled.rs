//! A socket that is looked at again and again instead of being waited for.
//!
//! Who sleeps until an answer comes has to be woken, and on a machine whose cores are idle meanwhile that may take longer
//! than the server took to answer. Here the connection's task looks, lets go of the core for whoever wants it, and looks
//! again, for as long as the connection lives: one core is busy with it all the time, which is the price. The socket is not
//! registered with the runtime's reactor, so that no other thread is woken for it either.

use std::io::{self, ErrorKind, Read, Write};
use std::net;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::yield_now;

use crate::measure::host::polling;

/// For so long it is looked in one go; then the thread's other tasks have their turn.
const TURN: Duration = Duration::from_micros(50);

/// A connected socket, for one task to read.
pub struct PolledStream {
    stream: net::TcpStream,
    /// Nothing was there when it was looked last, and the thread's other tasks have had their turn since.
    waits: AtomicBool,
}

impl PolledStream {
    /// Takes a connected socket from the runtime.
    ///
    /// # Errors
    /// When the runtime does not let go of it.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        Ok(PolledStream { stream: stream.into_std()?, waits: AtomicBool::new(false) })
    }

    /// Ready when reading will bring something, an error or the end included. Else the task runs again by itself.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // The first look is a short one: what was read last may be for tasks that have not run yet.
        let come =
            self.has_come() || (self.waits.load(Ordering::Relaxed) && polling::during(|| self.comes_within(TURN)));
        self.waits.store(!come, Ordering::Relaxed);
        if come {
            return Poll::Ready(());
        }
        // Dropped unfinished: what matters is that the task was put behind all others.
        let behind_others = pin!(yield_now()).poll(context);
        debug_assert!(behind_others.is_pending());
        Poll::Pending
    }

    fn comes_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            thread::yield_now();
            if self.has_come() {
                return true;
            }
        }
        false
    }

    fn has_come(&self) -> bool {
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
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::broker::transport::Transport;

    async fn pair() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Transport::Polled(PolledStream::new(ours.unwrap()).unwrap()), theirs.unwrap().0)
    }

    /// Of one thread, so that nothing comes unless others have their turn while it is looked.
    #[tokio::test]
    async fn what_other_tasks_bring_about_and_the_end_are_seen() {
        let (transport, mut peer) = pair().await;
        let peer = async move {
            for _ in 0..100 {
                yield_now().await;
            }
            peer.write_all(b"word").await.unwrap();
        };
        let before = polling::of_this_thread();
        let heard = async {
            transport.readable().await.unwrap();
            let mut word = [0; 8];
            let length = transport.try_read(&mut word).unwrap();
            assert_eq!(&word[..length], b"word");
            transport.readable().await.unwrap();
            assert_eq!(transport.try_read(&mut word).unwrap(), 0, "the end");
        };
        tokio::join!(peer, heard);
        assert!(polling::of_this_thread() > before);
    }

    #[tokio::test]
    async fn a_full_socket_is_written_to_when_there_is_room() {
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
