use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::AMQPClass::{self, Exchange as OfExchange, Queue};
use amq_protocol::protocol::{exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::*;

#[test]
fn requests_read_by_another_implementation() {
    let arguments = [
        ("x-queue-type", Value::Text("classic")),
        ("x-max-length", Value::Number(7)),
        ("x-single-active-consumer", Value::True),
    ];
    let mut out = Vec::new();
    for request in [
        Request::FindExchange("e", Exchange::Fanout),
        Request::DeclareExchange("e", Exchange::Headers),
        Request::DeleteExchange("e"),
        Request::FindQueue("q"),
        Request::DeclareQueue("q", &arguments),
        Request::Bind("q", "e"),
        Request::DeleteQueue("q"),
    ] {
        request.append(&mut out).unwrap();
    }
    let declared_exchange = |kind: &str, passive| {
        let (exchange, kind, arguments) = ("e".into(), kind.into(), FieldTable::default());
        let (durable, auto_delete, internal, nowait) = (true, false, false, false);
        OfExchange(exchange::AMQPMethod::Declare(exchange::Declare {
            exchange,
            kind,
            passive,
            durable,
            auto_delete,
            internal,
            nowait,
            arguments,
        }))
    };
    let declared_queue = |passive: bool, arguments| {
        let (queue, durable, exclusive, auto_delete, nowait) = ("q".into(), !passive, false, false, false);
        Queue(queue::AMQPMethod::Declare(queue::Declare {
            queue,
            passive,
            durable,
            exclusive,
            auto_delete,
            nowait,
            arguments,
        }))
    };
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    table.insert("x-max-length".into(), AMQPValue::LongLongInt(7));
    table.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    let bind = queue::Bind {
        queue: "q".into(),
        exchange: "e".into(),
        routing_key: "e".into(),
        nowait: false,
        arguments: FieldTable::default(),
    };
    let expected: [AMQPClass; 7] = [
        declared_exchange("fanout", true),
        declared_exchange("headers", false),
        OfExchange(exchange::AMQPMethod::Delete(exchange::Delete {
            exchange: "e".into(),
            if_unused: false,
            nowait: false,
        })),
        declared_queue(true, FieldTable::default()),
        declared_queue(false, table),
        Queue(queue::AMQPMethod::Bind(bind)),
        Queue(queue::AMQPMethod::Delete(queue::Delete {
            queue: "q".into(),
            if_unused: false,
            if_empty: false,
            nowait: false,
        })),
    ];
    let mut rest = &out[..];
    for method in expected {
        let (after, frame) = parse_frame(rest).unwrap();
        assert_eq!(frame, AMQPFrame::Method(CHANNEL, method));
        rest = after;
    }
    assert_eq!(rest, b"");
}
