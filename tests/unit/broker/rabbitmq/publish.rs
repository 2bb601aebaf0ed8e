use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::codec::{PROTOCOL_HEADER, append_long, append_method};
use super::super::config::RabbitmqOptions;
use super::super::content::MessageProperties;
use super::*;
use crate::broker::scripted;

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
    let setup = Arc::new(scripted::setup("rabbitmq", address, RabbitmqOptions::default()));
    let connector = Arc::new(Connector::new(setup.clone()).unwrap());
    let (server, opened) = tokio::join!(greet(&listener), connector.connect(Role::Producer, 0));
    let outcomes = (true, setup.options.reconnect);
    let connection = Arc::new(Publishing::start(&setup, connector.clone(), outcomes, opened.unwrap()));
    let preambles = |channel: u16| {
        let properties = MessageProperties { persistent: true, priority: None };
        Preamble::new(channel, ("", "orders"), false, Vec::new(), properties).map(|preamble| vec![preamble])
    };
    let mut producer = RabbitmqProducer::open(connection, "orders", preambles).await.unwrap();
    assert!(producer.submit(&[scripted::message()]).await.is_ok_and(|taken| taken == 1));
    // It is not confirmed.
    drop(server);
    let mut server = greet(&listener).await;
    assert_eq!(read_method(&mut server).await, (20, 10), "the channel is opened again");
    scripted::assert_topic_has_its_connection(&setup.conditions);
}
