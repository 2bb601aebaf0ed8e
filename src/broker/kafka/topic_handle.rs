//! A batch of messages handed to librdkafka in one call, which takes the topic's lock and reads the clock once. The crate has a call for single
//! messages, which looks the topic up by its name each time (docs/decisions/0002-kafka-hot-path.md has what both cost).

use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdkafka::bindings as rd;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};

use super::reports::Reports;
use crate::broker::Outgoing;

/// The partitioner chooses the partition (`RD_KAFKA_PARTITION_UA`).
const ANY_PARTITION: i32 = -1;

// A send tag's word is an opaque pointer to librdkafka.
const _: () = assert!(size_of::<*mut c_void>() >= size_of::<u64>());

/// A topic of one producing client.
pub struct TopicHandle {
    topic: NonNull<rd::rd_kafka_topic_t>,
    /// Lives as long as the topic, which belongs to it.
    _client: Arc<BaseProducer<Reports>>,
}

// SAFETY: librdkafka's topics may be used from any thread.
unsafe impl Send for TopicHandle {}

impl TopicHandle {
    /// # Errors
    /// When the name cannot be a topic's.
    pub fn new(client: Arc<BaseProducer<Reports>>, name: &str) -> Result<Self, String> {
        let terminated = CString::new(name).map_err(|_| format!("the topic's name '{name}' contains a NUL byte"))?;
        // SAFETY: the client is alive, the name terminated; no configuration means the client's default one.
        let topic =
            unsafe { rd::rd_kafka_topic_new(client.client().native_ptr(), terminated.as_ptr(), ptr::null_mut()) };
        let topic = NonNull::new(topic).ok_or_else(|| format!("'{name}' cannot be the name of a topic"))?;
        Ok(TopicHandle { topic, _client: client })
    }

    /// Hands `batch` over, without headers. Returns how many messages were taken, and for each why it was not, in order: after the first that
    /// finds the queue full, none is taken.
    pub fn produce(&self, batch: &[Outgoing<'_>]) -> (usize, impl Iterator<Item = Option<Code>>) {
        let mut messages: Vec<_> = batch.iter().map(message).collect();
        // SAFETY: the topic is alive; `messages` has as many entries as it says, whose payloads and keys are valid for the call, which
        // copies them.
        let taken = unsafe {
            rd::rd_kafka_produce_batch(
                self.topic.as_ptr(),
                ANY_PARTITION,
                rd::RD_KAFKA_MSG_F_COPY | rd::RD_KAFKA_MSG_F_PARTITION,
                messages.as_mut_ptr(),
                messages.len() as i32,
            )
        };
        let errors = messages.into_iter().map(|message| match message.err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => None,
            error => Some(error.into()),
        });
        (taken as usize, errors)
    }
}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and this is its only owner; librdkafka keeps what its messages still need.
        unsafe { rd::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}

fn message(outgoing: &Outgoing<'_>) -> rd::rd_kafka_message_t {
    let attributes = outgoing.attributes.copied().unwrap_or_default();
    let payload = if attributes.null_payload { ptr::null() } else { outgoing.payload.as_ptr() };
    let (key, key_len) = outgoing.key.map_or((ptr::null(), 0), |key| (key.as_ptr(), key.len()));
    rd::rd_kafka_message_t {
        err: RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: ptr::null_mut(),
        partition: attributes.partition.map_or(ANY_PARTITION, |partition| partition as i32),
        payload: payload.cast_mut().cast(),
        len: outgoing.payload.len(),
        key: key.cast_mut().cast(),
        key_len,
        offset: 0,
        _private: outgoing.send_tag.to_word() as usize as *mut c_void,
    }
}
