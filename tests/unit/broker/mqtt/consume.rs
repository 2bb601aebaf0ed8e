use super::*;

fn message(qos: u8, packet_id: u16) -> Published<'static> {
    let properties = Properties(b"\x09\0\x02cd&\0\x01k\0\x01v");
    Published { dup: false, qos, retain: false, topic: b"orders", packet_id, properties, payload: b"hello" }
}

#[test]
fn messages_are_acknowledged_by_their_quality_of_service() {
    let mut answers = Answers::default();
    assert!([message(0, 0), message(1, 1), message(2, 2)].iter().all(|message| answers.receive(message)));
    answers.release(2);
    assert_eq!(answers.bytes, b"@\x02\0\x01P\x02\0\x02p\x02\0\x02");
}

#[test]
fn message_of_qos_2_that_comes_again_is_received_once() {
    let mut answers = Answers::default();
    assert!(answers.receive(&message(2, 7)));
    answers.restart(true);
    assert!(!answers.receive(&Published { dup: true, ..message(2, 7) }));
    assert_eq!(answers.bytes, b"P\x02\0\x07P\x02\0\x07", "both are acknowledged");
    answers.release(7);
    assert!(answers.receive(&message(2, 7)), "the id is another message's");
    // The server does not know the session any more.
    answers.restart(false);
    assert!(answers.receive(&message(2, 7)));
}

#[test]
fn received_message_has_its_headers_and_flags() {
    for (dup, retain) in [(false, false), (true, false), (false, true)] {
        let message = Published { dup, retain, ..message(1, 1) };
        let received = received(&message);
        assert_eq!(received.trace_header, Some(&b"cd"[..]));
        assert_eq!(received.details.headers(), [("k".to_owned(), b"v".to_vec())]);
        assert_eq!(received.redelivered, dup || retain);
    }
}
