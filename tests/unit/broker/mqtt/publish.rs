use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;

use super::super::MqttBroker;
use super::super::connect::tests::next_packet;
use super::*;
use crate::broker::{Broker, Setup, Topic, scripted};
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

/// A broker that has not connected.
fn without_connections(setup: Setup<MqttOptions>) -> MqttBroker {
    let connector = Arc::new(Connector::new(&setup).unwrap());
    let (connections, sessions, shares) = (Vec::new(), Mutex::default(), OnceCell::new());
    MqttBroker { setup, connector, version: None, connections, sessions, shares }
}

#[tokio::test]
async fn a_session_is_removed_from_the_server_that_it_began_at() {
    let (first, second) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    for (number, began_at) in [(0, 0), (1, 1), (2, 0)] {
        let mut setup = scripted::setup("mqtt", first.local_addr().unwrap(), MqttOptions::default());
        setup.config.addresses.push(second.local_addr().unwrap().to_string());
        let broker = without_connections(setup);
        let _ = broker.member(&scripted::subscription(number));
        let asked = tokio::select! {
            _ = first.accept() => 0,
            _ = second.accept() => 1,
            _ = broker.close() => panic!("no server has answered"),
        };
        assert_eq!(asked, began_at, "consumer {number}");
    }
}

/// After a run in shares or ranks, what was retained is looked for and removed.
#[tokio::test]
async fn a_topic_is_found_by_its_retained_message() {
    for retained in [&b"\x31\x0a\0\x06orders\0x"[..], b""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = MqttOptions { retain: true, ..MqttOptions::default() };
        let setup = scripted::setup("mqtt", listener.local_addr().unwrap(), options);
        let broker = without_connections(setup);
        let topic = Topic { name: "orders".to_owned(), partitions: 1, replication: 1 };
        let answering = async {
            let mut client = accept(&listener).await;
            assert_eq!(next_packet(&mut client).await, Some(0x82));
            client.write_all(&[&b"\x90\x04\0\x01\0\0"[..], retained].concat()).await.unwrap();
            assert_eq!(next_packet(&mut client).await, Some(0xc0));
            client.write_all(&[0xd0, 0]).await.unwrap();
            client
        };
        let (found, _client) = tokio::join!(broker.find_topic(&topic), answering);
        assert_eq!(found.unwrap().is_some(), !retained.is_empty());
    }
}
