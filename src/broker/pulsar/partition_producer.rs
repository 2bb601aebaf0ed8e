//! A producer of a topic or of one of its partitions, on the connection to the broker that serves it. It builds the entries of a call
//! before the connection is locked: which messages go into one, and which are too large.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::codec::compression::{Compression, Compressor};
use super::codec::entry::{EntryTemplate, Heading, put_batch, put_one, put_single};
use super::codec::frame::put_message;
use super::codec::proto::{self, Kind, ToBroker, close_producer, send_command};
use super::config::PulsarOptions;
use super::connection::{Connection, Entry, EntrySizes, Kept, ProducerId, Readiness};
use super::pool::Pool;
use super::retry::{Retry, condition, persist};
use crate::broker::{ClientError, FailureClass, Outgoing, SubmitError};
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, Subject, SubjectKind};

/// What all partition producers of a trial share.
pub struct Client {
    pub pool: Arc<Pool>,
    pub options: PulsarOptions,
    pub template: EntryTemplate,
    /// Takes what fails after it was taken, and before it was sent: rare, so shared by all.
    pub recorder: AckRecorder,
    /// How long producers were kept waiting because too much waited to be written.
    pub waited_ns: AtomicU64,
}

/// A producer of one partition. It opens itself again when the broker has closed it.
pub struct PartitionProducer {
    shared: Arc<Client>,
    /// Full name: `persistent://tenant/namespace/name`.
    topic: Arc<str>,
    /// The partition in which its messages are counted.
    counted_in: PartitionIndex,
    /// Number of the connection among those to the same broker.
    index: usize,
    held_up: Arc<Subject>,
    state: State,
    build: Build,
    resend: Option<Resend>,
}

/// What a partition producer keeps while it is opened again, with `resend`.
#[derive(Clone)]
struct Resend {
    /// The same each time, so that the broker knows messages that it has stored before.
    name: String,
    kept: Arc<Kept>,
    next_sequence: u64,
}

enum State {
    Open(Open),
    Opening(Retry<Open>),
    /// Closed for good.
    Dead(ClientError),
}

/// A producer that the broker has opened.
struct Open {
    connection: Arc<Connection>,
    producer: ProducerId,
    name: String,
    topic_epoch: Option<u64>,
    next_sequence: u64,
}

impl PartitionProducer {
    /// Opens a producer on `topic`, whose messages are counted in this partition.
    ///
    /// # Errors
    /// When the broker does not want it.
    ///
    /// With `resend`, its name, and who is told that entries are to be sent again.
    pub async fn open(
        shared: Arc<Client>,
        (topic, counted_in): (Arc<str>, PartitionIndex),
        index: usize,
        resend: Option<(String, Arc<Notify>)>,
    ) -> Result<PartitionProducer, ClientError> {
        let compressor = Compressor::new(shared.template.compression);
        let compressor = compressor.map_err(|error| ClientError::lost(format!("compression: {error}")))?;
        let build = Build::new(compressor);
        let kept = |(name, returned)| Resend { name, kept: Arc::new(Kept::new(returned)), next_sequence: 0 };
        let resend = resend.map(kept);
        let held_up = Arc::new(Subject::new(shared.pool.conditions(), SubjectKind::Partition, &topic));
        let attempt = || told(&held_up, open(&shared, (&topic, counted_in), index, None, resend.as_ref()));
        let state = State::Open(persist(shared.pool.timeout(), attempt).await?);
        Ok(PartitionProducer { shared, topic, counted_in, index, held_up, state, build, resend })
    }

    /// Why it is closed for good, if it is.
    pub fn fatal_error(&self) -> Option<&ClientError> {
        match &self.state {
            State::Dead(failure) => Some(failure),
            State::Open(_) | State::Opening(_) => None,
        }
    }

    /// Resolves when messages can be added, or `None` if the partition producer is closed: then it is being opened again, unless it is
    /// closed for good. Cancel-safe. Returns whether its connection was full before.
    pub async fn room(&mut self) -> Option<bool> {
        let mut waited = false;
        loop {
            match &mut self.state {
                State::Open(open) => {
                    let connection = open.connection.clone();
                    // Created before the check, so that a notification in between is not missed.
                    let notified = connection.capacity();
                    match connection.readiness(open.producer) {
                        Readiness::Ready => return Some(waited),
                        Readiness::Full => {
                            waited = true;
                            notified.await;
                        }
                        Readiness::Closed => self.state = State::Opening(self.reopen()),
                    }
                }
                State::Opening(retry) => {
                    let opened = retry.now()?;
                    self.end_opening(opened);
                }
                State::Dead(_) => return None,
            }
        }
    }

    /// As [`PartitionProducer::room`], and waits until the partition producer has been opened again. Cancel-safe.
    ///
    /// # Errors
    /// When the partition producer is closed, for good or for longer than the options' `send_timeout`.
    pub async fn ready(&mut self) -> Result<bool, SubmitError> {
        loop {
            if let Some(waited) = self.room().await {
                return Ok(waited);
            }
            match &mut self.state {
                // Looked at again.
                State::Open(_) => {}
                State::Opening(retry) => match retry.within(self.shared.options.send_timeout).await {
                    Some(opened) => self.end_opening(opened),
                    None => {
                        // Where everything fails at once, others must still get their turn.
                        tokio::task::yield_now().await;
                        return Err(retry.last().submitting());
                    }
                },
                State::Dead(failure) => {
                    let refusal = failure.submitting();
                    tokio::task::yield_now().await;
                    return Err(refusal);
                }
            }
        }
    }

    fn end_opening(&mut self, opened: Result<Open, ClientError>) {
        self.state = match opened {
            Ok(open) => {
                self.send_again(&open);
                State::Open(open)
            }
            Err(failure) => State::Dead(failure),
        };
    }

    /// Hands what the broker may not have over to the producer that was opened again.
    fn send_again(&self, open: &Open) {
        let Some(Resend { kept, .. }) = &self.resend else { return };
        let entries = kept.take();
        let count = entries.len();
        match open.connection.send_again(open.producer, entries) {
            Ok(()) => self.shared.pool.traffic().count_retried(count),
            // It is closed again, and they are kept for the next.
            Err(entries) => kept.put(entries.into_iter()),
        }
    }

    /// Opens the partition producer again if entries are to be sent again, which then are; they fail if it cannot be opened in time.
    pub async fn restore(&mut self) {
        let Some(kept) = self.resend.as_ref().map(|resend| resend.kept.clone()) else { return };
        if kept.is_empty() {
            return;
        }
        if let Err(failure) = self.ready().await {
            let mut acks = self.shared.recorder.batch();
            for (send_tag, _) in kept.take().into_iter().flat_map(|entry| entry.messages) {
                acks.failed(send_tag, failure.class, || failure.message.clone());
            }
        }
    }

    fn reopen(&self) -> Retry<Open> {
        let resend = self.resend.clone();
        let (shared, topic, index) = (self.shared.clone(), self.topic.clone(), self.index);
        let counted_in = self.counted_in;
        let (reason, topic_epoch) = match &self.state {
            State::Open(open) if !open.connection.is_open() => (open.connection.failure(), open.topic_epoch),
            State::Open(open) => (ClientError::lost("the broker closed the producer"), open.topic_epoch),
            _ => (ClientError::lost("the producer is closed"), None),
        };
        let held_up = self.held_up.clone();
        Retry::start(reason, Arc::default(), move || {
            let (shared, topic, resend, held_up) = (shared.clone(), topic.clone(), resend.clone(), held_up.clone());
            async move { told(&held_up, open(&shared, (&topic, counted_in), index, topic_epoch, resend.as_ref())).await }
        })
    }

    /// Adds `count` messages, of which `at` gives each, in as few entries as the options allow. Those that are too large fail. False,
    /// and none is taken, if the partition producer is closed.
    pub fn add<'a>(&mut self, count: usize, at: impl Fn(usize) -> &'a Outgoing<'a>) -> bool {
        let State::Open(open) = &mut self.state else { return false };
        let lane = Lane {
            producer: open.producer,
            producer_name: &open.name,
            template: &self.shared.template,
            options: &self.shared.options,
            max_message: open.connection.greeting.max_message,
            publish_time_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        };
        let build = &mut self.build;
        let next_sequence = build.put_entries(&lane, open.next_sequence, count, &at);
        let too_large = &build.too_large;
        let messages = (0..count)
            .filter(|index| too_large.is_empty() || too_large.iter().all(|(refused, _)| refused != index))
            .map(|index| (at(index).send_tag, at(index).payload.len() as u32));
        let added = open.connection.add(open.producer, &mut build.frames, &build.entries, messages);
        if added {
            open.next_sequence = next_sequence;
            if let Some(resend) = &mut self.resend {
                resend.next_sequence = next_sequence;
            }
            let limit = open.connection.greeting.max_message;
            build.refuse(limit, &self.shared.recorder, &at);
        }
        added
    }
}

/// Reports what keeps a producer from being opened, until it is.
async fn told(
    held_up: &Subject,
    opening: impl Future<Output = Result<Open, ClientError>>,
) -> Result<Open, ClientError> {
    let opened = held_up.during(ConditionKind::Connecting, "the broker has not opened the producer yet", opening).await;
    match &opened {
        Ok(_) => held_up.end(),
        Err(failure) => held_up.begin(condition(failure), &failure.message),
    }
    opened
}

async fn open(
    shared: &Client,
    (topic, counted_in): (&str, PartitionIndex),
    index: usize,
    topic_epoch: Option<u64>,
    resend: Option<&Resend>,
) -> Result<Open, ClientError> {
    let connection = shared.pool.connection_for(topic, index).await?;
    let producer_id = connection.add_producer(counted_in, resend.map(|resend| resend.kept.clone()));
    let create = |request_id| {
        let producer = proto::Producer {
            topic: topic.to_owned(),
            producer_id,
            request_id,
            // Otherwise the broker finds a new name each time, so that what is left of a broken connection is not in the way.
            producer_name: resend.map(|resend| resend.name.clone()),
            epoch: None,
            user_provided_producer_name: Some(resend.is_some()),
            producer_access_mode: Some(shared.options.access_mode.number()),
            topic_epoch,
        };
        ToBroker { kind: Kind::Producer.into(), producer: Some(Box::new(producer)), ..ToBroker::default() }
    };
    let (timeout, queued) = (shared.pool.timeout(), shared.options.exclusive_timeout);
    let answer = connection.request_queued(timeout, queued, create).await;
    let success = answer.and_then(|answer| {
        answer.producer_success.ok_or_else(|| ClientError::lost("the broker sent an unexpected response to a producer"))
    });
    match success {
        Ok(success) => Ok(Open {
            connection,
            producer: producer_id,
            name: success.producer_name,
            topic_epoch: success.topic_epoch,
            // A broker without deduplication does not know what was sent under this name.
            next_sequence: success
                .last_sequence_id
                .map_or(0, |last| (last + 1).max(0) as u64)
                .max(resend.map_or(0, |resend| resend.next_sequence)),
        }),
        Err(failure) => {
            connection.remove_producer(producer_id);
            if failure.class == FailureClass::Timeout {
                // The broker may still create it, and it would block others where access is exclusive.
                let _ = connection.send(&close_producer(producer_id, connection.next_request()));
            }
            Err(failure)
        }
    }
}

/// Memory and a compressor for the frames of one call, which are built before the connection is locked.
pub struct Build {
    compressor: Compressor,
    /// A batch before its compression.
    plain: Vec<u8>,
    pub frames: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Messages that are larger than the broker takes, by their place in the call, and the bytes of their entries.
    pub too_large: Vec<(usize, usize)>,
}

/// What the entries of one call have in common.
pub struct Lane<'a> {
    pub producer: ProducerId,
    pub producer_name: &'a str,
    pub template: &'a EntryTemplate,
    pub options: &'a PulsarOptions,
    /// Most bytes of an entry's metadata and payload.
    pub max_message: usize,
    pub publish_time_ms: u64,
}

impl Lane<'_> {
    fn deliver_at_ms(&self) -> Option<u64> {
        self.options.deliver_after.map(|after| self.publish_time_ms + after.as_millis() as u64)
    }
}

impl Build {
    pub fn new(compressor: Compressor) -> Self {
        Build { compressor, plain: Vec::new(), frames: Vec::new(), entries: Vec::new(), too_large: Vec::new() }
    }

    /// Builds the entries of `count` messages, the first of which has the number `sequence_id`. Returns the next message's.
    pub fn put_entries<'a>(
        &mut self,
        lane: &Lane<'_>,
        mut sequence_id: u64,
        count: usize,
        at: &impl Fn(usize) -> &'a Outgoing<'a>,
    ) -> u64 {
        self.frames.clear();
        self.entries.clear();
        self.too_large.clear();
        let most =
            if lane.options.batching && lane.options.deliver_after.is_none() { lane.options.batch_messages } else { 1 };
        let most_bytes = lane.options.batch_bytes.min(lane.max_message);
        let mut begin = 0;
        while begin < count {
            let (mut end, mut bytes) = (begin, 0);
            while end < count && end - begin < most {
                bytes += at(end).payload.len();
                if end > begin && bytes > most_bytes {
                    break;
                }
                end += 1;
            }
            // Only as it will be sent can an entry be judged: compressed, and with its metadata.
            let before = self.frames.len();
            let (mut size, mut entry) = self.put_entry(lane, sequence_id, end - begin, |index| at(begin + index));
            while size > lane.max_message && end - begin > 1 {
                self.frames.truncate(before);
                end = begin + (end - begin) / 2;
                (size, entry) = self.put_entry(lane, sequence_id, end - begin, |index| at(begin + index));
            }
            if size > lane.max_message {
                self.frames.truncate(before);
                self.too_large.push((begin, size));
            } else {
                self.entries.push(entry);
                sequence_id += (end - begin) as u64;
            }
            begin = end;
        }
        sequence_id
    }

    /// Fails the messages that were too large.
    pub fn refuse<'a>(&self, limit: usize, recorder: &AckRecorder, at: &impl Fn(usize) -> &'a Outgoing<'a>) {
        if self.too_large.is_empty() {
            return;
        }
        let mut acks = recorder.batch();
        for (index, size) in &self.too_large {
            acks.failed(at(*index).send_tag, FailureClass::TooLarge, || {
                format!(
                    "a message makes {size} bytes with its metadata, but the broker takes {limit} (`maxMessageSize`)"
                )
            });
        }
    }

    /// Appends one entry, a message of its own or a batch, and returns it with the bytes of its metadata and payload.
    fn put_entry<'a>(
        &mut self,
        lane: &Lane<'_>,
        sequence_id: u64,
        count: usize,
        at: impl Fn(usize) -> &'a Outgoing<'a>,
    ) -> (usize, Entry) {
        let Build { compressor, plain, frames, .. } = self;
        let &Lane { producer, producer_name, template, publish_time_ms, .. } = lane;
        let deliver_at_ms = lane.deliver_at_ms();
        let mut heading =
            Heading { producer_name, sequence_id, publish_time_ms, deliver_at_ms, uncompressed_size: None };
        let put_payload = |out: &mut Vec<u8>| {
            if count == 1 {
                out.extend_from_slice(at(0).payload);
            } else {
                (0..count).for_each(|index| put_single(out, template, sequence_id + index as u64, at(index)));
            }
        };
        if template.compression != Compression::None {
            plain.clear();
            put_payload(plain);
            heading.uncompressed_size = Some(plain.len());
        }
        let (before, mut compressed) = (frames.len(), 0);
        let size = put_message(
            frames,
            &send_command(producer, sequence_id, count),
            |out| match count {
                1 => put_one(out, template, heading, at(0)),
                _ => put_batch(out, template, heading, count, at(0).key),
            },
            |out| match heading.uncompressed_size {
                None => put_payload(out),
                Some(_) => {
                    let begin = out.len();
                    compressor.compress(plain, out);
                    compressed = out.len() - begin;
                }
            },
        );
        let sent_bytes = frames.len() - before;
        let sizes = EntrySizes {
            payload_bytes: (0..count).map(|index| at(index).payload.len()).sum(),
            body_bytes: sent_bytes - compressed + heading.uncompressed_size.unwrap_or(0),
            sent_bytes,
        };
        (size, Entry { sequence_id, messages: count as u32, sizes })
    }
}
