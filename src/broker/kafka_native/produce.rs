//! Produce requests: the batches of several partitions in one request, which refers to them where they are.
//!
//! Source: Kafka's `ProduceRequest.json`. Versions 3 to 8 are the same but for the response; later ones encode lengths in
//! another way, and name topics by their ids.

use std::io::IoSlice;
use std::sync::Arc;

use super::codec::responses::NEWEST_PRODUCED;
use super::partition::Partition;
use super::pending::Pending;

pub const KEY: i16 = 0;

/// The versions that are written here. The oldest one that takes Zstandard is 7.
pub const OLDEST: i16 = 3;
pub const NEWEST: i16 = NEWEST_PRODUCED;

/// A request that is being written or waits for its response.
pub struct ProduceRequest {
    pub correlation: i32,
    /// In the order of their partitions.
    pub batches: Vec<(Arc<Partition>, Pending)>,
    /// What comes before each batch, one after the other.
    heads: Vec<u8>,
    /// Where each head ends.
    head_ends: Vec<usize>,
    written: usize,
    length: usize,
}

/// What the requests of a connection have in common.
pub struct Envelope {
    pub version: i16,
    pub client_id: String,
    pub acks: i16,
    pub timeout_ms: i32,
}

impl ProduceRequest {
    /// With one batch of a partition at most.
    pub fn new(envelope: &Envelope, correlation: i32, mut batches: Vec<(Arc<Partition>, Pending)>) -> Self {
        batches.sort_unstable_by(|(one, _), (other, _)| one.name().cmp(&other.name()));
        let mut heads = vec![0; 4];
        heads.extend_from_slice(&KEY.to_be_bytes());
        heads.extend_from_slice(&envelope.version.to_be_bytes());
        heads.extend_from_slice(&correlation.to_be_bytes());
        put_text(&mut heads, &envelope.client_id);
        // No transaction.
        heads.extend_from_slice(&(-1_i16).to_be_bytes());
        heads.extend_from_slice(&envelope.acks.to_be_bytes());
        heads.extend_from_slice(&envelope.timeout_ms.to_be_bytes());
        let topics = batches.chunk_by(|(one, _), (other, _)| one.topic == other.topic);
        heads.extend_from_slice(&(topics.clone().count() as i32).to_be_bytes());
        let mut head_ends = Vec::with_capacity(batches.len());
        let mut bytes = 0;
        for topic in topics {
            put_text(&mut heads, &topic[0].0.topic);
            heads.extend_from_slice(&(topic.len() as i32).to_be_bytes());
            for (partition, pending) in topic {
                heads.extend_from_slice(&partition.index.to_be_bytes());
                heads.extend_from_slice(&(pending.batch.bytes.len() as i32).to_be_bytes());
                head_ends.push(heads.len());
                bytes += pending.batch.bytes.len();
            }
        }
        let length = heads.len() + bytes;
        heads[..4].copy_from_slice(&((length - 4) as u32).to_be_bytes());
        ProduceRequest { correlation, batches, heads, head_ends, written: 0, length }
    }

    /// The place of a partition's batch among the batches.
    pub fn place(&self, topic: &str, index: i32) -> Option<usize> {
        self.batches.binary_search_by(|(partition, _)| partition.name().cmp(&(topic, index))).ok()
    }

    /// What is left to write.
    pub fn unwritten(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(2 * self.batches.len());
        let (mut skip, mut begin) = (self.written, 0);
        for (end, (_, pending)) in self.head_ends.iter().zip(&self.batches) {
            for part in [&self.heads[begin..*end], &pending.batch.bytes] {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if skipped < part.len() {
                    slices.push(IoSlice::new(&part[skipped..]));
                }
            }
            begin = *end;
        }
        slices
    }

    /// Notes that the socket has accepted `bytes` more. Returns whether that was the rest.
    pub fn advance(&mut self, bytes: usize) -> bool {
        self.written += bytes;
        self.written == self.length
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
