//! The client against librdkafka's mock cluster, which answers as no real broker does on demand.

use std::collections::VecDeque;
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Code};

use super::bench::{Bench, TIMEOUT, TOPIC, classes, one_message_a_batch as options};
use crate::broker::kafka_native::codec::compression::Compression;
use crate::broker::kafka_native::config::{Isolation, KafkaNativeOptions};
use crate::broker::kafka_native::net::admin::{End, EndsQuery};
use crate::broker::{Attributes, Consumer, FailureClass, Outgoing, Producer};
use crate::measure::{SendTag, TRACE_HEADER_BYTES};

/// A mock cluster, and a client of it.
async fn mocked(
    nodes: i32,
    partitions: i32,
    options: KafkaNativeOptions,
) -> (MockCluster<'static, DefaultProducerContext>, Bench) {
    let mock = MockCluster::new(nodes).unwrap();
    mock.create_topic(TOPIC, partitions, 1).unwrap();
    let addresses = mock.bootstrap_servers().split(',').map(str::to_owned).collect();
    (mock, Bench::new(addresses, options).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_fails_for_now_is_sent_again_in_its_order() {
    for idempotence in [false, true] {
        let (mock, mut bench) = mocked(1, 1, KafkaNativeOptions { idempotence: Some(idempotence), ..options() }).await;
        let for_now = [
            Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        ];
        mock.request_errors(RDKafkaApiKey::Produce, &for_now);
        bench.send(50).await;
        let outcomes = bench.outcomes().await;
        assert_eq!(outcomes.measured.acknowledged, 50);
        assert_eq!(outcomes.measured.failed, 0);
        let retried = bench.client.traffic.take().wire.unwrap().retried;
        assert!(retried >= 1, "{retried}");
        assert_eq!(bench.received(50).await, (0..50).collect::<Vec<u64>>(), "idempotence = {idempotence}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_partition_whose_leader_moves_is_written_to_and_read_there() {
    let (mock, mut bench) = mocked(2, 1, options()).await;
    mock.partition_leader("topic", 0, Some(1)).unwrap();
    bench.send(20).await;
    bench.outcomes().await;
    let mut consumer = bench.consumer(1).await;
    mock.partition_leader("topic", 0, Some(2)).unwrap();
    bench.send(20).await;
    assert_eq!(bench.outcomes().await.measured.acknowledged, 20);
    let mut received = 0;
    while received < 40 {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        received += consumer.take(|_| {}).unwrap_or(0);
    }
    let query = EndsQuery { topic: "topic", partitions: &[0], end: End::Latest, isolation: Isolation::ReadUncommitted };
    assert_eq!(bench.admin.ends(&query).await.unwrap()[&0], 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refused_messages_fail_with_their_class_others_go_on() {
    for idempotence in [false, true] {
        let (mock, mut bench) = mocked(1, 1, KafkaNativeOptions { idempotence: Some(idempotence), ..options() }).await;
        mock.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
        bench.send(10).await;
        let outcomes = bench.outcomes().await;
        assert_eq!(classes(&outcomes), [(FailureClass::TooLarge, 1)]);
        assert_eq!(outcomes.measured.acknowledged, 9, "idempotence = {idempotence}");
        assert_eq!(bench.received(9).await, (1..10).collect::<Vec<u64>>());
        assert_eq!(bench.producer.fatal_error(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_producer_whose_place_is_taken_ends_the_load() {
    let (mock, mut bench) = mocked(1, 1, KafkaNativeOptions { idempotence: Some(true), ..options() }).await;
    mock.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH]);
    bench.send(1).await;
    assert_eq!(classes(&bench.outcomes().await), [(FailureClass::Fenced, 1)]);
    assert!(bench.producer.fatal_error().unwrap().contains("InvalidProducerEpoch"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_leader_messages_fail_when_their_time_is_over() {
    let limited = KafkaNativeOptions { delivery_timeout: Duration::from_millis(300), ..options() };
    let (mock, mut bench) = mocked(1, 1, limited).await;
    mock.broker_down(1).unwrap();
    bench.send(10).await;
    assert_eq!(classes(&bench.outcomes().await), [(FailureClass::Timeout, 10)]);
    let telemetry = bench.client.traffic.take();
    assert_eq!(telemetry.queue_messages, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_of_every_shape_arrive_with_each_compression() {
    const TRACE: [u8; TRACE_HEADER_BYTES] = [7; TRACE_HEADER_BYTES];
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4] {
        let (_mock, mut bench) =
            mocked(1, 3, KafkaNativeOptions { compression, ..KafkaNativeOptions::default() }).await;
        let own = Attributes { partition: Some(2), null_payload: false, header_set: 1 };
        let null = Attributes { partition: Some(1), null_payload: true, header_set: 0 };
        let send_tag = SendTag::new(0, 0, 0, 0, true);
        let plain = Outgoing { payload: b"plain", key: None, trace_header: None, attributes: None, send_tag };
        let batch = [
            Outgoing { attributes: Some(&own), key: Some(b"key"), trace_header: Some(&TRACE), ..plain },
            Outgoing { attributes: Some(&null), key: Some(b"dead"), payload: &[], ..plain },
            plain,
        ];
        bench.acks.window(0).submit(3);
        assert_eq!(bench.producer.submit(&batch).await, Ok(3));
        bench.sent = 3;
        assert_eq!(bench.outcomes().await.measured.acknowledged, 3);
        let mut consumer = bench.consumer(3).await;
        let mut found = VecDeque::new();
        while found.len() < 3 {
            tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
            let taken = consumer.take(|message| {
                let key = message.details.key().map(|key| key.to_vec());
                let traced = message.trace_header.map(<[u8]>::to_vec);
                found.push_back((key, message.partition, message.payload.to_vec(), traced, message.details.headers()));
            });
            taken.unwrap();
        }
        let tenant = vec![("tenant".to_owned(), b"second".to_vec())];
        let of_key = |key: &[u8]| found.iter().find(|message| message.0.as_deref() == Some(key)).unwrap();
        assert_eq!(of_key(b"key"), &(Some(b"key".to_vec()), 2, b"plain".to_vec(), Some(TRACE.to_vec()), tenant));
        assert_eq!(of_key(b"dead"), &(Some(b"dead".to_vec()), 1, Vec::new(), None, Vec::new()));
        assert!(found.iter().any(|message| message.0.is_none() && message.2 == b"plain"), "{compression:?}");
    }
}

/// What librdkafka writes with `compression`, and what it reads.
mod other_client {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::message::{Headers as _, Message};
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    use rdkafka::{ClientConfig, Offset, TopicPartitionList};

    use super::TIMEOUT;

    pub fn write(addresses: &str, compression: &str, payloads: &[Vec<u8>]) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", addresses).set("compression.codec", compression);
        let producer: BaseProducer = config.set("linger.ms", "50").create().unwrap();
        for payload in payloads {
            let record = BaseRecord::to("topic").partition(0).key("key").payload(payload);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(TIMEOUT).unwrap();
    }

    /// The key, the payload and the headers of each of the first messages.
    pub fn read(addresses: &str, messages: usize) -> Vec<(Vec<u8>, Vec<u8>, Vec<String>)> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", addresses).set("group.id", "group").set("check.crcs", "true");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("topic", 0, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let of = |_| {
            let message = consumer.poll(TIMEOUT).unwrap().unwrap();
            let headers = message.headers().map(|headers| headers.iter().map(|header| header.key.to_owned()).collect());
            (message.key().unwrap().to_vec(), message.payload().unwrap().to_vec(), headers.unwrap_or_default())
        };
        (0..messages).map(of).collect()
    }
}

/// Payloads of several sizes, of which some can be compressed.
fn payloads() -> Vec<Vec<u8>> {
    (0..200_usize).map(|number| (0..number * 7).map(|byte| (byte * number / 5) as u8).collect()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_librdkafka_writes_is_read_compression_by_compression() {
    for compression in ["none", "gzip", "snappy", "lz4"] {
        let (mock, bench) = mocked(1, 1, options()).await;
        other_client::write(&mock.bootstrap_servers(), compression, &payloads());
        let mut consumer = bench.consumer(1).await;
        let mut found = Vec::new();
        while found.len() < payloads().len() {
            tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
            let taken = consumer.take(|message| {
                assert_eq!(message.details.key().as_deref(), Some(&b"key"[..]));
                found.push(message.payload.to_vec());
            });
            taken.unwrap();
        }
        assert!(found == payloads(), "{compression}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn librdkafka_reads_what_is_written_with_each_compression() {
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4] {
        let (mock, mut bench) = mocked(1, 1, KafkaNativeOptions { compression, ..KafkaNativeOptions::default() }).await;
        let own = Attributes { partition: None, null_payload: false, header_set: 1 };
        for payload in payloads() {
            let send_tag = SendTag::new(0, bench.sent, 0, 0, true);
            let (key, attributes) = (Some(&b"key"[..]), Some(&own));
            let outgoing = Outgoing { payload: &payload, key, trace_header: None, attributes, send_tag };
            bench.acks.window(0).submit(1);
            assert_eq!(bench.producer.submit(&[outgoing]).await, Ok(1));
            bench.sent += 1;
        }
        assert_eq!(bench.outcomes().await.measured.failed, 0);
        let found = other_client::read(&mock.bootstrap_servers(), payloads().len());
        let expected: Vec<_> =
            payloads().into_iter().map(|payload| (b"key".to_vec(), payload, vec!["tenant".to_owned()])).collect();
        assert!(found == expected, "{compression:?}");
    }
}
