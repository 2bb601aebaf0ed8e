//! A sender to one topic, over a client it shares with others.

use std::sync::Arc;

use super::super::codec::batch::Record;
use super::accumulator::TopicRoutes;
use super::client::Client;
use super::transactions::Transactions;
use crate::broker::{FailureClass, Outgoing, Producer, SubmitError};

/// No message follows in a list.
const END: u32 = u32::MAX;

/// The largest message: `socket.request.max.bytes` of a broker is 100 MiB in its default configuration, and a request of more bytes
/// would end the connection. Up to there, the broker decides.
const MAX_MESSAGE_BYTES: usize = 96 << 20;

/// A sender to one topic.
pub struct KafkaNativeProducer {
    client: Arc<Client>,
    topic: Arc<TopicRoutes>,
    /// First and last message of each partition in the batch that is being handed over. [`END`]: none.
    lists: Vec<(u32, u32)>,
    /// Next message of the same partition, for each message.
    next: Vec<u32>,
    touched: Vec<u32>,
    /// Wall-clock time of the trial's epoch.
    epoch_unix_ns: u64,
}

impl KafkaNativeProducer {
    pub fn new(client: Arc<Client>, topic: Arc<TopicRoutes>) -> Self {
        let epoch_unix_ns = client.acks.clock().epoch_unix_ns();
        let lists = vec![(END, END); topic.partitions.len()];
        KafkaNativeProducer { client, topic, lists, next: Vec::new(), touched: Vec::new(), epoch_unix_ns }
    }

    /// Hands over what the open transaction may still have.
    async fn submit_to(&mut self, transactions: &Transactions, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        loop {
            // Created before the attempt, so that a transaction that begins in between is not missed.
            let begun = transactions.begun();
            if let Some(taken) = transactions.enter(batch.len(), |taken| self.hand_over(&batch[..taken])) {
                return Ok(taken);
            }
            // The last transaction may have ended since this was looked at: no other begins.
            if let Some(fatal) = self.client.fatal() {
                return Err(fatal.clone());
            }
            begun.await;
            self.client.admit().await?;
        }
    }

    fn hand_over(&mut self, batch: &[Outgoing<'_>]) {
        let partitioner = self.client.options.partitioner;
        let keyless_may_be_any = partitioner.is_any(None);
        let (mut payload_bytes, mut may_be_any) = (0, true);
        for outgoing in batch {
            payload_bytes += outgoing.payload.len();
            may_be_any &= match (outgoing.key, outgoing.attributes) {
                (None, None) => keyless_may_be_any,
                (key, attributes) => {
                    attributes.is_none_or(|attributes| attributes.partition.is_none()) && partitioner.is_any(key)
                }
            };
        }
        self.client.buffer(batch.len(), payload_bytes);
        if self.topic.partitions.len() == 1 || may_be_any {
            let now_ns = batch.first().map_or(0, |outgoing| outgoing.send_tag.sent_ns());
            let partition = self.topic.any(payload_bytes, now_ns, &self.client.limits);
            self.append(partition, batch.iter());
            return;
        }
        self.sort(batch);
        for partition in std::mem::take(&mut self.touched) {
            let partition = partition as usize;
            let (mut index, _) = self.lists[partition];
            let messages = std::iter::from_fn(|| {
                let outgoing = batch.get(index as usize)?;
                index = self.next[index as usize];
                Some(outgoing)
            });
            self.append(partition, messages);
            self.lists[partition] = (END, END);
        }
    }

    /// Makes a list of the messages of each partition.
    fn sort(&mut self, batch: &[Outgoing<'_>]) {
        self.next.clear();
        self.next.resize(batch.len(), END);
        for (index, outgoing) in batch.iter().enumerate() {
            let partition = self.partition(outgoing);
            let any = || self.topic.any(outgoing.payload.len(), outgoing.send_tag.sent_ns(), &self.client.limits);
            let partition = partition.unwrap_or_else(any);
            let (first, last) = &mut self.lists[partition];
            match *last {
                END => {
                    *first = index as u32;
                    self.touched.push(partition as u32);
                }
                last => self.next[last as usize] = index as u32,
            }
            *last = index as u32;
        }
    }

    /// The message's own partition, or that of its key.
    #[inline]
    fn partition(&self, outgoing: &Outgoing<'_>) -> Option<usize> {
        let own = outgoing.attributes.and_then(|attributes| attributes.partition);
        let partitions = self.topic.partitions.len();
        own.map(|own| own as usize % partitions)
            .or_else(|| self.client.options.partitioner.partition(outgoing.key, partitions))
    }

    fn append<'a>(&self, partition: usize, messages: impl Iterator<Item = &'a Outgoing<'a>>) {
        let client = &self.client;
        let records = messages.map(|outgoing| (self.record(outgoing), outgoing.send_tag, outgoing.payload.len()));
        let partition = &self.topic.partitions[partition];
        let is_new = partition.append(&client.limits, &client.buffers, records);
        if let Some(transactions) = client.transactions().filter(|_| is_new) {
            transactions.add(partition.clone());
        }
    }

    #[inline]
    fn record<'a>(&'a self, outgoing: &Outgoing<'a>) -> Record<'a> {
        let attributes = outgoing.attributes.copied().unwrap_or_default();
        Record {
            key: outgoing.key,
            value: (!attributes.null_payload).then_some(outgoing.payload),
            shared: self.client.shared(outgoing.payload),
            headers: &self.client.headers[attributes.header_set as usize],
            trace_header: outgoing.trace_header,
            timestamp_ms: ((self.epoch_unix_ns + outgoing.send_tag.sent_ns()) / 1_000_000) as i64,
        }
    }
}

/// How many messages of the batch come before one that is too large.
fn fitting(batch: &[Outgoing<'_>]) -> usize {
    let bytes = |outgoing: &Outgoing<'_>| outgoing.payload.len() + outgoing.key.map_or(0, <[u8]>::len);
    // In most batches, no message can be too large, for all of them together are not.
    if batch.iter().map(bytes).sum::<usize>() <= MAX_MESSAGE_BYTES {
        return batch.len();
    }
    batch.iter().position(|outgoing| bytes(outgoing) > MAX_MESSAGE_BYTES).unwrap_or(batch.len())
}

impl Producer for KafkaNativeProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let fitting = fitting(batch);
        if fitting == 0 && !batch.is_empty() {
            let message = format!("a message has at most {MAX_MESSAGE_BYTES} bytes");
            return Err(SubmitError { class: FailureClass::TooLarge, message });
        }
        self.client.admit().await?;
        match self.client.transactions().cloned() {
            None => {
                self.hand_over(&batch[..fitting]);
                Ok(fitting)
            }
            Some(transactions) => self.submit_to(&transactions, &batch[..fitting]).await,
        }
    }

    fn fatal_error(&self) -> Option<String> {
        self.client.fatal().map(|fatal| fatal.message.clone())
    }

    fn finish(&mut self) {
        if let Some(transactions) = self.client.transactions() {
            transactions.finish();
        }
    }
}
