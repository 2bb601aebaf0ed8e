//! Produce requests, and what becomes of their batches.
//!
//! The batches of several partitions go in one request, which refers to them where they are. Their messages are acknowledged, or fail, or the batch is
//! sent again.
//!
//! Source: Kafka's `ProduceRequest.json`. Versions 3 to 8 are the same but for the response, and so are 9 to 12, which are flexible
//! (KIP-482). A later one names topics by their ids.

use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::codec::responses::{FLEXIBLE_PRODUCED, NEWEST_PRODUCED};
use super::super::error::{CallError, condition, describe, failure_class, is_retriable, is_stale_metadata};
use super::accumulator::Partition;
use super::client::Client;
use super::producer_batch::{ProducerBatch, Return};
use crate::broker::{FailureClass, SubmitError, kafka_cluster};
use crate::load::PayloadPool;
use crate::measure::{AckBatch, AckRecorder};

pub const KEY: i16 = 0;

/// Most parts of a request that are written at once. Linux takes 1024 (`IOV_MAX`). A socket to a broker on the same machine accepts fewer
/// of payloads of 1 KiB and their records, so a longer list only costs time.
const MAX_SLICES: usize = 512;

/// The versions that are written here. The oldest one that takes Zstandard is 7.
pub const OLDEST: i16 = 3;
pub const NEWEST: i16 = NEWEST_PRODUCED;

/// The newest version of transactions whose partitions are named before: with version 12, the broker adds them (KIP-890).
pub const NEWEST_IN_TRANSACTION: i16 = 11;

/// A request that is being written or waits for its response.
pub struct ProduceRequest {
    pub correlation: i32,
    /// Batches in the order of their partitions.
    pub batches: Vec<(Arc<Partition>, ProducerBatch)>,
    /// Bytes that come before each batch, one after the other, and those that come after the last one.
    heads: Vec<u8>,
    /// End of each head.
    head_ends: Vec<usize>,
    next: Cursor,
    written: usize,
    length: usize,
}

/// Where a request is being written. Its parts are, for each batch, what comes before it and its pieces, and at the end what comes after
/// the last batch.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    batch: usize,
    part: usize,
    /// Bytes of the part that are written.
    skip: usize,
}

/// What the requests of a connection have in common.
pub struct Envelope {
    pub version: i16,
    pub client_id: String,
    pub transactional_id: Option<String>,
    pub acks: i16,
    pub timeout_ms: i32,
}

impl ProduceRequest {
    /// A request with these batches, at most one of each partition.
    pub fn new(envelope: &Envelope, correlation: i32, mut batches: Vec<(Arc<Partition>, ProducerBatch)>) -> Self {
        batches.sort_unstable_by(|(one, _), (other, _)| one.name().cmp(&other.name()));
        let is_flexible = envelope.is_flexible();
        let mut heads = Vec::new();
        envelope.begin(correlation, &mut heads);
        let topics = batches.chunk_by(|(one, _), (other, _)| one.topic == other.topic);
        put_count(&mut heads, topics.clone().count(), is_flexible);
        let mut head_ends = Vec::with_capacity(batches.len());
        let mut bytes = 0;
        for topic in topics {
            put_text(&mut heads, Some(&topic[0].0.topic), is_flexible);
            put_count(&mut heads, topic.len(), is_flexible);
            for (partition, batch) in topic {
                heads.extend_from_slice(&partition.index.to_be_bytes());
                put_count(&mut heads, batch.encoded.len(), is_flexible);
                head_ends.push(heads.len());
                bytes += batch.encoded.len();
                end(&mut heads, is_flexible);
            }
            end(&mut heads, is_flexible);
        }
        end(&mut heads, is_flexible);
        let length = heads.len() + bytes;
        heads[..4].copy_from_slice(&((length - 4) as u32).to_be_bytes());
        ProduceRequest { correlation, batches, heads, head_ends, next: Cursor::default(), written: 0, length }
    }

    /// The place of a partition's batch among the batches.
    pub fn place(&self, topic: &str, index: i32) -> Option<usize> {
        self.batches.binary_search_by(|(partition, _)| partition.name().cmp(&(topic, index))).ok()
    }

    /// What is left to write, or the first of it. `payloads`: those of the trial.
    pub fn unwritten<'a>(&'a self, payloads: &'a PayloadPool) -> Vec<IoSlice<'a>> {
        let parts: usize = self.batches[self.next.batch.min(self.batches.len())..]
            .iter()
            .map(|(_, batch)| batch.encoded.pieces() + 1)
            .sum();
        let mut slices = Vec::with_capacity((parts + 1).min(MAX_SLICES));
        let mut next = self.next;
        while next.batch <= self.batches.len() && slices.len() < MAX_SLICES {
            let part = &self.part(next, payloads)[next.skip..];
            if !part.is_empty() {
                slices.push(IoSlice::new(part));
            }
            next = self.after(next);
        }
        slices
    }

    /// Notes that the socket has accepted `bytes` more. Returns whether that was the rest.
    pub fn advance(&mut self, mut bytes: usize, payloads: &PayloadPool) -> bool {
        self.written += bytes;
        while bytes > 0 {
            let left = self.part(self.next, payloads).len() - self.next.skip;
            if bytes < left {
                self.next.skip += bytes;
                break;
            }
            bytes -= left;
            self.next = self.after(self.next);
        }
        self.written == self.length
    }

    fn part<'a>(&'a self, cursor: Cursor, payloads: &'a PayloadPool) -> &'a [u8] {
        match cursor.part.checked_sub(1) {
            Some(piece) => self.batches[cursor.batch].1.encoded.piece(piece, payloads),
            None => {
                let begin = cursor.batch.checked_sub(1).map_or(0, |before| self.head_ends[before]);
                let end = self.head_ends.get(cursor.batch).copied().unwrap_or(self.heads.len());
                &self.heads[begin..end]
            }
        }
    }

    /// The beginning of the next part.
    fn after(&self, Cursor { batch, part, .. }: Cursor) -> Cursor {
        let pieces = self.batches.get(batch).map_or(0, |(_, batch)| batch.encoded.pieces());
        if part < pieces {
            Cursor { batch, part: part + 1, skip: 0 }
        } else {
            Cursor { batch: batch + 1, part: 0, skip: 0 }
        }
    }
}

impl Envelope {
    pub fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_PRODUCED
    }

    /// What a request has before its topics, with room for its length.
    fn begin(&self, correlation: i32, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&KEY.to_be_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&correlation.to_be_bytes());
        // The header's text is as it was in every version.
        put_text(out, Some(&self.client_id), false);
        end(out, self.is_flexible());
        put_text(out, self.transactional_id.as_deref(), self.is_flexible());
        out.extend_from_slice(&self.acks.to_be_bytes());
        out.extend_from_slice(&self.timeout_ms.to_be_bytes());
    }
}

fn put_text(out: &mut Vec<u8>, text: Option<&str>, is_flexible: bool) {
    match text {
        None if is_flexible => out.push(0),
        None => out.extend_from_slice(&(-1_i16).to_be_bytes()),
        Some(text) if is_flexible => put_count(out, text.len(), true),
        Some(text) => out.extend_from_slice(&(text.len() as i16).to_be_bytes()),
    }
    out.extend_from_slice(text.unwrap_or_default().as_bytes());
}

/// The length of a list, a text or records.
fn put_count(out: &mut Vec<u8>, count: usize, is_flexible: bool) {
    if is_flexible {
        append_unsigned(count as u32 + 1, out);
    } else {
        out.extend_from_slice(&(count as i32).to_be_bytes());
    }
}

/// Appends a number of the protocol's flexible versions (KIP-482), which is not zigzag-encoded.
fn append_unsigned(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The end of an element: in flexible versions, the number of fields that are optional.
fn end(out: &mut Vec<u8>, is_flexible: bool) {
    if is_flexible {
        out.push(0);
    }
}

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
    pub message: Option<Cow<'static, str>>,
}

impl Answer {
    /// The answer to a batch that the broker acknowledges no further.
    pub const WRITTEN: Answer = Answer { code: 0, message: None };
    /// Taken as `NETWORK_EXCEPTION`: the batch is sent again.
    pub const MISSING: Answer =
        Answer { code: 13, message: Some(Cow::Borrowed("the broker's response does not name the partition")) };
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
            settle(client, &partition, false);
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
        let words = describe(*code, message.as_deref());
        partition.hold_up(&client.connector.conditions, kind, &words);
        client.note_refusal(words);
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
    let back = match (is_forgotten, is_behind) {
        (true, _) => Return::Forgotten,
        (_, true) => Return::Absent,
        // Also where another node leads now: the former leader may have written it, and the new one may have read it there.
        _ => Return::InDoubt,
    };
    let is_old = batch.created.elapsed() >= client.limits.delivery_timeout;
    if (is_retriable(*code) || back != Return::InDoubt) && !is_old {
        client.traffic.retried();
        if partition.give_back(batch, Instant::now() + RETRY_BACKOFF, back) {
            client.renew(partition);
        }
        return;
    }
    let class = failure_class(*code);
    let words = describe(*code, message.as_deref());
    let message = if class == FailureClass::TooLarge { kafka_cluster::too_large(&words) } else { words };
    fail(client, acks, batch, &SubmitError { class, message });
    settle(client, partition, true);
}

fn settle(client: &Client, partition: &Arc<Partition>, is_gap: bool) {
    if partition.settle(is_gap) {
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
        if partition.give_back(batch, Instant::now() + RETRY_BACKOFF, Return::InDoubt) {
            client.renew(partition);
        }
        client.notify_capacity();
        return;
    }
    let class = match error {
        CallError::Timeout(_) => FailureClass::Timeout,
        _ => FailureClass::ConnectionLost,
    };
    fail(client, &mut recorder.batch(), batch, &SubmitError { class, message: error.to_string() });
    settle(client, partition, true);
    client.notify_capacity();
}

/// Fails batches that have waited for too long to be sent.
pub fn expired(client: &Client, recorder: &AckRecorder, batches: Vec<ProducerBatch>) {
    if batches.is_empty() {
        return;
    }
    let last = client.last_error().map(|last| format!(" (last error: {last})")).unwrap_or_default();
    let message = format!("not acknowledged within {:?}{last}", client.limits.delivery_timeout);
    let failure = SubmitError { class: FailureClass::Timeout, message };
    let mut acks = recorder.batch();
    for batch in batches {
        fail(client, &mut acks, batch, &failure);
    }
    drop(acks);
    client.notify_capacity();
}

fn fail(client: &Client, acks: &mut AckBatch<'_>, batch: ProducerBatch, failure: &SubmitError) {
    if let Some(transactions) = client.transactions() {
        transactions.lose(&batch.sent, failure);
    }
    for send_tag in batch.sent.send_tags() {
        acks.failed(send_tag, failure.class, || failure.message.clone());
    }
    client.release(batch);
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/produce/request.rs"]
mod tests;
