//! What becomes of a batch: its messages are acknowledged, or fail, or it is sent again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::error::{CallError, condition, describe, failure_class, is_retriable, is_stale_metadata};
use super::accumulator::Partition;
use super::client::Client;
use super::producer_batch::ProducerBatch;
use crate::broker::FailureClass;
use crate::measure::{AckBatch, AckRecorder};

/// Before a batch is sent again: `retry.backoff.ms` of both librdkafka and Kafka's own client.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// Error codes with a meaning of their own for a batch.
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;
const INVALID_PRODUCER_EPOCH: i16 = 47;
/// The leader has nothing of the producer any more: all of it is older than the topic's retention (KIP-360).
const UNKNOWN_PRODUCER_ID: i16 = 59;
const PRODUCER_FENCED: i16 = 90;

/// The broker's answer to a batch.
pub struct Answer {
    pub code: i16,
    pub message: Option<String>,
}

impl Answer {
    /// The answer to a batch that the broker acknowledges no further.
    pub const WRITTEN: Answer = Answer { code: 0, message: None };
    /// The response does not name the partition: as a network error.
    pub const MISSING: Answer = Answer { code: 13, message: None };
}

/// Why a batch fails.
struct Failure {
    class: FailureClass,
    reason: String,
}

/// Records the outcomes of batches whose answers came together.
pub fn record(
    client: &Arc<Client>,
    recorder: &AckRecorder,
    answers: impl Iterator<Item = (Arc<Partition>, ProducerBatch, Answer)>,
) {
    let mut acks = recorder.batch();
    for (partition, batch, answer) in answers {
        let is_written = matches!(answer.code, 0 | DUPLICATE_SEQUENCE_NUMBER);
        if is_written {
            match client.transactions() {
                Some(transactions) => transactions.keep(&batch.sent),
                None => {
                    acks.to_partition(partition.counted_in(recorder));
                    batch.sent.runs().iter().for_each(|run| acks.acknowledged_run(run))
                }
            }
            partition.held_up().inspect(|held_up| held_up.end());
            client.traffic.taken(&batch);
            client.release(batch);
            if partition.settle(false) {
                client.renew(&partition);
            }
        } else {
            refused(client, &mut acks, &partition, batch, &answer);
        }
    }
    drop(acks);
    client.notify_capacity();
}

fn refused(
    client: &Arc<Client>,
    acks: &mut AckBatch<'_>,
    partition: &Arc<Partition>,
    batch: ProducerBatch,
    answer: &Answer,
) {
    let Answer { code, message } = answer;
    if let Some(kind) = condition(*code) {
        partition.hold_up(&client.connector.conditions, kind, &describe(*code, message.as_deref()));
    }
    if is_stale_metadata(*code) {
        client.refresh();
    }
    if matches!(*code, INVALID_PRODUCER_EPOCH | PRODUCER_FENCED) {
        let reason = describe(*code, message.as_deref());
        client.end(
            failure_class(*code),
            match client.transactions() {
                Some(transactions) => format!(
                    "transactional id '{}' was fenced by another producer, or its transaction timed out: {reason}",
                    transactions.id
                ),
                None => reason,
            },
        );
    }
    // An earlier batch is missing, which is on its way again.
    let is_behind = *code == OUT_OF_ORDER_SEQUENCE_NUMBER && partition.is_behind(batch.number);
    // In a transaction, what was written before is missing.
    let is_forgotten = *code == UNKNOWN_PRODUCER_ID && client.transactions().is_none() && batch.author.is_some();
    let is_old = batch.created.elapsed() >= client.limits.delivery_timeout;
    if (is_retriable(*code) || is_behind || is_forgotten) && !is_old {
        client.traffic.retried();
        let not_before = Instant::now() + RETRY_BACKOFF;
        let needs_identity =
            if is_forgotten { partition.begin_anew(batch, not_before) } else { partition.give_back(batch, not_before) };
        if needs_identity {
            client.renew(partition);
        }
        return;
    }
    let failure = Failure { class: failure_class(*code), reason: describe(*code, message.as_deref()) };
    fail(client, acks, &batch, &failure);
    client.release(batch);
    if partition.settle(true) {
        client.renew(partition);
    }
}

/// The connection was lost before the answer came.
pub fn lost(
    client: &Arc<Client>,
    recorder: &AckRecorder,
    partition: &Arc<Partition>,
    batch: ProducerBatch,
    error: &CallError,
) {
    if batch.created.elapsed() < client.limits.delivery_timeout {
        client.traffic.retried();
        if partition.give_back(batch, Instant::now() + RETRY_BACKOFF) {
            client.renew(partition);
        }
        client.notify_capacity();
        return;
    }
    let class = match error {
        CallError::Timeout(_) => FailureClass::Timeout,
        _ => FailureClass::ConnectionLost,
    };
    fail(client, &mut recorder.batch(), &batch, &Failure { class, reason: error.to_string() });
    client.release(batch);
    if partition.settle(true) {
        client.renew(partition);
    }
    client.notify_capacity();
}

/// Fails what has waited for too long to be sent.
pub fn expired(client: &Client, recorder: &AckRecorder, batches: Vec<ProducerBatch>) {
    if batches.is_empty() {
        return;
    }
    let last = client.last_error().map(|last| format!(" (last error: {last})")).unwrap_or_default();
    let reason = format!("not acknowledged within {:?}{last}", client.limits.delivery_timeout);
    let failure = Failure { class: FailureClass::Timeout, reason };
    let mut acks = recorder.batch();
    for batch in batches {
        fail(client, &mut acks, &batch, &failure);
        client.release(batch);
    }
    drop(acks);
    client.notify_capacity();
}

fn fail(client: &Client, acks: &mut AckBatch<'_>, batch: &ProducerBatch, failure: &Failure) {
    if let Some(transactions) = client.transactions() {
        transactions.fail(failure.class, failure.reason.clone());
    }
    for send_tag in batch.sent.send_tags() {
        acks.failed(send_tag, failure.class, || failure.reason.clone());
    }
}
