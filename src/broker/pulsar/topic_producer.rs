//! A sender to one topic: to its broker, or by turns or keys to its partitions.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::select_ok;

use super::config::Hashing;
use super::partition_producer::{Client, PartitionProducer};
use crate::broker::murmur3::murmur3;
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, SubmitError};

/// A sender to one topic.
pub struct TopicProducer {
    shared: Arc<Client>,
    /// One for each partition; one for a topic that has none.
    partition_producers: Vec<PartitionProducer>,
    /// The partition producer that the next batch without keys goes to, if it is open.
    turn: usize,
    /// Memory that is kept: empty between batches.
    groups: Vec<Group>,
}

/// Messages of a batch that go into the same entries, by their index in the batch.
#[derive(Default)]
struct Group {
    partition: usize,
    messages: Vec<usize>,
    refused: Option<SubmitError>,
}

impl TopicProducer {
    /// `producer_number` is the producer's number among all of the trial.
    pub(super) fn new(
        shared: Arc<Client>,
        partition_producers: Vec<PartitionProducer>,
        producer_number: usize,
    ) -> Self {
        // Producers begin at different partitions, so that these fill evenly.
        let turn = producer_number % partition_producers.len();
        TopicProducer { shared, partition_producers, turn, groups: Vec::new() }
    }

    /// Why all partition producers are closed for good, if they are.
    fn failure(&self) -> Option<&ClientError> {
        let mut failures = self.partition_producers.iter().map(PartitionProducer::fatal_error);
        let first = failures.next()??;
        failures.all(|failure| failure.is_some()).then_some(first)
    }

    /// When the next entry fails that is to be sent again, unless it is sent before.
    pub(super) fn kept_until(&self) -> Option<Instant> {
        self.partition_producers.iter().filter_map(PartitionProducer::kept_until).min()
    }

    /// Sends again what the broker may not have.
    pub(super) fn restore(&mut self) {
        self.partition_producers.iter_mut().for_each(PartitionProducer::restore);
    }

    async fn ready(&mut self, partition: usize) -> Result<(), SubmitError> {
        let begin = Instant::now();
        let waited = self.partition_producers[partition].ready().await?;
        self.count_wait(waited, begin);
        Ok(())
    }

    /// The partition for messages without keys: from the turn on, the first whose producer is open, once it is ready. They wait for those
    /// that are closed only if all are, and then for the first to be opened again.
    async fn next_open(&mut self) -> Result<usize, SubmitError> {
        let count = self.partition_producers.len();
        for passed in 0..count {
            let (partition, begin) = ((self.turn + passed) % count, Instant::now());
            if let Some(waited) = self.partition_producers[partition].room().await {
                self.count_wait(waited, begin);
                return Ok(partition);
            }
        }
        let producers = self.partition_producers.iter_mut().enumerate();
        let openings =
            producers.map(|(partition, producer)| Box::pin(async move { producer.ready().await.map(|_| partition) }));
        select_ok(openings).await.map(|(partition, _)| partition)
    }

    fn count_wait(&self, waited: bool, begin: Instant) {
        if waited {
            self.shared.waited_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Sends a batch to the partition `by_key`, or else to one that is open.
    async fn submit_to(&mut self, by_key: Option<usize>, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        loop {
            let partition = match by_key {
                Some(partition) => {
                    self.ready(partition).await?;
                    partition
                }
                None => self.next_open().await?,
            };
            if self.partition_producers[partition].add(batch.len(), |index| &batch[index]) {
                self.turn = (partition + 1) % self.partition_producers.len();
                return Ok(batch.len());
            }
        }
    }

    async fn submit_by_key(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        // If none is open, each group fails with its own reason.
        if batch.iter().any(|outgoing| outgoing.key.is_none())
            && let Ok(open) = self.next_open().await
        {
            self.turn = open;
        }
        let mut groups = mem::take(&mut self.groups);
        self.group(batch, &mut groups);
        for group in &mut groups {
            group.refused = self.ready(group.partition).await.err();
        }
        // Nothing awaits from here on, so that a cancellation cannot split the batch.
        for group in &mut groups {
            let at = |index: usize| &batch[group.messages[index]];
            let refused = match group.refused.take() {
                None if self.partition_producers[group.partition].add(group.messages.len(), at) => continue,
                None => {
                    let message = "the connection broke before the message was sent".to_owned();
                    SubmitError { class: FailureClass::ConnectionLost, message }
                }
                Some(refused) => refused,
            };
            let mut acks = self.shared.recorder.batch();
            for index in &group.messages {
                acks.failed(batch[*index].send_tag, refused.class, || refused.message.clone());
            }
        }
        groups.clear();
        self.groups = groups;
        self.turn = (self.turn + 1) % self.partition_producers.len();
        Ok(batch.len())
    }

    /// Sorts the batch into groups, each in the batch's order.
    fn group(&self, batch: &[Outgoing<'_>], groups: &mut Vec<Group>) {
        let mut places: HashMap<(usize, Option<&[u8]>), usize> = HashMap::new();
        groups.clear();
        for (index, outgoing) in batch.iter().enumerate() {
            let partition = self.partition_by_key(outgoing).unwrap_or(self.turn);
            let key = outgoing.key.filter(|_| self.shared.options.batch_by_key);
            let place = *places.entry((partition, key)).or_insert_with(|| {
                groups.push(Group { partition, ..Group::default() });
                groups.len() - 1
            });
            groups[place].messages.push(index);
        }
    }

    /// The partition of a message with a key; `None`: any will do.
    fn partition_by_key(&self, outgoing: &Outgoing<'_>) -> Option<usize> {
        let partitions = self.partition_producers.len();
        let key = outgoing.key.filter(|_| partitions > 1)?;
        Some(partition(self.shared.options.hashing, key, partitions))
    }
}

impl Producer for TopicProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let Some(first) = batch.first() else { return Ok(0) };
        if let Some(failure) = self.failure() {
            return Err(failure.submitting());
        }
        let keys_matter = self.partition_producers.len() > 1 || self.shared.options.batch_by_key;
        if batch.len() > 1 && keys_matter && batch.iter().any(|outgoing| outgoing.key.is_some()) {
            self.submit_by_key(batch).await
        } else {
            self.submit_to(self.partition_by_key(first), batch).await
        }
    }

    fn fatal_error(&self) -> Option<String> {
        self.failure().map(|failure| failure.submitting().message)
    }
}

/// The partition, of `partitions`, for `key`: what the Java client computes, so that both send a key to the same one.
pub fn partition(hashing: Hashing, key: &[u8], partitions: usize) -> usize {
    let hash = match hashing {
        Hashing::Java => java_hash(key),
        Hashing::Murmur3 => murmur3(key, 0),
    };
    // `MathUtils.signSafeMod` of a hash whose sign was taken off.
    (hash & 0x7fff_ffff) as usize % partitions
}

/// `String.hashCode`: `s[0]·31^(n−1) + … + s[n−1]` over the UTF-16 units, which for ASCII are the bytes.
fn java_hash(key: &[u8]) -> u32 {
    match std::str::from_utf8(key) {
        Ok(text) => text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into())),
        Err(_) => key.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add((*byte).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        // As the JDK computes them.
        assert_eq!(java_hash(b"hello"), 99_162_322);
        assert_eq!(java_hash(b""), 0);
    }
}
