//! Commits of a member, and librdkafka's answers to them. Answers come later than the call, so each call reports the refusals of the
//! commits before it.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;
use super::partition_list::PartitionList;

/// How long to wait for the answers.
const CONFIRM: Duration = Duration::from_secs(5);

/// The queue of the answers to commits.
pub struct Commits {
    queue: NonNull<rd::rd_kafka_queue_t>,
    client: Arc<Client>,
    /// Commits without an answer.
    open: AtomicUsize,
}

// SAFETY: librdkafka's queues may be used from any thread, and by several at the same time.
unsafe impl Send for Commits {}
// SAFETY: as above.
unsafe impl Sync for Commits {}

impl Commits {
    pub fn new(client: Arc<Client>) -> Option<Self> {
        // SAFETY: the client is alive, and this value keeps it so for as long as the queue is.
        let queue = NonNull::new(unsafe { rd::rd_kafka_queue_new(client.as_ptr()) })?;
        Some(Commits { queue, client, open: AtomicUsize::new(0) })
    }

    /// Commits without waiting.
    ///
    /// # Errors
    /// librdkafka's code when it does not take the commit, or when an earlier one was refused.
    pub fn commit(&self, list: &PartitionList) -> Result<(), Code> {
        self.begin(list)?;
        while self.open.load(Ordering::Acquire) > 0 {
            match self.answer(Duration::ZERO) {
                None => break,
                Some(Code::RD_KAFKA_RESP_ERR_NO_ERROR) => {}
                Some(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// Commits and waits for all answers, but no longer than [`CONFIRM`].
    ///
    /// # Errors
    /// librdkafka's code of the first refusal, or of a timeout.
    pub fn confirm(&self, list: &PartitionList) -> Result<(), Code> {
        self.begin(list)?;
        let deadline = Instant::now() + CONFIRM;
        let mut refused = Ok(());
        while self.open.load(Ordering::Acquire) > 0 {
            match self.answer(deadline.saturating_duration_since(Instant::now())) {
                None => return refused.and(Err(Code::RD_KAFKA_RESP_ERR__TIMED_OUT)),
                Some(Code::RD_KAFKA_RESP_ERR_NO_ERROR) => {}
                Some(code) => refused = refused.and(Err(code)),
            }
        }
        refused
    }

    fn begin(&self, list: &PartitionList) -> Result<(), Code> {
        // SAFETY: client, list and queue are alive; librdkafka copies the list. An answer that comes later finds its queue
        // destroyed, for which librdkafka keeps a reference of its own.
        let code = unsafe {
            let (client, queue) = (self.client.as_ptr(), self.queue.as_ptr());
            rd::rd_kafka_commit_queue(client, list.as_ptr(), queue, None, ptr::null_mut())
        };
        if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(code);
        }
        self.open.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// The answer to the oldest open commit, if it comes within `limit`: the error of the request, or of its first partition that
    /// was refused.
    fn answer(&self, limit: Duration) -> Option<Code> {
        // SAFETY: the queue is alive; the event is destroyed after its last use, and lends the list until then.
        unsafe {
            let event = rd::rd_kafka_queue_poll(self.queue.as_ptr(), limit.as_millis() as i32);
            if event.is_null() {
                return None;
            }
            let mut code = rd::rd_kafka_event_error(event);
            let list = rd::rd_kafka_event_topic_partition_list(event);
            if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR && !list.is_null() && (*list).cnt > 0 {
                let partitions = std::slice::from_raw_parts((*list).elems, (*list).cnt as usize);
                let refused = partitions.iter().find(|one| one.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR);
                code = refused.map_or(code, |one| one.err);
            }
            rd::rd_kafka_event_destroy(event);
            self.open.fetch_sub(1, Ordering::AcqRel);
            Some(code)
        }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // SAFETY: this value's own queue, which nothing uses any more.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}
