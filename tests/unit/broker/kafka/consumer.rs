use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::broker::Topic;
use crate::broker::kafka::member::Member;
use crate::measure::{Conditions, Subject, SubjectKind};

const TIMEOUT: Duration = Duration::from_secs(30);

fn subscription() -> Subscription {
    Subscription {
        group: "group".to_owned(),
        number: 0,
        topic: Topic { name: "topic".to_owned(), partitions: 2, replication: 1 },
        from: StartFrom::Latest,
        members: 1,
        member: 0,
        consumer_number: 0,
        is_divided: false,
        properties: Vec::new(),
        progress: Progress::Uncommitted,
    }
}

fn member(cluster: &MockCluster<'_, DefaultProducerContext>) -> ConsumerClient {
    member_with(cluster, &[])
}

fn member_with(cluster: &MockCluster<'_, DefaultProducerContext>, properties: &[(&str, &str)]) -> ConsumerClient {
    let addresses = cluster.bootstrap_servers();
    let own = [("bootstrap.servers", addresses.as_str()), ("group.id", "group")];
    let group = || Subject::new(&Conditions::default(), SubjectKind::Group, "group");
    ConsumerClient::new(own.into_iter().chain(properties.iter().copied()), Member::new(None, None, None, group))
        .unwrap()
}

/// Writes these messages to partition 0.
fn produce(cluster: &MockCluster<'_, DefaultProducerContext>, payloads: &[&str]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
    for payload in payloads {
        producer.send(BaseRecord::<(), str>::to("topic").partition(0).payload(payload)).unwrap();
    }
    producer.flush(TIMEOUT).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn node_that_does_not_know_the_topic_is_asked_again() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    for request in [RDKafkaApiKey::ListOffsets, RDKafkaApiKey::OffsetCommit] {
        cluster.request_errors(request, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; 4]);
        let begun = begin_at_latest(&member(&cluster), &subscription(), TIMEOUT).await;
        begun.unwrap_or_else(|error| panic!("{request:?}: {error}"));
    }
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID]);
    let refused = begin_at_latest(&member(&cluster), &subscription(), TIMEOUT).await.unwrap_err();
    assert!(refused.to_string().contains("latest"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_message_that_comes_with_the_groups_events_is_kept() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    produce(&cluster, &["a", "b", "c"]);
    let subscription = Subscription { from: StartFrom::Earliest, ..subscription() };
    let mut consumer = KafkaConsumer::assign(member(&cluster), &subscription).unwrap();
    while consumer.kept.is_none() {
        if !consumer.serve_event().unwrap() {
            consumer.client.arrived.notified().await;
        }
    }
    let mut payloads = Vec::new();
    let receive = async {
        while payloads.len() < 3 {
            consumer.ready().await.unwrap();
            consumer.take(|message| payloads.push(message.payload.to_vec())).unwrap();
        }
    };
    timeout(TIMEOUT, receive).await.expect("no message is missing");
    assert_eq!(payloads, [b"a", b"b", b"c"]);
}

/// The engine looks at something else meanwhile, more often than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_queue_without_messages_is_served_although_the_wait_for_it_is_dropped() {
    let cluster = MockCluster::new(1).unwrap();
    let mut consumer = KafkaConsumer::new(member(&cluster), &subscription());
    let served = async {
        // librdkafka itself may wake it at the begin.
        for _ in 0..4 {
            consumer.take(|_| {}).unwrap();
            while timeout(SERVE / 10, consumer.ready()).await.is_err() {}
        }
    };
    timeout(TIMEOUT, served).await.expect("it is served twice a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_that_was_not_waited_for_reports_its_refusal_later() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    let subscription = Subscription { progress: Progress::OfTheTrial, ..subscription() };
    let mut consumer = KafkaConsumer::assign(member(&cluster), &subscription).unwrap();
    consumer.commit(&[(0, 1)], true).await.unwrap();
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID]);
    // Its answer cannot be there yet, or this call reports it.
    let begun = consumer.commit(&[(0, 2)], false).await;
    let confirmed = consumer.commit(&[(0, 3)], true).await;
    let refusals: Vec<String> = [begun, confirmed].into_iter().filter_map(|one| Some(one.err()?.message)).collect();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].contains("group"), "{refusals:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_by_librdkafka_itself_reports_its_refusal() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    produce(&cluster, &["a"]);
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID]);
    let committing = [("enable.auto.commit", "true"), ("auto.commit.interval.ms", "10")];
    let subscription = Subscription { from: StartFrom::Earliest, ..subscription() };
    let mut consumer = KafkaConsumer::assign(member_with(&cluster, &committing), &subscription).unwrap();
    let refused = async {
        loop {
            consumer.ready().await.unwrap();
            if let Err(error) = consumer.take(|_| {}) {
                return error.message;
            }
        }
    };
    let message = timeout(TIMEOUT, refused).await.expect("the refusal is told");
    assert!(message.starts_with("offsets were not committed: "), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_waits_until_its_node_has_heard_of_the_topic() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("topic", 2, 1).unwrap();
    cluster.topic_error("topic", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let joined = KafkaConsumer::join(member(&cluster), &subscription(), Duration::from_secs(1)).await;
    let error = joined.err().unwrap().to_string();
    assert!(error.contains("assigned no partition") && error.contains("Unknown topic"), "{error}");
}
