//! One producing client's transactions: a thread ends each and begins the next, because librdkafka's calls wait for the broker.
//!
//! A message that the broker has written is acknowledged once its transaction is committed, since no consumer is owed it before.
//! Until then its delivery report waits here. If the transaction is aborted, the message has failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::util::Timeout;
use tokio::sync::Notify;

use super::client::{self, failure_class};
use super::reports::{Reports, UnsettledMessages};
use crate::broker::kafka_options::TransactionOptions;
use crate::measure::FailureClass;

/// How often the thread checks whether every message has its delivery report. rdkafka's own `flush`, which `commit_transaction` calls
/// first, checks every 100 ms.
const FLUSH: Duration = Duration::from_millis(1);

/// How long closing waits for a transaction that is being ended.
const CLOSE: Duration = Duration::from_secs(5);

/// The result of handing over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// So many were handled: each is in the queue, or its failure is recorded.
    Taken(usize),
    /// The queue is full: not even the first fitted.
    QueueFull,
    /// The client refuses every message now: it handled none.
    Refused(Code),
}

/// The transactions of a client with one producer.
pub struct Transactions {
    shared: Arc<TransactionThread>,
    thread: Option<JoinHandle<()>>,
}

struct TransactionThread {
    client: Arc<BaseProducer<Reports>>,
    written: Arc<UnsettledMessages>,
    options: TransactionOptions,
    state: Mutex<OpenTransaction>,
    changed: Condvar,
    /// Wakes the producer when a transaction has begun.
    begun: Notify,
}

#[derive(Default)]
struct OpenTransaction {
    stage: Stage,
    /// Messages of the open transaction.
    messages: usize,
    /// When the open transaction is ended, if it has a message.
    due: Option<Instant>,
    /// Why no transaction can be begun any more.
    failure: Option<String>,
    /// Since when the client is being closed.
    closing: Option<Instant>,
    thread_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Open,
    /// The thread is to end it, or does so.
    Ending,
    /// It ended, and no other begins.
    Over,
}

/// How a transaction ended.
enum Ended {
    Committed(Duration),
    Aborted(FailureClass, String),
}

impl Transactions {
    /// Begins the first transaction of `client`, whose messages' delivery reports go to `written`.
    ///
    /// # Errors
    /// When it cannot begin, or the thread cannot be started.
    pub fn start(
        client: Arc<BaseProducer<Reports>>,
        written: Arc<UnsettledMessages>,
        options: TransactionOptions,
    ) -> Result<Self, String> {
        client.begin_transaction().map_err(|error| client::reason(&error))?;
        let shared = Arc::new(TransactionThread {
            client,
            written,
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
            begun: Notify::new(),
        });
        let worker = shared.clone();
        let thread = thread::Builder::new().name("brokermark-txn".into()).spawn(move || worker.run());
        Ok(Transactions { thread: Some(thread.map_err(|error| error.to_string())?), shared })
    }

    /// Resolves when a transaction has begun after this call.
    pub fn begun(&self) -> impl Future<Output = ()> {
        self.shared.begun.notified()
    }

    /// Hands over messages of the open transaction: `hand_over` is told how many it may still have. `None`: it is being ended.
    pub fn enter(&self, hand_over: impl FnOnce(usize) -> Handed) -> Option<Handed> {
        let mut state = self.shared.state.lock();
        let room = match state.stage {
            Stage::Open => self.shared.options.messages - state.messages,
            Stage::Ending => return None,
            // The client refuses them.
            Stage::Over => usize::MAX,
        };
        let handed = hand_over(room);
        match handed {
            Handed::Taken(taken) if state.stage == Stage::Open => {
                state.messages += taken;
                if state.due.is_none() {
                    state.due = Some(Instant::now() + self.shared.options.interval);
                    self.shared.changed.notify_one();
                }
                if state.messages >= self.shared.options.messages {
                    self.end(&mut state);
                }
            }
            // A message of this transaction has failed: the next one takes others.
            Handed::Refused(_) if state.stage == Stage::Open && state.messages > 0 => {
                self.end(&mut state);
                return None;
            }
            _ => {}
        }
        Some(handed)
    }

    /// Ends the open transaction, which gets no more messages.
    pub fn finish(&self) {
        let mut state = self.shared.state.lock();
        if state.stage == Stage::Open && state.messages > 0 {
            self.end(&mut state);
        }
    }

    /// Why no transaction can be begun any more, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.shared.state.lock().failure.clone()
    }

    /// From now on nothing more is committed. Clients that are closed together are told together, so that the time for that passes
    /// only once.
    pub fn begin_closing(&self) {
        self.shared.state.lock().closing.get_or_insert_with(Instant::now);
        self.shared.changed.notify_all();
    }

    fn end(&self, state: &mut OpenTransaction) {
        state.stage = Stage::Ending;
        self.shared.changed.notify_one();
    }
}

impl Drop for Transactions {
    /// Aborts the open transaction. A thread that waits for a broker which does not answer ends by itself, later.
    fn drop(&mut self) {
        self.begin_closing();
        let mut state = self.shared.state.lock();
        let deadline = state.closing.map_or_else(Instant::now, |since| since + CLOSE);
        while !state.thread_ended && !self.shared.changed.wait_until(&mut state, deadline).timed_out() {}
        let ended = state.thread_ended;
        drop(state);
        if let Some(thread) = self.thread.take().filter(|_| ended) {
            // A thread that panicked has nothing left to clean up.
            let _ = thread.join();
        }
    }
}

impl TransactionThread {
    fn run(&self) {
        let mut number = 0;
        while self.wait_until_due() {
            let ended = if self.options.aborts(number) { self.abort_on_purpose() } else { self.commit() };
            number += 1;
            self.settle(ended);
            self.begin_next();
        }
        let is_open = self.state.lock().messages > 0;
        if is_open {
            // The broker does it by itself when the transaction has been open for too long.
            let _ = self.client.abort_transaction(Timeout::Never);
        }
        self.state.lock().thread_ended = true;
        self.changed.notify_all();
    }

    /// Whether a transaction is to be ended; `false`: the client is being closed.
    fn wait_until_due(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            match (state.stage, state.due) {
                _ if state.closing.is_some() => return false,
                (Stage::Ending, _) => return true,
                (Stage::Open, Some(due)) if Instant::now() >= due => {
                    state.stage = Stage::Ending;
                    return true;
                }
                (Stage::Open, Some(due)) => {
                    self.changed.wait_until(&mut state, due);
                }
                (Stage::Open | Stage::Over, _) => self.changed.wait(&mut state),
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.state.lock().closing.is_some()
    }

    /// Waits until each message of the transaction is written or has failed. A client that is done fails them by itself.
    fn flush(&self) {
        while self.client.flush(Duration::ZERO).is_err() && !self.is_closing() {
            thread::sleep(FLUSH);
        }
    }

    /// What is to be aborted is written before, as where a producer finds out at the end that its work is void.
    fn abort_on_purpose(&self) -> Ended {
        self.flush();
        match self.patiently(|client| client.abort_transaction(Timeout::Never)) {
            Ok(()) => {
                Ended::Aborted(FailureClass::Aborted, "the scenario aborts a share of the transactions".to_owned())
            }
            Err(error) => self.fail(error),
        }
    }

    fn commit(&self) -> Ended {
        self.flush();
        let begin = Instant::now();
        match self.patiently(|client| client.commit_transaction(Timeout::Never)) {
            Ok(()) => Ended::Committed(begin.elapsed()),
            Err(error) if must_abort(&error) => match self.patiently(|client| client.abort_transaction(Timeout::Never))
            {
                Ok(()) => Ended::Aborted(failure_class(client::code(&error)), why_aborted(&error)),
                Err(error) => self.fail(error),
            },
            Err(error) => self.fail(error),
        }
    }

    /// Makes a call again for as long as that may help.
    fn patiently(&self, call: impl Fn(&BaseProducer<Reports>) -> KafkaResult<()>) -> KafkaResult<()> {
        loop {
            match call(&self.client) {
                // The same call goes on with what it has begun.
                Err(error) if may_repeat(&error) && !self.is_closing() => {}
                result => return result,
            }
        }
    }

    /// No other transaction can begin.
    fn fail(&self, error: KafkaError) -> Ended {
        let reason = || format!("a transaction could not be ended: {}", client::reason(&error));
        self.state.lock().failure.get_or_insert_with(reason);
        Ended::Aborted(failure_class(client::code(&error)), why_aborted(&error))
    }

    /// The outcome of each message that was written.
    fn settle(&self, ended: Ended) {
        let written = std::mem::take(&mut *self.written.written.lock());
        let has_lost_measured = self.written.has_lost_measured.swap(false, Ordering::Relaxed);
        let is_measured = has_lost_measured || written.iter().any(|(send_tag, _)| send_tag.measured());
        let mut acks = self.client.client().context().recorder.batch();
        let committed = match ended {
            Ended::Committed(took) => {
                written.iter().for_each(|(send_tag, bytes)| acks.acknowledged(*send_tag, *bytes));
                Some(took)
            }
            Ended::Aborted(class, reason) => {
                written.iter().for_each(|(send_tag, _)| acks.failed(*send_tag, class, || reason.clone()));
                None
            }
        };
        if is_measured {
            acks.transaction_ended(committed);
        }
    }

    fn begin_next(&self) {
        let begun = if self.state.lock().failure.is_some() { Ok(()) } else { self.client.begin_transaction() };
        let mut state = self.state.lock();
        if let Err(error) = begun {
            state.failure = Some(format!("a transaction could not be begun: {}", client::reason(&error)));
        }
        state.stage = if state.failure.is_some() { Stage::Over } else { Stage::Open };
        (state.messages, state.due) = (0, None);
        drop(state);
        self.begun.notify_waiters();
    }
}

fn must_abort(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.txn_requires_abort())
}

fn may_repeat(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.is_retriable() && !error.txn_requires_abort())
}

fn why_aborted(error: &KafkaError) -> String {
    format!("its transaction was aborted: {}", client::reason(error))
}

/// On librdkafka's mock cluster.
#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/transactions.rs"]
mod tests;
