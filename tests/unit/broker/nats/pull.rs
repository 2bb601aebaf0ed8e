use super::*;

fn requests(policy: Acknowledge) -> Requests {
    let (subject, durable) = ("$JS.API.CONSUMER.MSG.NEXT.s.d".to_owned(), "d".to_owned());
    Requests { subject, durable, policy, batch: 10, pending: 0, acknowledgements: Vec::new() }
}

fn written(requests: &mut Requests) -> String {
    let mut out = Vec::new();
    requests.write(b"_INBOX.x.", &mut out);
    String::from_utf8(out).unwrap()
}

fn heard(requests: &mut Requests, headers: &str) -> Result<(), ClientError> {
    requests.take_status(&Answer { subject: b"_INBOX.x.0", reply: b"", headers: headers.as_bytes(), payload: b"" })
}

/// Both from nats-server: 2.15.2 without a domain, and as ADR-15 has it with one.
#[test]
fn subject_of_an_acknowledgement_tells_of_the_message() {
    let told = Told { deliveries: 2, sequence: 71, stored_unix_ns: 1_764_155_023_123_456_789 };
    for reply in [
        "$JS.ACK.orders.billing.2.71.70.1764155023123456789.4",
        "$JS.ACK.hub.AAAA.orders.billing.2.71.70.1764155023123456789.4",
        "$JS.ACK.hub.AAAA.orders.billing.2.71.70.1764155023123456789.4.token",
    ] {
        assert_eq!(Told::read(reply.as_bytes()), Some(told), "{reply}");
    }
    for reply in ["", "_INBOX.x.0", "$JS.ACK.orders", "$JS.ACK.orders.billing.2.x.70.1764155023123456789.4"] {
        assert_eq!(Told::read(reply.as_bytes()), None, "{reply}");
    }
}

#[test]
fn half_of_a_request_is_asked_for_again() {
    let mut requests = requests(Acknowledge::Explicit);
    let first = written(&mut requests);
    assert!(first.starts_with("PUB $JS.API.CONSUMER.MSG.NEXT.s.d _INBOX.x.0 "), "{first}");
    assert!(first.contains(r#"{"batch":10,"expires":30000000000,"idle_heartbeat":5000000000}"#), "{first}");
    for _ in 0..4 {
        requests.took(b"$JS.ACK.a");
    }
    assert_eq!(written(&mut requests), "PUB $JS.ACK.a 4\r\n+ACK\r\n".repeat(4), "six are still to come");
    requests.took(b"$JS.ACK.b");
    assert!(written(&mut requests).contains(r#"{"batch":5,"#));
    assert_eq!(requests.pending, 10);
}

#[test]
fn one_acknowledgement_stands_for_those_before_it() {
    let mut requests = requests(Acknowledge::All);
    requests.pending = 10;
    requests.took(b"$JS.ACK.a");
    requests.took(b"$JS.ACK.b");
    assert_eq!(written(&mut requests), "PUB $JS.ACK.b 4\r\n+ACK\r\n");
    requests.policy = Acknowledge::None;
    requests.took(b"$JS.ACK.c");
    assert_eq!(written(&mut requests), "");
}

#[test]
fn end_of_a_request_is_asked_for_again_and_a_refusal_is_told() {
    let mut requests = requests(Acknowledge::None);
    let pending = |requests: &mut Requests, headers: &str| {
        requests.pending = 10;
        let heard = heard(requests, headers).map_err(|error| error.class);
        (heard, requests.pending)
    };
    for (headers, expected) in [
        ("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\n\r\n", (Ok(()), 10)),
        ("NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\nNats-Pending-Bytes: 0\r\n\r\n", (Ok(()), 3)),
        ("NATS/1.0 404 No Messages\r\n\r\n", (Ok(()), 0)),
        ("NATS/1.0 409 Leadership Change\r\nNats-Pending-Messages: 10\r\n\r\n", (Ok(()), 0)),
        ("NATS/1.0 409 Consumer Deleted\r\n\r\n", (Err(FailureClass::UnknownTopic), 0)),
        ("NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n", (Err(FailureClass::Refused), 0)),
        ("NATS/1.0 503\r\n\r\n", (Err(FailureClass::ConnectionLost), 0)),
        ("", (Err(FailureClass::Refused), 0)),
    ] {
        assert_eq!(pending(&mut requests, headers), expected, "{headers}");
    }
}
