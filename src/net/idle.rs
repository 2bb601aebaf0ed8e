//! A connection that carries no messages: it answers the server, and shows it from time to time that it is there.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::transport::{ReadBuffer, Transport, WriteBuffer};

/// How often a connection shows that it is there, where the protocol names no other time.
pub const INTERVAL: Duration = Duration::from_secs(30);

/// What keeps an idle connection alive.
pub struct KeepAlive<H> {
    /// How often `heartbeat` is sent. A server from which nothing has come for twice this time is given up.
    pub interval: Duration,
    pub heartbeat: Vec<u8>,
    /// Handles the frames that were read, and appends what is to be answered.
    pub handle: H,
}

impl<H: FnMut(&mut ReadBuffer, &mut Vec<u8>) -> io::Result<()>> KeepAlive<H> {
    /// Keeps the connection to `address` alive until it ends, and returns why it did. `max_frame_bytes`: of a frame that the server may
    /// send. `read_buffer`: what the handshake has read.
    pub async fn until_lost(
        self,
        address: &str,
        transport: Transport,
        read_buffer: ReadBuffer,
        max_frame_bytes: usize,
    ) -> String {
        match self.keep(transport, read_buffer, max_frame_bytes).await {
            Ok(never) => match never {},
            Err(error) => format!("{address}: {error}"),
        }
    }

    async fn keep(
        mut self,
        transport: Transport,
        mut read_buffer: ReadBuffer,
        max_frame_bytes: usize,
    ) -> io::Result<Infallible> {
        let mut out = WriteBuffer::default();
        let mut heard = Instant::now();
        let mut beats = interval_at(heard + self.interval, self.interval);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        (self.handle)(&mut read_buffer, &mut out.bytes)?;
        // A connection that only waits keeps no buffer.
        let mut unread = Some(read_buffer).filter(|buffer| !buffer.is_empty());
        loop {
            out.flush_all(&transport).await?;
            tokio::select! {
                readable = transport.readable() => {
                    readable?;
                    let mut buffer = unread.take().unwrap_or_else(|| ReadBuffer::new(max_frame_bytes));
                    if buffer.fill(&transport)? > 0 {
                        heard = Instant::now();
                        (self.handle)(&mut buffer, &mut out.bytes)?;
                    }
                    unread = Some(buffer).filter(|buffer| !buffer.is_empty());
                }
                _ = beats.tick() => {
                    let silence = heard.elapsed();
                    if silence > 2 * self.interval {
                        let message = format!("the server has been silent for {silence:?}");
                        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                    }
                    out.bytes.extend_from_slice(&self.heartbeat);
                }
            }
        }
    }
}
