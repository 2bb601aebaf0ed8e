//! One producing client, and the thread that serves it and records the outcomes of its messages.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer, PurgeConfig};

use super::client::{self, describe, failure_class};
use super::event_queue::EventQueue;
use super::reports::{ConnectionErrors, Reports};
use super::transactions::Transactions;
use crate::broker::kafka_options::TransactionOptions;
use crate::broker::{SubmitError, Telemetry};
use crate::measure::AckRecorder;
use crate::scenario::Secret;

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
    ) -> Result<Self, String> {
        let reports = Reports::new(recorder, is_transactional, token);
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

fn fatal_message(code: Code, reason: &str) -> String {
    format!("{}: {reason}", describe(code))
}
