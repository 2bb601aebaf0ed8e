//! What comes back from a producing client: delivery reports in batches, errors, statistics.

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;
use super::consume::trace_header_of;
use super::details::bytes;
use crate::broker::TRACE_HEADER_NAME;
use crate::measure::{SendTag, TraceHeader, UNKNOWN_SEQUENCE};

/// How many delivery reports are fetched from an event at a time.
const FETCH: usize = 256;

/// By how much the times of two clocks may differ that were read one after the other.
const CLOCK_SLACK_NS: u64 = 10_000_000_000;

/// A producing client's events.
pub struct Deliveries {
    trace_header_name: CString,
    queue: NonNull<rd::rd_kafka_queue_t>,
    _client: Arc<Client>,
}

// SAFETY: librdkafka's queues may be used from any thread; this one is polled by one.
unsafe impl Send for Deliveries {}

/// An event of a producing client.
pub enum Event<'a> {
    /// The outcomes of messages, usually of one produce request.
    Delivered(Batch<'a>),
    /// An error of the client, which has not failed a message (yet).
    ConnectionError(Code, String),
    /// librdkafka's statistics as JSON.
    Statistics(&'a str),
}

/// Distinguishes the partitions that a client writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionKey {
    topic: usize,
    number: i32,
}

/// A delivery report.
pub struct Report<'a> {
    pub send_tag: SendTag,
    /// `None`: the message was delivered.
    pub error: Option<Code>,
    message: &'a rd::rd_kafka_message_t,
}

impl Report<'_> {
    pub fn payload_bytes(&self) -> usize {
        self.message.len
    }

    #[inline]
    pub fn partition(&self) -> PartitionKey {
        PartitionKey { topic: self.message.rkt as usize, number: self.message.partition }
    }

    /// The topic's name and the partition's number; `None`: the message has no partition, because it was not written.
    pub fn partition_name(&self) -> Option<(String, u32)> {
        let (topic, number) = (NonNull::new(self.message.rkt)?, u32::try_from(self.message.partition).ok()?);
        // SAFETY: a message keeps its topic alive, and with it the name, which is copied.
        let name = unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(topic.as_ptr())) };
        Some((name.to_string_lossy().into_owned(), number))
    }
}

/// The delivery reports of one event.
pub struct Batch<'a> {
    event: &'a OwnedEvent,
    trace_header_name: &'a CString,
}

impl Deliveries {
    pub fn new(client: Arc<Client>) -> Option<Self> {
        // SAFETY: the client is alive, and `_client` keeps it so for as long as the queue is.
        let queue = unsafe { rd::rd_kafka_queue_get_main(client.as_ptr()) };
        let trace_header_name = CString::new(TRACE_HEADER_NAME).ok()?;
        NonNull::new(queue).map(|queue| Deliveries { trace_header_name, queue, _client: client })
    }

    /// Waits up to `timeout` for an event and hands it to `each`. Returns whether messages were delivered: librdkafka frees their
    /// places in its queue when the event is destroyed, which is before this returns.
    pub fn poll(&self, timeout: Duration, each: impl FnOnce(Event<'_>)) -> bool {
        // SAFETY: the queue is alive; the event is owned by the caller.
        let event = unsafe { rd::rd_kafka_queue_poll(self.queue.as_ptr(), timeout.as_millis() as i32) };
        let Some(event) = NonNull::new(event).map(OwnedEvent) else { return false };
        // SAFETY: the event is alive until the end of this function, and so are the strings it lends.
        unsafe {
            let kind = rd::rd_kafka_event_type(event.0.as_ptr());
            match kind {
                rd::RD_KAFKA_EVENT_DR => {
                    let trace_header_name = &self.trace_header_name;
                    each(Event::Delivered(Batch { event: &event, trace_header_name }));
                }
                rd::RD_KAFKA_EVENT_ERROR => {
                    let reason = CStr::from_ptr(rd::rd_kafka_event_error_string(event.0.as_ptr()));
                    let code = rd::rd_kafka_event_error(event.0.as_ptr());
                    each(Event::ConnectionError(code, reason.to_string_lossy().into_owned()));
                }
                rd::RD_KAFKA_EVENT_STATS => {
                    let statistics = CStr::from_ptr(rd::rd_kafka_event_stats(event.0.as_ptr()));
                    each(Event::Statistics(statistics.to_str().unwrap_or("{}")));
                }
                _ => {}
            }
            kind == rd::RD_KAFKA_EVENT_DR
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        // SAFETY: returns the reference taken in `new`.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

impl Batch<'_> {
    /// Every report. `now_ns` is the time since the trial's epoch; `with_sequences`: send tags need the messages' numbers.
    pub fn for_each(self, now_ns: u64, with_sequences: bool, mut each: impl FnMut(Report)) {
        let mut messages = [ptr::null::<rd::rd_kafka_message_t>(); FETCH];
        loop {
            // SAFETY: the event is alive and the array as long as it says; the messages belong to the event.
            let count = unsafe {
                rd::rd_kafka_event_message_array(self.event.0.as_ptr(), messages.as_mut_ptr(), messages.len())
            };
            if count == 0 {
                return;
            }
            for message in &messages[..count] {
                // SAFETY: librdkafka has just filled these entries with valid messages.
                let send_tag = unsafe { self.send_tag(*message, now_ns, with_sequences) };
                // SAFETY: as above.
                let message = unsafe { &**message };
                let error = (message.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR).then_some(message.err);
                each(Report { send_tag, error, message });
            }
        }
    }

    /// librdkafka carries one word of the send tag. The other one is restored: the sequence from the message's own trace header, and
    /// the upper bits of the time sent, once there are any, from how long librdkafka has had the message.
    ///
    /// # Safety
    /// `message` must be valid.
    #[inline]
    unsafe fn send_tag(&self, message: *const rd::rd_kafka_message_t, now_ns: u64, with_sequences: bool) -> SendTag {
        // SAFETY: by the caller's promise.
        let word = unsafe { (*message)._private } as usize as u64;
        let sent_by_ns = if SendTag::is_first_turn(now_ns) {
            now_ns
        } else {
            // SAFETY: as above. Microseconds since the message was handed over; negative: not known.
            let latency_us = unsafe { rd::rd_kafka_message_latency(message) };
            let latency_ns = u64::try_from(latency_us).unwrap_or(0).saturating_mul(1000);
            now_ns.saturating_sub(latency_ns.saturating_sub(CLOCK_SLACK_NS))
        };
        // SAFETY: as above.
        let sequence = if with_sequences { unsafe { sequence(message, self.trace_header_name) } } else { 0 };
        SendTag::from_word(word, sequence, sent_by_ns)
    }
}

/// The message's number, from the trace header beside its payload or in it.
///
/// # Safety
/// `message` must be valid.
unsafe fn sequence(message: *const rd::rd_kafka_message_t, trace_header_name: &CString) -> u64 {
    // SAFETY: by the caller's promise; a report's message still has its payload and headers.
    let sealed = unsafe {
        let beside = trace_header_of(message, trace_header_name);
        beside.unwrap_or_else(|| bytes((*message).payload, (*message).len))
    };
    TraceHeader::sequence_of(sealed).unwrap_or(UNKNOWN_SEQUENCE)
}

struct OwnedEvent(NonNull<rd::rd_kafka_event_t>);

impl Drop for OwnedEvent {
    fn drop(&mut self) {
        // SAFETY: the event is this value's own; its messages go with it.
        unsafe { rd::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}
