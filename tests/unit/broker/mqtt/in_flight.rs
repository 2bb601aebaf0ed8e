use super::*;
use crate::broker::FailureClass;

fn sent(number: u32) -> Sent {
    Sent { send_tag: SendTag::new(0, u64::from(number), 0, 0, true), bytes: number, route: 0 }
}

fn allowing(receive_maximum: u16) -> InFlight {
    InFlight::new(Allowed { receive_maximum, ..Allowed::default() })
}

fn sizes(settled: &[Settled]) -> Vec<u32> {
    settled.iter().map(|(sent, _)| sent.bytes).collect()
}

#[test]
fn acknowledgements_find_their_messages_in_any_order() {
    let (mut in_flight, mut settled) = (allowing(10), Vec::new());
    let ids: Vec<u16> = (0..3).map(|number| in_flight.take_id(sent(number)).unwrap()).collect();
    assert_eq!(ids, [1, 2, 3]);
    let refused = Box::new(ClientError::passing(FailureClass::Full, "full"));
    for (id, failure) in [(3, None), (1, Some(refused)), (2, None)] {
        assert!(!in_flight.settle(id, failure, &mut settled).unwrap());
    }
    assert_eq!(sizes(&settled), [2, 0, 1]);
    let failed: Vec<bool> = settled.iter().map(|(_, failure)| failure.is_some()).collect();
    assert_eq!(failed, [false, true, false]);
    assert_eq!(in_flight.pending(), 0);
}

#[test]
fn as_many_ids_as_the_server_allows() {
    let (mut in_flight, mut settled) = (allowing(2), Vec::new());
    assert_eq!([in_flight.take_id(sent(0)), in_flight.take_id(sent(1))], [Some(1), Some(2)]);
    assert_eq!(in_flight.take_id(sent(2)), None);
    assert!(in_flight.settle(2, None, &mut settled).unwrap(), "somebody waits for it");
    assert_eq!(in_flight.take_id(sent(2)), Some(2));
    assert!(!in_flight.settle(1, None, &mut settled).unwrap());
}

#[test]
fn every_packet_id_can_be_used() {
    let mut in_flight = allowing(u16::MAX);
    let ids = (0..70_000).filter_map(|number| in_flight.take_id(sent(number)));
    assert!(ids.eq(1..=u16::MAX));
}

#[test]
fn id_of_a_late_message_is_used_until_its_acknowledgement() {
    let (mut in_flight, mut settled) = (allowing(2), Vec::new());
    let first = in_flight.take_id(sent(0)).unwrap();
    assert_eq!(in_flight.take_overdue(|_| true).len(), 1);
    assert_eq!(in_flight.pending(), 0);
    assert_eq!([in_flight.take_id(sent(1)), in_flight.take_id(sent(2))], [Some(2), None]);
    in_flight.settle(first, None, &mut settled).unwrap();
    assert!(settled.is_empty());
    assert_eq!(in_flight.take_unmatched(), 1);
    assert_eq!(in_flight.take_id(sent(2)), Some(first));
}

#[test]
fn acknowledgement_of_nothing_is_an_error() {
    let (mut in_flight, mut settled) = (allowing(2), Vec::new());
    in_flight.take_id(sent(0)).unwrap();
    in_flight.settle(1, None, &mut settled).unwrap();
    for id in [0, 1, 2, u16::MAX] {
        assert!(in_flight.settle(id, None, &mut settled).is_err(), "{id}");
    }
    assert!(in_flight.pong(&mut settled).is_err());
}

#[test]
fn pong_acknowledges_what_was_before_its_ping() {
    let (mut in_flight, mut settled) = (allowing(2), Vec::new());
    for (numbers, messages) in [(0..3, Some(3)), (0..0, None), (3..5, Some(2))] {
        numbers.for_each(|number| in_flight.push_unnumbered(sent(number)));
        in_flight.ping(messages);
    }
    in_flight.pong(&mut settled).unwrap();
    assert_eq!(sizes(&settled), [0, 1, 2]);
    in_flight.pong(&mut settled).unwrap();
    assert_eq!(in_flight.take_overdue(|sent| sent.bytes == 3).len(), 1);
    in_flight.pong(&mut settled).unwrap();
    assert_eq!(sizes(&settled), [0, 1, 2, 4]);
    assert_eq!((in_flight.pending(), in_flight.take_unmatched()), (0, 1));
}

#[test]
fn last_packets_by_quality_of_service() {
    let last = |kind, qos, is_failure| is_last(kind, qos, is_failure).ok();
    assert_eq!(last(Ack::Puback, 1, false), Some(true));
    assert_eq!(last(Ack::Pubrec, 2, false), Some(false));
    assert_eq!(last(Ack::Pubrec, 2, true), Some(true));
    assert_eq!(last(Ack::Pubcomp, 2, false), Some(true));
    assert_eq!([last(Ack::Puback, 2, false), last(Ack::Pubrec, 1, false), last(Ack::Puback, 0, false)], [None; 3]);
}
