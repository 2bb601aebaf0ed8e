//! Topics on a scripted cluster: a quota refuses some, and another client replaces one.

use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::asked::Asked;
use super::bench::{Bench, TOPIC, one_message_a_batch};
use super::scripted::{NOT_LEADER, Scripted, TOPIC_ID};
use crate::broker::{BrokerError, Created, Topic};
use crate::measure::ConditionKind;

const QUOTA_EXCEEDED: i16 = 89;
const UNKNOWN_TOPIC_ID: i16 = 100;

fn topics<const N: usize>(names: [&str; N]) -> [Topic; N] {
    names.map(|name| Topic { name: name.to_owned(), partitions: 1, replication: 1 })
}

fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// Answers a request that creates topics with a code for each, and for how long to wait. Returns the names of the topics.
fn answer_created(asked: &Asked, code: impl Fn(&str) -> i16, throttled_ms: i32) -> Vec<String> {
    let request = asked.request::<CreateTopicsRequest>();
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.to_string()).collect();
    let result = |name: &String| {
        CreatableTopicResult::default()
            .with_name(name_of(name))
            .with_error_code(code(name))
            .with_topic_id(Uuid::from_u128(name.len() as u128))
    };
    let response = CreateTopicsResponse::default()
        .with_topics(names.iter().map(result).collect())
        .with_throttle_time_ms(throttled_ms);
    asked.send(asked.frame::<CreateTopicsRequest>(&response));
    names
}

/// The same of one that deletes topics, by their ids. Returns the ids.
fn answer_deleted(asked: &Asked, code: impl Fn(Uuid) -> i16) -> Vec<Uuid> {
    let request = asked.request::<DeleteTopicsRequest>();
    let ids: Vec<Uuid> = request.topics.iter().map(|topic| topic.topic_id).collect();
    let result =
        |id: &Uuid| DeletableTopicResult::default().with_name(None).with_topic_id(*id).with_error_code(code(*id));
    let response =
        DeleteTopicsResponse::default().with_responses(ids.iter().map(result).collect()).with_throttle_time_ms(1);
    asked.send(asked.frame::<DeleteTopicsRequest>(&response));
    ids
}

async fn bench() -> (Scripted, Bench) {
    let broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    (broker, bench)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn topics_that_a_quota_refuses_are_asked_for_again() {
    let (mut broker, bench) = bench().await;
    let wanted = topics(["a", "bb", "ccc"]);
    let (created, ()) = tokio::join!(bench.admin.create(&wanted), async {
        let asked = broker.next_of(ApiKey::CreateTopics).await;
        let code = |name: &str| if name == "a" { 0 } else { QUOTA_EXCEEDED };
        assert_eq!(answer_created(&asked, code, 700), ["a", "bb", "ccc"]);
        let lasting = bench.held_up(|lasting| lasting.iter().any(|one| one.kind == ConditionKind::Throttled)).await;
        assert_eq!(lasting[0].told(), format!("node {}: throttled by a quota", broker.addresses()[0]));
        let asked = broker.next_of(ApiKey::CreateTopics).await;
        assert_eq!(answer_created(&asked, |_| 0, 0), ["bb", "ccc"]);
    });
    assert_eq!(created, vec![Ok(Created::New); 3]);
    assert!(bench.client.connector.conditions.lasting().is_empty());

    let (deleted, ()) = tokio::join!(bench.admin.delete(&wanted), async {
        let asked = broker.next_of(ApiKey::DeleteTopics).await;
        let ids = answer_deleted(&asked, |id| if id == Uuid::from_u128(2) { QUOTA_EXCEEDED } else { 0 });
        assert_eq!(ids, [1, 2, 3].map(Uuid::from_u128));
        let asked = broker.next_of(ApiKey::DeleteTopics).await;
        assert_eq!(answer_deleted(&asked, |_| UNKNOWN_TOPIC_ID), [Uuid::from_u128(2)]);
    });
    assert_eq!(deleted, vec![Ok(()); 3], "what is gone already is no error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_quota_that_lasts_too_long_is_named_with_its_topic() {
    let (mut broker, bench) = bench().await;
    let wanted = topics(["a", "b"]);
    let (created, _) = tokio::join!(bench.admin.create(&wanted), async {
        let asked = broker.next_of(ApiKey::CreateTopics).await;
        answer_created(&asked, |name| if name == "a" { 0 } else { QUOTA_EXCEEDED }, 600_000)
    });
    assert_eq!(created[0], Ok(Created::New));
    let error = created[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("topic 'b'") && error.contains("controller_mutation_rate"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_topic_that_another_client_replaced_is_told_and_stays() {
    let (mut broker, mut bench) = bench().await;
    bench.send(1).await;
    let asked = broker.next().await;
    broker.replace_topic();
    asked.answer(NOT_LEADER);
    let lasting = bench.held_up(|lasting| lasting.iter().any(|one| one.kind == ConditionKind::TopicReplaced)).await;
    let replaced = lasting.iter().find(|one| one.kind == ConditionKind::TopicReplaced).unwrap();
    assert_eq!(replaced.told(), "topic topic: deleted and created again by another client");
    assert_eq!(replaced.words, "its id was AAAAAAAAAAAAAAAAcJHB1Q, and is AAAAAAAAAAAAAAAAAAAAAg");
    broker.next().await.answer(0);
    let deleted = bench.admin.delete(&topics([TOPIC])).await;
    assert!(!broker.has_been_asked(ApiKey::DeleteTopics));
    let Err(BrokerError::Topic { action: "removed", reason, .. }) = &deleted[0] else { panic!("{deleted:?}") };
    assert!(reason.contains("not the run's"), "{reason}");
}

/// The id is what is deleted: a topic of the name that comes after the last look stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn topics_are_deleted_by_name_where_ids_are_unknown() {
    let (mut broker, bench) = bench().await;
    let wanted = topics([TOPIC]);
    let (deleted, ids) = tokio::join!(bench.admin.delete(&wanted), async {
        answer_deleted(&broker.next_of(ApiKey::DeleteTopics).await, |_| 0)
    });
    assert_eq!(ids, [TOPIC_ID]);
    assert_eq!(deleted, [Ok(())]);
    broker.know_only(ApiKey::DeleteTopics, 1, 5);
    let (deleted, names) = tokio::join!(bench.admin.delete(&wanted), async {
        let asked = broker.next_of(ApiKey::DeleteTopics).await;
        let names = asked.request::<DeleteTopicsRequest>().topic_names;
        let result = DeletableTopicResult::default().with_name(Some(names[0].clone()));
        asked.send(asked.frame::<DeleteTopicsRequest>(&DeleteTopicsResponse::default().with_responses(vec![result])));
        names
    });
    assert_eq!(names, [name_of(TOPIC)]);
    assert_eq!(deleted, [Ok(())]);
}
