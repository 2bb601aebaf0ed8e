//! Tests against a broker that leaves something unanswered: a subscription, or every connection to one of its addresses.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prost::Message as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::broker::FailureClass;
use crate::broker::pulsar::codec::entry::EntryTemplate;
use crate::broker::pulsar::codec::frame::Frame;
use crate::broker::pulsar::codec::proto::{Connected, FromBroker, Kind, LookupResponse, ToBroker};
use crate::broker::pulsar::config::{PulsarOptions, SubscriptionType};
use crate::broker::pulsar::connect::SocketSettings;
use crate::broker::pulsar::connection::ConsumerId;
use crate::broker::pulsar::partition_producer::Client;
use crate::broker::pulsar::pool::Pool;
use crate::broker::pulsar::topic_consumer::{Membership, open};
use crate::measure::{Acks, Clock, Conditions};
use crate::net::tcp::silent;
use crate::scenario::StartFrom;

/// Answers all but `Subscribe`, and tells which consumers were subscribed, and then which were closed.
async fn serve(mut stream: TcpStream, address: String, told: mpsc::UnboundedSender<(Kind, ConsumerId)>) {
    let mut received = Vec::new();
    while stream.read_buf(&mut received).await.is_ok_and(|count| count > 0) {
        while let Ok(Some((frame, size))) = Frame::first(&received, 1 << 20) {
            let command = ToBroker::decode(frame.command).unwrap();
            received.drain(..size);
            let mut answer = FromBroker::default();
            if command.connect.is_some() {
                answer.kind = Kind::Connected.into();
                answer.connected = Some(Box::new(Connected { server_version: "test".into(), ..Default::default() }));
            } else if let Some(lookup) = command.lookup {
                answer.kind = Kind::LookupResponse.into();
                answer.lookup_response = Some(Box::new(LookupResponse {
                    broker_service_url: Some(format!("pulsar://{address}")),
                    response: Some(1),
                    request_id: lookup.request_id,
                    ..LookupResponse::default()
                }));
            } else {
                let subscribed = command.subscribe.map(|subscribe| (Kind::Subscribe, subscribe.consumer_id));
                let closed = command.close_consumer.map(|close| (Kind::CloseConsumer, close.consumer_id));
                subscribed.or(closed).into_iter().for_each(|found| told.send(found).unwrap());
                continue;
            }
            let bytes = answer.encode_to_vec();
            stream.write_u32(bytes.len() as u32 + 4).await.unwrap();
            stream.write_u32(bytes.len() as u32).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        }
    }
}

fn client(addresses: &[&str]) -> Client {
    let settings = SocketSettings {
        tls: None,
        token: None,
        certified: false,
        timeout: Duration::from_millis(500),
        keep_alive: Duration::from_secs(60),
        send_timeout: Duration::from_secs(60),
        conditions: Conditions::default(),
        publish_rate: None,
    };
    let acks = Acks::new(Clock::start(), 1, false);
    Client {
        pool: Arc::new(Pool::new(
            settings,
            addresses.iter().map(|address| (*address).to_owned()).collect(),
            vec![acks.recorder()],
        )),
        options: PulsarOptions::default(),
        template: EntryTemplate::default(),
        recorder: acks.recorder(),
        waited_ns: AtomicU64::new(0),
    }
}

/// The broker may subscribe it yet, and a consumer without a reader would keep messages from others.
#[tokio::test]
async fn consumer_of_an_unanswered_subscription_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, mut seen) = mpsc::unbounded_channel();
    let own = address.clone();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, own.clone(), told.clone()));
        }
    });
    let (client, arrived) = (client(&[&address]), Arc::default());
    let membership = Membership {
        subscription: "group".to_owned(),
        kind: SubscriptionType::Shared,
        consumer_name: "member".to_owned(),
        from: StartFrom::Latest,
        index: 0,
    };
    // On a machine that is too busy even to connect in time, another attempt gets as far as that.
    let subscribed = loop {
        let failure = open(&client, &membership, "persistent://a/b/c", &arrived).await.err().unwrap();
        if failure.class == FailureClass::Timeout
            && let Ok(subscribed) = seen.try_recv()
        {
            break subscribed;
        }
    };
    assert_eq!(subscribed.0, Kind::Subscribe);
    assert_eq!(seen.recv().await, Some((Kind::CloseConsumer, subscribed.1)));
    serving.abort();
}

#[tokio::test]
async fn a_silent_first_address_is_passed() {
    let silent = silent::at("127.0.0.2:0").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, _seen) = mpsc::unbounded_channel();
    let own = address.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, own.clone(), told.clone()));
        }
    });
    let client = client(&[&silent.address.to_string(), &address]);
    assert_eq!(client.pool.greet_all().await.unwrap(), "test");
}
