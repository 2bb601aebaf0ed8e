//! What comes back from a producing client: delivery reports in batches, errors, statistics.

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;
use crate::measure::Stamp;

/// How many delivery reports are fetched from an event at a time.
const FETCH: usize = 256;

/// A producing client's events.
pub struct Deliveries {
    queue: NonNull<rd::rd_kafka_queue_t>,
    _client: Arc<Client>,
}

// SAFETY: librdkafka's queues may be used from any thread; this one is polled by one.
unsafe impl Send for Deliveries {}

/// Something a producing client tells.
pub enum Event<'a> {
    /// The outcomes of messages, usually of one produce request.
    Delivered(Batch<'a>),
    /// The client's trouble, which is not (yet) any message's.
    Trouble(Code, String),
    /// librdkafka's statistics as JSON.
    Statistics(&'a str),
}

/// The delivery reports of one event.
pub struct Batch<'a>(&'a OwnedEvent);

impl Deliveries {
    pub fn new(client: Arc<Client>) -> Option<Self> {
        // SAFETY: the client is alive, and `_client` keeps it so for as long as the queue is.
        let queue = unsafe { rd::rd_kafka_queue_get_main(client.as_ptr()) };
        NonNull::new(queue).map(|queue| Deliveries { queue, _client: client })
    }

    /// Waits up to `timeout` for an event and hands it to `each`.
    pub fn poll(&self, timeout: Duration, each: impl FnOnce(Event<'_>)) {
        // SAFETY: the queue is alive; the event is owned by the caller.
        let event = unsafe { rd::rd_kafka_queue_poll(self.queue.as_ptr(), timeout.as_millis() as i32) };
        let Some(event) = NonNull::new(event).map(OwnedEvent) else { return };
        // SAFETY: the event is alive until the end of this function, and so are the strings it lends.
        unsafe {
            match rd::rd_kafka_event_type(event.0.as_ptr()) {
                rd::RD_KAFKA_EVENT_DR => each(Event::Delivered(Batch(&event))),
                rd::RD_KAFKA_EVENT_ERROR => {
                    let reason = CStr::from_ptr(rd::rd_kafka_event_error_string(event.0.as_ptr()));
                    let code = rd::rd_kafka_event_error(event.0.as_ptr());
                    each(Event::Trouble(code, reason.to_string_lossy().into_owned()));
                }
                rd::RD_KAFKA_EVENT_STATS => {
                    let statistics = CStr::from_ptr(rd::rd_kafka_event_stats(event.0.as_ptr()));
                    each(Event::Statistics(statistics.to_str().unwrap_or("{}")));
                }
                _ => {}
            }
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        // SAFETY: gives back the reference taken in `new`.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

impl Batch<'_> {
    /// Every report: the stamp, the payload's size, and the error if the message was not delivered.
    pub fn for_each(self, mut each: impl FnMut(Stamp, usize, Option<Code>)) {
        let mut messages = [ptr::null::<rd::rd_kafka_message_t>(); FETCH];
        loop {
            // SAFETY: the event is alive and the array as long as it says; the messages belong to the event.
            let count =
                unsafe { rd::rd_kafka_event_message_array((self.0).0.as_ptr(), messages.as_mut_ptr(), messages.len()) };
            if count == 0 {
                return;
            }
            for message in &messages[..count] {
                // SAFETY: librdkafka has just filled these entries with valid messages.
                let message = unsafe { &**message };
                let stamp = Stamp::from_word(message._private as usize as u64);
                let error = (message.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR).then_some(message.err);
                each(stamp, message.len, error);
            }
        }
    }
}

struct OwnedEvent(NonNull<rd::rd_kafka_event_t>);

impl Drop for OwnedEvent {
    fn drop(&mut self) {
        // SAFETY: the event is this value's own; its messages go with it.
        unsafe { rd::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}
