//! One producing client and the thread that takes its delivery reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use tokio::sync::Notify;

use super::native::{Client, Deliveries, Event, class_of, name_of};
use super::statistics;
use crate::broker::{SubmitError, Telemetry};
use crate::measure::AckRecorder;

/// How long the thread waits at most before it checks whether to end.
const POLL: Duration = Duration::from_millis(100);

/// A producing client, shared by its producers.
pub struct Connection {
    pub client: Arc<Client>,
    pub recorder: Arc<AckRecorder>,
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
    /// Starts the thread that polls `client`.
    ///
    /// # Errors
    /// When the client has no queue or the thread cannot be started.
    pub fn start(client: Client, recorder: AckRecorder) -> Result<Self, String> {
        let (client, recorder, state) = (Arc::new(client), Arc::new(recorder), Arc::new(State::default()));
        let deliveries = Deliveries::new(client.clone()).ok_or("the client has no event queue")?;
        let thread = {
            let (recorder, state) = (recorder.clone(), state.clone());
            thread::Builder::new()
                .name("brokermark-acks".into())
                .spawn(move || {
                    while !state.ended.load(Ordering::Acquire) {
                        if deliveries.poll(POLL, |event| state.take(event, &recorder)) {
                            state.capacity.notify_waiters();
                        }
                    }
                })
                .map_err(|error| error.to_string())?
        };
        Ok(Connection { client, recorder, state, thread: Some(thread) })
    }

    /// The client's errors so far.
    pub fn errors(&self) -> ConnectionErrors {
        lock(&self.state.errors).clone()
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
        self.client.fatal_error().map(|(code, reason)| fatal_message(code, &reason))
    }

    /// Counts time for which a producer found the queue full.
    pub fn waited(&self, waited: Duration) {
        self.state.queue_full_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// What was seen since the last call.
    pub fn telemetry(&self) -> Telemetry {
        let queue_full_ns = self.state.queue_full_ns.swap(0, Ordering::Relaxed);
        Telemetry { queue_full_ns, ..std::mem::take(&mut *lock(&self.state.telemetry)) }
    }
}

impl State {
    fn take(&self, event: Event<'_>, recorder: &AckRecorder) {
        match event {
            Event::Delivered(reports) => {
                let mut acks = recorder.batch();
                reports.for_each(
                    acks.now_ns(),
                    recorder.needs_sequences(),
                    |send_tag, payload_bytes, error| match error {
                        None => acks.acknowledged(send_tag, payload_bytes),
                        Some(code) => acks.failed(send_tag, class_of(code), || self.explain(code)),
                    },
                );
            }
            Event::ConnectionError(Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, _) => lock(&self.errors).all_down = true,
            Event::ConnectionError(code, reason) => lock(&self.errors).last = Some((code, reason)),
            Event::Statistics(json) => {
                if let Some(latest) = statistics::parse(json) {
                    let mut telemetry = lock(&self.telemetry);
                    let queue_messages = telemetry.queue_messages.max(latest.queue_messages);
                    *telemetry = Telemetry { queue_messages, ..latest };
                }
            }
        }
    }

    /// A message's error, with the client's last error: "timed out" alone does not explain it.
    fn explain(&self, code: Code) -> String {
        match &lock(&self.errors).last {
            Some((_, last)) => format!("{} (last error of the client: {last})", name_of(code)),
            None => name_of(code),
        }
    }
}

impl Drop for Connection {
    /// Abandons messages in flight. Destroying the client, which happens with its last owner, waits for librdkafka's
    /// threads.
    fn drop(&mut self) {
        self.client.purge();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
