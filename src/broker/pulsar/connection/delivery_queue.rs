//! The frames that a connection has received for a consumer.

use std::mem;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::broker::pulsar::error::RequestError;

/// The frames that have arrived for a consumer.
pub struct DeliveryQueue {
    contents: Mutex<Contents>,
    arrived: Arc<Notify>,
}

/// What has arrived.
#[derive(Default)]
pub struct Contents {
    /// Whole `Message` frames, one behind the other.
    pub frames: Vec<u8>,
    /// Why no more frames will arrive.
    pub closed: Option<RequestError>,
}

impl DeliveryQueue {
    /// `arrived` is notified when messages arrive.
    pub fn new(arrived: Arc<Notify>) -> Self {
        DeliveryQueue { contents: Mutex::default(), arrived }
    }

    /// Adds a frame. [`DeliveryQueue::announce`] wakes the consumer.
    pub fn put(&self, frame: &[u8]) {
        self.lock().frames.extend_from_slice(frame);
    }

    pub fn announce(&self) {
        self.arrived.notify_one();
    }

    /// Closes the queue and drops its frames: the broker will deliver them again.
    pub fn close(&self, failure: RequestError) {
        *self.lock() = Contents { frames: Vec::new(), closed: Some(failure) };
        self.arrived.notify_one();
    }

    /// Whether there are frames to take, or the queue was closed.
    pub fn is_waiting(&self) -> bool {
        let contents = self.lock();
        !contents.frames.is_empty() || contents.closed.is_some()
    }

    /// Whether no more frames will arrive.
    pub fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Takes all frames and leaves the empty `spare` for the next ones. Also returns why the queue was closed, if it was.
    pub fn take(&self, spare: Vec<u8>) -> Contents {
        let mut contents = self.lock();
        Contents { frames: mem::replace(&mut contents.frames, spare), closed: contents.closed.take() }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }
}
