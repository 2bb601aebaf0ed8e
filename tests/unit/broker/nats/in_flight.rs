use super::*;

/// So many messages without an outcome; with `batch`, the last of so many has the answer of all.
fn in_flight(messages: u64, batch: u32) -> InFlight {
    let mut in_flight = InFlight::default();
    for sequence in 0..messages {
        let is_last = (sequence + 1) % u64::from(batch) == 0;
        let send_tag = SendTag::new(0, sequence, 0, 0, true);
        let answered = if is_last { batch } else { 0 };
        in_flight.push(Sent { send_tag, bytes: 1, route: 0, answered });
    }
    in_flight
}

fn sequences(settled: &[Settled]) -> Vec<u64> {
    settled.iter().map(|(sent, _)| sent.send_tag.sequence()).collect()
}

#[test]
fn answers_in_any_order_settle_their_messages() {
    let (mut in_flight, mut settled) = (in_flight(4, 1), Vec::new());
    for number in [2, 0, 3] {
        in_flight.settle(number, None, &mut settled);
    }
    assert_eq!(sequences(&settled), [2, 0, 3]);
    assert_eq!((in_flight.first, in_flight.pending), (1, 1), "the second one is left");
    in_flight.settle(2, None, &mut settled);
    in_flight.settle(9, None, &mut settled);
    assert_eq!((settled.len(), in_flight.take_unmatched()), (3, 2), "a second answer, and one to nothing");
    in_flight.settle(1, None, &mut settled);
    assert_eq!((in_flight.first, in_flight.pending, in_flight.sent.len()), (4, 0, 0));
}

#[test]
fn answer_to_a_batch_settles_all_of_it() {
    let (mut in_flight, mut settled) = (in_flight(6, 3), Vec::new());
    let refusal = ClientError::passing(FailureClass::Refused, "atomic publish is disabled");
    in_flight.settle(5, Some(Box::new(refusal)), &mut settled);
    assert_eq!(sequences(&settled), [3, 4, 5]);
    assert!(settled.iter().all(|(_, failure)| failure.is_some()));
    in_flight.settle(2, None, &mut settled);
    assert_eq!((settled.len(), in_flight.pending, in_flight.first), (6, 0, 6));
}

#[test]
fn pong_settles_what_was_before_its_ping() {
    let (mut in_flight, mut settled) = (in_flight(3, 1), Vec::new());
    in_flight.ping();
    in_flight.heartbeat();
    in_flight.push(Sent { send_tag: SendTag::new(0, 3, 0, 0, true), bytes: 1, route: 0, answered: 1 });
    in_flight.pong(&mut settled);
    assert_eq!(sequences(&settled), [0, 1, 2]);
    in_flight.pong(&mut settled);
    assert_eq!((settled.len(), in_flight.pending()), (3, 1), "a heartbeat settles nothing");
}

#[test]
fn jetstream_answers_have_outcomes() {
    // Of nats-server 2.15.2.
    assert_eq!(stored(b"{\"stream\":\"S\",\"seq\":1}"), Ok(()));
    assert_eq!(stored(b"{\"stream\":\"S\",\"seq\":4,\"batch\":\"b\",\"count\":2}"), Ok(()));
    let class = |answer: &[u8]| stored(answer).unwrap_err().class;
    assert_eq!(class(b"{\"stream\":\"S\",\"seq\":2,\"duplicate\": true}"), FailureClass::Refused);
    let incomplete = b"{\"error\":{\"code\":400,\"err_code\":10176,\"description\":\"atomic publish batch is incomplete\"},\"stream\":\"S\",\"seq\":0}";
    assert!(stored(incomplete).unwrap_err().message.contains("incomplete (error 10176)"));
    // As server/errors.json has it.
    let full = b"{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"maximum bytes exceeded\"},\"stream\":\"S\",\"seq\":0}";
    assert_eq!(class(full), FailureClass::Full);
    assert_eq!(class(b"hello"), FailureClass::Other);
}
