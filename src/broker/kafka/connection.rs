//! One producing client, and the thread that serves it and records the outcomes of its messages.

use std::collections::BTreeMap;
use std::error::Error;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext, PurgeConfig};
use rdkafka::util::current_time_millis;
use rdkafka::{Message, Timestamp};
use tokio::sync::Notify;

use super::client::{self, describe, failure_class};
use super::event_queue::EventQueue;
use super::statistics;
use super::token::oauth_token;
use super::transactions::{Transactions, UnsettledMessages};
use crate::broker::kafka_options::TransactionOptions;
use crate::broker::{SubmitError, TRACE_HEADER_NAME, Telemetry};
use crate::measure::{AckRecorder, PartitionIndex, SendTag, TraceHeader, UNKNOWN_SEQUENCE};
use crate::scenario::Secret;

/// By how much the times of two clocks may differ that were read one after the other.
const CLOCK_SLACK_NS: u64 = 10_000_000_000;

// A send tag's word fits rdkafka's opaque value, which costs no allocation.
const _: () = assert!(size_of::<usize>() >= size_of::<u64>());

/// How long the thread waits at most before it checks whether to end.
const WAIT: Duration = Duration::from_millis(100);

/// A producing client, shared by its producers.
pub struct Connection {
    pub producer: Arc<BaseProducer<Reports>>,
    /// Of a client that sends in transactions, once it may.
    transactions: OnceLock<Transactions>,
    queue_full_ns: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

/// What rdkafka tells of a client when it is polled.
pub struct Reports {
    pub recorder: AckRecorder,
    outcomes: Mutex<Outcomes>,
    /// Wakes producers when an event has freed capacity in the client's queue.
    capacity: Notify,
    /// Messages that wait for the end of their transaction; `None`: they are sent without.
    written: Option<Arc<UnsettledMessages>>,
    errors: Mutex<ConnectionErrors>,
    statistics: Mutex<(statistics::Reader, Telemetry)>,
    token: Option<Secret>,
    ended: AtomicBool,
}

/// The outcomes in the event that is being served: empty between events.
#[derive(Default)]
struct Outcomes {
    /// When the event came, since the trial's epoch; `None`: it has no outcome so far.
    now_ns: Option<u64>,
    all: Vec<Outcome>,
    partitions: KnownPartitions,
    /// Whether rdkafka has called, for an outcome or for anything else.
    was_called: bool,
}

struct Outcome {
    send_tag: SendTag,
    payload_bytes: usize,
    partition: PartitionIndex,
    /// `None`: the message was delivered.
    error: Option<Code>,
}

/// The errors of a client.
#[derive(Debug, Clone, Default)]
pub struct ConnectionErrors {
    /// The last error of one broker: why it does not answer.
    pub last: Option<(Code, String)>,
    /// Whether no broker could be reached at some time. It explains less than `last`, so it does not replace it.
    pub all_down: bool,
}

/// The partitions of which a client has had reports. The key is the address of librdkafka's topic, and the partition.
#[derive(Default)]
struct KnownPartitions {
    all: BTreeMap<(usize, i32), PartitionIndex>,
    /// The partition of the last report: successive reports are nearly always of one partition.
    last: Option<((usize, i32), PartitionIndex)>,
}

impl Connection {
    /// Makes a client with `properties`, which sends in transactions or not, and starts its thread.
    ///
    /// # Errors
    /// librdkafka's sentence on the property that it does not know or whose value it refuses, or when the thread cannot be started.
    pub fn new<'p>(
        properties: impl IntoIterator<Item = (&'p str, &'p str)>,
        recorder: AckRecorder,
        is_transactional: bool,
        token: Option<Secret>,
    ) -> Result<Self, String> {
        let reports = Reports {
            recorder,
            outcomes: Mutex::default(),
            capacity: Notify::new(),
            written: is_transactional.then(Arc::default),
            errors: Mutex::default(),
            statistics: Mutex::default(),
            token,
            ended: AtomicBool::new(false),
        };
        let producer: Arc<BaseProducer<Reports>> = Arc::new(client::create(properties, reports)?);
        let served = producer.clone();
        let thread = thread::Builder::new().name("brokermark-acks".into()).spawn(move || serve(&served));
        let thread = Some(thread.map_err(|error| error.to_string())?);
        Ok(Connection { producer, transactions: OnceLock::new(), queue_full_ns: AtomicU64::new(0), thread })
    }

    /// Begins the first transaction of a client that sends in them. Waits for the broker.
    ///
    /// # Errors
    /// When the broker refuses, or does not answer within `timeout`.
    pub fn begin_transactions(&self, options: TransactionOptions, timeout: Duration) -> Result<(), String> {
        let Some(written) = self.reports().written.clone() else { return Ok(()) };
        self.producer.init_transactions(timeout).map_err(|error| client::reason(&error))?;
        let begun = Transactions::start(self.producer.clone(), written, options)?;
        self.transactions.get_or_init(|| begun);
        Ok(())
    }

    /// The client's transactions, if it sends in them.
    pub fn transactions(&self) -> Option<&Transactions> {
        self.transactions.get()
    }

    /// The client's errors so far.
    pub fn errors(&self) -> ConnectionErrors {
        self.reports().errors.lock().clone()
    }

    /// Resolves when an event has freed capacity after this call.
    pub fn capacity(&self) -> impl Future<Output = ()> {
        self.reports().capacity.notified()
    }

    /// Why the client refuses messages with `code`, and the class of that.
    pub fn refusal(&self, code: Code) -> SubmitError {
        match self.producer.client().fatal_error() {
            Some((fatal, reason)) => {
                SubmitError { class: failure_class(fatal), message: fatal_message(fatal, &reason) }
            }
            None => SubmitError { class: failure_class(code), message: self.reports().explain(code) },
        }
    }

    /// Why the client takes no message any more, if that is so.
    pub fn fatal_error(&self) -> Option<String> {
        let of_client = self.producer.client().fatal_error().map(|(code, reason)| fatal_message(code, &reason));
        of_client.or_else(|| self.transactions()?.failure())
    }

    /// Abandons messages in flight: the client is closed soon.
    pub fn begin_closing(&self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        if let Some(transactions) = self.transactions() {
            transactions.begin_closing();
        }
    }

    /// Counts time for which a producer found the queue full.
    pub fn waited(&self, waited: Duration) {
        self.queue_full_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// What was seen since the last call.
    pub fn telemetry(&self) -> Telemetry {
        let queue_full_ns = self.queue_full_ns.swap(0, Ordering::Relaxed);
        Telemetry { queue_full_ns, ..mem::take(&mut self.reports().statistics.lock().1) }
    }

    pub fn reports(&self) -> &Reports {
        self.producer.client().context()
    }
}

impl Drop for Connection {
    /// Abandons messages in flight. The last owner of the client waits for librdkafka's threads.
    fn drop(&mut self) {
        self.begin_closing();
        // While the client is still served, which ending a transaction waits for.
        drop(self.transactions.take());
        self.reports().ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has nothing left to clean up.
            let _ = thread.join();
        }
    }
}

/// Serves one event after the other until the connection ends.
fn serve(producer: &BaseProducer<Reports>) {
    let reports = producer.client().context();
    let _queue = EventQueue::new(producer);
    while !reports.ended.load(Ordering::Acquire) {
        // Without a timeout, one event at most: librdkafka frees the places of its messages before this returns.
        producer.poll(Duration::ZERO);
        if !reports.end_of_event() {
            thread::park_timeout(WAIT);
        }
    }
}

impl ProducerContext for Reports {
    /// The send tag's first word, which is not a pointer to anything.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, word: usize) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(client::code(error))),
        };
        let mut outcomes = self.outcomes.lock();
        outcomes.was_called = true;
        let now_ns = *outcomes.now_ns.get_or_insert_with(|| self.recorder.now_ns());
        let send_tag = self.send_tag(word as u64, message, now_ns);
        let payload_bytes = message.payload_len();
        match (error, &self.written) {
            // Those that the end of a transaction has taken with it wait for that end, too.
            (None | Some(Code::PurgeQueue | Code::PurgeInflight), Some(written)) => {
                written.0.lock().push((send_tag, payload_bytes));
            }
            _ => {
                let partition = outcomes.partitions.index(message, &self.recorder);
                outcomes.all.push(Outcome { send_tag, payload_bytes, partition, error });
            }
        }
    }
}

impl ClientContext for Reports {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        self.called();
    }

    fn stats_raw(&self, json: &[u8]) {
        self.called();
        let (reader, telemetry) = &mut *self.statistics.lock();
        if let Some(latest) = reader.read(json) {
            *telemetry = statistics::joined(*telemetry, latest);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.called();
        let mut errors = self.errors.lock();
        match client::code(&error) {
            Code::AllBrokersDown => errors.all_down = true,
            code => errors.last = Some((code, client::without_circumstances(reason))),
        }
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.called();
        oauth_token(self.token.as_ref())
    }
}

impl Reports {
    fn called(&self) {
        self.outcomes.lock().was_called = true;
    }

    /// Records the outcomes in the event that was served. Whether there was an event.
    fn end_of_event(&self) -> bool {
        let mut outcomes = self.outcomes.lock();
        let was_called = mem::take(&mut outcomes.was_called);
        if let Some(now_ns) = outcomes.now_ns.take() {
            let mut acks = self.recorder.batch_at(now_ns);
            for Outcome { send_tag, payload_bytes, partition, error } in outcomes.all.drain(..) {
                match error {
                    None => {
                        acks.to_partition(partition);
                        acks.acknowledged(send_tag, payload_bytes);
                    }
                    Some(code) => acks.failed(send_tag, failure_class(code), || self.explain(code)),
                }
            }
        }
        drop(outcomes);
        if was_called {
            self.capacity.notify_waiters();
        }
        was_called
    }

    /// librdkafka carries one word of the send tag. The other one is restored: the sequence from the message's own trace header, and
    /// the upper bits of the time sent, once there are any, from the message's time stamp.
    fn send_tag(&self, word: u64, message: &BorrowedMessage<'_>, now_ns: u64) -> SendTag {
        let age_ns = if SendTag::is_first_turn(now_ns) { 0 } else { age_ns(message) };
        let sent_by_ns = now_ns.saturating_sub(age_ns.saturating_sub(CLOCK_SLACK_NS));
        let sequence = if self.recorder.needs_sequences() { sequence(message) } else { 0 };
        SendTag::from_word(word, sequence, sent_by_ns)
    }

    /// A message's error, with the client's last error: "timed out" alone does not explain it.
    fn explain(&self, code: Code) -> String {
        match &self.errors.lock().last {
            Some((_, last)) => format!("{} (last error of the client: {last})", describe(code)),
            None => describe(code),
        }
    }
}

impl KnownPartitions {
    #[inline]
    fn index(&mut self, message: &BorrowedMessage<'_>, recorder: &AckRecorder) -> PartitionIndex {
        let key = (message.topic_ptr() as usize, message.partition());
        match self.last {
            Some((last, index)) if last == key => index,
            _ => {
                // A message that was not written has no partition.
                let index = || match u32::try_from(key.1) {
                    Ok(number) => recorder.partition(message.topic(), Some(number)),
                    Err(_) => PartitionIndex::UNKNOWN,
                };
                let index = *self.all.entry(key).or_insert_with(index);
                self.last = Some((key, index));
                index
            }
        }
    }
}

/// How long ago the client made the message. 0 if its time stamp is the broker's.
fn age_ns(message: &BorrowedMessage<'_>) -> u64 {
    match message.timestamp() {
        Timestamp::CreateTime(created_ms) => {
            u64::try_from(current_time_millis() - created_ms).unwrap_or(0).saturating_mul(1_000_000)
        }
        _ => 0,
    }
}

/// The message's number, from the trace header beside its payload or in it.
fn sequence(message: &BorrowedMessage<'_>) -> u64 {
    let sealed = trace_header(message).or(message.payload()).unwrap_or_default();
    TraceHeader::sequence_of(sealed).unwrap_or(UNKNOWN_SEQUENCE)
}

/// The engine's own header of a message that carries one beside its payload.
pub fn trace_header<M: Message>(message: &M) -> Option<&[u8]> {
    let headers = message.headers()?;
    // It is the last one, unless another program has sent the message on.
    let mut all = (0..headers.count()).rev().filter_map(|index| headers.try_get(index));
    all.find(|header| header.key == TRACE_HEADER_NAME)?.value
}

fn fatal_message(code: Code, reason: &str) -> String {
    format!("{}: {reason}", describe(code))
}
