//! Produce requests: the batches of several partitions in one request, which refers to them where they are.
//!
//! Source: Kafka's `ProduceRequest.json`. Versions 3 to 8 are the same but for the response, and so are 9 to 12, which are flexible
//! (KIP-482). A later one names topics by their ids.

use std::io::IoSlice;
use std::sync::Arc;

use super::codec::responses::{FLEXIBLE_PRODUCED, NEWEST_PRODUCED};
use super::codec::varint;
use super::partition::Partition;
use super::pending::Pending;

pub const KEY: i16 = 0;

/// The versions that are written here. The oldest one that takes Zstandard is 7.
pub const OLDEST: i16 = 3;
pub const NEWEST: i16 = NEWEST_PRODUCED;

/// The newest version of transactions whose partitions are named before: with version 12, the broker adds them (KIP-890).
pub const NEWEST_IN_TRANSACTION: i16 = 11;

/// A request that is being written or waits for its response.
pub struct ProduceRequest {
    pub correlation: i32,
    /// In the order of their partitions.
    pub batches: Vec<(Arc<Partition>, Pending)>,
    /// What comes before each batch, one after the other, and what comes after the last one.
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
    pub transactional_id: Option<String>,
    pub acks: i16,
    pub timeout_ms: i32,
}

impl ProduceRequest {
    /// With one batch of a partition at most.
    pub fn new(envelope: &Envelope, correlation: i32, mut batches: Vec<(Arc<Partition>, Pending)>) -> Self {
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
            for (partition, pending) in topic {
                heads.extend_from_slice(&partition.index.to_be_bytes());
                put_count(&mut heads, pending.batch.bytes().len(), is_flexible);
                head_ends.push(heads.len());
                bytes += pending.batch.bytes().len();
                end(&mut heads, is_flexible);
            }
            end(&mut heads, is_flexible);
        }
        end(&mut heads, is_flexible);
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
        let mut slices = Vec::with_capacity(2 * self.batches.len() + 1);
        let (mut skip, mut begin) = (self.written, 0);
        let mut add = |part| {
            let part: &[u8] = part;
            let skipped = skip.min(part.len());
            skip -= skipped;
            if skipped < part.len() {
                slices.push(IoSlice::new(&part[skipped..]));
            }
        };
        for (end, (_, pending)) in self.head_ends.iter().zip(&self.batches) {
            add(&self.heads[begin..*end]);
            add(pending.batch.bytes());
            begin = *end;
        }
        add(&self.heads[begin..]);
        slices
    }

    /// Notes that the socket has accepted `bytes` more. Returns whether that was the rest.
    pub fn advance(&mut self, bytes: usize) -> bool {
        self.written += bytes;
        self.written == self.length
    }
}

impl Envelope {
    pub fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_PRODUCED
    }

    /// The version of the header of a response.
    pub fn response_header(&self) -> i16 {
        i16::from(self.is_flexible())
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
        varint::append_unsigned(count as u32 + 1, out);
    } else {
        out.extend_from_slice(&(count as i32).to_be_bytes());
    }
}

/// The end of an element: in flexible versions, the number of fields that are optional.
fn end(out: &mut Vec<u8>, is_flexible: bool) {
    if is_flexible {
        out.push(0);
    }
}
