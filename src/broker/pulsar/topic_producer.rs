//! A sender to one topic: to its broker, or by turns or keys to its partitions.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::config::Hashing;
use super::partition_producer::{Client, PartitionProducer};
use crate::broker::murmur3::murmur3;
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, SubmitError};

/// A sender to one topic.
pub struct TopicProducer {
    shared: Arc<Client>,
    /// One for each partition; one for a topic that has none.
    partition_producers: Vec<PartitionProducer>,
    /// The partition producer that the next batch without keys goes to.
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

    /// Sends again what the broker may not have.
    pub(super) async fn restore(&mut self) {
        for producer in &mut self.partition_producers {
            producer.restore().await;
        }
    }

    async fn ready(&mut self, partition: usize) -> Result<(), SubmitError> {
        let begin = Instant::now();
        if self.partition_producers[partition].ready().await? {
            self.shared.waited_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn submit_to(&mut self, partition: usize, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        loop {
            self.ready(partition).await?;
            if self.partition_producers[partition].add(batch.len(), |index| &batch[index]) {
                self.turn = (partition + 1) % self.partition_producers.len();
                return Ok(batch.len());
            }
        }
    }

    async fn submit_by_key(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
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
            let partition = self.partition_of(outgoing);
            let key = outgoing.key.filter(|_| self.shared.options.batch_by_key);
            let place = *places.entry((partition, key)).or_insert_with(|| {
                groups.push(Group { partition, ..Group::default() });
                groups.len() - 1
            });
            groups[place].messages.push(index);
        }
    }

    fn partition_of(&self, outgoing: &Outgoing<'_>) -> usize {
        match outgoing.key {
            Some(key) if self.partition_producers.len() > 1 => {
                partition(self.shared.options.hashing, key, self.partition_producers.len())
            }
            _ => self.turn,
        }
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
            self.submit_to(self.partition_of(first), batch).await
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

    #[test]
    fn every_key_has_a_partition() {
        for key in 0..1000 {
            let key = format!("key-{key:06}");
            for hashing in [Hashing::Java, Hashing::Murmur3] {
                assert!(partition(hashing, key.as_bytes(), 7) < 7);
            }
        }
    }
}
