//! Members of a share group on a scripted cluster: a node forgets their session, another one leads, and one says nothing to their last answers.

use std::time::Duration;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData, ShareFetchableTopicResponse};
use kafka_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DeleteGroupsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};

use super::asked::Asked;
use super::bench::{Bench, TIMEOUT, one_message_a_batch, subscription};
use super::fetching::plain;
use super::scripted::{NOT_LEADER, Scripted, TOPIC_ID};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::kafka_native::share::consumer::ShareConsumer;
use crate::broker::kafka_native::share::groups::ShareGroups;
use crate::broker::kafka_native::share::options::ShareGroupOptions;
use crate::broker::{Consumer, Progress, ReceiveError};
use crate::measure::{Condition, ConditionKind};

const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const SESSION_NOT_FOUND: i16 = 122;

/// The epoch with which a session ends.
const LAST: i32 = -1;

/// A member that has partition 0, and whose first fetch was answered with nothing.
async fn joined(broker: &mut Scripted, bench: &Bench) -> (ShareGroups, ShareConsumer) {
    joined_beating(broker, bench, TIMEOUT).await
}

/// The same, which gives a sign of life after each `pause`.
async fn joined_beating(broker: &mut Scripted, bench: &Bench, pause: Duration) -> (ShareGroups, ShareConsumer) {
    let share_group = Some(ShareGroupOptions::default());
    let options = KafkaNativeOptions { share_group, ..KafkaNativeOptions::default() };
    let groups = ShareGroups::new(bench.admin.clone(), &options).unwrap();
    let admitting = async {
        let asked = broker.await_of(ApiKey::IncrementalAlterConfigs).await;
        asked.send(asked.frame::<IncrementalAlterConfigsRequest>(&IncrementalAlterConfigsResponse::default()));
        let asked = broker.await_of(ApiKey::ShareGroupHeartbeat).await;
        let own = TopicPartitions::default().with_topic_id(TOPIC_ID).with_partitions(vec![0]);
        let response = ShareGroupHeartbeatResponse::default()
            .with_member_epoch(1)
            .with_heartbeat_interval_ms(pause.as_millis() as i32)
            .with_assignment(Some(Assignment::default().with_topic_partitions(vec![own])));
        asked.send(asked.frame::<ShareGroupHeartbeatRequest>(&response));
        fetched(&next_fetch(broker, 0).await, 0, PartitionData::default());
    };
    let subscription = subscription(1, Progress::Uncommitted);
    let (consumer, ()) = tokio::join!(groups.consumer(&subscription), admitting);
    (groups, consumer.unwrap())
}

/// The next fetch, which has this epoch of its session.
async fn next_fetch(broker: &mut Scripted, epoch: i32) -> Asked {
    let asked = broker.await_of(ApiKey::ShareFetch).await;
    assert_eq!(asked.request::<ShareFetchRequest>().share_session_epoch, epoch);
    asked
}

/// The offsets that a fetch answers.
fn answered(asked: &Asked) -> Vec<(i64, i64)> {
    let request = asked.request::<ShareFetchRequest>();
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let batches = partitions.flat_map(|partition| &partition.acknowledgement_batches);
    batches.map(|batch| (batch.first_offset, batch.last_offset)).collect()
}

fn fetched(asked: &Asked, code: i16, partition: PartitionData) {
    let topic = ShareFetchableTopicResponse::default().with_topic_id(TOPIC_ID).with_partitions(vec![partition]);
    let response = ShareFetchResponse::default().with_error_code(code).with_responses(vec![topic]);
    asked.send(asked.frame::<ShareFetchRequest>(&response));
}

/// Messages, delivered for the `count`th time.
fn delivery(offsets: std::ops::Range<u64>, count: i16) -> PartitionData {
    let acquired = AcquiredRecords::default()
        .with_first_offset(offsets.start as i64)
        .with_last_offset(offsets.end as i64 - 1)
        .with_delivery_count(count);
    PartitionData::default().with_records(Some(plain(offsets).into())).with_acquired_records(vec![acquired])
}

/// What the member takes while the cluster does `script`: each offset, and whether it came before.
async fn taken(
    consumer: &mut ShareConsumer,
    script: impl Future<Output = ()>,
) -> (Vec<(u64, bool)>, Option<ReceiveError>) {
    let (ready, ()) = tokio::join!(tokio::time::timeout(TIMEOUT, consumer.ready()), script);
    ready.unwrap().unwrap();
    let mut messages = Vec::new();
    let taken = consumer.take(|message| messages.push((message.offset, message.redelivered)));
    (messages, taken.err())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_whose_session_is_lost_begins_another_one() {
    let mut broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (groups, mut consumer) = joined(&mut broker, &bench).await;
    let first = taken(&mut consumer, async { fetched(&next_fetch(&mut broker, 1).await, 0, delivery(0..2, 1)) }).await;
    assert_eq!(first, (vec![(0, false), (1, false)], None));
    let again = taken(&mut consumer, async {
        let asked = next_fetch(&mut broker, 2).await;
        assert_eq!(answered(&asked), [(0, 1)]);
        fetched(&asked, SESSION_NOT_FOUND, PartitionData::default());
        let asked = next_fetch(&mut broker, 0).await;
        // In a new session, nothing can be answered, and all partitions are named.
        assert_eq!((answered(&asked), asked.request::<ShareFetchRequest>().topics.len()), (vec![], 1));
        fetched(&asked, 0, delivery(0..2, 2));
    });
    assert_eq!(again.await, (vec![(0, true), (1, true)], None));
    let later = taken(&mut consumer, async {
        let asked = next_fetch(&mut broker, 1).await;
        assert_eq!(answered(&asked), [(0, 1)]);
        fetched(&asked, 0, delivery(2..3, 1));
    });
    assert_eq!(later.await, (vec![(2, false)], None));
    let answers = groups.answers();
    assert_eq!((answers.accepted, answers.unconfirmed, answers.most_deliveries), (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_follows_its_partition_to_another_leader() {
    let mut broker = Scripted::start(2, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (groups, mut consumer) = joined(&mut broker, &bench).await;
    let first = taken(&mut consumer, async { fetched(&next_fetch(&mut broker, 1).await, 0, delivery(0..2, 1)) }).await;
    assert_eq!(first, (vec![(0, false), (1, false)], None));
    let refused = taken(&mut consumer, async {
        let asked = next_fetch(&mut broker, 2).await;
        broker.move_leader(0, 1);
        let moved = PartitionData::default().with_error_code(NOT_LEADER).with_acknowledge_error_code(NOT_LEADER);
        fetched(&asked, 0, moved);
    });
    let (messages, error) = refused.await;
    assert!(messages.is_empty() && error.unwrap().message.contains("answers to messages of partition 0"));
    // The session with the former leader ends.
    let asked = broker.await_of(ApiKey::ShareAcknowledge).await;
    assert_eq!((asked.node, asked.request::<ShareAcknowledgeRequest>().share_session_epoch), (0, LAST));
    asked.send(asked.frame::<ShareAcknowledgeRequest>(&ShareAcknowledgeResponse::default()));
    let again = taken(&mut consumer, async {
        let asked = next_fetch(&mut broker, 0).await;
        assert_eq!(asked.node, 1);
        fetched(&asked, 0, delivery(0..2, 2));
    });
    assert_eq!(again.await, (vec![(0, true), (1, true)], None));
    assert_eq!(groups.answers().unconfirmed, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_of_several_errors_is_told() {
    let mut broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (groups, mut consumer) = joined(&mut broker, &bench).await;
    let first = taken(&mut consumer, async { fetched(&next_fetch(&mut broker, 1).await, 0, delivery(0..2, 1)) }).await;
    assert_eq!(first, (vec![(0, false), (1, false)], None));
    let both = taken(&mut consumer, async {
        let mut damaged = plain(2..3);
        *damaged.last_mut().unwrap() ^= 1;
        let delivered = delivery(2..3, 3).with_records(Some(damaged.into()));
        let refused = delivered.with_acknowledge_error_code(GROUP_AUTHORIZATION_FAILED);
        fetched(&next_fetch(&mut broker, 2).await, 0, refused);
        // The response has been read.
        while groups.answers().most_deliveries < 3 {
            tokio::task::yield_now().await;
        }
    });
    let told = both.await.1.unwrap().message;
    assert!(told.contains("answers to messages of partition 0: GroupAuthorizationFailed"), "{told}");
    let told = taken(&mut consumer, async {}).await.1.unwrap().message;
    assert!(told.contains("wrong checksum: messages were given back"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn settings_are_removed_also_of_a_group_that_cannot_be() {
    let mut broker = Scripted::start(1, 1).await;
    broker.know_only(ApiKey::DeleteGroups, 0, 1);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (share_groups, _consumer) = joined(&mut broker, &bench).await;
    let groups = Groups::new(bench.admin.clone(), KafkaNativeOptions::default());
    let (removed, ()) = tokio::join!(share_groups.remove(&groups), async {
        let asked = broker.await_of(ApiKey::DeleteGroups).await;
        let refused = DeletableGroupResult::default().with_error_code(GROUP_AUTHORIZATION_FAILED);
        asked.send(asked.frame::<DeleteGroupsRequest>(&DeleteGroupsResponse::default().with_results(vec![refused])));
        let asked = broker.await_of(ApiKey::IncrementalAlterConfigs).await;
        asked.send(asked.frame::<IncrementalAlterConfigsRequest>(&IncrementalAlterConfigsResponse::default()));
    });
    let error = removed.unwrap_err().to_string();
    assert!(error.contains("group 'group' was not removed"), "{error}");
}

/// The next answer has no assignment, as nothing has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_of_the_coordinator_lasts_until_its_next_answer() {
    let mut broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (_groups, _consumer) = joined_beating(&mut broker, &bench, Duration::from_millis(1)).await;
    let is_denied = |lasting: &[Condition]| lasting.iter().any(|one| one.kind == ConditionKind::Denied);
    let response = ShareGroupHeartbeatResponse::default().with_member_epoch(1);
    let asked = broker.await_of(ApiKey::ShareGroupHeartbeat).await;
    let refused = response.clone().with_error_code(GROUP_AUTHORIZATION_FAILED);
    asked.send(asked.frame::<ShareGroupHeartbeatRequest>(&refused));
    bench.held_up(is_denied).await;
    let asked = broker.await_of(ApiKey::ShareGroupHeartbeat).await;
    asked.send(asked.frame::<ShareGroupHeartbeatRequest>(&response));
    bench.held_up(|lasting| !is_denied(lasting)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_that_are_not_confirmed_when_the_member_closes_are_counted() {
    let mut broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (groups, mut consumer) = joined(&mut broker, &bench).await;
    let first = taken(&mut consumer, async { fetched(&next_fetch(&mut broker, 1).await, 0, delivery(0..2, 1)) }).await;
    assert_eq!(first, (vec![(0, false), (1, false)], None));
    // The last answers get no response.
    tokio::join!(consumer.close_within(Duration::ZERO), async {
        let asked = broker.await_of(ApiKey::ShareGroupHeartbeat).await;
        asked.send(asked.frame::<ShareGroupHeartbeatRequest>(&ShareGroupHeartbeatResponse::default()));
    });
    let answers = groups.answers();
    assert_eq!((answers.accepted, answers.unconfirmed), (0, 2));
}
