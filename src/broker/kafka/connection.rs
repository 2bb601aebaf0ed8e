//! One producing client and the thread that takes its delivery reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use tokio::sync::Notify;

use super::native::{Batch as Reports, Client, Deliveries, Event, class_of, name_of, without_circumstances};
use super::partitions::KnownPartitions;
use super::statistics;
use super::transactions::{Transactions, Written};
use crate::broker::kafka_options::TransactionOptions;
use crate::broker::{SubmitError, Telemetry};
use crate::measure::AckRecorder;

/// How long the thread waits at most before it checks whether to end.
const POLL: Duration = Duration::from_millis(100);

/// A producing client, shared by its producers.
pub struct Connection {
    pub client: Arc<Client>,
    pub recorder: Arc<AckRecorder>,
    /// Of a client that sends in transactions, once it may.
    transactions: OnceLock<Transactions>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the producers share.
#[derive(Default)]
struct State {
    ended: AtomicBool,
    /// Wakes producers when delivery reports have freed capacity in the client's queue.
    capacity: Notify,
    queue_full_ns: AtomicU64,
    telemetry: Mutex<Telemetry>,
    statistics: Mutex<statistics::Reader>,
    /// Where messages wait for the end of their transaction; `None`: they are sent without.
    written: Option<Arc<Written>>,
    errors: Mutex<ConnectionErrors>,
}

/// The errors of a client.
#[derive(Debug, Clone, Default)]
pub struct ConnectionErrors {
    /// The last error of one broker: why it does not answer.
    pub last: Option<(Code, String)>,
    /// Whether no broker could be reached at some time. It explains less than `last`, so it does not replace it.
    pub all_down: bool,
}

impl Connection {
    /// Starts the thread that polls `client`, which sends in transactions or not.
    ///
    /// # Errors
    /// When the client has no queue or the thread cannot be started.
    pub fn start(client: Client, recorder: AckRecorder, transactional: bool) -> Result<Self, String> {
        let written = transactional.then(Arc::default);
        let state = Arc::new(State { written, ..State::default() });
        let (client, recorder) = (Arc::new(client), Arc::new(recorder));
        let deliveries = Deliveries::new(client.clone()).ok_or("the client has no event queue")?;
        let thread = {
            let (recorder, state) = (recorder.clone(), state.clone());
            thread::Builder::new()
                .name("brokermark-acks".into())
                .spawn(move || {
                    let mut partitions = KnownPartitions::default();
                    while !state.ended.load(Ordering::Acquire) {
                        if deliveries.poll(POLL, |event| state.take(event, &recorder, &mut partitions)) {
                            state.capacity.notify_waiters();
                        }
                    }
                })
                .map_err(|error| error.to_string())?
        };
        Ok(Connection { client, recorder, transactions: OnceLock::new(), state, thread: Some(thread) })
    }

    /// Begins the first transaction of a client that sends in them. Waits for the broker.
    ///
    /// # Errors
    /// When the broker refuses, or does not answer within `timeout`.
    pub fn begin_transactions(&self, options: TransactionOptions, timeout: Duration) -> Result<(), String> {
        let Some(written) = self.state.written.clone() else { return Ok(()) };
        self.client.init_transactions(timeout).map_err(|error| error.reason)?;
        let begun = Transactions::start(self.client.clone(), self.recorder.clone(), written, options)?;
        self.transactions.get_or_init(|| begun);
        Ok(())
    }

    /// The client's transactions, if it sends in them.
    pub fn transactions(&self) -> Option<&Transactions> {
        self.transactions.get()
    }

    /// The client's errors so far.
    pub fn errors(&self) -> ConnectionErrors {
        self.state.errors.lock().clone()
    }

    /// Resolves when delivery reports have freed capacity after this call.
    pub fn capacity(&self) -> impl Future<Output = ()> {
        self.state.capacity.notified()
    }

    /// Why the client refuses messages with `code`, and the class of that.
    pub fn refusal(&self, code: Code) -> SubmitError {
        match self.client.fatal_error() {
            Some((fatal, reason)) => SubmitError { class: class_of(fatal), message: fatal_message(fatal, &reason) },
            None => SubmitError { class: class_of(code), message: self.state.explain(code) },
        }
    }

    /// Why the client takes no message any more, if that is so.
    pub fn fatal_error(&self) -> Option<String> {
        let of_client = self.client.fatal_error().map(|(code, reason)| fatal_message(code, &reason));
        of_client.or_else(|| self.transactions()?.failure())
    }

    /// Abandons messages in flight: the client is closed soon.
    pub fn begin_closing(&self) {
        self.client.purge();
        if let Some(transactions) = self.transactions() {
            transactions.begin_closing();
        }
    }

    /// Counts time for which a producer found the queue full.
    pub fn waited(&self, waited: Duration) {
        self.state.queue_full_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// What was seen since the last call.
    pub fn telemetry(&self) -> Telemetry {
        let queue_full_ns = self.state.queue_full_ns.swap(0, Ordering::Relaxed);
        Telemetry { queue_full_ns, ..std::mem::take(&mut *self.state.telemetry.lock()) }
    }
}

impl State {
    fn take(&self, event: Event<'_>, recorder: &AckRecorder, partitions: &mut KnownPartitions) {
        match event {
            Event::Delivered(reports) if self.written.is_some() => self.keep(reports, recorder),
            Event::Delivered(reports) => {
                let mut acks = recorder.batch();
                reports.for_each(acks.now_ns(), recorder.needs_sequences(), |report| match report.error {
                    None => {
                        acks.to_partition(partitions.index_of(&report, recorder));
                        acks.acknowledged(report.send_tag, report.payload_bytes());
                    }
                    Some(code) => acks.failed(report.send_tag, class_of(code), || self.explain(code)),
                });
            }
            Event::ConnectionError(Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, _) => self.errors.lock().all_down = true,
            Event::ConnectionError(code, reason) => {
                self.errors.lock().last = Some((code, without_circumstances(&reason)))
            }
            Event::Statistics(json) => {
                if let Some(latest) = self.statistics.lock().read(json) {
                    let mut telemetry = self.telemetry.lock();
                    *telemetry = statistics::joined(*telemetry, latest);
                }
            }
        }
    }

    /// Of a transaction's messages, those that are written wait for its end, and so do those that it has taken with it.
    fn keep(&self, reports: Reports<'_>, recorder: &AckRecorder) {
        let Some(written) = &self.written else { return };
        let mut written = written.0.lock();
        let mut acks = recorder.batch();
        reports.for_each(acks.now_ns(), recorder.needs_sequences(), |report| match report.error {
            None | Some(Code::RD_KAFKA_RESP_ERR__PURGE_QUEUE | Code::RD_KAFKA_RESP_ERR__PURGE_INFLIGHT) => {
                written.push((report.send_tag, report.payload_bytes()));
            }
            Some(code) => acks.failed(report.send_tag, class_of(code), || self.explain(code)),
        });
    }

    /// A message's error, with the client's last error: "timed out" alone does not explain it.
    fn explain(&self, code: Code) -> String {
        match &self.errors.lock().last {
            Some((_, last)) => format!("{} (last error of the client: {last})", name_of(code)),
            None => name_of(code),
        }
    }
}

impl Drop for Connection {
    /// Abandons messages in flight. Destroying the client, which happens with its last owner, waits for librdkafka's
    /// threads.
    fn drop(&mut self) {
        self.begin_closing();
        // While delivery reports are still taken, which ending a transaction waits for.
        drop(self.transactions.take());
        self.state.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to clean up.
            let _ = thread.join();
        }
    }
}

fn fatal_message(code: Code, reason: &str) -> String {
    format!("{}: {reason}", name_of(code))
}
