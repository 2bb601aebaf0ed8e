//! The transactions of a client with one producer: which messages the open one has, when it ends, and the requests to the node that
//! coordinates them. A task ends them (`maintenance`).
//!
//! A message that the broker has written is acknowledged once its transaction is committed, since no consumer is owed it before.
//! Until then it waits here. If the transaction is aborted, the message has failed.
//!
//! Source: Kafka's `InitProducerIdRequest.json`, `AddPartitionsToTxnRequest.json` and `EndTxnRequest.json`, and KIP-98. Which errors pass
//! by themselves: `TransactionManager.java` of Kafka's own client.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, InitProducerIdRequest, TransactionalId,
};
use kafka_protocol::protocol::{Request, StrBytes};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::super::error::{CallError, is_retriable};
use super::super::net::cluster::{Cluster, Coordinator, name_of};
use super::accumulator::Partition;
use crate::broker::kafka_options::TransactionOptions;
use crate::broker::{FailureClass, SubmitError};
use crate::measure::SendRuns;

/// How long closing waits for the open transaction's abort.
const CLOSE: Duration = Duration::from_secs(5);

/// The transactions of a client.
pub struct Transactions {
    pub id: String,
    pub options: TransactionOptions,
    coordinator: Coordinator,
    state: Mutex<TransactionState>,
    /// Messages that the broker has written and whose transaction has not ended.
    pub written: Mutex<SendRuns>,
    /// Partitions that the open transaction has messages of, and that the coordinator does not know of yet.
    pub new_partitions: Mutex<Vec<Arc<Partition>>>,
    /// Signal for the task.
    changed: Notify,
    /// Signal for the producer: a transaction has begun.
    begun: Notify,
    /// The task that ends transactions, which ends with the client.
    pub task: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct TransactionState {
    stage: Stage,
    /// Messages of the open transaction.
    messages: usize,
    /// End of the open transaction, if it has a message.
    due: Option<Instant>,
    /// Reason to abort the open transaction.
    failure: Option<SubmitError>,
    /// Whether measured messages of the open transaction have failed, which [`Transactions::written`] does not have.
    has_lost_measured: bool,
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
        let transactions = Transactions {
            id: id.to_owned(),
            options,
            coordinator: Coordinator::for_transactions(cluster, id, limit),
            state: Mutex::default(),
            written: Mutex::default(),
            new_partitions: Mutex::default(),
            changed: Notify::new(),
            begun: Notify::new(),
            task: OnceLock::new(),
        };
        // In half of the time, so that a refusal that does not pass is told and not the time that it took.
        let identity = timeout(limit, transactions.first_identity(limit / 2)).await;
        let identity = identity.unwrap_or(Err(CallError::Timeout(limit)))?;
        Ok((transactions, identity))
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

    /// The messages of a batch are written, or abandoned with their transaction.
    pub fn keep(&self, messages: &SendRuns) {
        self.written.lock().append(messages);
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

    /// Messages of the open transaction have failed, for this reason.
    pub fn lose(&self, messages: &SendRuns, failure: &SubmitError) {
        let is_measured = messages.runs().iter().any(|run| run.first.measured());
        self.state.lock().has_lost_measured |= is_measured;
        self.fail(failure.class, failure.message.clone());
    }

    /// Whether measured messages of the open transaction have failed.
    pub fn has_lost_measured(&self) -> bool {
        self.state.lock().has_lost_measured
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
        *self.state.lock() = TransactionState { stage, ..TransactionState::default() };
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
            let _ = timeout(CLOSE, self.end(identity, false)).await;
        }
    }
}

/// The newest versions of requests that are used here. Later ones of `AddPartitionsToTxn` are for brokers, and later ones of `EndTxn`
/// are of transactions that name no partitions before (KIP-890).
const INIT_PRODUCER_ID: i16 = 5;
const ADD_PARTITIONS: i16 = 3;
const END: i16 = 4;

/// The coordinator aborts a transaction that is open for longer: `transaction.timeout.ms` of both librdkafka and Kafka's own client.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Before a request is sent again: the coordinator is still ending the transaction before (`ADD_PARTITIONS_RETRY_BACKOFF_MS`).
const RETRY_BACKOFF: Duration = Duration::from_millis(20);

/// `INVALID_TXN_STATE`: as when a transaction that never began is to be ended.
pub const INVALID_STATE: i16 = 48;
/// `TRANSACTION_ABORTABLE` (KIP-890): the transaction cannot be committed.
pub const TRANSACTION_ABORTABLE: i16 = 120;
/// `CONCURRENT_TRANSACTIONS`: the transaction before is still being ended.
const CONCURRENT_TRANSACTIONS: i16 = 51;
/// `UNKNOWN_SERVER_ERROR`: Kafka 4.1 answers so while another producer takes the place of this one ("Preparing transaction state
/// transition … while it already a pending state PREPARE_EPOCH_FENCE"). The next answer says that the producer is fenced.
const UNKNOWN_SERVER_ERROR: i16 = -1;
/// `OPERATION_NOT_ATTEMPTED`: of a partition beside one that was refused.
const NOT_ATTEMPTED: i16 = 55;

/// Requests to the coordinator.
impl Transactions {
    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(StrBytes::from_string(self.id.clone()))
    }

    /// The id and the epoch with which the producer writes. A transaction that is open is aborted, and another producer that writes with
    /// this transactional id is fenced.
    ///
    /// # Errors
    /// When the coordinator refuses, or is not ready within `limit`.
    async fn first_identity(&self, limit: Duration) -> Result<(i64, i16), CallError> {
        let refused = |error| match error {
            CallError::Refused(code, None) => {
                CallError::Refused(code, Some("no producer id for transactions was given".to_owned()))
            }
            other => other,
        };
        self.identity_after((-1, -1), limit).await.map_err(refused)
    }

    /// Those with which the producer writes from now on, and `former` no more. A transaction that is open is aborted.
    ///
    /// # Errors
    /// When the coordinator refuses, or does not answer in time.
    pub async fn next_identity(&self, former: (i64, i16)) -> Result<(i64, i16), CallError> {
        match self.identity_after(former, TRANSACTION_TIMEOUT).await {
            // Before Kafka 2.5, a producer could not name its former epoch (KIP-360).
            Err(CallError::Unsupported(_)) => self.identity_after((-1, -1), TRANSACTION_TIMEOUT).await,
            answer => answer,
        }
    }

    async fn identity_after(&self, (producer_id, epoch): (i64, i16), limit: Duration) -> Result<(i64, i16), CallError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_transaction_timeout_ms(TRANSACTION_TIMEOUT.as_millis() as i32)
            .with_producer_id(producer_id.into())
            .with_producer_epoch(epoch);
        let response = self.call(&request, INIT_PRODUCER_ID, limit, |response| response.error_code).await?;
        Ok((response.producer_id.0, response.producer_epoch))
    }

    /// Adds partitions to the open transaction, which begins with the first one.
    ///
    /// # Errors
    /// When the coordinator refuses one, or does not answer in time.
    pub async fn add_partitions(
        &self,
        (producer_id, epoch): (i64, i16),
        partitions: &[Arc<Partition>],
    ) -> Result<(), CallError> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, index) in partitions.iter().map(|partition| partition.name()) {
            topics.entry(topic).or_default().push(index);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default().with_name(name_of(topic)).with_partitions(partitions)
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(producer_id.into())
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(topics.collect());
        self.call(&request, ADD_PARTITIONS, TRANSACTION_TIMEOUT, first_error).await.map(drop)
    }

    /// Commits or aborts the open transaction. The same request again goes on with what it has begun.
    ///
    /// # Errors
    /// When the coordinator refuses, or does not answer in time: whether the transaction is ended is not known then.
    pub async fn end(&self, (producer_id, epoch): (i64, i16), is_committed: bool) -> Result<(), CallError> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(producer_id.into())
            .with_producer_epoch(epoch)
            .with_committed(is_committed);
        self.call(&request, END, TRANSACTION_TIMEOUT, |response| response.error_code).await.map(drop)
    }

    /// Sends a request until its answer is final, for `limit` at most.
    async fn call<R: Request>(
        &self,
        request: &R,
        newest: i16,
        limit: Duration,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, CallError> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let failed = match self.coordinator.call(request, newest, &code).await {
                Ok(response) => match code(&response) {
                    0 => return Ok(response),
                    code => CallError::Refused(code, None),
                },
                Err(error) => error,
            };
            let may_pass = match &failed {
                CallError::Refused(code, _) => {
                    is_retriable(*code) || matches!(*code, CONCURRENT_TRANSACTIONS | UNKNOWN_SERVER_ERROR)
                }
                CallError::Lost(_) | CallError::Timeout(_) => true,
                _ => false,
            };
            if !may_pass || tokio::time::Instant::now() >= deadline {
                return Err(failed);
            }
            sleep(RETRY_BACKOFF).await;
        }
    }
}

/// Of the partitions that were to be added, the code of the first one that was refused.
fn first_error(response: &AddPartitionsToTxnResponse) -> i16 {
    let topics = response.results_by_topic_v3_and_below.iter();
    let codes = topics.flat_map(|topic| &topic.results_by_partition).map(|partition| partition.partition_error_code);
    codes.filter(|code| *code != 0).min_by_key(|code| *code == NOT_ATTEMPTED).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
    };

    use super::*;

    #[test]
    fn what_was_not_attempted_hides_no_other_reason() {
        let first = |codes: &[i16]| {
            let result = |code: &i16| AddPartitionsToTxnPartitionResult::default().with_partition_error_code(*code);
            let results = codes.iter().map(result).collect();
            let topic = AddPartitionsToTxnTopicResult::default().with_results_by_partition(results);
            first_error(&AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic]))
        };
        assert_eq!(first(&[0, 0]), 0);
        assert_eq!(first(&[0, NOT_ATTEMPTED, 29]), 29);
        assert_eq!(first(&[NOT_ATTEMPTED]), NOT_ATTEMPTED);
    }
}
