//! The state of a connection: bytes to write, requests and messages without a response, and the consumers' queues.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::WRITE_BUFFER_BYTES;
use super::in_flight::{DeliveryQueue, Entry, Kept, KeptEntry, Sent, Unanswered};
use crate::broker::ClientError;
use crate::broker::pulsar::codec::frame::{put_command, put_with_command};
use crate::broker::pulsar::codec::proto::{FromBroker, close_producer, send_command};
use crate::measure::PartitionIndex;

/// `producer_id` and `consumer_id` of the protocol: a connection's own numbers.
pub type ProducerId = u64;
pub type ConsumerId = u64;

/// How long receipts are taken for a producer that the broker has closed: those of messages that it had read before may follow.
const CLOSING: Duration = Duration::from_secs(2);

/// Whether a producer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Too much waits to be written.
    Full,
    /// The broker has closed the producer, or the connection broke.
    Closed,
}

#[derive(Default)]
pub struct State {
    /// Whole frames to be written next.
    pub write_buffer: Vec<u8>,
    /// Set once, when the connection breaks.
    pub lost: Option<ClientError>,
    pub requests: HashMap<u64, mpsc::UnboundedSender<FromBroker>>,
    next_request: u64,
    /// Those that are there: an attempt to open one that failed leaves nothing.
    producers: HashMap<ProducerId, Sent>,
    next_producer: ProducerId,
    pub consumers: HashMap<ConsumerId, Arc<DeliveryQueue>>,
    next_consumer: ConsumerId,
}

/// Messages that will have no receipt.
#[derive(Default)]
pub struct Expired {
    /// The broker did not answer in time.
    pub late: Vec<Unanswered>,
    /// The broker closed their producer, and did not answer them after that.
    pub closed: Vec<Unanswered>,
}

impl State {
    /// `request_id` of the protocol: a connection's own numbers.
    pub fn next_request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    /// A producer whose messages are counted in this partition. `kept`: where its entries go when it is closed.
    pub fn add_producer(&mut self, counted_in: PartitionIndex, kept: Option<Arc<Kept>>) -> ProducerId {
        let producer = self.next_producer;
        self.next_producer += 1;
        self.producers.insert(producer, Sent::new(counted_in, kept));
        producer
    }

    /// Removes a producer and returns its messages without a receipt.
    pub fn remove_producer(&mut self, producer: ProducerId) -> Vec<Unanswered> {
        self.producers.remove(&producer).map(|sent| sent.messages.into()).unwrap_or_default()
    }

    pub fn readiness(&self, producer: ProducerId) -> Readiness {
        match self.producers.get(&producer) {
            None | Some(Sent { closed: Some(_), .. }) => Readiness::Closed,
            Some(_) if self.write_buffer.len() < WRITE_BUFFER_BYTES => Readiness::Ready,
            Some(_) => Readiness::Full,
        }
    }

    /// Adds `frames`, which hold `entries` with `messages`, and empties them. False, and nothing was added, if the producer is
    /// closed.
    pub fn add(
        &mut self,
        producer: ProducerId,
        frames: &mut Vec<u8>,
        entries: &[Entry],
        messages: impl Iterator<Item = Unanswered>,
    ) -> bool {
        let Some(sent @ Sent { closed: None, .. }) = self.producers.get_mut(&producer) else {
            return false;
        };
        let now = Instant::now();
        sent.entries.extend(entries.iter().map(|entry| (*entry, now)));
        sent.messages.extend(messages);
        sent.keep(frames, entries);
        // The connection keeps a buffer that is much larger than the frames. Else each of many producers would get one as large.
        if self.write_buffer.is_empty() && self.write_buffer.capacity() <= 4 * frames.len() {
            mem::swap(&mut self.write_buffer, frames);
        } else {
            self.write_buffer.append(frames);
        }
        true
    }

    /// Sends entries of another producer again, as this one's: they keep the time since which they have awaited an answer. Returns them
    /// if the producer is closed.
    pub fn send_again(&mut self, producer: ProducerId, entries: Vec<KeptEntry>) -> Result<(), Vec<KeptEntry>> {
        let Some(sent @ Sent { closed: None, .. }) = self.producers.get_mut(&producer) else {
            return Err(entries);
        };
        for KeptEntry { mut entry, since, messages, frame } in entries {
            let begin = self.write_buffer.len();
            let command = send_command(producer, entry.sequence_id, entry.messages as usize);
            put_with_command(&mut self.write_buffer, &command, &frame);
            let frame = &self.write_buffer[begin..];
            entry.sizes.sent_bytes = frame.len();
            sent.keep(frame, &[entry]);
            sent.entries.push_back((entry, since));
            sent.messages.extend(messages);
        }
        Ok(())
    }

    /// The broker has answered the entry that holds the message `sequence_id`: a receipt names the first message of a batch, a
    /// refusal the last one. The entry's messages are appended to `answered`. Returns the entry, when it was handed over, and where its
    /// messages are counted, if such an entry awaits an answer.
    pub fn answer(
        &mut self,
        producer: ProducerId,
        sequence_id: u64,
        answered: &mut Vec<Unanswered>,
    ) -> Option<(Entry, Instant, PartitionIndex)> {
        let sent = self.producers.get_mut(&producer)?;
        // Receipts arrive in order; only a refusal may be earlier.
        let holds = |(entry, _): &(Entry, Instant)| {
            sequence_id.checked_sub(entry.sequence_id).is_some_and(|index| index < u64::from(entry.messages))
        };
        let index = sent.entries.iter().position(holds)?;
        let before: usize = sent.entries.range(..index).map(|(entry, _)| entry.messages as usize).sum();
        let (entry, at) = sent.entries.remove(index)?;
        if let Some((_, frames)) = &mut sent.resend {
            frames.remove(index);
        }
        answered.extend(sent.messages.drain(before..before + entry.messages as usize));
        Some((entry, at, sent.counted_in))
    }

    /// The broker has closed a producer. Receipts of what it had read before may still follow.
    pub fn close_producer(&mut self, producer: ProducerId) {
        if let Some(sent) = self.producers.get_mut(&producer) {
            sent.closed.get_or_insert_with(Instant::now);
            if sent.resend.is_some() {
                sent.end();
            }
        }
    }

    /// The broker refused an entry for now, with `refusal`. A producer that sends again gives up its place: it is closed at the broker as well,
    /// and what it had sent, this entry included, is sent by another. False: this one does not send again, or awaits no answer.
    ///
    /// Source: `ClientCnx.handleSendError` of Pulsar's client for Java, which closes the connection for it, and so all producers of it.
    pub fn give_up_place(&mut self, producer: ProducerId, refusal: &ClientError) -> bool {
        let Some(Sent { resend: Some((kept, _)), closed, .. }) = self.producers.get(&producer) else {
            return false;
        };
        if closed.is_none() {
            kept.refuse(refusal.clone());
            let request = self.next_request();
            put_command(&mut self.write_buffer, &close_producer(producer, request));
            self.close_producer(producer);
        }
        true
    }

    /// Removes, at the time `now`, the messages that have awaited an answer for `send_timeout`, and those whose producer was
    /// closed a while ago.
    pub fn expire(&mut self, now: Instant, send_timeout: Duration) -> Expired {
        let mut expired = Expired::default();
        self.producers.retain(|_, sent| {
            let due = if sent.closed.is_some() { &mut expired.closed } else { &mut expired.late };
            sent.expire(due, |sent| now.saturating_duration_since(sent) >= send_timeout);
            if sent.closed.is_some_and(|closed| now.saturating_duration_since(closed) >= CLOSING) {
                expired.closed.extend(sent.messages.drain(..));
                return false;
            }
            true
        });
        expired
    }

    /// When the entry was handed over that has awaited its receipt for longest.
    pub fn oldest(&self) -> Option<Instant> {
        self.producers.values().filter_map(|sent| sent.entries.front().map(|(_, since)| *since)).min()
    }

    pub fn add_consumer(&mut self, arrived: Arc<Notify>) -> (ConsumerId, Arc<DeliveryQueue>) {
        let consumer = self.next_consumer;
        self.next_consumer += 1;
        let delivery_queue = Arc::new(DeliveryQueue::new(arrived));
        self.consumers.insert(consumer, delivery_queue.clone());
        (consumer, delivery_queue)
    }

    /// Breaks the connection and fails every request. Returns all messages without a receipt.
    pub fn lose(&mut self, failure: ClientError) -> Vec<Unanswered> {
        let mut unanswered = Vec::new();
        for mut sent in mem::take(&mut self.producers).into_values() {
            unanswered.extend(sent.end());
        }
        for delivery_queue in mem::take(&mut self.consumers).into_values() {
            delivery_queue.close(failure.clone());
        }
        // Dropping the senders fails the requests.
        self.requests.clear();
        self.write_buffer = Vec::new();
        self.lost = Some(failure);
        unanswered
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/pulsar/connection/state.rs"]
mod tests;
