//! A message as the null broker keeps it.

use crate::broker::Outgoing;

/// A message on its way to consumers.
#[derive(Debug, Clone)]
pub struct Message {
    pub payload: Box<[u8]>,
    pub trace_header: Option<Box<[u8]>>,
}

impl Message {
    pub fn new(outgoing: &Outgoing<'_>) -> Self {
        Message { payload: outgoing.payload.into(), trace_header: outgoing.trace_header.map(Into::into) }
    }

    /// With one bit changed.
    pub fn corrupted(mut self) -> Self {
        if let Some(last) = self.payload.last_mut() {
            *last ^= 1;
        }
        self
    }
}

/// A message with its offset.
#[derive(Clone)]
pub struct Queued {
    pub partition: u32,
    pub offset: u64,
    pub redelivered: bool,
    pub message: Message,
}
