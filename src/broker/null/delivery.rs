//! From acknowledged to stored: what happens to a producer's messages on their way to the topic.

use std::sync::Arc;

use parking_lot::Mutex;

use super::message::Message;
use super::script::MessageFaults;
use super::topic::TopicLog;
use crate::broker::Outgoing;
use crate::measure::PartitionIndex;

/// One producer's way to its topic. A producer writes to one partition, so that its order is defined, except for messages with
/// a partition of their own.
pub struct Delivery {
    log: Arc<TopicLog>,
    partition: u32,
    /// Where the messages of `partition` are counted.
    counted_in: PartitionIndex,
    held_back: Mutex<Option<Message>>,
}

impl Delivery {
    pub fn new(log: Arc<TopicLog>, producer_number: usize) -> Arc<Self> {
        let partition = (producer_number % log.end_offsets().len()) as u32;
        let counted_in = log.partition(partition);
        Arc::new(Delivery { log, partition, counted_in, held_back: Mutex::default() })
    }

    /// Where a message is counted.
    #[inline]
    pub fn counted_in(&self, outgoing: &Outgoing<'_>) -> PartitionIndex {
        match outgoing.attributes.and_then(|attributes| attributes.partition) {
            Some(partition) => self.log.partition(partition),
            None => self.counted_in,
        }
    }

    /// Whether the topic has a group that would receive a message.
    pub fn has_consumers(&self) -> bool {
        self.log.has_groups()
    }

    /// Waits until the topic's members have caught up enough.
    pub async fn capacity(&self) {
        self.log.backlog.capacity().await;
    }

    pub fn deliver(&self, message: Message, faults: MessageFaults) {
        if faults.lost {
            return;
        }
        let message = if faults.corrupted { message.corrupted() } else { message };
        let mut held_back = self.held_back.lock();
        if faults.reordered && held_back.is_none() {
            *held_back = Some(message);
            return;
        }
        if faults.duplicated {
            self.publish(message.clone());
        }
        self.publish(message);
        if let Some(late) = held_back.take() {
            self.publish(late);
        }
    }

    fn publish(&self, message: Message) {
        self.log.publish(message.partition.unwrap_or(self.partition), message);
    }

    /// Delivers the message that is still held back: no later message will come before it.
    pub fn end(&self) {
        if let Some(late) = self.held_back.lock().take() {
            self.publish(late);
        }
    }
}
