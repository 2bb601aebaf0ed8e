use super::*;

fn sent(sequence: u64) -> Sent {
    Sent { send_tag: SendTag::new(0, sequence, 1_000, 0, true), bytes: 100 }
}

/// Two channels, the second of which has sent the messages of these numbers.
fn with(sequences: std::ops::Range<u64>) -> InFlight {
    let mut in_flight = InFlight::default();
    in_flight.add_channel();
    in_flight.add_channel();
    in_flight.push(2, sequences.map(sent).collect::<Vec<_>>().into_iter());
    in_flight
}

/// The numbers of messages that were settled, with whether they have failed; nothing of them is left.
fn taken(settled: &mut Vec<Settled>) -> Vec<(u64, bool)> {
    settled.drain(..).map(|one| (one.sent.send_tag.sequence(), one.failure.is_some())).collect()
}

fn failure() -> Arc<ClientError> {
    Arc::new(ClientError::passing(FailureClass::Full, "full"))
}

/// A payload that carries the number of its message.
fn sealed(sequence: u64) -> Vec<u8> {
    let mut payload = vec![0; 100];
    let header = TraceHeader { run_tag: 1, producer: 0, measured: true, sequence, intended_ns: 0 };
    header.seal(&mut payload, 0);
    payload
}

#[test]
fn confirms_one_and_multiple_settled_once() {
    let (mut in_flight, mut settled) = (with(0..6), Vec::new());
    in_flight.settle(2, (2, false), None, &mut settled);
    assert_eq!(taken(&mut settled), [(1, false)]);
    in_flight.settle(2, (4, true), None, &mut settled);
    assert_eq!(taken(&mut settled), [(0, false), (2, false), (3, false)]);
    // Known already, of a message that was not sent, and of a channel that does not exist.
    in_flight.settle(2, (4, true), None, &mut settled);
    in_flight.settle(2, (7, false), None, &mut settled);
    in_flight.settle(3, (1, true), None, &mut settled);
    in_flight.settle(0, (1, true), None, &mut settled);
    assert_eq!((taken(&mut settled), in_flight.pending()), (vec![], 2));
    in_flight.settle(2, (6, true), Some(&failure()), &mut settled);
    assert_eq!((taken(&mut settled), in_flight.pending()), (vec![(4, true), (5, true)], 0));
}

#[test]
fn channel_closed_all_fail_and_tags_begin_again() {
    let (mut in_flight, mut settled) = (with(0..3), Vec::new());
    in_flight.settle(2, (1, false), None, &mut settled);
    in_flight.settle_channel(2, &failure(), &mut settled);
    assert_eq!((taken(&mut settled), in_flight.pending()), (vec![(0, false), (1, true), (2, true)], 0));
    in_flight.push(2, [sent(3)].into_iter());
    in_flight.settle(2, (1, false), None, &mut settled);
    assert_eq!(taken(&mut settled), [(3, false)]);
}

#[test]
fn connection_lost_all_channels_taken() {
    let (mut in_flight, mut settled) = (with(0..3), Vec::new());
    in_flight.push(1, [sent(8)].into_iter());
    in_flight.settle(2, (2, false), None, &mut settled);
    let mut all = in_flight.take_all();
    assert_eq!(all.iter().map(|one| one.channel).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(taken(&mut all).len(), 3);
    assert_eq!(in_flight.pending(), 0);
    assert_eq!(in_flight.channels().count(), 2);
}

#[test]
fn returned_message_fails_alone_by_its_number() {
    let (mut in_flight, mut settled) = (with(10..20), Vec::new());
    for sequence in [13, 17] {
        let payload = sealed(sequence);
        in_flight.begin_return(2, "NO_ROUTE");
        in_flight.returned_header(2, 100, b"\x10\0\x02", &mut settled);
        in_flight.returned_body(2, &payload[..60], &mut settled);
        assert_eq!(taken(&mut settled), [], "its rest has not arrived");
        in_flight.returned_body(2, &payload[60..], &mut settled);
        assert!(settled[0].failure.as_ref().unwrap().message.contains("NO_ROUTE"));
        assert_eq!(taken(&mut settled), [(sequence, true)]);
    }
    in_flight.settle(2, (10, true), None, &mut settled);
    let confirmed = taken(&mut settled);
    assert_eq!(confirmed.len(), 8);
    assert!(confirmed.iter().all(|(sequence, has_failed)| ![13, 17].contains(sequence) && !has_failed));
}

#[test]
fn returned_message_without_number_fails_the_first() {
    let (mut in_flight, mut settled) = (with(0..2), Vec::new());
    in_flight.begin_return(2, "NO_ROUTE");
    in_flight.returned_header(2, 0, b"\x10\0\x02", &mut settled);
    assert_eq!(taken(&mut settled), [(0, true)]);
    // A body without its method.
    in_flight.returned_body(2, b"hello", &mut settled);
    assert_eq!((taken(&mut settled), in_flight.pending()), (vec![], 1));
}
