use super::*;
use crate::broker::rabbitmq_stream::codec::code;
use proptest::prelude::*;

fn send_tag(number: usize) -> SendTag {
    SendTag::new(number, 0, 0, 0, true)
}

#[test]
fn a_sub_entry_is_settled_by_the_id_of_its_last_message() {
    let mut pending = Pending::default();
    pending.begin_after(41);
    for number in 0..3 {
        pending.push(send_tag(number), 10, number < 2);
    }
    let mut settled = Vec::new();
    pending.settle(43, code::OK, &mut settled);
    assert!(settled.is_empty(), "an id that was never written");
    pending.settle(44, code::OK, &mut settled);
    assert_eq!(settled.len(), 3);
    assert_eq!((pending.messages.len(), pending.next_id()), (0, 45));
}

#[test]
fn overdue_messages_leave_and_their_confirms_are_ignored() {
    let mut pending = Pending::default();
    pending.begin_after(0);
    (0..5).for_each(|number| pending.push(send_tag(number), 1, false));
    let (mut settled, mut overdue) = (Vec::new(), Vec::new());
    pending.settle(2, code::OK, &mut settled);
    pending.take_overdue(|send_tag| send_tag.producer_index() < 3, &mut overdue);
    assert_eq!(overdue.iter().map(|one| one.send_tag.producer_index()).collect::<Vec<_>>(), [0, 2]);
    (1..=5).for_each(|id| pending.settle(id, code::OK, &mut settled));
    assert_eq!(settled.iter().map(|one| one.send_tag.producer_index()).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!((pending.messages.len(), pending.next_id()), (0, 6));
}

#[test]
fn a_look_for_overdue_messages_does_not_end_a_loss() {
    let mut pending = Pending::keeping();
    pending.begin_after(0);
    pending.push(send_tag(0), 1, false);
    pending.mark_lost();
    pending.take_overdue(|_| false, &mut Vec::new());
    assert!(pending.is_lost_for(Duration::ZERO));
    pending.release();
    assert!(!pending.is_lost_for(Duration::ZERO), "a message was confirmed");
}

#[test]
fn frames_are_kept_until_their_last_message_has_an_outcome() {
    let mut pending = Pending::keeping();
    pending.begin_after(0);
    for frame in [b"one", b"two"] {
        (0..2).for_each(|number| pending.push(send_tag(number), 1, false));
        pending.keep(frame);
    }
    let mut settled = Vec::new();
    let mut after = |ids: &[u64]| {
        ids.iter().for_each(|id| pending.settle(*id, code::OK, &mut settled));
        pending.release();
        (pending.kept().map(<[u8]>::to_vec).collect::<Vec<_>>(), pending.unconfirmed())
    };
    assert_eq!(after(&[2, 3]), (vec![b"one".to_vec(), b"two".to_vec()], 2));
    assert_eq!(after(&[1]), (vec![b"two".to_vec()], 1));
    assert_eq!(after(&[4]), (vec![], 0));
}

proptest! {
    #[test]
    fn every_id_is_settled_once_in_any_order(
        joins in proptest::collection::vec(any::<bool>(), 1..100),
        ids in proptest::collection::vec(0..130u64, 0..300),
    ) {
        let mut pending = Pending::default();
        pending.begin_after(9);
        let last = joins.len() - 1;
        for (number, joined) in joins.iter().enumerate() {
            pending.push(send_tag(number), 1, *joined && number < last);
        }
        let mut settled = Vec::new();
        for id in ids {
            pending.settle(id, code::OK, &mut settled);
        }
        pending.settle_all(code::STREAM_NOT_AVAILABLE, &mut settled);
        let mut slots: Vec<usize> = settled.iter().map(|one| one.send_tag.producer_index()).collect();
        slots.sort_unstable();
        prop_assert_eq!(slots, (0..joins.len()).collect::<Vec<_>>());
        prop_assert_eq!((pending.messages.len(), pending.next_id()), (0, 10 + joins.len() as u64));
    }
}
