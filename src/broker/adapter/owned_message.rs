//! A message that outlives the call of the engine: crates take messages that they may keep.

use std::sync::Arc;

use bytes::Bytes;

use crate::broker::{Outgoing, Setup};
use crate::limits::TRACE_HEADER_BYTES;
use crate::load::PayloadPool;

/// The headers that several messages have, apart from the trace header.
pub type HeaderSet = Arc<[(String, String)]>;

/// A message on its way to the crate.
#[derive(Debug, Clone)]
pub struct OwnedMessage {
    /// A payload of the trial's pool is not copied.
    pub payload: Bytes,
    pub key: Option<Bytes>,
    pub headers: HeaderSet,
    /// The engine's own header, where the payload cannot carry it.
    pub trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
}

/// Makes owned messages from those of the engine.
pub(super) struct Messages {
    pool: Arc<PayloadPool>,
    /// The whole pool: a payload is a slice of it.
    pool_bytes: Bytes,
    header_sets: Vec<HeaderSet>,
}

/// Owns the pool for as long as a slice of it is used.
struct PoolOwner(Arc<PayloadPool>);

impl AsRef<[u8]> for PoolOwner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Messages {
    pub fn new<Options>(setup: &Setup<Options>) -> Self {
        let pool = setup.payloads.clone();
        let header_sets = setup.header_sets.iter().map(|headers| headers.clone().into()).collect();
        Messages { pool_bytes: Bytes::from_owner(PoolOwner(pool.clone())), pool, header_sets }
    }

    pub fn owned(&self, message: &Outgoing<'_>) -> OwnedMessage {
        let payload = match self.pool.place(message.payload) {
            Some(place) => self.pool_bytes.slice(place.begin()..place.begin() + place.size()),
            None => Bytes::copy_from_slice(message.payload),
        };
        let header_set = message.attributes.map_or(0, |attributes| attributes.header_set as usize);
        OwnedMessage {
            payload,
            key: message.key.map(Bytes::copy_from_slice),
            headers: self.header_sets[header_set].clone(),
            trace_header: message.trace_header.copied(),
        }
    }
}
