use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};

use super::*;
use crate::broker::{Attributes, FailureClass};
use crate::measure::{Acks, Clock, Conditions, Interval, SendTag, TRACE_HEADER_BYTES};

fn producer(acks: &Acks, properties: &[(&str, &str)]) -> KafkaProducer {
    producer_with(&[Vec::new()], acks, properties)
}

fn producer_with(header_sets: &[Vec<(String, String)>], acks: &Acks, properties: &[(&str, &str)]) -> KafkaProducer {
    let connection =
        Connection::new(properties.iter().copied(), acks.recorder(), false, None, Conditions::default()).unwrap();
    KafkaProducer::new(Arc::new(connection), "topic", HeaderSets::new(header_sets)).unwrap()
}

fn outgoing(trace_header: Option<&'static [u8; TRACE_HEADER_BYTES]>) -> Outgoing<'static> {
    let send_tag = SendTag::new(0, 0, 0, 0, true);
    Outgoing { payload: b"message", key: None, trace_header, attributes: None, send_tag }
}

#[tokio::test]
async fn after_a_fatal_error_messages_are_refused_with_its_reason() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 4],
    );
    let acks = Acks::new(Clock::start(), 1, false);
    let servers = cluster.bootstrap_servers();
    let mut producer = producer(&acks, &[("bootstrap.servers", &servers), ("enable.idempotence", "true")]);
    while producer.fatal_error().is_none() {
        tokio::task::yield_now().await;
    }
    for trace_header in [None, Some(&[0; TRACE_HEADER_BYTES])] {
        let refusal = producer.submit(&[outgoing(trace_header); 3]).await.unwrap_err();
        assert_eq!(refusal.class, FailureClass::Authorisation);
        assert!(refusal.message.contains("authorization failed"), "{refusal}");
        assert_eq!(producer.fatal_error(), Some(refusal.message));
    }
    assert_eq!(acks.resolved(), 0, "the engine records what is refused");
}

/// As one whose configuration lacks something that it needs for every message.
#[tokio::test]
async fn client_that_is_full_refuses_each_message() {
    let acks = Acks::new(Clock::start(), 1, false);
    let mut producer = producer(&acks, &[("transactional.id", "outside of a transaction")]);
    for batch in [3, 2] {
        let refusal = producer.submit(&vec![outgoing(None); batch]).await.unwrap_err();
        assert_eq!((refusal.class, producer.fatal_error()), (FailureClass::Other, None), "{refusal}");
    }
    assert_eq!(acks.resolved(), 0);
}

/// librdkafka does that by itself.
#[tokio::test]
async fn node_that_does_not_know_the_topic_gets_it_again() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 1, 1).unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; 3]);
    let acks = Acks::new(Clock::start(), 1, false);
    let mut producer = producer(&acks, &[("bootstrap.servers", &cluster.bootstrap_servers())]);
    acks.window(0).submit(1);
    assert_eq!(producer.submit(&[outgoing(None)]).await, Ok(1));
    assert!(acks.window(0).resolved_reaches(1, acks.stopped()).await);
    let mut outcomes = Interval::default();
    acks.close(&mut outcomes, &mut Interval::default());
    assert_eq!((outcomes.measured.acknowledged, outcomes.measured.failed), (1, 0));
}

/// Of messages handed over at once, and of those that go one by one for their headers.
#[tokio::test]
async fn message_has_its_own_partition_or_no_payload() {
    for trace_header in [None, Some(&[7; TRACE_HEADER_BYTES])] {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 4, 1).unwrap();
        let acks = Acks::new(Clock::start(), 1, false);
        let mut producer = producer(&acks, &[("bootstrap.servers", &cluster.bootstrap_servers())]);
        let own = |partition, null_payload| Attributes { partition, null_payload, header_set: 0 };
        let (third, empty) = (own(Some(2), false), own(Some(3), true));
        let message = |attributes| Outgoing { attributes, key: Some(b"key"), ..outgoing(trace_header) };
        let batch = [message(None), message(Some(&third)), Outgoing { payload: &[], ..message(Some(&empty)) }];
        acks.window(0).submit(3);
        assert_eq!(producer.submit(&batch).await, Ok(3));
        assert!(acks.window(0).resolved_reaches(3, acks.stopped()).await);
        let found = |partition| {
            let message = first_message(&cluster.bootstrap_servers(), partition);
            message.payload().map(<[u8]>::to_vec)
        };
        assert_eq!((found(2), found(3)), (Some(b"message".to_vec()), None), "{trace_header:?}");
    }
}

#[tokio::test]
async fn a_message_has_the_headers_that_it_asks_for() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    let acks = Acks::new(Clock::start(), 1, false);
    let set = |tenant: &str| vec![("tenant".to_owned(), tenant.to_owned()), ("same".to_owned(), "x".to_owned())];
    let servers = cluster.bootstrap_servers();
    let mut producer = producer_with(&[set("first"), set("second")], &acks, &[("bootstrap.servers", &servers)]);
    let own = |partition, header_set| Attributes { partition: Some(partition), null_payload: false, header_set };
    let (first, second) = (own(0, 0), own(1, 1));
    let message = |attributes| Outgoing { attributes, key: Some(b"key"), ..outgoing(None) };
    acks.window(0).submit(2);
    assert_eq!(producer.submit(&[message(Some(&first)), message(Some(&second))]).await, Ok(2));
    assert!(acks.window(0).resolved_reaches(2, acks.stopped()).await);
    for (partition, tenant) in [(0, "first"), (1, "second")] {
        let message = first_message(&servers, partition);
        let headers = message.headers().unwrap();
        let found: Vec<_> = headers.iter().map(|header| (header.key, header.value.unwrap())).collect();
        assert_eq!(found, [("tenant", tenant.as_bytes()), ("same", b"x")]);
    }
}

#[tokio::test]
async fn a_batch_is_taken_up_to_the_message_that_finds_the_queue_full() {
    let acks = Acks::new(Clock::start(), 1, false);
    for trace_header in [None, Some(&[7; TRACE_HEADER_BYTES])] {
        let mut producer = producer(&acks, &[("queue.buffering.max.messages", "2")]);
        assert_eq!(producer.submit(&[outgoing(trace_header); 3]).await, Ok(2), "{trace_header:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_or_has_no_such_partition_fails_alone() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    let acks = Acks::new(Clock::start(), 1, false);
    let properties = [("bootstrap.servers", &*cluster.bootstrap_servers()), ("message.max.bytes", "1000")];
    let mut producer = producer(&acks, &properties);
    acks.window(0).submit(6);
    assert_eq!(producer.submit(&[outgoing(None)]).await, Ok(1), "the client knows the topic");
    assert!(acks.window(0).resolved_reaches(1, acks.stopped()).await);
    let large = Outgoing { payload: &[0; 2_000], ..outgoing(None) };
    let absent = Attributes { partition: Some(7), null_payload: false, header_set: 0 };
    let elsewhere = Outgoing { attributes: Some(&absent), ..outgoing(None) };
    assert_eq!(producer.submit(&[elsewhere, outgoing(None), large, outgoing(None), large]).await, Ok(5));
    assert!(acks.window(0).resolved_reaches(6, acks.stopped()).await);
    let mut outcomes = Interval::default();
    acks.close(&mut outcomes, &mut Interval::default());
    assert_eq!((outcomes.measured.acknowledged, outcomes.measured.failed), (3, 3));
}

/// The first message of a partition.
fn first_message(addresses: &str, partition: i32) -> OwnedMessage {
    let mut config = rdkafka::ClientConfig::new();
    let consumer: BaseConsumer = config.set("bootstrap.servers", addresses).set("group.id", "group").create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("topic", partition, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let message = consumer.poll(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!(message.key(), Some(&b"key"[..]));
    message.detach()
}
