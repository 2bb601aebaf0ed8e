use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 20;

/// What nats-server 2.15.2 sent to a publisher, from its socket: the information is shortened.
const CAPTURED: &[u8] = b"INFO {\"server_id\":\"NB\",\"version\":\"2.15.2\",\"max_payload\":1048576} \r\nPONG\r\n\
    HMSG _INBOX.a.0 1 40 40\r\nNATS/1.0 503\r\nNats-Subject: nostream\r\n\r\n\r\n\
    MSG _INBOX.a.1 1 22\r\n{\"stream\":\"S\",\"seq\":1}\r\n\
    MSG _INBOX.a.5 1 0\r\n\r\n\
    -ERR 'Permissions Violation for Publish to \"b\"'\r\nPING\r\n+OK\r\n";

fn all(mut bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while let Some((frame, length)) = decode(bytes, MOST).unwrap() {
        frames.push(frame);
        bytes = &bytes[length..];
    }
    assert_eq!(bytes, b"");
    frames
}

#[test]
fn decode_captured_bytes_frames() {
    let frames = all(CAPTURED);
    let answer = |subject, headers, payload| Frame::Message(Answer { subject, reply: b"", headers, payload });
    assert!(matches!(frames[0], Frame::Info(json) if json.starts_with(b"{\"server_id\"")));
    assert_eq!(frames[1], Frame::Pong);
    assert_eq!(frames[2], answer(b"_INBOX.a.0", b"NATS/1.0 503\r\nNats-Subject: nostream\r\n\r\n", b""));
    assert_eq!(frames[3], answer(b"_INBOX.a.1", b"", b"{\"stream\":\"S\",\"seq\":1}"));
    assert_eq!(frames[4], answer(b"_INBOX.a.5", b"", b""));
    assert_eq!(frames[5], Frame::Error(b"Permissions Violation for Publish to \"b\""));
    assert_eq!(frames[6..], [Frame::Ping, Frame::Ok]);
}

#[test]
fn decode_other_protocols_refused() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 400 Bad Request"[..], "HTTP"),
        (&[0x15, 3, 3, 0, 2, 2, 80], "broker.security.tls"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not NATS"),
        (b"MSG a 1 99999999\r\n", "at most"),
        (b"MSG a 1 x\r\n", "not NATS"),
        (b"HMSG a 1 9 8\r\n", "not NATS"),
        (b"HMSG a 1 4 6\r\nNATShi\r\n", "do not begin with NATS/1.0"),
    ] {
        let error = decode(bytes, MOST).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn publish_with_reply_and_headers_lines() {
    let mut out = Vec::new();
    let plain = Publish { subject: b"orders", reply: None, fast: None, headers: b"", payload: b"hello" };
    plain.append_to(&mut out);
    Publish { reply: Some((b"_INBOX.a.", 17)), ..plain }.append_to(&mut out);
    Publish { reply: Some((b"_INBOX.a.", 18)), headers: b"NATS/1.0\r\nA: b\r\n\r\n", ..plain }.append_to(&mut out);
    let expected = "PUB orders 5\r\nhello\r\nPUB orders _INBOX.a.17 5\r\nhello\r\n\
        HPUB orders _INBOX.a.18 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn publish_in_a_fast_batch_reply_subjects() {
    // Of three messages, as `getFastBatch` of nats-server 2.15.2 reads them; and a batch of one.
    for (index, of, place) in [(0, 3, "1.0"), (1, 3, "2.1"), (2, 3, "3.2"), (0, 1, "1.2")] {
        let fast = Publish {
            subject: b"orders",
            reply: Some((b"_INBOX.a.", 17)),
            fast: Some((index, of)),
            headers: b"",
            payload: b"hello",
        };
        let mut out = Vec::new();
        fast.append_to(&mut out);
        let expected = format!("PUB orders _INBOX.a.17-a.65535.fail.{place}.$FI 5\r\nhello\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

proptest! {
    #[test]
    fn decode_any_bytes_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, MOST);
        let _ = decode(&[&b"HMSG a 1 "[..], &bytes].concat(), MOST);
    }

    #[test]
    fn decode_part_of_frames_waits(cut in 0_usize..CAPTURED.len()) {
        // Nothing of a frame is read before it is there, and nothing is refused.
        let mut rest = &CAPTURED[..cut];
        while let Ok(Some((_, length))) = decode(rest, MOST) {
            rest = &rest[length..];
        }
        prop_assert!(rest.len() < 200);
    }
}
