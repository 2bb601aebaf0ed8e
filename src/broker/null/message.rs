//! A message as the null broker keeps it.

use std::borrow::Cow;

use crate::broker::{Details, Outgoing};

/// A message on its way to consumers.
#[derive(Debug, Clone)]
pub struct Message {
    pub payload: Box<[u8]>,
    pub trace_header: Option<Box<[u8]>>,
    pub key: Option<Box<[u8]>>,
    /// Where it has a partition of its own.
    pub partition: Option<u32>,
}

impl Message {
    pub fn new(outgoing: &Outgoing<'_>) -> Self {
        Message {
            payload: outgoing.payload.into(),
            trace_header: outgoing.trace_header.map(|trace_header| trace_header.as_slice().into()),
            key: outgoing.key.map(Into::into),
            partition: outgoing.attributes.and_then(|attributes| attributes.partition),
        }
    }

    /// With one bit changed.
    pub fn corrupted(mut self) -> Self {
        if let Some(last) = self.payload.last_mut() {
            *last ^= 1;
        }
        self
    }
}

impl Details for Message {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.key.as_deref().map(Cow::Borrowed)
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
