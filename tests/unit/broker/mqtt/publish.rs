use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::super::connect::tests::next_packet;
use super::*;
use crate::broker::scripted;
use crate::measure::SubjectKind;

/// Accepts a client.
async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut client, _) = listener.accept().await.unwrap();
    assert_eq!(next_packet(&mut client).await, Some(0x10));
    client.write_all(&[0x20, 3, 0, 0, 0]).await.unwrap();
    client
}

#[tokio::test]
async fn a_topic_waits_for_no_connection_once_that_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = scripted::setup("mqtt", listener.local_addr().unwrap(), MqttOptions::default());
    let connector = Arc::new(Connector::new(&setup).unwrap());
    let client = Client { id: "run".to_owned(), ..Client::default() };
    let (server, opened) = tokio::join!(accept(&listener), connector.connect(0, &client, None));
    let opened = opened.unwrap();
    let subject = |kind, name: &str| Subject::new(&setup.conditions, kind, name);
    let publishing = Publishing {
        connector,
        client,
        number: 0,
        recorder: setup.acks.recorder(),
        header_sets: vec![Vec::new()],
        properties: Vec::new(),
        routes: RwLock::default(),
        node: subject(SubjectKind::Node, &opened.address),
        reconnects: AtomicUsize::default(),
        address: Mutex::default(),
    };
    let connection = Arc::new(publishing.start(opened));
    let mut producer = MqttProducer::new(connection, "orders", subject(SubjectKind::Topic, "orders"));
    assert!(producer.submit(&[scripted::message()]).await.is_ok_and(|taken| taken == 1));
    // It is not acknowledged.
    drop(server);
    let mut server = accept(&listener).await;
    assert_eq!(next_packet(&mut server).await, Some(0xc0), "the connection is in use");
    scripted::assert_topic_has_its_connection(&setup.conditions);
}
