//! The state of a connection: bytes to write, requests and messages without a response, and the consumers' queues.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::WRITE_BUFFER_BYTES;
use super::in_flight::{DeliveryQueue, Entry, Kept, KeptEntry, Sent, Unanswered};
use crate::broker::pulsar::codec::frame::{put_command, put_with_command};
use crate::broker::pulsar::codec::proto::{FromBroker, close_producer, send_command};
use crate::broker::pulsar::error::RequestError;
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
    pub lost: Option<RequestError>,
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
        if self.write_buffer.is_empty() {
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

    /// The broker refused an entry for now. A producer that sends again gives up its place: it is closed at the broker as well, and what it
    /// had sent, this entry included, is sent by another. False: this one does not send again, or awaits no answer.
    ///
    /// Source: `ClientCnx.handleSendError` of Pulsar's client for Java, which closes the connection for it, and so all producers of it.
    pub fn give_up_place(&mut self, producer: ProducerId) -> bool {
        let Some(sent @ Sent { resend: Some(_), .. }) = self.producers.get(&producer) else {
            return false;
        };
        if sent.closed.is_none() {
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

    pub fn add_consumer(&mut self, arrived: Arc<Notify>) -> (ConsumerId, Arc<DeliveryQueue>) {
        let consumer = self.next_consumer;
        self.next_consumer += 1;
        let delivery_queue = Arc::new(DeliveryQueue::new(arrived));
        self.consumers.insert(consumer, delivery_queue.clone());
        (consumer, delivery_queue)
    }

    /// Breaks the connection and fails every request. Returns all messages without a receipt.
    pub fn lose(&mut self, failure: RequestError) -> Vec<Unanswered> {
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
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::broker::pulsar::codec::frame::{Frame, put_message};
    use crate::broker::pulsar::codec::proto::{self, ToBroker};
    use crate::broker::pulsar::connection::EntrySizes;
    use crate::measure::SendTag;

    fn send_tag(slot: usize) -> Unanswered {
        (SendTag::new(slot, 0, 0, 0, true), slot as u32)
    }

    fn send(state: &mut State, producer: ProducerId, sequence_id: u64, slots: std::ops::Range<usize>) {
        let entry = Entry { sequence_id, messages: slots.len() as u32, ..Entry::default() };
        assert!(state.add(producer, &mut vec![0], &[entry], slots.map(send_tag)));
    }

    #[test]
    fn receipts_find_their_messages_once_in_any_order() {
        let mut state = State::default();
        let (first, second) =
            (state.add_producer(PartitionIndex::UNKNOWN, None), state.add_producer(PartitionIndex::UNKNOWN, None));
        send(&mut state, first, 0, 0..3);
        send(&mut state, first, 3, 3..4);
        send(&mut state, second, 0, 4..5);
        let mut answered = Vec::new();
        assert!(state.answer(first, 3, &mut answered).is_some());
        assert_eq!(answered, [send_tag(3)]);
        assert!(state.answer(first, 3, &mut answered).is_none(), "it was answered before");
        assert!(state.answer(9, 3, &mut answered).is_none(), "there is no such producer");
        assert_eq!(answered.len(), 1);
        assert!(state.answer(first, 0, &mut answered).is_some());
        assert_eq!(answered[1..], [send_tag(0), send_tag(1), send_tag(2)]);
        assert_eq!(state.lose(RequestError::lost("gone")), [send_tag(4)]);
        assert_eq!(state.readiness(first), Readiness::Closed);
    }

    /// Adds a producer that is closed with a message without a receipt.
    fn add_closed(state: &mut State) -> Unanswered {
        let producer = state.add_producer(PartitionIndex::UNKNOWN, None);
        send(state, producer, 0, 7..8);
        state.close_producer(producer);
        send_tag(7)
    }

    /// `SendError` names the highest sequence id of a batch (`Producer.java`: `send.getHighestSequenceId`).
    #[test]
    fn any_message_of_a_batch_names_it() {
        for sequence_id in 5..8 {
            let mut state = State::default();
            let producer = state.add_producer(PartitionIndex::UNKNOWN, None);
            send(&mut state, producer, 4, 0..1);
            send(&mut state, producer, 5, 1..4);
            let mut answered = Vec::new();
            assert!(state.answer(producer, sequence_id, &mut answered).is_some());
            assert_eq!(answered, [send_tag(1), send_tag(2), send_tag(3)]);
            assert!(
                state.answer(producer, 8, &mut answered).is_none()
                    && state.answer(producer, 3, &mut answered).is_none()
            );
        }
    }

    #[test]
    fn what_is_not_answered_in_time_expires() {
        let mut state = State::default();
        let (silent, closed) =
            (state.add_producer(PartitionIndex::UNKNOWN, None), state.add_producer(PartitionIndex::UNKNOWN, None));
        send(&mut state, silent, 0, 0..2);
        send(&mut state, closed, 0, 2..4);
        send(&mut state, closed, 2, 4..5);
        state.close_producer(closed);
        assert_eq!(state.readiness(closed), Readiness::Closed);
        assert!(!state.add(
            closed,
            &mut vec![0],
            &[Entry { sequence_id: 3, messages: 1, ..Entry::default() }],
            std::iter::once(send_tag(9))
        ));
        let mut answered = Vec::new();
        assert!(state.answer(closed, 0, &mut answered).is_some(), "a receipt that follows on the notice is taken");
        let (now, timeout) = (Instant::now(), Duration::from_secs(30));
        let expired = state.expire(now, timeout);
        assert_eq!((expired.late.len(), expired.closed.len()), (0, 0));
        // Whatever comes first: the producer was closed, which is the cause.
        let hasty = state.expire(now + Duration::from_millis(100), Duration::from_millis(50));
        assert_eq!((hasty.late, hasty.closed), (vec![send_tag(0), send_tag(1)], vec![send_tag(4)]));
        send(&mut state, silent, 2, 0..2);
        let late = add_closed(&mut state);
        assert_eq!(state.expire(now + 2 * CLOSING, timeout).closed, [late]);
        assert_eq!(state.expire(now + 2 * timeout, timeout).late, [send_tag(0), send_tag(1)]);
        assert!(state.answer(silent, 2, &mut answered).is_none(), "too late");
        assert_eq!(state.readiness(silent), Readiness::Ready);
    }

    #[test]
    fn a_removed_producer_gives_back_what_it_had_sent() {
        let mut state = State::default();
        let producer = state.add_producer(PartitionIndex::UNKNOWN, None);
        send(&mut state, producer, 0, 0..2);
        assert_eq!(state.remove_producer(producer), [send_tag(0), send_tag(1)]);
        assert_eq!(state.readiness(producer), Readiness::Closed);
        assert!(state.lose(RequestError::lost("gone")).is_empty());
    }

    #[test]
    fn what_a_closed_producer_had_sent_is_sent_again_by_another() {
        let mut state = State::default();
        let kept = Arc::new(Kept::new(Arc::default()));
        let producer = state.add_producer(PartitionIndex::UNKNOWN, Some(kept.clone()));
        for (sequence_id, slots) in [(5, 0..1), (6, 1..3)] {
            let mut frames = Vec::new();
            put_message(
                &mut frames,
                &send_command(producer, sequence_id, slots.len()),
                |out| out.extend(b"metadata"),
                |out| out.push(sequence_id as u8),
            );
            let messages = slots.len() as u32;
            let sizes = EntrySizes { sent_bytes: frames.len(), ..EntrySizes::default() };
            let entry = Entry { sequence_id, messages, sizes };
            assert!(state.add(producer, &mut frames, &[entry], slots.map(send_tag)));
        }
        let first = mem::take(&mut state.write_buffer);
        state.close_producer(producer);
        assert!(!kept.is_empty());
        let another = state.add_producer(PartitionIndex::UNKNOWN, Some(kept.clone()));
        assert!(state.send_again(another, kept.take()).is_ok() && kept.is_empty());
        let (old, new) = (frames_of(&first), frames_of(&state.write_buffer));
        assert_eq!(
            old.iter().map(|(_, rest)| rest).collect::<Vec<_>>(),
            new.iter().map(|(_, rest)| rest).collect::<Vec<_>>()
        );
        assert_eq!(
            new.iter().map(|(send, _)| (send.producer_id, send.sequence_id)).collect::<Vec<_>>(),
            [(another, 5), (another, 6)]
        );
        let mut answered = Vec::new();
        assert!(state.answer(another, 6, &mut answered).is_some());
        assert_eq!(answered, [send_tag(1), send_tag(2)]);
        assert!(state.lose(RequestError::lost("gone")).is_empty(), "it is sent again");
        assert_eq!(kept.take().iter().map(|entry| entry.entry.sequence_id).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn what_is_refused_for_now_is_sent_again_by_another() {
        let mut state = State::default();
        let kept = Arc::new(Kept::new(Arc::default()));
        let producer = state.add_producer(PartitionIndex::UNKNOWN, Some(kept.clone()));
        let without = state.add_producer(PartitionIndex::UNKNOWN, None);
        let mut frames = Vec::new();
        put_message(&mut frames, &send_command(producer, 5, 1), |_| (), |out| out.push(1));
        let sizes = EntrySizes { sent_bytes: frames.len(), ..EntrySizes::default() };
        let entry = Entry { sequence_id: 5, messages: 1, sizes };
        assert!(state.add(producer, &mut frames, &[entry], std::iter::once(send_tag(0))));
        state.write_buffer.clear();
        assert!(!state.give_up_place(without) && !state.give_up_place(9));
        assert!(state.give_up_place(producer) && state.readiness(producer) == Readiness::Closed);
        let (frame, size) = Frame::first(&state.write_buffer, 1 << 20).unwrap().unwrap();
        let closed = ToBroker::decode(frame.command).unwrap().close_producer.unwrap();
        assert_eq!((closed.producer_id, size), (producer, state.write_buffer.len()), "the broker closes it, once");
        assert!(state.give_up_place(producer) && size == state.write_buffer.len(), "the next entry that it refuses");
        let another = state.add_producer(PartitionIndex::UNKNOWN, Some(kept.clone()));
        assert!(state.send_again(another, kept.take()).is_ok());
        let mut answered = Vec::new();
        assert!(state.answer(another, 5, &mut answered).is_some());
        assert_eq!(answered, [send_tag(0)]);
    }

    fn frames_of(mut bytes: &[u8]) -> Vec<(proto::Send, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some((frame, size)) = Frame::first(bytes, 1 << 20).unwrap() {
            all.push((ToBroker::decode(frame.command).unwrap().send.unwrap(), frame.rest.to_vec()));
            bytes = &bytes[size..];
        }
        all
    }

    /// A namespace whose quota holds producers refuses one every two seconds, for hours.
    #[test]
    fn producers_that_were_not_opened_leave_nothing() {
        let mut state = State::default();
        let open = state.add_producer(PartitionIndex::UNKNOWN, None);
        for _ in 0..100_000 {
            let refused = state.add_producer(PartitionIndex::UNKNOWN, None);
            state.remove_producer(refused);
        }
        let closed = state.add_producer(PartitionIndex::UNKNOWN, None);
        state.close_producer(closed);
        state.expire(Instant::now() + CLOSING, Duration::from_secs(30));
        assert_eq!((state.producers.len(), state.readiness(open)), (1, Readiness::Ready));
        assert!(state.producers.capacity() < 100, "{}", state.producers.capacity());
    }

    #[test]
    fn an_outbox_fills_up() {
        let mut state = State::default();
        let producer = state.add_producer(PartitionIndex::UNKNOWN, None);
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
