use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::codec::{PROTOCOL_HEADER, append_long, append_method};
use super::super::config::RabbitmqOptions;
use super::super::content::MessageProperties;
use super::*;
use crate::load::PayloadPool;
use crate::measure::{Acks, Clock, SendTag};
use crate::scenario::parse_for;

/// The class and the method of the next frame.
async fn read_method(stream: &mut TcpStream) -> (u16, u16) {
    let (_kind, _channel) = (stream.read_u8().await.unwrap(), stream.read_u16().await.unwrap());
    let size = stream.read_u32().await.unwrap() as usize;
    let method = (stream.read_u16().await.unwrap(), stream.read_u16().await.unwrap());
    // What else is in the frame, and its end.
    stream.read_exact(&mut vec![0; size - 4 + 1]).await.unwrap();
    method
}

/// Accepts a client that logs in.
async fn greet(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; PROTOCOL_HEADER.len()]).await.unwrap();
    let mut start = vec![0, 9];
    for part in [&b""[..], b"PLAIN", b"en_US"] {
        append_long(&mut start, part);
    }
    // Limits of 0 are none.
    let (tune, open_ok) = ([0; 8], [0]);
    for (method, arguments, answers) in
        [((10, 10), &start[..], 1), ((10, 30), &tune[..], 2), ((10, 41), &open_ok[..], 0)]
    {
        let mut out = Vec::new();
        append_method(&mut out, 0, method, arguments);
        stream.write_all(&out).await.unwrap();
        for _ in 0..answers {
            read_method(&mut stream).await;
        }
    }
    stream
}

#[tokio::test]
async fn a_topic_waits_for_no_connection_once_that_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let text = format!("broker = {{ kind = \"rabbitmq\", address = \"{address}\" }}\nrun.messages = 1");
    let plan = parse_for(crate::engine::kinds(), &text, "a.toml", &[], Path::new(""));
    let scenario = plan.unwrap_or_else(|error| panic!("{error}")).trials.remove(0).scenario;
    let conditions = Conditions::default();
    let setup = Arc::new(Setup {
        payloads: PayloadPool::build(&scenario.payload, 0).unwrap().into(),
        options: RabbitmqOptions::default(),
        config: scenario.broker,
        acks: Acks::new(Clock::start(), 1, false),
        conditions: conditions.clone(),
        run_id: "run".to_owned(),
        header_sets: scenario.producers.header_sets,
        topic_config: Vec::new(),
        producers: 1,
        first_producer: 0,
        places_on_topics: vec![0],
        groups: 0,
        in_flight: 1,
        timeout: Duration::from_secs(60),
    });
    let connector = Arc::new(Connector::new(setup.clone()).unwrap());
    let (server, opened) = tokio::join!(greet(&listener), connector.connect(Role::Producer, 0));
    let outcomes = (true, setup.options.reconnect);
    let connection = Arc::new(Publishing::start(&setup, connector.clone(), outcomes, opened.unwrap()));
    let preambles = |channel: u16| {
        let properties = MessageProperties { persistent: true, priority: None };
        Preamble::new(channel, ("", "orders"), false, Vec::new(), properties).map(|preamble| vec![preamble])
    };
    let mut producer = RabbitmqProducer::open(connection, "orders", preambles).await.unwrap();
    let send_tag = SendTag::new(0, 0, 0, 0, true);
    let message = Outgoing { payload: b"one", key: None, trace_header: None, attributes: None, send_tag };
    assert!(producer.submit(&[message]).await.is_ok_and(|taken| taken == 1));
    // It is not confirmed.
    drop(server);
    let mut server = greet(&listener).await;
    assert_eq!(read_method(&mut server).await, (20, 10), "the channel is opened again");
    let told = conditions.all();
    let topic = told.iter().find(|condition| condition.subject == SubjectKind::Topic).unwrap();
    assert_eq!((topic.kind, topic.end.is_some()), (ConditionKind::Connecting, true));
}
