//! Members of a group on a scripted cluster: the coordinator asks for another name, moves, requests partitions back, and forgets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_fetch_response::{OffsetFetchResponsePartition, OffsetFetchResponseTopic};
use kafka_protocol::messages::{
    ApiKey, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::asked::{Asked, name};
use super::bench::{Bench, TIMEOUT, TOPIC, one_message_a_batch, subscription};
use super::scripted::Scripted;
use super::server_assigned::{BY_SERVER, with};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::consume::consumer::KafkaNativeConsumer;
use crate::broker::kafka_native::group::assignors;
use crate::broker::kafka_native::group::committed::{Positions, StartOffsets};
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::kafka_native::net::admin::End;
use crate::broker::kafka_options::Assignment;
use crate::broker::{Consumer, Offsets, Progress, Subscription};
use crate::measure::ConditionKind;

/// Codes of Kafka's protocol.
const NOT_COORDINATOR: i16 = 16;
const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const MEMBER_ID_REQUIRED: i16 = 79;

/// A member of a group that commits.
pub async fn member(bench: &Bench, assignment: Assignment) -> KafkaNativeConsumer {
    Groups::new(bench.admin.clone(), beating(assignment)).consumer(&subscription(2, Progress::Kept)).await.unwrap()
}

/// A sign of life every 200 ms.
fn beating(assignment: Assignment) -> KafkaNativeOptions {
    let session_timeout = Some(Duration::from_secs(3));
    KafkaNativeOptions { assignment: Some(assignment), session_timeout, ..KafkaNativeOptions::default() }
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

pub async fn next_join(broker: &mut Scripted) -> (Asked, JoinGroupRequest) {
    let asked = broker.next_of(ApiKey::JoinGroup).await;
    let request = asked.request::<JoinGroupRequest>();
    (asked, request)
}

pub fn refuse_join(asked: &Asked, code: i16, member_id: &'static str) {
    let response = JoinGroupResponse::default()
        .with_error_code(code)
        .with_protocol_name(Some(text("")))
        .with_member_id(text(member_id));
    asked.send(asked.frame::<JoinGroupRequest>(&response));
}

/// Makes "m1" the only member, which assigns itself what it wants.
async fn admit(broker: &mut Scripted) {
    admit_with(broker, None).await;
}

/// The same, but it gets this assignment, if there is one.
async fn admit_with(broker: &mut Scripted, other: Option<Bytes>) {
    let (asked, request) = next_join(broker).await;
    assert_eq!(request.member_id.as_str(), "m1");
    let metadata = request.protocols[0].metadata.clone();
    let member = JoinGroupResponseMember::default().with_member_id(text("m1")).with_metadata(metadata);
    let response = JoinGroupResponse::default()
        .with_generation_id(1)
        .with_protocol_name(Some(text("range")))
        .with_leader(text("m1"))
        .with_member_id(text("m1"))
        .with_members(vec![member]);
    asked.send(asked.frame::<JoinGroupRequest>(&response));
    let asked = broker.next_of(ApiKey::SyncGroup).await;
    let request = asked.request::<SyncGroupRequest>();
    let assignment = other.unwrap_or_else(|| request.assignments[0].assignment.clone());
    asked.send(asked.frame::<SyncGroupRequest>(&SyncGroupResponse::default().with_assignment(assignment)));
}

/// The group has committed 5 in partition 0.
async fn answer_committed(broker: &mut Scripted) {
    let asked = broker.next_of(ApiKey::OffsetFetch).await;
    let partition = |(index, offset)| {
        OffsetFetchResponsePartition::default().with_partition_index(index).with_committed_offset(offset)
    };
    let partitions = [(0, 5), (1, -1)].map(partition).into();
    let topic = OffsetFetchResponseTopic::default().with_name(name()).with_partitions(partitions);
    asked.send(asked.frame::<OffsetFetchRequest>(&OffsetFetchResponse::default().with_topics(vec![topic])));
}

/// Answers the next commit, and returns who has sent it.
async fn answer_commit(broker: &mut Scripted, code: i16) -> (i32, String) {
    let asked = broker.next_of(ApiKey::OffsetCommit).await;
    let request = asked.request::<OffsetCommitRequest>();
    send_committed(&asked, code);
    (request.generation_id_or_member_epoch, request.member_id.to_string())
}

fn send_committed(asked: &Asked, code: i16) {
    let partition = OffsetCommitResponsePartition::default().with_error_code(code);
    let topic = OffsetCommitResponseTopic::default().with_name(name()).with_partitions(vec![partition]);
    asked.send(asked.frame::<OffsetCommitRequest>(&OffsetCommitResponse::default().with_topics(vec![topic])));
}

/// Serves the member until that is so.
async fn serve(consumer: &mut KafkaNativeConsumer, until: impl Fn(&mut KafkaNativeConsumer) -> bool) {
    while !until(consumer) {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        consumer.take(|_| {}).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn member_starts_at_committed_offsets_and_returns_partitions() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut consumer = member(&bench, Assignment::Group).await;
    let (asked, request) = next_join(&mut broker).await;
    assert_eq!(request.member_id.as_str(), "");
    refuse_join(&asked, MEMBER_ID_REQUIRED, "m1");
    admit(&mut broker).await;
    serve(&mut consumer, |consumer| consumer.assigned().is_some()).await;
    answer_committed(&mut broker).await;
    let begun = Some(vec![(0, Some(5)), (1, Some(0))]);
    serve(&mut consumer, |consumer| consumer.assigned() == begun).await;

    broker.answer_heartbeats(REBALANCE_IN_PROGRESS);
    serve(&mut consumer, |consumer| consumer.is_revocation_requested()).await;
    let next = [(0, 7)];
    let (committed, _) = tokio::join!(consumer.commit(&next, true), async {
        assert_eq!(answer_commit(&mut broker, NOT_COORDINATOR).await, (1, "m1".to_owned()));
        assert_eq!(answer_commit(&mut broker, 0).await, (1, "m1".to_owned()));
    });
    assert_eq!(committed, Ok(()));
    consumer.revoke().await;
    assert_eq!(consumer.assigned(), None);
    let (asked, request) = next_join(&mut broker).await;
    assert_eq!(request.member_id.as_str(), "m1");
    refuse_join(&asked, UNKNOWN_MEMBER_ID, "");
    assert_eq!(next_join(&mut broker).await.1.member_id.as_str(), "");
}

/// Long before the time for its response, [`TIMEOUT`], is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_node_is_asked_for_the_coordinator_where_one_is_silent() {
    let mut broker = Scripted::start(2, 2).await;
    broker.move_coordinator(1);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    broker.silence(0);
    let _member = member(&bench, Assignment::Group).await;
    assert_eq!(next_join(&mut broker).await.0.node, 1);
}

/// Long before the time for its response is over, which is that of a rebalance.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_coordinator_that_does_not_answer_who_joins_is_told_until_it_does() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let _member = member(&bench, Assignment::Group).await;
    let (asked, _) = next_join(&mut broker).await;
    let lasting = bench.held_up(|lasting| lasting.iter().any(|one| one.kind == ConditionKind::Unanswered)).await;
    assert_eq!(lasting[0].told(), "group group: connected, and nothing is answered");
    assert!(lasting[0].words.contains("has not answered a member that joins"), "{}", lasting[0].words);
    refuse_join(&asked, MEMBER_ID_REQUIRED, "m1");
    bench.held_up(|lasting| lasting.iter().all(|one| one.kind != ConditionKind::Unanswered)).await;
}

/// The coordinator says nothing for a session. Its answer would be awaited for far longer, for [`TIMEOUT`].
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_without_an_answer_for_a_session_returns_its_partitions() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut consumer = member(&bench, Assignment::Group).await;
    let (asked, _) = next_join(&mut broker).await;
    refuse_join(&asked, MEMBER_ID_REQUIRED, "m1");
    admit(&mut broker).await;
    serve(&mut consumer, |consumer| consumer.assigned().is_some()).await;
    broker.silence(0);
    serve(&mut consumer, |consumer| consumer.is_revocation_requested()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn partitions_of_other_members_are_told_until_they_come_back() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut consumer = member(&bench, Assignment::Group).await;
    let (asked, _) = next_join(&mut broker).await;
    refuse_join(&asked, MEMBER_ID_REQUIRED, "m1");
    let half = assignors::assignment(&[(TOPIC.to_owned(), vec![0])].into()).unwrap();
    admit_with(&mut broker, Some(half)).await;
    let lasting = bench.held_up(|lasting| lasting.iter().any(|one| one.kind == ConditionKind::GroupHasOthers)).await;
    assert_eq!(lasting[0].told(), "consumed partition topic/1: with other members of the group");
    assert!(lasting[0].words.contains("'group'"), "{}", lasting[0].words);
    serve(&mut consumer, |consumer| consumer.assigned().is_some()).await;
    broker.answer_heartbeats(REBALANCE_IN_PROGRESS);
    serve(&mut consumer, |consumer| consumer.is_revocation_requested()).await;
    consumer.revoke().await;
    broker.answer_heartbeats(0);
    admit(&mut broker).await;
    bench.held_up(|lasting| lasting.iter().all(|one| one.kind != ConditionKind::GroupHasOthers)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_that_was_not_waited_for_reports_its_refusal_later() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut consumer, ()) = tokio::join!(member(&bench, Assignment::Manual), answer_committed(&mut broker));
    assert_eq!(consumer.commit(&[(0, 1)], false).await, Ok(()));
    // No member of any generation.
    assert_eq!(answer_commit(&mut broker, GROUP_AUTHORIZATION_FAILED).await, (-1, String::new()));
    let mut refusals = Vec::new();
    for next in [2, 3] {
        let next = [(0, next)];
        let (committed, _) = tokio::join!(consumer.commit(&next, true), answer_commit(&mut broker, 0));
        refusals.extend(committed.err());
    }
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].message.contains("GroupAuthorizationFailed"), "{refusals:?}");
}

/// The refusal comes while the next commit waits. Nothing is committed later that could tell it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_confirmed_commit_also_tells_the_refusal_of_the_one_before_it() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut consumer, ()) = tokio::join!(member(&bench, Assignment::Manual), answer_committed(&mut broker));
    for (code, later) in [(0, None), (OFFSET_METADATA_TOO_LARGE, Some("OffsetMetadataTooLarge"))] {
        assert_eq!(consumer.commit(&[(0, 1)], false).await, Ok(()));
        let asked = broker.next_of(ApiKey::OffsetCommit).await;
        let (committed, ()) = tokio::join!(consumer.commit(&[(0, 2)], true), async {
            send_committed(&asked, GROUP_AUTHORIZATION_FAILED);
            answer_commit(&mut broker, code).await;
        });
        let told = committed.unwrap_err().message;
        assert!(told.contains("GroupAuthorizationFailed"), "{told}");
        assert!(later.is_none_or(|later| told.contains(later)), "{told}");
    }
}

/// The group had lost the one, and the other has read on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_that_returns_partitions_late_leads_no_other_one_back() {
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (admin, topic, left_off) = (bench.admin.clone(), TOPIC.to_owned(), Arc::default());
    let start_offsets = StartOffsets { admin, topic, committed: None, left_off, end: End::Earliest };
    start_offsets.leave_off(&Positions::from([(0, 100), (1, 7)]));
    start_offsets.leave_off(&Positions::from([(0, 50), (1, 9)]));
    assert_eq!(start_offsets.positions(&[0, 1]).await.unwrap(), Positions::from([(0, 100), (1, 9)]));
    start_offsets.cut_off(0, 60);
    assert_eq!(start_offsets.positions(&[0, 1]).await.unwrap(), Positions::from([(0, 60), (1, 9)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_member_cannot_have_is_refused_with_what_to_do() {
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let refused = async |options: KafkaNativeOptions, subscription: Subscription| {
        let groups = Groups::new(bench.admin.clone(), options);
        groups.consumer(&subscription).await.err().unwrap().to_string()
    };
    let group = || KafkaNativeOptions { assignment: Some(Assignment::Group), ..KafkaNativeOptions::default() };
    let cooperative = ("partition.assignment.strategy", "cooperative-sticky");
    for (options, subscription, remedy) in [
        (KafkaNativeOptions::default(), with(&[BY_SERVER], Progress::Uncommitted), "assignment = \"group\""),
        (group(), with(&[("group.protocol", "new")], Progress::Uncommitted), "\"classic\" or \"consumer\""),
        (group(), with(&[cooperative], Progress::Kept), "remove `partition.assignment.strategy`"),
        (beating(Assignment::Group), with(&[BY_SERVER], Progress::Kept), "remove `broker.kafka.session_timeout`"),
        (KafkaNativeOptions { static_members: true, ..group() }, with(&[], Progress::Kept), "remove `static_members`"),
        (group(), Subscription { is_divided: true, ..with(&[], Progress::Kept) }, "assignment = \"manual\""),
    ] {
        let error = refused(options, subscription).await;
        assert!(error.contains(remedy), "{error}");
    }
}

/// At once, and not when the time to join is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_group_that_may_not_be_read_is_refused_at_once() {
    let broker = Scripted::start(1, 2).await;
    broker.refuse_coordinator(GROUP_AUTHORIZATION_FAILED);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let groups = Groups::new(bench.admin.clone(), beating(Assignment::Group));
    let begun = std::time::Instant::now();
    let refused = groups.consumer(&subscription(2, Progress::Uncommitted)).await.err().unwrap().to_string();
    assert!(refused.contains("GroupAuthorizationFailed (error 30): the group 'group'"), "{refused}");
    assert!(begun.elapsed() < TIMEOUT / 2);
}
