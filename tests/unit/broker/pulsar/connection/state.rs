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
    assert_eq!(state.lose(ClientError::lost("gone")), [send_tag(4)]);
    assert_eq!(state.readiness(first), Readiness::Closed);
}

#[test]
fn a_producer_of_small_frames_does_not_get_the_memory_of_its_connection() {
    let mut state = State { write_buffer: Vec::with_capacity(1 << 20), ..State::default() };
    let producer = state.add_producer(PartitionIndex::UNKNOWN, None);
    let mut frames = vec![1; 100];
    assert!(state.add(producer, &mut frames, &[], std::iter::empty()));
    assert_eq!(state.write_buffer, [1; 100]);
    assert!(frames.is_empty() && frames.capacity() < 1 << 10, "{}", frames.capacity());
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
            state.answer(producer, 8, &mut answered).is_none() && state.answer(producer, 3, &mut answered).is_none()
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
    assert!(state.lose(ClientError::lost("gone")).is_empty());
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
    assert!(kept.oldest().is_some());
    let another = state.add_producer(PartitionIndex::UNKNOWN, Some(kept.clone()));
    assert!(state.send_again(another, kept.take()).is_ok() && kept.oldest().is_none());
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
    assert!(state.lose(ClientError::lost("gone")).is_empty(), "it is sent again");
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
    let refusal = ClientError::passing(crate::broker::FailureClass::Refused, "PersistenceError: full");
    assert!(!state.give_up_place(without, &refusal) && !state.give_up_place(9, &refusal));
    assert!(state.give_up_place(producer, &refusal) && state.readiness(producer) == Readiness::Closed);
    assert_eq!((kept.take_refusal(), kept.take_refusal()), (Some(refusal.clone()), None));
    let (frame, size) = Frame::first(&state.write_buffer, 1 << 20).unwrap().unwrap();
    let closed = ToBroker::decode(frame.command).unwrap().close_producer.unwrap();
    assert_eq!((closed.producer_id, size), (producer, state.write_buffer.len()), "the broker closes it, once");
    assert!(
        state.give_up_place(producer, &refusal) && size == state.write_buffer.len(),
        "the next entry that it refuses"
    );
    assert!(kept.take_late(Duration::from_secs(3600)).is_empty() && kept.oldest().is_some());
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
    state.lose(ClientError::lost("gone"));
    let contents = delivery_queue.take(Vec::new());
    assert!(contents.frames.is_empty() && contents.closed.is_some());
    assert!(!delivery_queue.is_waiting());
}
