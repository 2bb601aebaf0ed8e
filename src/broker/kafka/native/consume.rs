//! A consuming client's messages, in batches, and a way to wait for them without a thread.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use tokio::sync::Notify;

use super::client::Client;
use super::commits::Commits;
use super::details::{MessageDetails, bytes};
use super::membership::Membership;
use super::partition_list::PartitionList;
use crate::broker::{Received, TRACE_HEADER_NAME};

/// How many messages are taken at a time.
const FETCH: usize = 1024;

/// `RD_KAFKA_PARTITION_UA`.
const ANY_PARTITION: i32 = -1;

/// Where a member begins to which brokermark assigns partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the first message of each.
    First,
    /// Where its group has committed, else with the first.
    Committed,
}

/// The queue of a member of a group.
pub struct ConsumerQueue {
    queue: NonNull<rd::rd_kafka_queue_t>,
    client: Arc<Client>,
    commits: Arc<Commits>,
    arrived: Arc<Notify>,
    trace_header_name: CString,
    /// What was fetched last and is to be handed over: empty between calls, but for a message that came with a group's event.
    messages: Vec<*mut rd::rd_kafka_message_t>,
    /// Partitions that were read to their end, with its offset: librdkafka reports it to members with `enable.partition.eof`.
    ends: BTreeMap<u32, u64>,
    /// How far the messages of one fetch reached, partition after partition: empty between calls.
    reached: Vec<(u32, i64)>,
}

// SAFETY: librdkafka's queues and the messages that were taken from them may be used from any thread, by one at a time.
unsafe impl Send for ConsumerQueue {}

impl ConsumerQueue {
    /// Subscribes `client` to `topic`.
    ///
    /// # Errors
    /// librdkafka's code when it cannot subscribe.
    pub fn subscribe(client: Client, topic: &str) -> Result<Self, Code> {
        let list = PartitionList::new(topic, &[(ANY_PARTITION, 0)])?;
        // SAFETY: the client is alive, as is the list.
        Self::begin(client, |client| unsafe { rd::rd_kafka_subscribe(client.as_ptr(), list.as_ptr()) })
    }

    /// Assigns `partitions` of `topic` to `client`, which joins no group.
    ///
    /// # Errors
    /// librdkafka's code when it cannot take them.
    pub fn assign(
        client: Client,
        topic: &str,
        partitions: impl Iterator<Item = i32>,
        begin: Begin,
    ) -> Result<Self, Code> {
        let offset = match begin {
            Begin::First => rd::RD_KAFKA_OFFSET_BEGINNING,
            Begin::Committed => rd::RD_KAFKA_OFFSET_STORED,
        };
        let list =
            PartitionList::new(topic, &partitions.map(|partition| (partition, offset.into())).collect::<Vec<_>>())?;
        if let Some(membership) = client.membership() {
            membership.decided();
        }
        // SAFETY: the client is alive, as is the list.
        Self::begin(client, |client| unsafe { rd::rd_kafka_assign(client.as_ptr(), list.as_ptr()) })
    }

    fn begin(client: Client, begin: impl FnOnce(&Client) -> Code) -> Result<Self, Code> {
        let trace_header_name = CString::new(TRACE_HEADER_NAME).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        let arrived = Arc::new(Notify::new());
        // SAFETY: the client is alive, and this value owns it for longer than the queue. The callback's argument is the `Notify`, which the same value keeps alive until the callback has been
        // disabled in `drop`.
        unsafe {
            rd::rd_kafka_poll_set_consumer(client.as_ptr());
            let Some(queue) = NonNull::new(rd::rd_kafka_queue_get_consumer(client.as_ptr())) else {
                return Err(Code::RD_KAFKA_RESP_ERR__UNKNOWN_GROUP);
            };
            let client = Arc::new(client);
            let commits = Commits::new(client.clone()).ok_or(Code::RD_KAFKA_RESP_ERR__FAIL)?;
            let code = begin(&client);
            let opaque = Arc::as_ptr(&arrived).cast_mut().cast();
            rd::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(notify), opaque);
            let consumer = ConsumerQueue {
                queue,
                client,
                commits: Arc::new(commits),
                arrived,
                trace_header_name,
                messages: Vec::with_capacity(FETCH),
                ends: BTreeMap::new(),
                reached: Vec::new(),
            };
            check(code).map(|()| consumer)
        }
    }

    /// Makes the end of every partition of `topic` the group's committed offset: where a member begins that is assigned the
    /// partition later. Call it before the group has members.
    ///
    /// # Errors
    /// librdkafka's code when the ends cannot be asked for or committed within `timeout`.
    pub fn commit_ends(client: &Client, topic: &str, partitions: u32, timeout: Duration) -> Result<(), Code> {
        let ends =
            (0..partitions as i32).map(|partition| Ok((partition, client.end_offset(topic, partition, timeout)?)));
        let list = PartitionList::new(topic, &ends.collect::<Result<Vec<_>, _>>()?)?;
        // SAFETY: client and list are alive.
        check(unsafe { rd::rd_kafka_commit(client.as_ptr(), list.as_ptr(), 0) })
    }

    /// Wakes when the queue has gone from empty to not empty.
    pub fn arrived(&self) -> Arc<Notify> {
        self.arrived.clone()
    }

    /// Fetches once, hands the messages that were queued to `each`, `most` at most, and returns what there was; group events are
    /// served on the way.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Taken {
        if self.messages.is_empty() {
            self.fetch(most.min(FETCH));
        }
        let mut taken = Taken { messages: 0, emptied: self.messages.is_empty(), error: None };
        for message in self.messages.drain(..) {
            // SAFETY: a valid message until it is destroyed, which is after its last use; nothing of it escapes.
            unsafe {
                match (*message).err {
                    Code::RD_KAFKA_RESP_ERR_NO_ERROR => {
                        let details = MessageDetails::new(message);
                        each(received(&details, &self.trace_header_name));
                        taken.messages += 1;
                        let (partition, next) = ((*message).partition.max(0) as u32, (*message).offset + 1);
                        match self.reached.last_mut() {
                            Some((latest, reached)) if *latest == partition => *reached = next,
                            _ => self.reached.push((partition, next)),
                        }
                    }
                    Code::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                        self.ends.insert((*message).partition.max(0) as u32, (*message).offset.max(0) as u64);
                    }
                    code => {
                        taken.error.get_or_insert(code);
                    }
                }
                rd::rd_kafka_message_destroy(message);
            }
        }
        if let Some(offsets) = self.client.membership().and_then(|membership| membership.offsets()) {
            offsets.advance(&self.reached);
        }
        self.reached.clear();
        taken
    }

    /// Serves the group's events alone: a message that comes with them is kept for the next `take`.
    pub fn serve_events(&mut self) -> Taken {
        if self.messages.is_empty() {
            self.fetch(1);
        }
        match self.messages.first() {
            // SAFETY: a valid message, which is destroyed later.
            Some(message) if unsafe { (**message).err } != Code::RD_KAFKA_RESP_ERR_NO_ERROR => self.take(1, |_| {}),
            message => Taken { messages: 0, emptied: message.is_none(), error: None },
        }
    }

    fn destroy_kept(&mut self) {
        for message in self.messages.drain(..) {
            // SAFETY: a valid message, which was not handed over.
            unsafe { rd::rd_kafka_message_destroy(message) };
        }
    }

    /// Fills `messages`, which must be empty, with what is queued, `most` at most.
    fn fetch(&mut self, most: usize) {
        // SAFETY: the queue is alive and the buffer has room for `most` pointers; as many as the call says are then
        // initialised, and each is destroyed once.
        unsafe {
            let count = rd::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.messages.as_mut_ptr(), most);
            self.messages.set_len(count.max(0) as usize);
        }
    }

    /// The partitions of this member, each with the offset of the next message to take, if that is known.
    pub fn assigned(&mut self) -> Vec<(u32, Option<u64>)> {
        let ends = &mut self.ends;
        let Some(list) = self.client.assigned() else { return Vec::new() };
        ends.retain(|partition, _| list.iter().any(|(known, _)| known as u32 == *partition));
        let next = |(partition, offset): (i32, i64)| {
            let partition = partition.max(0) as u32;
            // Of a partition from which nothing was taken, only its end may be known.
            (partition, u64::try_from(offset).ok().max(ends.get(&partition).copied()))
        };
        list.iter().map(next).collect()
    }

    /// Commits, for each partition of `topic`, the offset of the first message that is not done; `confirmed`: waits for the
    /// answer.
    ///
    /// # Errors
    /// librdkafka's code when the commit fails, or an earlier one was refused.
    pub async fn commit(&mut self, topic: &str, next: &[(u32, u64)], confirmed: bool) -> Result<(), Code> {
        let next: Vec<(i32, i64)> =
            next.iter().map(|(partition, offset)| (*partition as i32, *offset as i64)).collect();
        let list = PartitionList::new(topic, &next)?;
        if !confirmed {
            return self.commits.commit(&list);
        }
        let commits = self.commits.clone();
        let commit = move || commits.confirm(&list);
        tokio::task::spawn_blocking(commit).await.unwrap_or(Err(Code::RD_KAFKA_RESP_ERR__FAIL))
    }

    /// The error after which nothing can be received any more.
    pub fn fatal_error(&self) -> Option<Code> {
        self.client.fatal_error().map(|(code, _)| code)
    }

    /// This member's state in its group.
    pub fn membership(&self) -> Option<&Membership> {
        self.client.membership()
    }

    /// Returns the partitions that the group requests back.
    pub fn revoke(&mut self) {
        // A message that was kept is for the partition's next member.
        self.destroy_kept();
        self.client.revoke();
        self.ends.clear();
    }
}

/// The result of one fetch.
pub struct Taken {
    pub messages: usize,
    /// Nothing was queued any more.
    pub emptied: bool,
    /// The first error that came instead of a message; the messages around it were handed over.
    pub error: Option<Code>,
}

impl Drop for ConsumerQueue {
    fn drop(&mut self) {
        // SAFETY: disables the callback before its argument is dropped, destroys what was not handed over, leaves the group, and
        // returns the queue's reference before the client is destroyed (fields are dropped after this).
        let leave = || unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            self.destroy_kept();
            self.client.leave();
            rd::rd_kafka_queue_destroy(self.queue.as_ptr());
        };
        // Other tasks run on meanwhile.
        tokio::task::block_in_place(leave);
    }
}

fn check(code: Code) -> Result<(), Code> {
    if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code) }
}

/// # Safety
/// `details` must hold a valid message, which the result borrows from.
unsafe fn received<'a>(details: &'a MessageDetails, trace_header_name: &CString) -> Received<'a> {
    let message = details.message();
    // SAFETY: by the caller's promise; pointers and lengths of a message belong together.
    unsafe {
        let payload = bytes((*message).payload, (*message).len);
        let trace_header = trace_header_of(message, trace_header_name);
        Received {
            payload,
            trace_header,
            partition: (*message).partition.max(0) as u32,
            offset: (*message).offset.max(0) as u64,
            redelivered: false,
            details,
        }
    }
}

/// The engine's own header of a message that carries one beside its payload.
///
/// # Safety
/// `message` must be a valid message, which the result borrows from.
pub(super) unsafe fn trace_header_of<'a>(
    message: *const rd::rd_kafka_message_t,
    trace_header_name: &CString,
) -> Option<&'a [u8]> {
    let mut headers = ptr::null_mut();
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: by the caller's promise; the name is terminated, and a header's value and length belong together.
    unsafe {
        let has_headers = rd::rd_kafka_message_headers(message, &mut headers) == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
        let found = has_headers
            && rd::rd_kafka_header_get_last(headers, trace_header_name.as_ptr(), &mut value, &mut length)
                == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
        found.then(|| bytes(value, length))
    }
}

unsafe extern "C" fn notify(_client: *mut rd::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `Notify` that `subscribe` gave, alive until the callback is disabled.
    let arrived = unsafe { &*opaque.cast::<Notify>() };
    arrived.notify_one();
}
