//! The producer of a topic, at once or with a task of its own. With `linger`, messages wait for others, and go out together when there are enough of them or the
//! first has waited long enough, as in the batching delay of Pulsar's own clients. With `resend`, the task sends again what the
//! broker may not have, also when no later message comes.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

use super::partition_producer::Client;
use super::topic_producer::TopicProducer;
use crate::broker::{Outgoing, Producer, SubmitError};
use crate::limits::TRACE_HEADER_BYTES;
use crate::measure::SendTag;
use crate::measure::host::tasks::watched;

/// What the engine sends to one topic with.
pub enum PulsarProducer {
    /// What is submitted together goes out at once.
    AtOnce(TopicProducer),
    /// Messages wait for others, with `linger`.
    Lingering(LingeringProducer),
}

impl Producer for PulsarProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.submit(batch).await,
            PulsarProducer::Lingering(producer) => producer.submit(batch).await,
        }
    }

    fn fatal_error(&self) -> Option<String> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.fatal_error(),
            PulsarProducer::Lingering(producer) => producer.fatal_error(),
        }
    }

    fn finish(&mut self) {
        if let PulsarProducer::Lingering(producer) = self {
            producer.queue.finish();
        }
    }
}

/// A sender to one topic, whose messages wait for others.
pub struct LingeringProducer {
    queue: Arc<Queue>,
    task: AbortHandle,
}

/// What waits, shared by the producer and the task that sends it.
struct Queue {
    waiting: Mutex<Waiting>,
    /// Notified when the first message of a batch came, or its last.
    changed: Notify,
    /// Notified when the batch was taken.
    taken: Notify,
    linger: Duration,
    most_messages: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// The time at which the first message of the batch came.
    since: Option<Instant>,
    /// No more messages will come: none waits for others.
    is_finished: bool,
    /// The reason why no more messages can be sent.
    failure: Option<SubmitError>,
}

/// Copies of messages.
#[derive(Default)]
struct Batch {
    /// The payload, the key and the trace header of each message.
    bytes: Vec<u8>,
    messages: Vec<Copied>,
    payload_bytes: usize,
}

/// The lengths of a message's parts, and its trace header.
struct Copied {
    payload: usize,
    key: Option<usize>,
    trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
    send_tag: SendTag,
}

impl LingeringProducer {
    /// Sends through `producer`.
    /// `returned`: told when entries are to be sent again.
    pub(super) fn start(producer: TopicProducer, shared: Arc<Client>, linger: Duration, returned: Arc<Notify>) -> Self {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            changed: Notify::new(),
            taken: Notify::new(),
            linger,
            most_messages: shared.options.batch_messages,
            most_bytes: shared.options.batch_bytes,
        });
        let task = tokio::spawn(watched("sender", 0, send(queue.clone(), producer, shared, returned))).abort_handle();
        LingeringProducer { queue, task }
    }

    /// Adds what there is space for, and waits until there is space for a message.
    pub async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        loop {
            let added = self.queue.add(batch)?;
            if added > 0 || batch.is_empty() {
                return Ok(added);
            }
            self.queue.taken.notified().await;
        }
    }

    pub fn fatal_error(&self) -> Option<String> {
        self.queue.waiting.lock().failure.as_ref().map(|failure| failure.message.clone())
    }
}

impl Drop for LingeringProducer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Hands batches over as they become due. Never returns.
async fn send(queue: Arc<Queue>, mut producer: TopicProducer, shared: Arc<Client>, returned: Arc<Notify>) {
    let mut batch = Batch::default();
    loop {
        tokio::select! {
            biased;
            () = kept(&returned, producer.kept_until()) => {
                producer.restore();
                continue;
            }
            () = queue.take(&mut batch) => {}
        }
        let messages = batch.messages();
        let mut rest = &messages[..];
        while let Some(first) = rest.first() {
            let kept_until = producer.kept_until();
            let submitted = tokio::select! {
                biased;
                // Also while the partition of these messages is closed, or its connection has no room.
                () = kept(&returned, kept_until) => {
                    producer.restore();
                    continue;
                }
                submitted = producer.submit(rest) => submitted,
            };
            match submitted {
                Ok(count) => rest = &rest[count..],
                Err(refusal) => {
                    shared.recorder.batch().failed(first.send_tag, refusal.class, || refusal.message.clone());
                    rest = &rest[1..];
                    if producer.fatal_error().is_some() {
                        queue.waiting.lock().failure = Some(refusal);
                    }
                }
            }
        }
        drop(messages);
        batch.clear();
    }
}

/// Resolves when entries are to be sent again, or have waited for that until `until`.
async fn kept(returned: &Notify, until: Option<Instant>) {
    match until {
        None => returned.notified().await,
        Some(until) => drop(timeout_at(until.into(), returned.notified()).await),
    }
}

impl Queue {
    /// Copies messages until the batch is full, and returns how many.
    fn add(&self, messages: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let mut waiting = self.waiting.lock();
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        let mut added = 0;
        while added < messages.len() && !self.is_full(&waiting.batch) {
            waiting.batch.push(&messages[added]);
            added += 1;
        }
        let begun = added > 0 && waiting.since.is_none();
        if begun {
            waiting.since = Some(Instant::now());
        }
        if begun || (added > 0 && self.is_full(&waiting.batch)) {
            self.changed.notify_one();
        }
        Ok(added)
    }

    /// Sends the messages that wait.
    fn finish(&self) {
        self.waiting.lock().is_finished = true;
        self.changed.notify_one();
    }

    fn is_full(&self, batch: &Batch) -> bool {
        batch.messages.len() >= self.most_messages || batch.payload_bytes >= self.most_bytes
    }

    /// Waits until a batch is due, and exchanges it for the empty `batch`.
    async fn take(&self, batch: &mut Batch) {
        loop {
            let due = {
                let mut waiting = self.waiting.lock();
                let due = waiting.since.map(|since| since + self.linger);
                let is_due = due.is_some_and(|due| waiting.is_finished || due <= Instant::now());
                if is_due || self.is_full(&waiting.batch) {
                    mem::swap(&mut waiting.batch, batch);
                    waiting.since = None;
                    self.taken.notify_one();
                    return;
                }
                due
            };
            match due {
                None => self.changed.notified().await,
                // Whether it was the time or a message that came, both are looked at again.
                Some(due) => drop(timeout_at(due.into(), self.changed.notified()).await),
            }
        }
    }
}

impl Batch {
    fn push(&mut self, message: &Outgoing<'_>) {
        self.bytes.extend_from_slice(message.payload);
        self.bytes.extend_from_slice(message.key.unwrap_or_default());
        self.payload_bytes += message.payload.len();
        self.messages.push(Copied {
            payload: message.payload.len(),
            key: message.key.map(<[u8]>::len),
            trace_header: message.trace_header.copied(),
            send_tag: message.send_tag,
        });
    }

    fn messages(&self) -> Vec<Outgoing<'_>> {
        let mut rest = &self.bytes[..];
        let mut next = |length: usize| {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            part
        };
        let mut messages = Vec::with_capacity(self.messages.len());
        for copied in &self.messages {
            messages.push(Outgoing {
                payload: next(copied.payload),
                key: copied.key.map(&mut next),
                trace_header: copied.trace_header.as_ref(),
                attributes: None,
                send_tag: copied.send_tag,
            });
        }
        messages
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
        self.payload_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: [u8; TRACE_HEADER_BYTES] = [7; TRACE_HEADER_BYTES];

    fn queue(linger: Duration) -> Queue {
        let (changed, taken) = (Notify::new(), Notify::new());
        Queue { waiting: Mutex::default(), changed, taken, linger, most_messages: 3, most_bytes: 100 }
    }

    fn message<'a>(payload: &'a [u8], key: Option<&'a [u8]>) -> Outgoing<'a> {
        let trace_header = key.map(|_| &TRACE);
        Outgoing { payload, key, trace_header, attributes: None, send_tag: SendTag::new(0, 0, 0, 0, true) }
    }

    #[tokio::test]
    async fn a_full_batch_does_not_wait_and_takes_no_more_messages() {
        let queue = queue(Duration::from_secs(3600));
        let one = [message(b"one", None), message(b"", Some(b"key")), message(b"three", None), message(b"four", None)];
        assert_eq!(queue.add(&one).unwrap(), 3);
        assert_eq!(queue.add(&one[3..]).unwrap(), 0, "it is full");
        let mut batch = Batch::default();
        queue.take(&mut batch).await;
        let parts: Vec<_> =
            batch.messages().iter().map(|message| (message.payload, message.key, message.trace_header)).collect();
        assert_eq!(parts, [(&b"one"[..], None, None), (b"", Some(&b"key"[..]), Some(&TRACE)), (b"three", None, None)]);
        assert_eq!(queue.add(&[message(&[0; 150], None), message(b"x", None)]).unwrap(), 1, "full by its bytes");
    }

    #[tokio::test]
    async fn a_batch_goes_out_when_no_more_messages_will_come() {
        let queue = queue(Duration::from_secs(3600));
        assert_eq!(queue.add(&[message(b"one", None)]).unwrap(), 1);
        queue.finish();
        let mut batch = Batch::default();
        queue.take(&mut batch).await;
        assert_eq!(batch.messages.len(), 1);
    }

    #[tokio::test]
    async fn a_batch_goes_out_when_its_first_message_has_waited() {
        let queue = queue(Duration::from_millis(20));
        let begin = Instant::now();
        assert_eq!(queue.add(&[message(b"one", None)]).unwrap(), 1);
        let mut batch = Batch::default();
        queue.take(&mut batch).await;
        assert!(batch.messages.len() == 1 && begin.elapsed() >= queue.linger);
    }
}
