//! The task of a client for one node: it takes batches from the partitions that the node leads, sends them, and receives the answers.
//!
//! It keeps a connection open, and opens one that was lost again. On a connection, requests go out and responses come in, several requests
//! at once.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;

use super::super::codec::batch::TRANSACTIONAL;
use super::super::codec::compression::{Compression, Compressor};
use super::super::codec::responses;
use super::super::error::CallError;
use super::super::net::control::{ControlConnection, MAX_RESPONSE_BYTES, MAX_THROTTLE, take_header};
use super::accumulator::Partition;
use super::client::{Client, Node};
use super::producer_batch::ProducerBatch;
use super::request::{self, Answer, Envelope, ProduceRequest};
use crate::broker::kafka_options::RequiredAcks;
use crate::load::PayloadPool;
use crate::measure::{AckRecorder, ConditionKind, Subject};
use crate::net::backoff::Backoff;

/// Serves a node until the metadata names it no longer, or the task is aborted.
pub async fn serve(node: Arc<Node>, client: Arc<Client>) {
    let recorder = client.acks.recorder();
    let mut backoff = Backoff::RECONNECT;
    let mut address = node.address.lock().clone();
    let mut held_up = client.connector.node(&address);
    while !node.is_gone() {
        let newest = node.address.lock().clone();
        if address != newest {
            held_up = client.connector.node(&newest);
            address = newest;
        }
        let error = match client.connector.open(&address).await {
            Ok(link) => {
                held_up.end();
                let opened = Instant::now();
                let ended = match Connection::start(&client, &node, &held_up, &recorder, link) {
                    Ok(connection) => connection.serve().await,
                    Err(error) => Ended::Failed(error),
                };
                let has_lasted = backoff.lasted(opened.elapsed());
                match ended {
                    Ended::Idle if !has_lasted => {
                        backoff.pause().await;
                        continue;
                    }
                    Ended::Idle | Ended::Due => continue,
                    Ended::Failed(error) => error,
                }
            }
            Err(error) => error,
        };
        // A node that refuses each attempt at once is not connected in between either.
        if let Some(kind) = error.condition() {
            held_up.begin(kind, &error.beside(&address));
        }
        client.note_error(&address, error);
        client.refresh();
        node.hand_on();
        backoff.pause().await;
    }
    node.hand_on();
}

/// Why a connection has ended.
enum Ended {
    /// Every request has its response, and its session is about to end, or the metadata does not name its node.
    Due,
    /// The node has closed it while no request was on its way, as after `connections.max.idle.ms`.
    Idle,
    Failed(CallError),
}

/// The first version that takes Zstandard.
const ZSTD_VERSION: i16 = 7;

/// A read takes so many bytes at most.
const READ_BYTES: usize = 16 << 10;

/// The time for which a connection is full is counted so often at least.
const MAX_UNCOUNTED: Duration = Duration::from_secs(1);

/// The deadline of a connection that waits for nothing.
const IDLE: Duration = Duration::from_secs(3600);

/// A connection that is open.
pub struct Connection<'a> {
    client: &'a Arc<Client>,
    node: &'a Arc<Node>,
    /// The node, as what a quota holds up.
    held_up: &'a Subject,
    recorder: &'a AckRecorder,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    envelope: Envelope,
    /// Attributes of its batches.
    attributes: u8,
    compressor: Compressor,
    requests: Requests,
    inbox: BytesMut,
    has_sent: bool,
    /// From then on it takes no request: its session ends soon.
    session_due: Option<Instant>,
    /// Beginning of the time in which it takes no request although there are batches to send.
    full_since: Option<Instant>,
}

/// Requests without a response.
#[derive(Default)]
struct Requests {
    /// Request that is being written, and since when.
    writing: Option<(Instant, ProduceRequest)>,
    waiting: VecDeque<(Instant, ProduceRequest)>,
    next_correlation: i32,
    /// End of the wait that the broker asks for (KIP-219).
    throttled_until: Option<Instant>,
}

impl Requests {
    /// Since when the oldest request has waited for the broker: for its response, or for the broker to read it.
    fn oldest(&self) -> Option<Instant> {
        self.waiting.front().or(self.writing.as_ref()).map(|(since, _)| *since)
    }
}

impl<'a> Connection<'a> {
    /// # Errors
    /// When the node is too old for what the scenario asks, or there is no memory to compress with.
    pub fn start(
        client: &'a Arc<Client>,
        node: &'a Arc<Node>,
        held_up: &'a Subject,
        recorder: &'a AckRecorder,
        opened: ControlConnection,
    ) -> Result<Self, CallError> {
        let options = &client.options;
        let oldest = if options.compression == Compression::Zstd { ZSTD_VERSION } else { request::OLDEST };
        let is_transactional = client.transactions().is_some();
        let newest = if is_transactional { request::NEWEST_IN_TRANSACTION } else { request::NEWEST };
        let envelope = Envelope {
            version: opened.versions.newest_common(request::KEY, oldest, newest)?,
            client_id: opened.client_id().to_owned(),
            transactional_id: client.transactions().map(|transactions| transactions.id.clone()),
            acks: options.acks as i16,
            timeout_ms: i32::try_from(options.request_timeout.as_millis()).unwrap_or(i32::MAX),
        };
        let attributes = options.compression as u8 | if is_transactional { TRANSACTIONAL } else { 0 };
        let compressor = Compressor::new(options.compression)?;
        let ControlConnection { reader, writer, session_due, .. } = opened;
        let (requests, inbox) = (Requests::default(), BytesMut::new());
        Ok(Connection {
            client,
            node,
            held_up,
            recorder,
            reader,
            writer,
            envelope,
            attributes,
            compressor,
            requests,
            inbox,
            has_sent: false,
            session_due,
            full_since: None,
        })
    }

    /// Sends and receives until the connection ends, and returns why it did. Batches without a response are sent again.
    async fn serve(mut self) -> Ended {
        let ended = loop {
            if (self.is_expiring() || self.node.is_gone()) && self.requests.oldest().is_none() {
                break Ended::Due;
            }
            match self.turn().await {
                Ok(()) => {}
                Err(CallError::Lost(_)) if self.is_idle() => break Ended::Idle,
                Err(error) => break Ended::Failed(error),
            }
            if self.requests.throttled_until.is_none_or(|until| until <= Instant::now()) {
                self.held_up.end_only(ConditionKind::Throttled);
            }
        };
        self.end_full();
        if self.has_sent {
            self.client.traffic.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if let Ended::Failed(error) = &ended {
            let Requests { writing, waiting, .. } = self.requests;
            let lost = waiting.into_iter().chain(writing).flat_map(|(_, request)| request.batches);
            lost.for_each(|(partition, batch)| request::lost(self.client, self.recorder, &partition, batch, error));
        }
        ended
    }

    /// Whether no request is on its way. Without acknowledgements, that is not known: a broker that refuses a batch closes the connection.
    fn is_idle(&self) -> bool {
        self.requests.oldest().is_none() && self.client.options.acks != RequiredAcks::None
    }

    fn is_expiring(&self) -> bool {
        self.session_due.is_some_and(|due| due <= Instant::now())
    }

    /// Waits for one thing to happen.
    async fn turn(&mut self) -> Result<(), CallError> {
        let was_writing = self.requests.writing.is_some();
        self.end_full();
        self.begin_request()?;
        self.begin_full(was_writing);
        let deadline = self.deadline();
        let Connection { reader, writer, requests, inbox, node, .. } = self;
        inbox.reserve(READ_BYTES);
        let (writing, payloads) = (&mut requests.writing, &*self.client.payloads);
        tokio::select! {
            read = reader.read_buf(inbox) => match read? {
                0 => return Err(CallError::Lost("the broker closed the connection".to_owned())),
                _ => self.take_responses()?,
            },
            written = write(writer, writing, payloads), if writing.is_some() => {
                if written? {
                    self.written();
                }
            }
            () = node.ready.work() => {}
            () = sleep_until(deadline.into()) => self.check_overdue()?,
        }
        Ok(())
    }

    /// Begins to write a request, if one may be sent and there is something to send.
    fn begin_request(&mut self) -> Result<(), CallError> {
        let (requests, options) = (&mut self.requests, &self.client.options);
        let now = Instant::now();
        let is_expiring = self.session_due.is_some_and(|due| due <= now);
        if requests.writing.is_some() || requests.waiting.len() >= options.max_in_flight || is_expiring {
            return Ok(());
        }
        if requests.throttled_until.take_if(|until| *until <= now).is_none() && requests.throttled_until.is_some() {
            return Ok(());
        }
        let mut expired = Vec::new();
        let mut batches = self.node.gather(&self.client.limits, &mut expired);
        request::expired(self.client, self.recorder, expired);
        if batches.is_empty() {
            return Ok(());
        }
        let Client { buffers, payloads, checksums, .. } = &**self.client;
        let mut seal = |(_, batch): &mut (Arc<Partition>, ProducerBatch)| {
            batch.seal(self.attributes, &mut self.compressor, buffers, payloads, checksums)
        };
        if let Err(error) = batches.iter_mut().try_for_each(&mut seal) {
            let error = CallError::from(error);
            for (partition, batch) in batches {
                request::lost(self.client, self.recorder, &partition, batch, &error);
            }
            return Err(error);
        }
        let correlation = requests.next_correlation;
        requests.next_correlation = correlation.wrapping_add(1);
        self.client.traffic.sent();
        if !std::mem::replace(&mut self.has_sent, true) {
            self.client.traffic.connections.fetch_add(1, Ordering::Relaxed);
        }
        requests.writing = Some((now, ProduceRequest::new(&self.envelope, correlation, batches)));
        Ok(())
    }

    /// From here on it waits, and takes no request although there are batches to send: as many as may be have no response, or the socket
    /// did not accept the whole of the last one. `was_writing`: before this turn.
    fn begin_full(&mut self, was_writing: bool) {
        let Requests { waiting, throttled_until, .. } = &self.requests;
        let takes_none = was_writing || waiting.len() >= self.client.options.max_in_flight;
        let now = Instant::now();
        // A quota that is used up has a count of its own.
        let is_throttled = throttled_until.is_some_and(|until| until > now);
        let is_full = takes_none && !is_throttled && self.node.ready.count() > 0;
        self.full_since = is_full.then_some(now);
    }

    /// Counts the time since [`Connection::begin_full`]. What the client itself does afterwards is not among it.
    fn end_full(&mut self) {
        if let Some(since) = self.full_since.take() {
            let full_ns = since.elapsed().as_nanos() as u64;
            self.client.traffic.connections_full_ns.fetch_add(full_ns, Ordering::Relaxed);
        }
    }

    /// The request is written. Without acknowledgements, that is all.
    fn written(&mut self) {
        let Some((_, request)) = self.requests.writing.take() else { return };
        if self.client.options.acks != RequiredAcks::None {
            self.requests.waiting.push_back((Instant::now(), request));
            return;
        }
        let answers = request.batches.into_iter().map(|(partition, batch)| (partition, batch, Answer::WRITTEN));
        request::record(self.client, self.recorder, answers);
    }

    fn deadline(&self) -> Instant {
        let Requests { writing, waiting, throttled_until, .. } = &self.requests;
        let overdue = self.requests.oldest().map(|since| since + self.client.options.request_timeout);
        // What is due is sent when the requests before it allow that.
        let may_send = writing.is_none() && waiting.len() < self.client.options.max_in_flight && !self.is_expiring();
        let due = may_send.then(|| throttled_until.or_else(|| self.node.ready.next_due())).flatten();
        // A broker that stops is seen while it does, not only when it goes on.
        let counted = self.full_since.map(|since| since + MAX_UNCOUNTED);
        let session = self.session_due.filter(|_| !self.is_expiring());
        overdue.into_iter().chain(due).chain(counted).chain(session).min().unwrap_or_else(|| Instant::now() + IDLE)
    }

    fn check_overdue(&self) -> Result<(), CallError> {
        let limit = self.client.options.request_timeout;
        match self.requests.oldest() {
            Some(since) if since.elapsed() >= limit => Err(CallError::Timeout(limit)),
            _ => Ok(()),
        }
    }

    fn take_responses(&mut self) -> Result<(), CallError> {
        while let Some(length) = self.inbox.first_chunk().map(|length| u32::from_be_bytes(*length) as usize) {
            if length > MAX_RESPONSE_BYTES {
                return Err(CallError::Malformed(format!("a response of {length} bytes")));
            }
            if self.inbox.len() < 4 + length {
                break;
            }
            self.inbox.advance(4);
            let mut body = self.inbox.split_to(length).freeze();
            let unexpected = || CallError::Malformed("it answers no request".to_owned());
            let (sent, request) = self.requests.waiting.pop_front().ok_or_else(unexpected)?;
            // A response that cannot be read leaves the request unanswered.
            let answers = take_header(&mut body, i16::from(self.envelope.is_flexible()), request.correlation)
                .and_then(|()| self.read_answers(&request, &body));
            match answers {
                Ok(answers) => self.answered(sent, request, answers),
                Err(error) => {
                    self.requests.waiting.push_front((sent, request));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// For each batch of the request the broker's answer, and for how many milliseconds the client is to wait.
    fn read_answers(&self, request: &ProduceRequest, body: &[u8]) -> Result<(Vec<Answer>, u64), CallError> {
        let mut answers: Vec<Answer> = request.batches.iter().map(|_| Answer::MISSING).collect();
        let throttled_ms = responses::read_produced(body, self.envelope.version, |produced| {
            if let Some(place) = request.place(produced.topic, produced.partition) {
                let message = produced.message.map(|message| Cow::Owned(message.to_owned()));
                answers[place] = Answer { code: produced.code, message };
            }
        })?;
        Ok((answers, u64::try_from(throttled_ms).unwrap_or(0)))
    }

    fn answered(&mut self, sent: Instant, request: ProduceRequest, (answers, throttled_ms): (Vec<Answer>, u64)) {
        self.client.traffic.answered(sent.elapsed(), throttled_ms > 0);
        if throttled_ms > 0 {
            let asked = Duration::from_millis(throttled_ms);
            self.requests.throttled_until = Some(Instant::now() + asked.min(MAX_THROTTLE));
            self.client.connector.throttled(self.held_up, asked);
        }
        let answers = request.batches.into_iter().zip(answers);
        request::record(
            self.client,
            self.recorder,
            answers.map(|((partition, batch), answer)| (partition, batch, answer)),
        );
    }
}

/// Writes what the socket accepts. Returns whether that was the rest of the request.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    writing: &mut Option<(Instant, ProduceRequest)>,
    payloads: &PayloadPool,
) -> Result<bool, CallError> {
    let Some((_, request)) = writing else { return Ok(false) };
    let written = writer.write_vectored(&request.unwritten(payloads)).await?;
    let is_whole = request.advance(written, payloads);
    if written == 0 && !is_whole {
        return Err(CallError::Lost("the connection takes no more bytes".to_owned()));
    }
    if is_whole {
        // What a TLS session holds back.
        writer.flush().await?;
    }
    Ok(is_whole)
}
