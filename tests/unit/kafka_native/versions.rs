//! Versions of requests on clusters of several ages: those that both sides know are chosen, and a cluster that is too old is named.

use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey, EndTxnRequest, EndTxnResponse,
};

use super::bench::{Bench, TIMEOUT, one_message_a_batch};
use super::scripted::Scripted;
use crate::broker::FailureClass;
use crate::broker::kafka_native::codec::compression::Compression;
use crate::broker::kafka_native::config::{Isolation, KafkaNativeOptions};
use crate::broker::kafka_native::net::admin::{End, EndsQuery};
use crate::broker::kafka_options::TransactionOptions;

type Versions = [(ApiKey, i16, i16); 9];

/// What a cluster of Kafka 2.1 knows. Source: `kversion.V2_1_0` of franz-go.
const KAFKA_2_1: Versions = [
    (ApiKey::Produce, 0, 7),
    (ApiKey::Fetch, 0, 10),
    (ApiKey::ListOffsets, 0, 4),
    (ApiKey::Metadata, 0, 7),
    (ApiKey::FindCoordinator, 0, 2),
    (ApiKey::ApiVersions, 0, 2),
    (ApiKey::InitProducerId, 0, 1),
    (ApiKey::AddPartitionsToTxn, 0, 1),
    (ApiKey::EndTxn, 0, 1),
];

/// What Kafka 4.1.0 answers, as its own `BrokerApiVersionsCommand` prints it.
const KAFKA_4_1: Versions = [
    (ApiKey::Produce, 0, 13),
    (ApiKey::Fetch, 4, 18),
    (ApiKey::ListOffsets, 1, 10),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::AddPartitionsToTxn, 0, 5),
    (ApiKey::EndTxn, 0, 5),
];

/// What Redpanda knows. Source: the handlers in its `src/v/kafka/server/handlers`.
const REDPANDA: Versions = [
    (ApiKey::Produce, 0, 7),
    (ApiKey::Fetch, 4, 11),
    (ApiKey::ListOffsets, 0, 3),
    (ApiKey::Metadata, 0, 7),
    (ApiKey::FindCoordinator, 0, 2),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::InitProducerId, 0, 1),
    (ApiKey::AddPartitionsToTxn, 0, 2),
    (ApiKey::EndTxn, 0, 3),
];

fn idempotent() -> KafkaNativeOptions {
    KafkaNativeOptions { idempotence: Some(true), ..one_message_a_batch() }
}

/// Sends a message, and asks where the partition ends.
async fn exchange(broker: &mut Scripted) {
    let mut bench = Bench::new(broker.addresses(), idempotent()).await;
    bench.send(1).await;
    let asked = broker.next().await;
    assert_eq!(asked.numbers(), [0]);
    asked.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
    let isolation = Isolation::ReadUncommitted;
    let query = EndsQuery { topic: super::bench::TOPIC, partitions: &[0], end: End::Earliest, isolation };
    assert_eq!(bench.admin.ends(&query).await.unwrap()[&0], 0);
}

/// Sends a message in a transaction.
async fn transact(broker: &mut Scripted) {
    let interval = std::time::Duration::from_secs(30);
    let transactions = Some(TransactionOptions { messages: 1, interval, abort_share: 0.0 });
    let mut bench = Bench::new(broker.addresses(), KafkaNativeOptions { transactions, ..idempotent() }).await;
    bench.send(1).await;
    let asked = broker.next().await;
    asked.send(asked.frame::<AddPartitionsToTxnRequest>(&AddPartitionsToTxnResponse::default()));
    broker.next().await.answer(0);
    let asked = broker.next().await;
    asked.send(asked.frame::<EndTxnRequest>(&EndTxnResponse::default()));
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_have_the_newest_version_both_sides_know() {
    for (name, table, expected) in [
        ("Kafka 2.1", KAFKA_2_1, [7, 4, 7, 2, 1, 1, 1]),
        ("Kafka 4.1", KAFKA_4_1, [11, 10, 13, 3, 5, 3, 4]),
        ("Redpanda", REDPANDA, [7, 3, 7, 2, 1, 2, 3]),
    ] {
        let mut broker = Scripted::start(1, 1).await;
        broker.know(&table);
        exchange(&mut broker).await;
        let chosen = broker.version(ApiKey::Produce);
        assert_eq!(chosen, if name == "Kafka 4.1" { 12 } else { 7 }, "{name}");
        transact(&mut broker).await;
        let keys = [
            ApiKey::Produce,
            ApiKey::ListOffsets,
            ApiKey::Metadata,
            ApiKey::FindCoordinator,
            ApiKey::InitProducerId,
            ApiKey::AddPartitionsToTxn,
            ApiKey::EndTxn,
        ];
        assert_eq!(keys.map(|key| broker.version(key)), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cluster_too_old_is_named_with_the_missing_request() {
    let broker = Scripted::start(1, 1).await;
    let mut old = KAFKA_2_1;
    // As Kafka 0.10.2.
    old[3].2 = 2;
    broker.know(&old);
    let refused = Bench::try_new(broker.addresses(), one_message_a_batch()).await.err().unwrap();
    let reason = refused.to_string();
    assert!(reason.contains("versions 0 to 2 of the request Metadata") && reason.contains("Kafka 2.1"), "{reason}");
    let mut without = KAFKA_2_1.to_vec();
    without.retain(|(key, ..)| *key != ApiKey::InitProducerId);
    broker.know(&without);
    let refused = Bench::try_new(broker.addresses(), idempotent()).await.err().unwrap();
    assert!(refused.to_string().contains("no request InitProducerId"), "{refused}");
}

/// It tells once there is a connection to a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cluster_without_the_compression_ends_the_load() {
    let broker = Scripted::start(1, 1).await;
    let mut old = KAFKA_2_1;
    // As Kafka 2.0.
    old[0].2 = 6;
    broker.know(&old);
    let options = KafkaNativeOptions { compression: Compression::Zstd, ..one_message_a_batch() };
    let bench = Bench::new(broker.addresses(), options).await;
    let fatal = async {
        while bench.client.fatal().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, fatal).await.unwrap();
    let reason = &bench.client.fatal().unwrap().message;
    assert!(reason.contains("versions 0 to 6 of the request Produce"), "{reason}");
    assert_eq!(bench.client.fatal().unwrap().class, FailureClass::Refused);
}
