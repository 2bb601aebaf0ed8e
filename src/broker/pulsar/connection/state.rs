//! The state of a connection: bytes to write, requests and messages without a response, and the consumers' queues.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::WRITE_BUFFER_BYTES;
use crate::broker::pulsar::codec::proto::FromBroker;
use crate::broker::pulsar::error::RequestError;
use crate::measure::SendTag;

/// `producer_id` and `consumer_id` of the protocol: a connection's own numbers.
pub type ProducerId = u64;
pub type ConsumerId = u64;

/// A message without a receipt: its send tag and payload size.
pub type Unanswered = (SendTag, u32);

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
    pub lost: Option<RequestError>,
    pub requests: HashMap<u64, oneshot::Sender<FromBroker>>,
    next_request: u64,
    /// By their numbers, which count up; `None` for those that are gone.
    producers: Vec<Option<Sent>>,
    pub consumers: HashMap<ConsumerId, Arc<DeliveryQueue>>,
    next_consumer: ConsumerId,
}

/// A producer's messages without a receipt, oldest first.
#[derive(Default)]
struct Sent {
    /// Sequence id of each entry and how many messages it holds.
    entries: VecDeque<(u64, u32)>,
    messages: VecDeque<Unanswered>,
}

/// Adds frames to the write_buffer and books what they hold.
pub struct Entry<'a> {
    pub write_buffer: &'a mut Vec<u8>,
    sent: &'a mut Sent,
}

impl Entry<'_> {
    /// A frame was appended that holds these messages and will be answered by `sequence_id`.
    pub fn book(&mut self, sequence_id: u64, messages: impl Iterator<Item = Unanswered>) {
        let before = self.sent.messages.len();
        self.sent.messages.extend(messages);
        self.sent.entries.push_back((sequence_id, (self.sent.messages.len() - before) as u32));
    }
}

impl State {
    /// `request_id` of the protocol: a connection's own numbers.
    pub fn next_request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    pub fn add_producer(&mut self) -> ProducerId {
        self.producers.push(Some(Sent::default()));
        self.producers.len() as u64 - 1
    }

    /// Removes a producer and returns its messages without a receipt.
    pub fn remove_producer(&mut self, producer: ProducerId) -> Vec<Unanswered> {
        let sent = self.producers.get_mut(producer as usize).and_then(Option::take);
        sent.map(|sent| sent.messages.into()).unwrap_or_default()
    }

    pub fn readiness(&self, producer: ProducerId) -> Readiness {
        match self.producers.get(producer as usize) {
            Some(Some(_)) if self.write_buffer.len() < WRITE_BUFFER_BYTES => Readiness::Ready,
            Some(Some(_)) => Readiness::Full,
            _ => Readiness::Closed,
        }
    }

    /// Lets `add` add entries of a producer, if it is there.
    pub fn add(&mut self, producer: ProducerId, add: impl FnOnce(&mut Entry<'_>)) -> bool {
        let Some(Some(sent)) = self.producers.get_mut(producer as usize) else { return false };
        add(&mut Entry { write_buffer: &mut self.write_buffer, sent });
        true
    }

    /// The broker has answered an entry: its messages are appended to `answered`. An answer to an entry that is not awaited any more
    /// appends nothing.
    pub fn answer(&mut self, producer: ProducerId, sequence_id: u64, answered: &mut Vec<Unanswered>) {
        let Some(Some(sent)) = self.producers.get_mut(producer as usize) else { return };
        // Receipts arrive in order; only an error may be earlier.
        let Some(index) = sent.entries.iter().position(|(sent, _)| *sent == sequence_id) else { return };
        let before: usize = sent.entries.range(..index).map(|(_, count)| *count as usize).sum();
        if let Some((_, count)) = sent.entries.remove(index) {
            answered.extend(sent.messages.drain(before..before + count as usize));
        }
    }

    pub fn add_consumer(&mut self, arrived: Arc<Notify>) -> (ConsumerId, Arc<DeliveryQueue>) {
        let consumer = self.next_consumer;
        self.next_consumer += 1;
        let delivery_queue = Arc::new(DeliveryQueue { contents: Mutex::default(), arrived });
        self.consumers.insert(consumer, delivery_queue.clone());
        (consumer, delivery_queue)
    }

    /// Breaks the connection and fails every request. Returns all messages without a receipt.
    pub fn lose(&mut self, failure: RequestError) -> Vec<Unanswered> {
        let mut unanswered = Vec::new();
        for sent in mem::take(&mut self.producers).into_iter().flatten() {
            unanswered.extend(sent.messages);
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

/// The frames that have arrived for a consumer.
pub struct DeliveryQueue {
    contents: Mutex<Contents>,
    arrived: Arc<Notify>,
}

/// What has arrived.
#[derive(Default)]
pub struct Contents {
    /// Whole `Message` frames, one behind the other.
    pub frames: Vec<u8>,
    /// Why no more frames will arrive.
    pub closed: Option<RequestError>,
}

impl DeliveryQueue {
    /// Adds a frame. [`DeliveryQueue::announce`] wakes the consumer.
    pub fn put(&self, frame: &[u8]) {
        self.lock().frames.extend_from_slice(frame);
    }

    pub fn announce(&self) {
        self.arrived.notify_one();
    }

    /// Closes the queue and drops its frames: the broker will deliver them again.
    pub fn close(&self, failure: RequestError) {
        *self.lock() = Contents { frames: Vec::new(), closed: Some(failure) };
        self.arrived.notify_one();
    }

    /// Whether there are frames to take, or the queue was closed.
    pub fn is_waiting(&self) -> bool {
        let contents = self.lock();
        !contents.frames.is_empty() || contents.closed.is_some()
    }

    /// Takes all frames and leaves the empty `spare` for the next ones. Also returns why the queue was closed, if it was.
    pub fn take(&self, spare: Vec<u8>) -> Contents {
        let mut contents = self.lock();
        Contents { frames: mem::replace(&mut contents.frames, spare), closed: contents.closed.take() }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_tag(slot: usize) -> Unanswered {
        (SendTag::new(slot, 0, 0, 0, true), slot as u32)
    }

    fn send(state: &mut State, producer: ProducerId, sequence_id: u64, slots: std::ops::Range<usize>) {
        let there = state.add(producer, |entry| {
            entry.write_buffer.push(0);
            entry.book(sequence_id, slots.map(send_tag));
        });
        assert!(there);
    }

    #[test]
    fn receipts_find_their_messages_in_and_out_of_order_and_only_once() {
        let mut state = State::default();
        let (first, second) = (state.add_producer(), state.add_producer());
        send(&mut state, first, 0, 0..3);
        send(&mut state, first, 3, 3..4);
        send(&mut state, second, 0, 4..5);
        let mut answered = Vec::new();
        state.answer(first, 3, &mut answered);
        assert_eq!(answered, [send_tag(3)]);
        state.answer(first, 3, &mut answered);
        state.answer(9, 3, &mut answered);
        assert_eq!(answered.len(), 1);
        state.answer(first, 0, &mut answered);
        assert_eq!(answered[1..], [send_tag(0), send_tag(1), send_tag(2)]);
        assert_eq!(state.lose(RequestError::lost("gone")), [send_tag(4)]);
        assert_eq!(state.readiness(first), Readiness::Closed);
    }

    #[test]
    fn a_removed_producer_gives_back_what_it_had_sent() {
        let mut state = State::default();
        let producer = state.add_producer();
        send(&mut state, producer, 0, 0..2);
        assert_eq!(state.remove_producer(producer), [send_tag(0), send_tag(1)]);
        assert_eq!(state.readiness(producer), Readiness::Closed);
        assert!(state.lose(RequestError::lost("gone")).is_empty());
    }

    #[test]
    fn an_outbox_fills_up() {
        let mut state = State::default();
        let producer = state.add_producer();
        assert_eq!(state.readiness(producer), Readiness::Ready);
        state.write_buffer.resize(WRITE_BUFFER_BYTES, 0);
        assert_eq!(state.readiness(producer), Readiness::Full);
    }

    #[test]
    fn a_closed_inbox_says_so_once_and_forgets_what_was_not_taken() {
        let mut state = State::default();
        let (_, delivery_queue) = state.add_consumer(Arc::default());
        delivery_queue.put(b"frame");
        assert!(delivery_queue.is_waiting());
        assert_eq!(delivery_queue.take(Vec::new()).frames, b"frame");
        delivery_queue.put(b"frame");
        state.lose(RequestError::lost("gone"));
        let contents = delivery_queue.take(Vec::new());
        assert!(contents.frames.is_empty() && contents.closed.is_some());
        assert!(!delivery_queue.is_waiting());
    }
}
