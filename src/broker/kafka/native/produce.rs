//! Messages on their way into librdkafka.

use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t::{self as Code, RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_RESP_ERR_NO_ERROR};

use super::client::Client;
use crate::broker::{Outgoing, TRACE_HEADER_NAME};

/// The partition is the partitioner's choice (`RD_KAFKA_PARTITION_UA`).
const ANY_PARTITION: i32 = -1;

/// A topic of one client, to produce to.
pub struct TopicHandle {
    topic: NonNull<rd::rd_kafka_topic_t>,
    client: Arc<Client>,
    header_sets: Vec<Vec<(CString, Vec<u8>)>>,
    trace_header_name: CString,
}

// SAFETY: librdkafka's topic objects may be used from any thread.
unsafe impl Send for TopicHandle {}
// SAFETY: as above.
unsafe impl Sync for TopicHandle {}

/// The result of handing over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// So many were handled: each is in the queue, or `refused` was called for it.
    Taken(usize),
    /// The queue is full: not even the first fitted.
    QueueFull,
    /// The client takes no message now, whatever it is: none was handled.
    Refused(Code),
}

impl Handed {
    fn full_after(taken: usize) -> Self {
        if taken == 0 { Handed::QueueFull } else { Handed::Taken(taken) }
    }
}

impl TopicHandle {
    /// `header_sets`: what messages have as headers; there is at least one list. Payloads that the client keeps are not copied.
    ///
    /// # Errors
    /// When the name cannot be a topic's.
    pub fn new(client: Arc<Client>, name: &str, header_sets: &[Vec<(String, String)>]) -> Result<Self, String> {
        let nul = |_| format!("'{name}' or one of the headers contains a NUL byte");
        let terminated = CString::new(name).map_err(nul)?;
        let trace_header_name = CString::new(TRACE_HEADER_NAME).map_err(nul)?;
        let header = |(name, value): &(String, String)| Ok((CString::new(name.as_str())?, value.clone().into_bytes()));
        let header_sets = header_sets
            .iter()
            .map(|headers| headers.iter().map(header).collect())
            .collect::<Result<_, std::ffi::NulError>>()
            .map_err(nul)?;
        // SAFETY: the client is alive, the name terminated; no configuration means the client's default one.
        let topic = unsafe { rd::rd_kafka_topic_new(client.as_ptr(), terminated.as_ptr(), ptr::null_mut()) };
        match NonNull::new(topic) {
            Some(topic) => Ok(TopicHandle { topic, client, header_sets, trace_header_name }),
            None => Err(format!("'{name}' cannot be the name of a topic")),
        }
    }

    /// Hands over as much of `batch` as fits into the queue, in order. `refused` is called for each message that the
    /// client refuses for itself (too large, no such partition). `space` is scratch, kept for its memory.
    pub fn hand_over(
        &self,
        batch: &[Outgoing<'_>],
        space: &mut Space,
        mut refused: impl FnMut(&Outgoing<'_>, Code),
    ) -> Handed {
        let (mut traced, mut own_partitions) = (false, false);
        for outgoing in batch {
            traced |= outgoing.trace_header.is_some();
            own_partitions |= outgoing.attributes.is_some();
        }
        if self.header_sets[0].is_empty() && !traced {
            // librdkafka then reads each message's own partition; of those without one the partitioner chooses it
            // (rdkafka_msg.c, `rd_kafka_produce_batch`).
            let flags = if own_partitions { rd::RD_KAFKA_MSG_F_PARTITION } else { 0 };
            self.hand_over_plain(batch, flags, &mut space.0, &mut refused)
        } else {
            self.hand_over_with_headers(batch, &mut refused)
        }
    }

    /// All in one call, which takes the topic's lock and reads the clock once.
    fn hand_over_plain(
        &self,
        batch: &[Outgoing<'_>],
        flags: i32,
        messages: &mut Vec<rd::rd_kafka_message_t>,
        refused: &mut impl FnMut(&Outgoing<'_>, Code),
    ) -> Handed {
        messages.clear();
        messages.extend(batch.iter().map(message));
        let flags = self.flags(batch) | flags;
        // SAFETY: the topic is alive; `messages` has as many entries as it says, whose payloads and keys are valid for the
        // call. Those that are not copied live as long as the client. Keys are always
        // copied by librdkafka.
        unsafe {
            rd::rd_kafka_produce_batch(
                self.topic.as_ptr(),
                ANY_PARTITION,
                flags,
                messages.as_mut_ptr(),
                messages.len() as i32,
            );
        }
        if let Some(first) = messages.first()
            && refuses_all(first.err)
            && messages.iter().all(|message| message.err != RD_KAFKA_RESP_ERR_NO_ERROR)
        {
            return Handed::Refused(first.err);
        }
        for (index, (message, outgoing)) in messages.iter().zip(batch).enumerate() {
            match message.err {
                RD_KAFKA_RESP_ERR_NO_ERROR => {}
                // From the first that finds the queue full, librdkafka refuses all.
                RD_KAFKA_RESP_ERR__QUEUE_FULL => return Handed::full_after(index),
                code => refused(outgoing, code),
            }
        }
        Handed::Taken(batch.len())
    }

    /// One call per message: the batch call has no headers.
    fn hand_over_with_headers(&self, batch: &[Outgoing<'_>], refused: &mut impl FnMut(&Outgoing<'_>, Code)) -> Handed {
        for (index, outgoing) in batch.iter().enumerate() {
            match self.hand_over_one(outgoing) {
                RD_KAFKA_RESP_ERR_NO_ERROR => {}
                RD_KAFKA_RESP_ERR__QUEUE_FULL => return Handed::full_after(index),
                code if index == 0 && refuses_all(code) => return Handed::Refused(code),
                code => refused(outgoing, code),
            }
        }
        Handed::Taken(batch.len())
    }

    fn hand_over_one(&self, outgoing: &Outgoing<'_>) -> Code {
        let message = message(outgoing);
        let own = outgoing.attributes.map_or(0, |attributes| attributes.header_set);
        let headers_of_message = &self.header_sets[own as usize];
        // SAFETY: the client and topic are alive. The list is what rdkafka.h documents for each tag and ends with
        // `RD_KAFKA_VTYPE_END`. `rd_kafka_producev` takes over the headers only if it succeeds.
        unsafe {
            let headers = rd::rd_kafka_headers_new(headers_of_message.len() + 1);
            for (name, value) in headers_of_message {
                add_header(headers, name, value);
            }
            if let Some(trace_header) = outgoing.trace_header {
                add_header(headers, &self.trace_header_name, trace_header);
            }
            use rd::rd_kafka_vtype_t::*;
            let code = rd::rd_kafka_producev(
                self.client.as_ptr(),
                RD_KAFKA_VTYPE_RKT,
                self.topic.as_ptr(),
                RD_KAFKA_VTYPE_MSGFLAGS,
                self.flags(std::slice::from_ref(outgoing)),
                RD_KAFKA_VTYPE_PARTITION,
                message.partition,
                RD_KAFKA_VTYPE_VALUE,
                message.payload,
                message.len,
                RD_KAFKA_VTYPE_KEY,
                message.key,
                message.key_len,
                RD_KAFKA_VTYPE_OPAQUE,
                message._private,
                RD_KAFKA_VTYPE_HEADERS,
                headers,
                RD_KAFKA_VTYPE_END,
            );
            if code != RD_KAFKA_RESP_ERR_NO_ERROR {
                rd::rd_kafka_headers_destroy(headers);
            }
            code
        }
    }

    /// Payloads that live as long as the client need no copy.
    fn flags(&self, batch: &[Outgoing<'_>]) -> i32 {
        let lasting = batch.iter().all(|outgoing| self.client.keeps(outgoing.payload));
        if lasting { 0 } else { rd::RD_KAFKA_MSG_F_COPY }
    }
}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and this is its only owner; librdkafka keeps what its messages still need.
        unsafe { rd::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}

/// Scratch for a batch, kept for its memory: it holds nothing between calls that is ever read.
#[derive(Default)]
pub struct Space(Vec<rd::rd_kafka_message_t>);

// SAFETY: its pointers are only used within one call of `hand_over`, which overwrites them first.
unsafe impl Send for Space {}

// A send tag's word is as long as a pointer.
const _: () = assert!(size_of::<*mut c_void>() >= size_of::<u64>());

/// Whether the error of a message has nothing to do with the message itself.
fn refuses_all(code: Code) -> bool {
    !matches!(
        code,
        RD_KAFKA_RESP_ERR_NO_ERROR | RD_KAFKA_RESP_ERR__QUEUE_FULL | Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE
    )
}

fn message(outgoing: &Outgoing<'_>) -> rd::rd_kafka_message_t {
    let (key, key_len) = outgoing.key.map_or((ptr::null(), 0), |key| (key.as_ptr(), key.len()));
    let attributes = outgoing.attributes.copied().unwrap_or_default();
    let payload = if attributes.null_payload { ptr::null() } else { outgoing.payload.as_ptr() };
    rd::rd_kafka_message_t {
        err: RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: ptr::null_mut(),
        partition: attributes.partition.map_or(ANY_PARTITION, |partition| partition as i32),
        payload: payload.cast_mut().cast(),
        len: outgoing.payload.len(),
        key: key.cast_mut().cast(),
        key_len,
        offset: 0,
        // The send tag travels as the opaque pointer and is never dereferenced.
        _private: outgoing.send_tag.to_word() as usize as *mut c_void,
    }
}

/// # Safety
/// `headers` must be a live list.
unsafe fn add_header(headers: *mut rd::rd_kafka_headers_t, name: &CString, value: &[u8]) {
    // SAFETY: librdkafka copies name and value; a name length of -1 means a terminated string.
    unsafe { rd::rd_kafka_header_add(headers, name.as_ptr(), -1, value.as_ptr().cast(), value.len() as isize) };
}
