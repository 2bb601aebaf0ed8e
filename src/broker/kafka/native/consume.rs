//! A consuming client's messages, in batches, and a way to wait for them without a thread.

use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use tokio::sync::Notify;

use super::client::Client;
use super::membership::Membership;
use crate::broker::{Received, TRACE_HEADER_NAME};

/// How many messages are taken at a time.
const FETCH: usize = 1024;

/// How long the answer to a commit is waited for.
const CONFIRM: Duration = Duration::from_secs(5);

/// The queue of a member of a group.
pub struct ConsumerQueue {
    queue: NonNull<rd::rd_kafka_queue_t>,
    client: Client,
    arrived: Arc<Notify>,
    envelope_header: CString,
    messages: Vec<*mut rd::rd_kafka_message_t>,
    /// Partitions that were read to their end, with the offset of it: told of members that ask for
    /// `enable.partition.eof`.
    ended: Vec<(u32, u64)>,
    membership: Option<Arc<Membership>>,
    /// How far the messages of one fetch reached, partition after partition: empty between calls.
    reached: Vec<(u32, i64)>,
}

// SAFETY: librdkafka's queues may be used from any thread, and `messages` is empty between calls.
unsafe impl Send for ConsumerQueue {}

impl ConsumerQueue {
    /// Subscribes `client` to `topic`.
    ///
    /// # Errors
    /// librdkafka's code when it cannot subscribe.
    pub fn subscribe(client: Client, topic: &str, membership: Option<Arc<Membership>>) -> Result<Self, Code> {
        let name = CString::new(topic).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        let envelope_header = CString::new(TRACE_HEADER_NAME).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        let arrived = Arc::new(Notify::new());
        // SAFETY: the client is alive, and this value owns it for longer than the queue. The list is destroyed after its
        // last use. The callback's argument is the `Notify`, which the same value keeps alive until the callback has been
        // disabled in `drop`.
        unsafe {
            rd::rd_kafka_poll_set_consumer(client.as_ptr());
            let Some(queue) = NonNull::new(rd::rd_kafka_queue_get_consumer(client.as_ptr())) else {
                return Err(Code::RD_KAFKA_RESP_ERR__UNKNOWN_GROUP);
            };
            let list = rd::rd_kafka_topic_partition_list_new(1);
            rd::rd_kafka_topic_partition_list_add(list, name.as_ptr(), -1);
            let code = rd::rd_kafka_subscribe(client.as_ptr(), list);
            rd::rd_kafka_topic_partition_list_destroy(list);
            let opaque = Arc::as_ptr(&arrived).cast_mut().cast();
            rd::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(notify), opaque);
            let consumer = ConsumerQueue {
                queue,
                client,
                arrived,
                envelope_header,
                messages: Vec::with_capacity(FETCH),
                ended: Vec::new(),
                membership,
                reached: Vec::new(),
            };
            if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(consumer) } else { Err(code) }
        }
    }

    /// Makes the end of every partition of `topic` the group's committed offset: where a member begins that is given the
    /// partition later, however late it asks. Call it before the group has members.
    ///
    /// # Errors
    /// librdkafka's code when the ends cannot be asked for or committed within `timeout`.
    pub fn commit_ends(client: &Client, topic: &str, partitions: u32, timeout: Duration) -> Result<(), Code> {
        let name = CString::new(topic).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        let timeout_ms = timeout.as_millis() as i32;
        // SAFETY: the client is alive, the name terminated; the list is destroyed after its last use, and each element is
        // written to before the next one is added.
        unsafe {
            let list = rd::rd_kafka_topic_partition_list_new(partitions as i32);
            let mut code = Code::RD_KAFKA_RESP_ERR_NO_ERROR;
            for partition in 0..partitions as i32 {
                let (mut begin, mut end) = (0, 0);
                let client = client.as_ptr();
                code = rd::rd_kafka_query_watermark_offsets(
                    client,
                    name.as_ptr(),
                    partition,
                    &mut begin,
                    &mut end,
                    timeout_ms,
                );
                if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    break;
                }
                (*rd::rd_kafka_topic_partition_list_add(list, name.as_ptr(), partition)).offset = end;
            }
            if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                code = rd::rd_kafka_commit(client.as_ptr(), list, 0);
            }
            rd::rd_kafka_topic_partition_list_destroy(list);
            if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code) }
        }
    }

    /// Notified when the queue has gone from empty to not empty.
    pub fn arrived(&self) -> Arc<Notify> {
        self.arrived.clone()
    }

    /// How many partitions the group has given to this member.
    pub fn assigned(&self) -> usize {
        let mut list = ptr::null_mut();
        // SAFETY: the client is alive; the list is the caller's and destroyed after its last use.
        unsafe {
            if rd::rd_kafka_assignment(self.client.as_ptr(), &mut list) != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return 0;
            }
            let count = (*list).cnt as usize;
            rd::rd_kafka_topic_partition_list_destroy(list);
            count
        }
    }

    /// Fetches once, hands the messages that were queued to `each`, and tells what there was; group events are served on
    /// the way.
    pub fn take(&mut self, mut each: impl FnMut(Received<'_>)) -> Taken {
        self.messages.clear();
        // SAFETY: the queue is alive and the buffer has room for `FETCH` pointers; as many as the call says are then
        // initialised, and each is destroyed below.
        let count = unsafe {
            let count = rd::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.messages.as_mut_ptr(), FETCH);
            self.messages.set_len(count.max(0) as usize);
            count
        };
        let mut taken = Taken { messages: 0, emptied: count <= 0, error: None };
        for message in self.messages.drain(..) {
            // SAFETY: a valid message until it is destroyed, which is after its last use; nothing of it escapes.
            unsafe {
                match (*message).err {
                    Code::RD_KAFKA_RESP_ERR_NO_ERROR => {
                        each(received(message, &self.envelope_header));
                        taken.messages += 1;
                        let (partition, next) = ((*message).partition.max(0) as u32, (*message).offset + 1);
                        match self.reached.last_mut() {
                            Some((latest, reached)) if *latest == partition => *reached = next,
                            _ => self.reached.push((partition, next)),
                        }
                    }
                    Code::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                        self.ended.push(((*message).partition.max(0) as u32, (*message).offset.max(0) as u64));
                    }
                    code => {
                        taken.error.get_or_insert(code);
                    }
                }
                rd::rd_kafka_message_destroy(message);
            }
        }
        if let Some(offsets) = self.membership.as_ref().and_then(|membership| membership.offsets()) {
            offsets.advance(&self.reached);
        }
        self.reached.clear();
        taken
    }

    /// The partitions of this member, each with the offset of the next message to take, where that is known.
    pub fn offsets(&mut self) -> Vec<(u32, Option<u64>)> {
        let mut list = ptr::null_mut();
        let mut offsets = Vec::new();
        // SAFETY: the client is alive; the list is the caller's, its elements are as many as it says, and it is destroyed
        // after its last use.
        unsafe {
            if rd::rd_kafka_assignment(self.client.as_ptr(), &mut list) != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return offsets;
            }
            rd::rd_kafka_position(self.client.as_ptr(), list);
            for index in 0..(*list).cnt as usize {
                let element = &*(*list).elems.add(index);
                let partition = element.partition.max(0) as u32;
                // Of a partition from which nothing was taken, only its end may be known.
                let ended = self.ended.iter().rev().find(|(ended, _)| *ended == partition).map(|(_, end)| *end);
                offsets.push((partition, u64::try_from(element.offset).ok().max(ended)));
            }
            rd::rd_kafka_topic_partition_list_destroy(list);
        }
        self.ended.retain(|(partition, _)| offsets.iter().any(|(known, _)| known == partition));
        self.ended.reverse();
        let mut seen = std::collections::BTreeSet::new();
        self.ended.retain(|(partition, _)| seen.insert(*partition));
        self.ended.reverse();
        offsets
    }

    /// Commits, of each partition of `topic`, that all before the offset is done; `confirmed`: waits for the answer.
    ///
    /// # Errors
    /// librdkafka's code when it is not taken note of.
    pub fn commit(&self, topic: &str, done: &[(u32, u64)], confirmed: bool) -> Result<(), Code> {
        let name = CString::new(topic).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        // SAFETY: the client is alive, the name terminated; each element is written to before the next one is added, and
        // the list is destroyed after its last use.
        let code = unsafe {
            let list = rd::rd_kafka_topic_partition_list_new(done.len() as i32);
            for (partition, next) in done {
                (*rd::rd_kafka_topic_partition_list_add(list, name.as_ptr(), *partition as i32)).offset = *next as i64;
            }
            let code = match confirmed {
                true => commit_confirmed(self.client.as_ptr(), list),
                false => rd::rd_kafka_commit(self.client.as_ptr(), list, 1),
            };
            rd::rd_kafka_topic_partition_list_destroy(list);
            code
        };
        if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code) }
    }

    /// Gives back the partitions that the group asks for.
    pub fn let_go(&mut self) {
        if let Some(membership) = &self.membership {
            membership.let_go(&self.client);
        }
        self.ended.clear();
    }
}

/// What one fetch came to.
pub struct Taken {
    pub messages: usize,
    /// Nothing was queued any more.
    pub emptied: bool,
    /// The first error that came in the place of a message; the messages around it were handed over.
    pub error: Option<Code>,
}

impl Drop for ConsumerQueue {
    fn drop(&mut self) {
        // SAFETY: disables the callback before its argument goes, leaves the group, and gives back the queue's reference
        // before the client is destroyed (fields are dropped after this).
        let leave = || unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            if let Some(membership) = &self.membership {
                membership.leave(&self.client);
            }
            rd::rd_kafka_consumer_close(self.client.as_ptr());
            rd::rd_kafka_queue_destroy(self.queue.as_ptr());
        };
        // Without a coordinator that takes as long as a session, in which the other tasks go on.
        tokio::task::block_in_place(leave);
    }
}

/// Commits and waits for the answer, but no longer than [`CONFIRM`].
///
/// # Safety
/// Both must be valid.
unsafe fn commit_confirmed(client: *mut rd::rd_kafka_t, list: *const rd::rd_kafka_topic_partition_list_t) -> Code {
    // SAFETY: by the caller's promise; queue and event are made here and destroyed after their last use. An answer that
    // comes later finds its queue gone, for which librdkafka keeps a reference of its own.
    unsafe {
        let queue = rd::rd_kafka_queue_new(client);
        let mut code = rd::rd_kafka_commit_queue(client, list, queue, None, ptr::null_mut());
        if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            let event = rd::rd_kafka_queue_poll(queue, CONFIRM.as_millis() as i32);
            code = if event.is_null() { Code::RD_KAFKA_RESP_ERR__TIMED_OUT } else { rd::rd_kafka_event_error(event) };
            if !event.is_null() {
                rd::rd_kafka_event_destroy(event);
            }
        }
        rd::rd_kafka_queue_destroy(queue);
        code
    }
}

/// # Safety
/// `message` must be a valid message, which the result borrows from.
unsafe fn received<'a>(message: *const rd::rd_kafka_message_t, envelope_header: &CString) -> Received<'a> {
    // SAFETY: by the caller's promise; pointers and lengths of a message belong together.
    unsafe {
        let payload = bytes((*message).payload, (*message).len);
        let envelope = envelope_beside(message, envelope_header);
        Received {
            payload,
            envelope,
            partition: (*message).partition.max(0) as u32,
            offset: (*message).offset.max(0) as u64,
            redelivered: false,
        }
    }
}

/// The engine's own header of a message that carries one beside its payload.
///
/// # Safety
/// `message` must be a valid message, which the result borrows from.
pub(super) unsafe fn envelope_beside<'a>(
    message: *const rd::rd_kafka_message_t,
    envelope_header: &CString,
) -> Option<&'a [u8]> {
    let mut headers = ptr::null_mut();
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: by the caller's promise; the name is terminated, and a header's value and length belong together.
    unsafe {
        let has_headers = rd::rd_kafka_message_headers(message, &mut headers) == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
        let found = has_headers
            && rd::rd_kafka_header_get_last(headers, envelope_header.as_ptr(), &mut value, &mut length)
                == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
        found.then(|| bytes(value, length))
    }
}

/// # Safety
/// `begin` must be null or the begin of `length` bytes that live for `'a`.
pub(super) unsafe fn bytes<'a>(begin: *const c_void, length: usize) -> &'a [u8] {
    if begin.is_null() {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { slice::from_raw_parts(begin.cast(), length) }
}

unsafe extern "C" fn notify(_client: *mut rd::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `Notify` that `subscribe` gave, alive until the callback is disabled.
    let arrived = unsafe { &*opaque.cast::<Notify>() };
    arrived.notify_one();
}
