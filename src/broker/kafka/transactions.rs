//! One producing client's transactions: a thread ends each and begins the next, because librdkafka's calls wait for the broker.
//!
//! A message that the broker has written is acknowledged once its transaction is committed, since no consumer is owed it before.
//! Until then its delivery report waits here. If the transaction is aborted, the message has failed.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::native::{Client, Handed, Remedy, TransactionError, class_of};
use crate::broker::kafka_options::TransactionOptions;
use crate::measure::{AckRecorder, FailureClass, SendTag};

/// How long the thread waits for delivery reports before it checks whether to end.
const FLUSH: Duration = Duration::from_millis(500);

/// How long closing waits for a transaction that is being ended.
const CLOSE: Duration = Duration::from_secs(5);

/// Messages that the broker has written and whose transaction has not ended, each with its payload's size.
#[derive(Default)]
pub struct Written(pub Mutex<Vec<(SendTag, usize)>>);

/// The transactions of a client with one producer.
pub struct Transactions {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    client: Arc<Client>,
    recorder: Arc<AckRecorder>,
    written: Arc<Written>,
    options: TransactionOptions,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the producer when a transaction has begun.
    begun: Notify,
}

#[derive(Default)]
struct State {
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
        client: Arc<Client>,
        recorder: Arc<AckRecorder>,
        written: Arc<Written>,
        options: TransactionOptions,
    ) -> Result<Self, String> {
        client.begin_transaction().map_err(|error| error.reason)?;
        let shared = Arc::new(Shared {
            client,
            recorder,
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

    fn end(&self, state: &mut State) {
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

impl Shared {
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
            let _ = self.client.abort_transaction();
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
        while !self.client.flush(FLUSH) && !self.is_closing() {}
    }

    /// What is to be aborted is written before, as where a producer finds out at the end that its work is void.
    fn abort_on_purpose(&self) -> Ended {
        self.flush();
        match self.patiently(Client::abort_transaction) {
            Ok(()) => {
                Ended::Aborted(FailureClass::Aborted, "the scenario aborts a share of the transactions".to_owned())
            }
            Err(error) => self.fail(error),
        }
    }

    fn commit(&self) -> Ended {
        self.flush();
        let begin = Instant::now();
        match self.patiently(Client::commit_transaction) {
            Ok(()) => Ended::Committed(begin.elapsed()),
            Err(error) if error.remedy == Remedy::Abort => match self.patiently(Client::abort_transaction) {
                Ok(()) => Ended::Aborted(class_of(error.code), why_aborted(&error)),
                Err(error) => self.fail(error),
            },
            Err(error) => self.fail(error),
        }
    }

    /// Makes a call again for as long as that may help.
    fn patiently(&self, call: impl Fn(&Client) -> Result<(), TransactionError>) -> Result<(), TransactionError> {
        loop {
            match call(&self.client) {
                Err(error) if error.remedy == Remedy::Again && !self.is_closing() => {}
                result => return result,
            }
        }
    }

    /// No other transaction can begin.
    fn fail(&self, error: TransactionError) -> Ended {
        self.state.lock().failure.get_or_insert_with(|| format!("a transaction could not be ended: {}", error.reason));
        Ended::Aborted(class_of(error.code), why_aborted(&error))
    }

    /// The outcome of each message that was written.
    fn settle(&self, ended: Ended) {
        let written = std::mem::take(&mut *self.written.0.lock());
        let is_measured = written.iter().any(|(send_tag, _)| send_tag.measured());
        let mut acks = self.recorder.batch();
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
        let begun = match self.state.lock().failure.is_some() {
            true => Ok(()),
            false => self.client.begin_transaction(),
        };
        let mut state = self.state.lock();
        if let Err(error) = begun {
            state.failure = Some(format!("a transaction could not be begun: {}", error.reason));
        }
        state.stage = if state.failure.is_some() { Stage::Over } else { Stage::Open };
        (state.messages, state.due) = (0, None);
        drop(state);
        self.begun.notify_waiters();
    }
}

fn why_aborted(error: &TransactionError) -> String {
    format!("its transaction was aborted: {}", error.reason)
}

#[cfg(test)]
mod tests;
