use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::super::NatsBroker;
use super::super::config::NatsOptions;
use super::super::consume::tests::accept;
use super::*;
use crate::broker::{Broker, Topic, scripted};

#[tokio::test]
async fn a_topic_waits_for_no_connection_once_that_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = scripted::setup("nats", listener.local_addr().unwrap(), NatsOptions::default());
    let conditions = setup.conditions.clone();
    let accepted = async { (accept(&listener).await, accept(&listener).await) };
    let (broker, (server, _admin)) = tokio::join!(NatsBroker::connect(setup), accepted);
    let topic = Topic { name: "orders".to_owned(), partitions: 1, replication: 1 };
    let mut producer = broker.unwrap().producer(0, &topic).await.unwrap();
    assert!(producer.submit(&[scripted::message()]).await.is_ok_and(|taken| taken == 1));
    // It is not acknowledged.
    drop(server);
    let mut server = accept(&listener).await;
    assert!(server.read(&mut [0; 64]).await.unwrap() > 0, "the connection is in use");
    scripted::assert_topic_has_its_connection(&conditions);
}

/// Another process waits for a topic that can be found, which a subject never can.
#[tokio::test]
async fn only_streams_are_found_once_they_are_created() {
    for (mode, finds) in [(Mode::Jetstream, true), (Mode::Core, false), (Mode::Request, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = NatsOptions { mode, ..NatsOptions::default() };
        let setup = scripted::setup("nats", listener.local_addr().unwrap(), options);
        let accepted = async { (accept(&listener).await, accept(&listener).await) };
        let (broker, _servers) = tokio::join!(NatsBroker::connect(setup), accepted);
        assert_eq!(broker.unwrap().finds_created(), finds, "{mode:?}");
    }
}
