//! A sender to one topic; the producing client that senders share, and the thread that serves it and records the outcomes of its messages.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use rdkafka::bindings as rd;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};

use super::client::{self, describe, failure_class};
use super::reports::{ConnectionErrors, Reports};
use super::topic_handle::TopicHandle;
use super::transactions::{Handed, Transactions};
use crate::broker::kafka_options::TransactionOptions;
use crate::broker::{Outgoing, Producer, SubmitError, TRACE_HEADER_NAME, Telemetry};
use crate::measure::{AckRecorder, Conditions};
use crate::scenario::Secret;

/// A sender to one topic, over a connection it shares with others.
pub struct KafkaProducer {
    connection: Arc<Connection>,
    topic: TopicHandle,
    topic_name: String,
    header_sets: HeaderSets,
    /// The client took no message at the last attempt: the next one is made with a single message.
    refused: bool,
}

/// The headers that messages may have, by the number of their set.
#[derive(Clone)]
pub struct HeaderSets(Arc<[Option<OwnedHeaders>]>);

impl HeaderSets {
    pub fn new(sets: &[Vec<(String, String)>]) -> Self {
        let add = |headers: OwnedHeaders, (name, value): &(String, String)| {
            headers.insert(Header { key: name, value: Some(value.as_bytes()) })
        };
        let headers = |set: &Vec<(String, String)>| {
            let empty = || OwnedHeaders::new_with_capacity(set.len() + 1);
            (!set.is_empty()).then(|| set.iter().fold(empty(), add))
        };
        HeaderSets(sets.iter().map(headers).collect())
    }

    /// Whether no message has headers of its own.
    fn are_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// A message's headers, with the engine's own one.
    fn headers(&self, outgoing: &Outgoing<'_>, set: u32) -> Option<OwnedHeaders> {
        let own = self.0[set as usize].clone();
        match outgoing.trace_header {
            None => own,
            Some(trace_header) => {
                let header = Header { key: TRACE_HEADER_NAME, value: Some(trace_header) };
                Some(own.unwrap_or_else(|| OwnedHeaders::new_with_capacity(1)).insert(header))
            }
        }
    }
}

impl KafkaProducer {
    /// # Errors
    /// When the name cannot be a topic's.
    pub(super) fn new(connection: Arc<Connection>, topic: &str, header_sets: HeaderSets) -> Result<Self, String> {
        let (topic, topic_name) = (TopicHandle::new(connection.producer.clone(), topic)?, topic.to_owned());
        Ok(KafkaProducer { connection, topic, topic_name, header_sets, refused: false })
    }

    /// Hands over as much of `batch` as fits into the queue, in order, and records the failure of each message that the client refuses
    /// for itself (too large). Those with headers go one by one: librdkafka's call for a batch has none.
    fn hand_over(&self, batch: &[Outgoing<'_>]) -> Handed {
        if self.header_sets.are_empty() && batch.iter().all(|outgoing| outgoing.trace_header.is_none()) {
            let (taken, errors) = self.topic.produce(batch);
            if taken == batch.len() { Handed::Taken(taken) } else { self.handed(batch, taken == 0, errors) }
        } else {
            self.handed(batch, true, batch.iter().map(|outgoing| self.hand_over_one(outgoing).err()))
        }
    }

    /// What `errors` of the messages of `batch` come to. `none_after`: if the first one has an error, no other one was taken.
    fn handed(&self, batch: &[Outgoing<'_>], none_after: bool, errors: impl Iterator<Item = Option<Code>>) -> Handed {
        for (index, (outgoing, error)) in batch.iter().zip(errors).enumerate() {
            match error {
                None => {}
                Some(Code::QueueFull) if index == 0 => return Handed::QueueFull,
                Some(Code::QueueFull) => return Handed::Taken(index),
                Some(code) if index == 0 && none_after && code != Code::MessageSizeTooLarge => {
                    return Handed::Refused(code);
                }
                Some(code) => {
                    let mut acks = self.connection.reports().recorder.batch();
                    acks.failed(outgoing.send_tag, failure_class(code), || describe(code));
                }
            }
        }
        Handed::Taken(batch.len())
    }

    fn hand_over_one(&self, outgoing: &Outgoing<'_>) -> Result<(), Code> {
        let attributes = outgoing.attributes.copied().unwrap_or_default();
        let record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord {
            topic: &self.topic_name,
            partition: attributes.partition.map(|partition| partition as i32),
            payload: (!attributes.null_payload).then_some(outgoing.payload),
            key: outgoing.key,
            timestamp: None,
            headers: self.header_sets.headers(outgoing, attributes.header_set),
            delivery_opaque: outgoing.send_tag.to_word() as usize,
        };
        self.connection.producer.send(record).map_err(|(error, _)| client::code(&error))
    }
}

impl Producer for KafkaProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let mut full_since = None;
        let batch = if self.refused { &batch[..batch.len().min(1)] } else { batch };
        loop {
            // Created before the attempt, so that capacity freed in between is not missed.
            let connection = self.connection.clone();
            let capacity = connection.capacity();
            let begun = connection.transactions().map(Transactions::begun);
            let handed = match connection.transactions() {
                None => Some(self.hand_over(batch)),
                Some(transactions) => transactions.enter(|room| self.hand_over(&batch[..batch.len().min(room)])),
            };
            let Some(handed) = handed else {
                if let Some(begun) = begun {
                    begun.await;
                }
                continue;
            };
            match handed {
                Handed::Taken(taken) => {
                    if let Some(since) = full_since {
                        self.connection.waited(Instant::elapsed(&since));
                    }
                    self.refused = false;
                    return Ok(taken);
                }
                Handed::Refused(code) => {
                    self.refused = true;
                    return Err(self.connection.refusal(code));
                }
                Handed::QueueFull => {
                    full_since.get_or_insert_with(Instant::now);
                    capacity.await;
                }
            }
        }
    }

    fn fatal_error(&self) -> Option<String> {
        self.connection.fatal_error()
    }

    fn finish(&mut self) {
        if let Some(transactions) = self.connection.transactions() {
            transactions.finish();
        }
    }
}

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
        conditions: Conditions,
    ) -> Result<Self, String> {
        let reports = Reports::new(recorder, is_transactional, token, conditions);
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
        let of_client = self.producer.client().fatal_error().map(|(code, reason)| {
            self.reports().client_ended(code);
            fatal_message(code, &reason)
        });
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

fn fatal_message(code: Code, reason: &str) -> String {
    format!("{}: {reason}", describe(code))
}

/// The event queue of a producing client: it wakes the thread that serves the client when there is something to serve.
///
/// rdkafka's `BaseProducer::poll` with a timeout, on which its `ThreadedProducer` is built, lasts for the whole timeout, also after it has
/// served events. So it does not show which messages were acknowledged together, and that is what a record counts as independent
/// (docs/METHODOLOGY.md). Without a timeout it serves one event, which is one produce request; but then the thread must be woken, for
/// which rdkafka has a call for consumers only.
///
/// As long as this value lives, librdkafka unparks the thread that made it whenever the queue
/// has gone from empty to not empty.
pub struct EventQueue<'p> {
    queue: *mut rd::rd_kafka_queue_t,
    /// The argument of the callback, in a place of its own.
    _thread: Box<Thread>,
    _producer: PhantomData<&'p ()>,
}

impl<'p> EventQueue<'p> {
    pub fn new<C: ProducerContext>(producer: &'p BaseProducer<C>) -> Self {
        let thread = Box::new(thread::current());
        // SAFETY: the client is alive for as long as this value is, which holds a reference to the queue. The callback's argument is
        // the thread's handle, which the same value keeps until the callback has been disabled in `drop`.
        let queue = unsafe {
            let queue = rd::rd_kafka_queue_get_main(producer.client().native_ptr());
            let argument = ptr::from_ref::<Thread>(&thread).cast_mut().cast();
            rd::rd_kafka_queue_cb_event_enable(queue, Some(unpark), argument);
            queue
        };
        EventQueue { queue, _thread: thread, _producer: PhantomData }
    }
}

impl Drop for EventQueue<'_> {
    fn drop(&mut self) {
        // SAFETY: disables the callback before its argument is dropped, and returns the reference that `new` has taken.
        unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue, None, ptr::null_mut());
            rd::rd_kafka_queue_destroy(self.queue);
        }
    }
}

extern "C" fn unpark(_client: *mut rd::rd_kafka_t, argument: *mut c_void) {
    // SAFETY: `argument` is the handle that `EventQueue::new` gave, alive until the callback is disabled.
    unsafe { (*argument.cast::<Thread>()).unpark() };
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/producer.rs"]
mod tests;
