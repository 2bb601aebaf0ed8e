//! The transactions of a client with one producer: which messages the open one has, and when it ends. A task ends it.
//!
//! A message that the broker has written is acknowledged once its transaction is committed, since no consumer is owed it before.
//! Until then it waits here. If the transaction is aborted, the message has failed.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::error::CallError;
use super::super::net::cluster::Cluster;
use super::partition::Partition;
use super::transaction_coordinator::TransactionCoordinator;
use crate::broker::kafka_transactions::TransactionOptions;
use crate::broker::{FailureClass, SubmitError};
use crate::measure::SendRuns;

/// How long closing waits for the open transaction's abort.
const CLOSE: Duration = Duration::from_secs(5);

/// The transactions of a client.
pub struct Transactions {
    pub id: String,
    pub options: TransactionOptions,
    pub coordinator: TransactionCoordinator,
    state: Mutex<State>,
    /// Messages that the broker has written and whose transaction has not ended.
    written: Mutex<SendRuns>,
    /// Partitions that the open transaction has messages of, and that the coordinator does not know of yet.
    new_partitions: Mutex<Vec<Arc<Partition>>>,
    /// Wakes the task.
    changed: Notify,
    /// Wakes the producer when a transaction has begun.
    begun: Notify,
    task: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// Messages of the open transaction.
    messages: usize,
    /// When the open transaction is ended, if it has a message.
    due: Option<Instant>,
    /// Why the open transaction has to be aborted.
    failure: Option<SubmitError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Open,
    /// The task is to end it, or does so.
    Ending,
    /// It ended, and no other begins.
    Over,
}

/// When the task is to end the open transaction.
pub enum Due {
    Now,
    At(Instant),
    /// It has no message, or none can be begun any more.
    Unknown,
}

impl Transactions {
    /// The transactions with an id, and what the producer's batches are to be written with. It ends what an earlier producer with
    /// this id has left open.
    ///
    /// # Errors
    /// When the coordinator refuses the id, or does not answer in time.
    pub async fn begin(
        cluster: Arc<Cluster>,
        id: &str,
        options: TransactionOptions,
    ) -> Result<(Self, (i64, i16)), CallError> {
        let limit = cluster.connector.timeout;
        let coordinator = TransactionCoordinator::new(cluster, id);
        // In half of the time, so that a refusal that does not pass is told and not the time that it took.
        let identity = timeout(limit, coordinator.first_identity(limit / 2)).await;
        let identity = identity.unwrap_or(Err(CallError::Timeout(limit)))?;
        let transactions = Transactions {
            id: id.to_owned(),
            options,
            coordinator,
            state: Mutex::default(),
            written: Mutex::default(),
            new_partitions: Mutex::default(),
            changed: Notify::new(),
            begun: Notify::new(),
            task: OnceLock::new(),
        };
        Ok((transactions, identity))
    }

    /// The task that ends transactions, which ends with the client.
    pub fn ended_by(&self, task: AbortHandle) {
        self.task.get_or_init(|| task);
    }

    /// Resolves when a transaction has begun after this call.
    pub fn begun(&self) -> impl Future<Output = ()> {
        self.begun.notified()
    }

    /// Hands over as many of `offered` messages as the open transaction may still have, and returns how many. `None`: it is being
    /// ended.
    pub fn enter(&self, offered: usize, hand_over: impl FnOnce(usize)) -> Option<usize> {
        let mut state = self.state.lock();
        if state.stage != Stage::Open {
            return None;
        }
        let taken = offered.min(self.options.messages - state.messages);
        if taken == 0 {
            return Some(0);
        }
        hand_over(taken);
        state.messages += taken;
        let is_first = state.due.is_none();
        if is_first {
            state.due = Some(Instant::now() + self.options.interval);
        }
        let is_full = state.messages >= self.options.messages;
        if is_full {
            state.stage = Stage::Ending;
        }
        drop(state);
        if is_first || is_full {
            self.changed.notify_one();
        }
        Some(taken)
    }

    /// A partition has its first message of the open transaction.
    pub fn add(&self, partition: Arc<Partition>) {
        self.new_partitions.lock().push(partition);
        self.changed.notify_one();
    }

    pub fn take_new_partitions(&self) -> Vec<Arc<Partition>> {
        std::mem::take(&mut *self.new_partitions.lock())
    }

    /// The messages of a batch are written, or abandoned with their transaction.
    pub fn keep(&self, messages: &SendRuns) {
        self.written.lock().append(messages);
    }

    pub fn take_written(&self) -> SendRuns {
        std::mem::take(&mut *self.written.lock())
    }

    /// The open transaction, which gets no more messages, is ended.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        if state.stage == Stage::Open && state.messages > 0 {
            state.stage = Stage::Ending;
            self.changed.notify_one();
        }
    }

    /// The open transaction has to be aborted: one of its messages has failed, or the client is done.
    pub fn fail(&self, class: FailureClass, message: String) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(SubmitError { class, message });
        if state.stage == Stage::Open {
            state.stage = Stage::Ending;
        }
        self.changed.notify_one();
    }

    /// Why the open transaction has to be aborted, if that is so.
    pub fn failure(&self) -> Option<SubmitError> {
        self.state.lock().failure.clone()
    }

    /// Resolves when the task has something to do.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// When the open transaction is to be ended. From the moment when it is, it gets no more messages.
    pub fn due(&self) -> Due {
        let mut state = self.state.lock();
        match (state.stage, state.due) {
            (Stage::Ending, _) => Due::Now,
            (Stage::Open, Some(due)) if due <= Instant::now() => {
                state.stage = Stage::Ending;
                Due::Now
            }
            (Stage::Open, Some(due)) => Due::At(due),
            (Stage::Open | Stage::Over, _) => Due::Unknown,
        }
    }

    /// The next transaction is open. With `is_over`, no transaction follows.
    pub fn begin_next(&self, is_over: bool) {
        let stage = if is_over { Stage::Over } else { Stage::Open };
        *self.state.lock() = State { stage, ..State::default() };
        self.begun.notify_waiters();
    }

    /// Ends the task.
    pub fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Ends the task, and aborts the transaction that is open. What the coordinator does not hear of, it aborts by itself, later.
    pub async fn abort(&self, identity: Option<(i64, i16)>) {
        self.close();
        let is_open = self.state.lock().messages > 0;
        if let Some(identity) = identity.filter(|_| is_open) {
            // The coordinator may have aborted it already.
            let _ = timeout(CLOSE, self.coordinator.end(identity, false)).await;
        }
    }
}
