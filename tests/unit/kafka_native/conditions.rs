//! What holds messages up is told while it lasts, and kept afterwards.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use kafka_protocol::messages::fetch_response::PartitionData;

use super::bench::{Bench, one_message_a_batch};
use super::fetching::{answer, data, next, plain};
use super::scripted::{NOT_LEADER, Scripted};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::measure::{Condition, ConditionKind, SubjectKind};

const UNKNOWN_TOPIC: i16 = 3;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

fn is_one(kind: ConditionKind) -> impl Fn(&[Condition]) -> bool {
    move |lasting| lasting.iter().any(|one| one.kind == kind)
}

/// What was held up once, and is no longer.
fn ended(bench: &Bench) -> Vec<(ConditionKind, u64)> {
    let all = bench.client.connector.conditions.all();
    assert!(all.iter().all(|one| one.end.is_some()), "{all:?}");
    all.into_iter().map(|one| (one.kind, one.most)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn partitions_without_enough_replicas_are_counted() {
    let mut broker = Scripted::start(1, 4).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.client.connector.conditions.expect(SubjectKind::Partition, 4);
    bench.send_to(3, |number| number as u32).await;
    let mut refused = 0;
    while refused < 3 {
        let asked = broker.next().await;
        refused += asked.written().len();
        asked.answer(NOT_ENOUGH_REPLICAS);
    }
    let lasting = bench.held_up(|lasting| lasting.iter().any(|one| one.now == 3)).await;
    assert_eq!(lasting[0].told(), "3 of 4 partitions: not enough in-sync replicas");
    assert_eq!(lasting[0].words, "NotEnoughReplicas (error 19)");
    let mut written = 0;
    while written < 3 {
        let asked = broker.next().await;
        written += asked.written().len();
        asked.answer(0);
    }
    assert_eq!(bench.outcomes().await.measured.acknowledged, 3);
    bench.held_up(<[Condition]>::is_empty).await;
    assert_eq!(ended(&bench), [(ConditionKind::NotEnoughReplicas, 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn message_that_waits_too_long_names_its_refusal() {
    let mut broker = Scripted::start(1, 1).await;
    let options = KafkaNativeOptions { delivery_timeout: Duration::from_millis(400), ..one_message_a_batch() };
    let mut bench = Bench::new(broker.addresses(), options).await;
    bench.send(1).await;
    broker.move_leader(0, -1);
    let outcomes = loop {
        tokio::select! {
            asked = broker.next() => asked.answer(NOT_LEADER),
            outcomes = bench.outcomes() => break outcomes,
        }
    };
    let (_, tally) = outcomes.errors.iter().next().unwrap();
    let (_, message) = tally.first.as_ref().unwrap();
    assert!(message.contains("NotLeaderOrFollower"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_partition_waits_for_a_leader_until_metadata_names_one() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(1).await;
    let asked = broker.next().await;
    broker.move_leader(0, -1);
    asked.answer(NOT_LEADER);
    let lasting = bench.held_up(is_one(ConditionKind::WaitingForLeader)).await;
    assert_eq!(lasting[0].told(), "partition topic/0: no leader");
    broker.move_leader(0, 0);
    broker.next().await.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
    bench.held_up(<[Condition]>::is_empty).await;
    assert_eq!(ended(&bench), [(ConditionKind::WaitingForLeader, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_lasts_until_the_partition_is_written_again() {
    for (code, kind) in [(UNKNOWN_TOPIC, ConditionKind::TopicGone), (TOPIC_AUTHORIZATION_FAILED, ConditionKind::Denied)]
    {
        let mut broker = Scripted::start(1, 1).await;
        let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
        bench.send(1).await;
        broker.next().await.answer(code);
        bench.held_up(is_one(kind)).await;
        bench.send(1).await;
        while !bench.client.traffic.is_idle() {
            tokio::select! {
                asked = broker.next() => asked.answer(0),
                () = tokio::task::yield_now() => {}
            }
        }
        bench.held_up(<[Condition]>::is_empty).await;
        assert_eq!(ended(&bench), [(kind, 1)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_quota_holds_up_the_node_for_as_long_as_it_asks() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(2).await;
    let asked = broker.next().await;
    asked.send(asked.produced(&[(0, 0)], 200));
    let lasting = bench.held_up(is_one(ConditionKind::Throttled)).await;
    assert_eq!(lasting[0].told(), format!("node {}: throttled by a quota", broker.addresses()[0]));
    assert_eq!(lasting[0].words, "a response asks the client to wait for 200ms (its quota)");
    bench.held_up(<[Condition]>::is_empty).await;
    // Another wait, which no run may live to see the end of: a condition that comes back at once has the words of now.
    let asked = broker.next().await;
    asked.send(asked.produced(&[(0, 0)], 86_400_000));
    let words = "a response asks the client to wait for 86400s (its quota); it asks again after 60s";
    bench.held_up(|lasting| lasting.iter().any(|one| one.words == words)).await;
    bench.outcomes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_silent_node_is_told_while_it_is_connected_to() {
    let mut broker = Scripted::start(2, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(1).await;
    broker.silence(1);
    let asked = broker.next().await;
    broker.move_leader(0, 1);
    asked.answer(NOT_LEADER);
    let lasting = bench.held_up(is_one(ConditionKind::Connecting)).await;
    let node = lasting.iter().find(|one| one.kind == ConditionKind::Connecting).unwrap();
    assert_eq!(node.told(), format!("node {}: connecting", broker.addresses()[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_consumer_says_what_it_is_refused_until_it_reads_again() {
    let mut broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut consumer = bench.consumer(1).await;
    let asked = broker.await_of(ApiKey::Fetch).await;
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(UNKNOWN_TOPIC)]));
    let lasting = bench.held_up(is_one(ConditionKind::TopicGone)).await;
    assert_eq!(lasting[0].told(), "consumed partition topic/0: the topic does not exist");
    let asked = broker.await_of(ApiKey::Fetch).await;
    asked.send(answer(&asked, vec![data(plain(0..1))]));
    assert_eq!(next(&mut consumer).await.0, [0]);
    assert_eq!(ended(&bench), [(ConditionKind::TopicGone, 1)]);
}
