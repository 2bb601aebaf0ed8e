//! A connection that a consumer reads in the engine's own task: `poll` reads, and the consumer decodes when it hands messages over.

use std::io;
use std::task::Context;
use std::time::Instant;

use super::transport::{ReadBuffer, Transport, WriteBuffer};

/// A connection with what was read and what is to be written.
pub struct ReceivingConnection {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub write_buffer: WriteBuffer,
    /// When something was read last.
    pub heard: Instant,
    /// Whether something was read that was not decoded yet.
    pub unread: bool,
    /// Why the connection ended.
    pub end: Option<io::Error>,
}

impl ReceivingConnection {
    /// After a handshake, which may have read more than its answers.
    pub fn new(transport: Transport, read_buffer: ReadBuffer) -> Self {
        let (write_buffer, heard) = (WriteBuffer::default(), Instant::now());
        ReceivingConnection { transport, read_buffer, write_buffer, heard, unread: true, end: None }
    }

    /// Writes pending bytes and reads once. Returns whether there is something to take.
    pub fn poll(&mut self, context: &mut Context<'_>) -> bool {
        while self.write_buffer.unwritten() > 0 && self.transport.poll_writable(context).is_ready() {
            // An error shows again when the connection is read.
            if self.write_buffer.flush(&self.transport).is_err() {
                break;
            }
        }
        while !self.unread && self.end.is_none() && self.transport.poll_readable(context).is_ready() {
            match self.read_buffer.fill(&self.transport) {
                // It was not readable after all: the next poll registers the waker again.
                Ok(0) => {}
                Ok(_) => {
                    self.heard = Instant::now();
                    self.unread = true;
                }
                Err(error) => self.end = Some(error),
            }
        }
        self.unread || self.end.is_some()
    }
}
