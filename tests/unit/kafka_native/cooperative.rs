//! Members of a classic group that keep their partitions while they join again (KIP-429), on a scripted cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{ApiKey, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::asked::Asked;
use super::bench::{Bench, TOPIC, one_message_a_batch};
use super::scripted::Scripted;
use super::server_assigned::{serve, with};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::group::assignors::{Subscription, assignment};
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::kafka_options::Assignment;
use crate::broker::{Offsets, Progress};

/// Codes of Kafka's protocol.
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;

const COOPERATIVE: (&str, &str) = ("partition.assignment.strategy", "cooperative-sticky");

/// What the member says of itself when it joins.
async fn next_join(broker: &mut Scripted) -> (Asked, Subscription) {
    let asked = broker.await_of(ApiKey::JoinGroup).await;
    let request = asked.request::<JoinGroupRequest>();
    assert_eq!(request.protocols.len(), 1);
    assert_eq!(request.protocols[0].name.as_str(), "cooperative-sticky");
    (asked, Subscription::decode(request.protocols[0].metadata.clone()).unwrap())
}

/// Lets the member "m1" into a generation that "m2" leads, and answers what it is assigned there.
async fn admit(broker: &mut Scripted, asked: &Asked, generation: i32, partitions: &[i32]) {
    let text = StrBytes::from_static_str;
    let response = JoinGroupResponse::default()
        .with_generation_id(generation)
        .with_protocol_name(Some(text("cooperative-sticky")))
        .with_leader(text("m2"))
        .with_member_id(text("m1"));
    asked.send(asked.frame::<JoinGroupRequest>(&response));
    let asked = broker.await_of(ApiKey::SyncGroup).await;
    assert!(asked.request::<SyncGroupRequest>().assignments.is_empty());
    let share = BTreeMap::from([(TOPIC.to_owned(), partitions.to_vec())]);
    let response = SyncGroupResponse::default().with_assignment(assignment(&share).unwrap());
    asked.send(asked.frame::<SyncGroupRequest>(&response));
}

fn owned(subscription: &Subscription) -> (i32, Vec<i32>) {
    (subscription.generation, subscription.owned.get(TOPIC).cloned().unwrap_or_default())
}

async fn start() -> (Scripted, Bench, Groups) {
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    // A sign of life every 200 ms.
    let session_timeout = Some(Duration::from_secs(3));
    let options =
        KafkaNativeOptions { assignment: Some(Assignment::Group), session_timeout, ..KafkaNativeOptions::default() };
    let groups = Groups::new(bench.admin.clone(), options);
    (broker, bench, groups)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rejoin_cooperative_returns_only_what_goes() {
    let (mut broker, _bench, groups) = start().await;
    let subscription = with(&[COOPERATIVE], Progress::Uncommitted);
    let (consumer, ()) = tokio::join!(groups.consumer(&subscription), async {
        let (asked, said) = next_join(&mut broker).await;
        assert_eq!(owned(&said), (-1, vec![]));
        admit(&mut broker, &asked, 1, &[0, 1]).await;
    });
    let mut consumer = consumer.unwrap();

    broker.answer_heartbeats(REBALANCE_IN_PROGRESS);
    let (asked, said) = next_join(&mut broker).await;
    assert_eq!(owned(&said), (1, vec![0, 1]));
    assert!(!consumer.is_revocation_requested());
    assert_eq!(consumer.assigned().unwrap().len(), 2);
    broker.answer_heartbeats(0);
    admit(&mut broker, &asked, 2, &[0]).await;
    // The first time, partition 1 is returned; the second time, the other member gets it.
    serve(&mut consumer, |consumer| consumer.assigned().is_some_and(|partitions| partitions.len() == 1)).await;
    let (asked, said) = next_join(&mut broker).await;
    assert_eq!(owned(&said), (2, vec![0]));
    admit(&mut broker, &asked, 3, &[0]).await;

    // What a member had that the group has forgotten may be another one's.
    broker.answer_heartbeats(UNKNOWN_MEMBER_ID);
    serve(&mut consumer, |consumer| consumer.assigned().is_none()).await;
    let (_asked, said) = next_join(&mut broker).await;
    assert_eq!(owned(&said), (-1, vec![]));
}

/// The member is alone, and shares out what it has itself: it says so, and keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_leader_gives_another_member_only_what_no_one_has() {
    let (mut broker, _bench, groups) = start().await;
    let text = StrBytes::from_static_str;
    let subscription = with(&[COOPERATIVE], Progress::Uncommitted);
    let (consumer, shares) = tokio::join!(groups.consumer(&subscription), async {
        let (asked, said) = next_join(&mut broker).await;
        let other = Subscription { owned: [(TOPIC.to_owned(), vec![0, 1])].into(), generation: 4, ..said.clone() };
        let member = |id, subscription: &Subscription| {
            let metadata = subscription.encode(true).unwrap();
            JoinGroupResponseMember::default().with_member_id(text(id)).with_metadata(metadata)
        };
        let response = JoinGroupResponse::default()
            .with_generation_id(5)
            .with_protocol_name(Some(text("cooperative-sticky")))
            .with_leader(text("m1"))
            .with_member_id(text("m1"))
            .with_members(vec![member("m1", &said), member("m2", &other)]);
        asked.send(asked.frame::<JoinGroupRequest>(&response));
        let asked = broker.await_of(ApiKey::SyncGroup).await;
        let shares = asked.request::<SyncGroupRequest>().assignments;
        let everything = BTreeMap::from([(TOPIC.to_owned(), vec![0, 1])]);
        let response = SyncGroupResponse::default().with_assignment(assignment(&everything).unwrap());
        asked.send(asked.frame::<SyncGroupRequest>(&response));
        shares
    });
    consumer.unwrap();
    let of = |id: &str| {
        let share = shares.iter().find(|share| share.member_id.as_str() == id).unwrap();
        crate::broker::kafka_native::group::assignors::partitions(share.assignment.clone(), TOPIC).unwrap()
    };
    assert_eq!(of("m1").len(), 0);
    assert_eq!(of("m2").len(), 1);
}
