//! A producer of a topic or of one of its partitions, on the connection to the broker that serves it. It is opened again when it was closed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::codec::compression::Compressor;
use super::codec::entry::EntryTemplate;
use super::codec::proto::{self, Kind, ToBroker, close_producer};
use super::config::PulsarOptions;
use super::connection::{Connection, Kept, ProducerId, Readiness};
use super::entries::{Build, Lane};
use super::pool::Pool;
use super::retry::{BACKOFF, Retry, condition, persist};
use crate::broker::{ClientError, FailureClass, Outgoing, SubmitError};
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, Subject, SubjectKind};
use crate::net::backoff::Backoff;

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
    /// The pause before it is opened again: it grows until a producer is open for longer.
    closures: Backoff,
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
    since: Instant,
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
        Ok(PartitionProducer { shared, topic, counted_in, index, held_up, state, build, resend, closures: BACKOFF })
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
            let connection = match &self.state {
                State::Open(open) => Some(open.connection.clone()),
                State::Opening(_) | State::Dead(_) => None,
            };
            // Created before the check, so that a notification in between is not missed.
            let notified = connection.as_ref().map(|connection| connection.capacity());
            match self.readiness() {
                Readiness::Ready => return Some(waited),
                Readiness::Closed => return None,
                Readiness::Full => {
                    waited = true;
                    // There is none if it was opened just now: then it is checked again.
                    if let Some(notified) = notified {
                        notified.await;
                    }
                }
            }
        }
    }

    /// Whether messages can be added. One that is closed is being opened again from then on, unless it is closed for good.
    fn readiness(&mut self) -> Readiness {
        loop {
            match &mut self.state {
                State::Open(open) => match open.connection.readiness(open.producer) {
                    Readiness::Closed => self.state = State::Opening(self.reopen()),
                    readiness => return readiness,
                },
                State::Opening(retry) => match retry.now() {
                    Some(opened) => self.end_opening(opened),
                    None => return Readiness::Closed,
                },
                State::Dead(_) => return Readiness::Closed,
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
                // It was opened meanwhile: room() is called again.
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
                self.fail_kept();
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

    /// When the oldest entry fails that is to be sent again, unless it is sent before.
    pub fn kept_until(&self) -> Option<Instant> {
        self.resend.as_ref()?.kept.oldest()?.checked_add(self.shared.options.send_timeout)
    }

    /// Opens the partition producer again if entries are to be sent again, which then are. Those that have waited for too long fail.
    pub fn restore(&mut self) {
        if self.resend.as_ref().is_some_and(|resend| resend.kept.oldest().is_some())
            && self.readiness() == Readiness::Closed
        {
            self.fail_kept();
        }
    }

    /// Fails entries that could not be sent again in time, or cannot be at all.
    fn fail_kept(&self) {
        let Some(Resend { kept, .. }) = &self.resend else { return };
        let send_timeout = self.shared.options.send_timeout;
        let (class, message, entries) = match &self.state {
            State::Open(_) => return,
            State::Opening(retry) => {
                let ClientError { class, message, .. } = retry.last();
                let message = format!("not stored within {send_timeout:?} (`broker.pulsar.send_timeout`): {message}");
                (class, message, kept.take_late(send_timeout))
            }
            State::Dead(failure) => (failure.class, failure.message.clone(), kept.take()),
        };
        let mut acks = self.shared.recorder.batch();
        for (send_tag, _) in entries.into_iter().flat_map(|entry| entry.messages) {
            acks.failed(send_tag, class, || message.clone());
        }
    }

    /// At once, unless the broker refused an entry, or has closed a producer soon before: then there is a pause first.
    fn reopen(&mut self) -> Retry<Open> {
        let resend = self.resend.clone();
        let (shared, topic, index) = (self.shared.clone(), self.topic.clone(), self.index);
        let counted_in = self.counted_in;
        let (mut reason, topic_epoch, was_open) = match &self.state {
            State::Open(open) if !open.connection.is_open() => {
                (open.connection.failure(), open.topic_epoch, open.since.elapsed())
            }
            State::Open(open) => {
                (ClientError::lost("the broker closed the producer"), open.topic_epoch, open.since.elapsed())
            }
            _ => (ClientError::lost("the producer is closed"), None, Duration::ZERO),
        };
        let held_up = self.held_up.clone();
        let has_lasted = self.closures.lasted(was_open);
        let (mut backoff, mut done) = (self.closures, Arc::default());
        if !has_lasted {
            if backoff != BACKOFF {
                held_up.begin(condition(&reason), &reason.message);
            }
            self.closures.failed();
        }
        if let Some(Resend { kept, .. }) = &resend {
            done = kept.returned.clone();
            if let Some(refusal) = kept.take_refusal() {
                held_up.begin(condition(&refusal), &refusal.message);
                if has_lasted {
                    self.closures.failed();
                }
                (reason, backoff) = (refusal, self.closures);
            }
        }
        Retry::start(reason, backoff, done, move || {
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
            producer_access_mode: Some(shared.options.access_mode as i32),
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
            since: Instant::now(),
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
