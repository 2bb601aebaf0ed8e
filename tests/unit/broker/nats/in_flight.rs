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
        in_flight.answer(number, Outcome::Acknowledged, &mut settled);
    }
    assert_eq!(sequences(&settled), [2, 0, 3]);
    assert_eq!((in_flight.first, in_flight.pending), (1, 1), "the second one is left");
    in_flight.answer(2, Outcome::Acknowledged, &mut settled);
    in_flight.answer(9, Outcome::Acknowledged, &mut settled);
    assert_eq!((settled.len(), in_flight.take_unmatched()), (3, 2), "a second answer, and one to nothing");
    in_flight.answer(1, Outcome::Acknowledged, &mut settled);
    assert_eq!(in_flight.first, 4);
    assert_eq!(in_flight.pending, 0);
    assert_eq!(in_flight.sent.len(), 0);
}

#[test]
fn answer_to_a_batch_settles_all_of_it() {
    let (mut in_flight, mut settled) = (in_flight(6, 3), Vec::new());
    let refusal = ClientError::passing(FailureClass::Refused, "atomic publish is disabled");
    in_flight.answer(5, Outcome::Failed(Box::new(refusal)), &mut settled);
    assert_eq!(sequences(&settled), [3, 4, 5]);
    assert!(settled.iter().all(|(_, failure)| failure.is_some()));
    in_flight.answer(2, Outcome::Acknowledged, &mut settled);
    assert_eq!(settled.len(), 6);
    assert_eq!(in_flight.pending, 0);
    assert_eq!(in_flight.first, 6);
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
fn fast_batch_that_ends_early_keeps_what_is_stored() {
    let (mut in_flight, mut settled) = (in_flight(6, 3), Vec::new());
    let full = Box::new(ClientError::passing(FailureClass::Full, "maximum messages exceeded (error 10077)"));
    in_flight.answer(2, Outcome::Ends(full.clone()), &mut settled);
    assert_eq!(settled.len(), 0, "how many are stored is not known yet");
    in_flight.answer(2, Outcome::Stored(1), &mut settled);
    in_flight.answer(2, Outcome::Repeated(full.clone()), &mut settled);
    assert_eq!(sequences(&settled), [0, 1, 2]);
    let failures: Vec<_> = settled.iter().map(|(_, failure)| failure.clone()).collect();
    assert_eq!(failures, [None, Some(full.clone()), Some(full.clone())]);
    in_flight.answer(5, Outcome::Stored(3), &mut settled);
    assert!(settled[3..].iter().all(|(_, failure)| failure.is_none()));
    assert_eq!(settled.len(), 6);
    assert_eq!(in_flight.pending, 0);
    assert_eq!(in_flight.take_unmatched(), 0);
}

#[test]
fn jetstream_answers_have_outcomes() {
    // Of nats-server 2.15.2.
    let single = |answer: &[u8]| stored(answer, Batches::Single);
    assert_eq!(single(b"{\"stream\":\"S\",\"seq\":1}"), Some(Outcome::Acknowledged));
    let batch = b"{\"stream\":\"S\",\"seq\":4,\"batch\":\"b\",\"count\":2}";
    assert_eq!(stored(batch, Batches::Atomic), Some(Outcome::Acknowledged));
    assert_eq!(stored(b"", Batches::Atomic), None, "it was begun");
    let failure = |answer: &[u8]| match single(answer) {
        Some(Outcome::Failed(failure)) => *failure,
        other => panic!("{other:?}"),
    };
    assert_eq!(failure(b"{\"stream\":\"S\",\"seq\":2,\"duplicate\": true}").class, FailureClass::Refused);
    let incomplete = b"{\"error\":{\"code\":400,\"err_code\":10176,\"description\":\"atomic publish batch is incomplete\"},\"stream\":\"S\",\"seq\":0}";
    assert!(failure(incomplete).message.contains("incomplete (error 10176)"));
    // As server/errors.json has it.
    let full = b"{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"maximum bytes exceeded\"},\"stream\":\"S\",\"seq\":0}";
    assert_eq!(failure(full).class, FailureClass::Full);
    assert_eq!(failure(b"hello").class, FailureClass::Other);
}

#[test]
fn answers_to_fast_batches_have_outcomes() {
    let fast = |answer: &str| stored(answer.as_bytes(), Batches::Fast);
    assert_eq!(fast(r#"{"type":"ack","seq":0,"msgs":500}"#), None);
    assert_eq!(fast(r#"{"stream":"S","seq":4,"batch":"b","count":2}"#), Some(Outcome::Stored(2)));
    let refusal = |message: &str| Box::new(ClientError::passing(FailureClass::Refused, message));
    let unknown =
        r#"{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"S","seq":0}"#;
    assert_eq!(fast(unknown), Some(Outcome::Repeated(refusal("batch publish ID unknown (error 10208)"))));
    let disabled =
        r#"{"error":{"code":400,"err_code":10205,"description":"batch publish is disabled"},"stream":"S","seq":0}"#;
    assert_eq!(fast(disabled), Some(Outcome::Failed(refusal("batch publish is disabled (error 10205)"))));
    let error =
        r#"{"type":"err","seq":3,"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#;
    let full = ClientError::passing(FailureClass::Full, "maximum messages exceeded (error 10077)");
    assert_eq!(fast(error), Some(Outcome::Ends(Box::new(full))));
    let gap = fast(r#"{"type":"gap","last_seq":3,"seq":5}"#);
    assert_eq!(gap, Some(Outcome::Ends(refusal("messages of the batch did not reach the stream"))));
}
