//! Requests of a transactional producer to the node that coordinates its transactions.
//!
//! Source: Kafka's `InitProducerIdRequest.json`, `AddPartitionsToTxnRequest.json` and `EndTxnRequest.json`, and KIP-98. Which errors pass
//! by themselves: `TransactionManager.java` of Kafka's own client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, InitProducerIdRequest, TransactionalId,
};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::time::{Instant, sleep};

use super::super::error::{CallError, is_retriable};
use super::super::net::admin::name_of;
use super::super::net::cluster::Cluster;
use super::super::net::coordinator::Coordinator;
use super::partition::Partition;

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

/// The coordinator of the transactions with one id.
pub struct TransactionCoordinator {
    coordinator: Coordinator,
    id: TransactionalId,
}

impl TransactionCoordinator {
    pub fn new(cluster: Arc<Cluster>, id: &str) -> Self {
        let timeout = cluster.connector.timeout;
        let coordinator = Coordinator::of_transactions(cluster, id, timeout);
        TransactionCoordinator { coordinator, id: TransactionalId(StrBytes::from_string(id.to_owned())) }
    }

    /// The id and the epoch with which the producer writes. A transaction that is open is aborted, and another producer that writes with
    /// this transactional id is fenced.
    ///
    /// # Errors
    /// When the coordinator refuses, or is not ready within `limit`.
    pub async fn first_identity(&self, limit: Duration) -> Result<(i64, i16), CallError> {
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
            .with_transactional_id(Some(self.id.clone()))
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
    pub async fn add(&self, (producer_id, epoch): (i64, i16), partitions: &[Arc<Partition>]) -> Result<(), CallError> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, index) in partitions.iter().map(|partition| partition.name()) {
            topics.entry(topic).or_default().push(index);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default().with_name(name_of(topic)).with_partitions(partitions)
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id.clone())
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
            .with_transactional_id(self.id.clone())
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
        let deadline = Instant::now() + limit;
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
            if !may_pass || Instant::now() >= deadline {
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
