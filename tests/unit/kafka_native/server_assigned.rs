//! Members of a group that a scripted server shares out (KIP-848): what they tell it, when, and what they do when it has lost them.

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::asked::{Asked, name};
use super::bench::{Bench, TIMEOUT, one_message_a_batch, subscription};
use super::fetching::{answer, data, next, plain};
use super::scripted::{Scripted, TOPIC_ID};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::consume::consumer::KafkaNativeConsumer;
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::{BrokerError, Consumer, FailureClass, Offsets, Progress, Subscription, kafka_options};
use crate::measure::{Condition, ConditionKind};

/// Codes of Kafka's protocol.
const UNKNOWN_SERVER_ERROR: i16 = -1;
const OUT_OF_RANGE: i16 = 1;
const UNKNOWN_MEMBER_ID: i16 = 25;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const UNSUPPORTED_VERSION: i16 = 35;
const GROUP_ID_NOT_FOUND: i16 = 69;
const FENCED_INSTANCE_ID: i16 = 82;
const FENCED_MEMBER_EPOCH: i16 = 110;
const UNSUPPORTED_ASSIGNOR: i16 = 112;
const STALE_MEMBER_EPOCH: i16 = 113;

pub fn groups(bench: &Bench, static_members: bool) -> Groups {
    let assignment = Some(kafka_options::Assignment::Group);
    Groups::new(bench.admin.clone(), KafkaNativeOptions { assignment, static_members, ..KafkaNativeOptions::default() })
}

pub fn with(properties: &[(&str, &str)], progress: Progress) -> Subscription {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Subscription { properties: properties.iter().map(own).collect(), ..subscription(2, progress) }
}

pub const BY_SERVER: (&str, &str) = ("group.protocol", "consumer");

pub async fn member(bench: &Bench) -> KafkaNativeConsumer {
    let subscription = with(&[BY_SERVER, ("group.remote.assignor", "range")], Progress::Kept);
    groups(bench, false).consumer(&subscription).await.unwrap()
}

pub async fn next_beat(broker: &mut Scripted) -> (Asked, ConsumerGroupHeartbeatRequest) {
    let asked = broker.await_of(ApiKey::ConsumerGroupHeartbeat).await;
    let request = asked.request();
    (asked, request)
}

/// What a member says that it has, if it says so.
fn held(request: &ConsumerGroupHeartbeatRequest) -> Option<Vec<i32>> {
    let topics = request.topic_partitions.as_ref()?;
    assert!(topics.iter().all(|topic| topic.topic_id == TOPIC_ID));
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

/// The next sign of life is due at once.
pub fn response(epoch: i32) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_member_epoch(epoch).with_heartbeat_interval_ms(1)
}

pub fn reply(asked: &Asked, response: &ConsumerGroupHeartbeatResponse) {
    asked.send(asked.frame::<ConsumerGroupHeartbeatRequest>(response));
}

pub fn refuse(asked: &Asked, code: i16) {
    reply(asked, &response(0).with_error_code(code));
}

fn assign(asked: &Asked, epoch: i32, partitions: &[i32]) {
    let own = TopicPartitions::default().with_topic_id(TOPIC_ID).with_partitions(partitions.to_vec());
    // What is of another topic is no concern of the member.
    let other = TopicPartitions::default().with_partitions(vec![9]);
    let assignment = Assignment::default().with_topic_partitions(vec![own, other]);
    reply(asked, &response(epoch).with_assignment(Some(assignment)));
}

/// Answers what the member says without news, until it has some.
async fn next_news(broker: &mut Scripted, epoch: i32) -> (Asked, ConsumerGroupHeartbeatRequest) {
    loop {
        let (asked, request) = next_beat(broker).await;
        if held(&request).is_some() {
            return (asked, request);
        }
        reply(&asked, &response(epoch));
    }
}

/// The group has committed these offsets. Returns who asks for which partitions.
async fn answer_committed(broker: &mut Scripted, offsets: &[(i32, i64)]) -> (i32, Vec<i32>) {
    let asked = broker.await_of(ApiKey::OffsetFetch).await;
    let request = asked.request::<OffsetFetchRequest>();
    let [group] = &request.groups[..] else { panic!("{request:?}") };
    assert!(group.member_id.as_ref().is_some_and(|id| !id.is_empty()));
    let partition = |(index, offset): &(i32, i64)| {
        OffsetFetchResponsePartitions::default().with_partition_index(*index).with_committed_offset(*offset)
    };
    let partitions = offsets.iter().map(partition).collect();
    let topic = OffsetFetchResponseTopics::default().with_name(name()).with_partitions(partitions);
    let found = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone()).with_topics(vec![topic]);
    asked.send(asked.frame::<OffsetFetchRequest>(&OffsetFetchResponse::default().with_groups(vec![found])));
    let wanted = group.topics.iter().flatten().flat_map(|topic| topic.partition_indexes.clone());
    (group.member_epoch, wanted.collect())
}

/// Answers the next commit, and returns the epoch of the member that has sent it.
async fn answer_commit(broker: &mut Scripted, code: i16) -> i32 {
    let asked = broker.await_of(ApiKey::OffsetCommit).await;
    let request = asked.request::<OffsetCommitRequest>();
    assert!(!request.member_id.is_empty());
    let partition = OffsetCommitResponsePartition::default().with_error_code(code);
    let topic = OffsetCommitResponseTopic::default().with_name(name()).with_partitions(vec![partition]);
    asked.send(asked.frame::<OffsetCommitRequest>(&OffsetCommitResponse::default().with_topics(vec![topic])));
    request.generation_id_or_member_epoch
}

/// Serves the member until that is so.
pub async fn serve(consumer: &mut KafkaNativeConsumer, until: impl Fn(&mut KafkaNativeConsumer) -> bool) {
    while !until(consumer) {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        consumer.take(|_| {}).unwrap();
    }
}

async fn start(partitions: usize) -> (Scripted, Bench) {
    let broker = Scripted::start(1, partitions).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    (broker, bench)
}

/// A member that commits, to which partition 0 is assigned, from 5 on.
async fn begun(broker: &mut Scripted, bench: &Bench) -> (KafkaNativeConsumer, StrBytes) {
    let mut consumer = member(bench).await;
    let (asked, request) = next_beat(broker).await;
    assert_eq!(request.member_epoch, 0);
    assert_eq!(held(&request), Some(vec![]));
    assert_eq!(request.subscribed_topic_names, Some(vec![name()]));
    assert_eq!(request.server_assignor.as_deref(), Some("range"));
    assert_eq!(request.rebalance_timeout_ms, 300_000);
    assert!(request.member_id.len() >= 22, "a client makes its id");
    assign(&asked, 1, &[0]);
    // It says what it has, and repeats nothing else.
    let (asked, news) = next_beat(broker).await;
    assert_eq!(news.member_epoch, 1);
    assert_eq!(held(&news), Some(vec![0]));
    assert_eq!(news.member_id, request.member_id);
    assert_eq!(news.subscribed_topic_names, None);
    reply(&asked, &response(1));
    serve(&mut consumer, |consumer| consumer.assigned().is_some()).await;
    assert_eq!(answer_committed(broker, &[(0, 5)]).await, (1, vec![0]));
    serve(&mut consumer, |consumer| consumer.assigned() == Some(vec![(0, Some(5))])).await;
    (consumer, request.member_id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn server_assignment_reads_at_once_and_returns_first() {
    let (mut broker, bench) = start(2).await;
    let (mut consumer, id) = begun(&mut broker, &bench).await;
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(held(&request), None);
    assign(&asked, 2, &[0, 1]);
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(request.member_epoch, 2);
    assert_eq!(held(&request), Some(vec![0, 1]));
    // What the member has already goes on where it is.
    serve(&mut consumer, |consumer| consumer.assigned().is_some_and(|partitions| partitions.len() == 2)).await;
    assert_eq!(answer_committed(&mut broker, &[(1, 3)]).await, (2, vec![1]));
    serve(&mut consumer, |consumer| consumer.assigned() == Some(vec![(0, Some(5)), (1, Some(3))])).await;

    assign(&asked, 2, &[1]);
    serve(&mut consumer, |consumer| consumer.is_revocation_requested()).await;
    for _ in 0..3 {
        let (asked, request) = next_beat(&mut broker).await;
        assert_eq!(held(&request), None, "the consumer has not returned anything yet");
        reply(&asked, &response(2));
    }
    let next = [(0, 7)];
    let (committed, epoch) = tokio::join!(consumer.commit(&next, true), answer_commit(&mut broker, 0));
    assert_eq!(committed, Ok(()));
    assert_eq!(epoch, 2);
    consumer.revoke().await;
    let (asked, request) = next_news(&mut broker, 2).await;
    assert_eq!(request.member_epoch, 2);
    assert_eq!(held(&request), Some(vec![1]));
    reply(&asked, &response(3));
    // What it keeps is read again from what is committed.
    assert_eq!(answer_committed(&mut broker, &[(1, 4)]).await.1, [1]);
    serve(&mut consumer, |consumer| consumer.assigned() == Some(vec![(1, Some(4))])).await;

    let closed = tokio::spawn(consumer.close());
    loop {
        let (asked, request) = next_beat(&mut broker).await;
        reply(&asked, &response(request.member_epoch));
        if request.member_epoch < 0 {
            assert_eq!(request.member_epoch, -1);
            assert_eq!(request.member_id, id);
            break;
        }
    }
    closed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_that_is_fenced_returns_everything_and_joins_again() {
    for code in [FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND] {
        let (mut broker, bench) = start(2).await;
        let (mut consumer, id) = begun(&mut broker, &bench).await;
        let (asked, _) = next_beat(&mut broker).await;
        refuse(&asked, code);
        serve(&mut consumer, |consumer| consumer.is_revocation_requested()).await;
        // There is no later epoch with which this could be sent again.
        let next = [(0, 7)];
        let (committed, epoch) =
            tokio::join!(consumer.commit(&next, true), answer_commit(&mut broker, STALE_MEMBER_EPOCH));
        assert!(committed.is_err());
        assert_eq!(epoch, 0);
        assert!(!broker.has_been_asked(ApiKey::OffsetCommit));
        consumer.revoke().await;
        assert_eq!(consumer.assigned(), None);
        let (asked, request) = next_beat(&mut broker).await;
        assert_eq!(request.member_epoch, 0, "{code}");
        assert_eq!(held(&request), Some(vec![]), "{code}");
        assert_eq!(request.member_id, id, "{code}");
        assign(&asked, 7, &[1]);
        let (_asked, request) = next_beat(&mut broker).await;
        assert_eq!(request.member_epoch, 7);
        assert_eq!(held(&request), Some(vec![1]));
        serve(&mut consumer, |consumer| consumer.assigned().is_some()).await;
        assert_eq!(answer_committed(&mut broker, &[(1, 0)]).await, (7, vec![1]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_report_about_a_partition_that_went_before_it_was_told_is_told() {
    let (mut broker, bench) = start(2).await;
    let (mut consumer, _) = begun(&mut broker, &bench).await;
    broker.set_ends(12, 20);
    let asked = broker.await_of(ApiKey::Fetch).await;
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(OUT_OF_RANGE)]));
    // The report is there.
    assert_eq!(broker.await_of(ApiKey::Fetch).await.positions(), [(0, 12)]);
    refuse(&next_beat(&mut broker).await.0, FENCED_MEMBER_EPOCH);
    while !consumer.is_revocation_requested() {
        tokio::task::yield_now().await;
    }
    consumer.revoke().await;
    assert_eq!(consumer.assigned(), None);
    tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
    let told = consumer.take(|_| {}).unwrap_err().message;
    assert!(told.contains("7 messages of partition 0, from offset 5"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_with_a_stale_epoch_is_sent_again_with_the_next_one() {
    let (mut broker, bench) = start(2).await;
    let (mut consumer, _) = begun(&mut broker, &bench).await;
    let next = [(0, 7)];
    let (committed, ()) = tokio::join!(consumer.commit(&next, true), async {
        assert_eq!(answer_commit(&mut broker, STALE_MEMBER_EPOCH).await, 1);
        let (asked, _) = next_beat(&mut broker).await;
        reply(&asked, &response(2));
        while answer_commit(&mut broker, STALE_MEMBER_EPOCH).await == 1 {}
        assert_eq!(answer_commit(&mut broker, 0).await, 2);
    });
    assert_eq!(committed, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_coordinator_that_does_not_answer_heartbeats_is_told_until_it_does() {
    let (mut broker, bench) = start(2).await;
    let (mut consumer, _) = begun(&mut broker, &bench).await;
    let (asked, _) = next_beat(&mut broker).await;
    bench.held_up(|lasting| lasting.iter().any(|one| one.kind == ConditionKind::Unanswered)).await;
    assert_eq!(consumer.assigned(), Some(vec![(0, Some(5))]));
    reply(&asked, &response(1).with_heartbeat_interval_ms(TIMEOUT.as_millis() as i32));
    bench.held_up(|lasting| lasting.iter().all(|one| one.kind != ConditionKind::Unanswered)).await;
}

/// It does not know what the coordinator has taken from a request that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_an_error_the_member_says_everything_again() {
    let (mut broker, bench) = start(2).await;
    let (_consumer, _) = begun(&mut broker, &bench).await;
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(held(&request), None);
    refuse(&asked, UNKNOWN_SERVER_ERROR);
    let (_asked, request) = next_beat(&mut broker).await;
    assert_eq!(request.member_epoch, 1);
    assert_eq!(held(&request), Some(vec![0]));
    assert_eq!(request.subscribed_topic_names, Some(vec![name()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refused_member_reports_and_goes_on() {
    let (mut broker, bench) = start(2).await;
    let (mut consumer, _) = begun(&mut broker, &bench).await;
    refuse(&next_beat(&mut broker).await.0, GROUP_AUTHORIZATION_FAILED);
    let error = loop {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        if let Err(error) = consumer.take(|_| {}) {
            break error;
        }
    };
    assert_eq!(error.class, FailureClass::Authorisation);
    assert_eq!(consumer.assigned(), Some(vec![(0, Some(5))]));
    let is_denied = |lasting: &[Condition]| lasting.iter().any(|one| one.kind == ConditionKind::Denied);
    bench.held_up(is_denied).await;
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(request.member_epoch, 1);
    assert_eq!(held(&request), Some(vec![0]));
    // It has the right again, and the same partitions.
    reply(&asked, &response(1));
    bench.held_up(|lasting| !is_denied(lasting)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_of_the_first_version_may_name_the_member() {
    let (mut broker, bench) = start(2).await;
    broker.know_only(ApiKey::ConsumerGroupHeartbeat, 0, 0);
    let _consumer = member(&bench).await;
    let (asked, _) = next_beat(&mut broker).await;
    let given = StrBytes::from_static_str("given");
    reply(&asked, &response(1).with_member_id(Some(given.clone())));
    assert_eq!(next_beat(&mut broker).await.1.member_id, given);
}

async fn refused(bench: &Bench, broker: &mut Scripted, code: Option<i16>) -> BrokerError {
    let subscription = with(&[BY_SERVER], Progress::Uncommitted);
    let answer = async {
        if let Some(code) = code {
            let (asked, _) = next_beat(broker).await;
            refuse(&asked, code);
        }
    };
    let groups = groups(bench, false);
    tokio::join!(groups.consumer(&subscription), answer).0.err().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_server_does_not_have_is_refused_with_what_to_do() {
    let (mut broker, bench) = start(2).await;
    let error = refused(&bench, &mut broker, Some(UNSUPPORTED_ASSIGNOR)).await.to_string();
    assert!(error.contains("UnsupportedAssignor"), "{error}");
    let error = refused(&bench, &mut broker, Some(UNSUPPORTED_VERSION)).await.to_string();
    assert!(error.contains("Kafka 4.0") && error.contains("remove `\"group.protocol\""), "{error}");
    broker.forget(ApiKey::ConsumerGroupHeartbeat);
    let error = refused(&bench, &mut broker, None).await.to_string();
    assert!(error.contains("Kafka 4.0") && error.contains("remove `\"group.protocol\""), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn static_member_leaves_for_now_and_stays_out_when_replaced() {
    let (mut broker, bench) = start(2).await;
    let subscription = with(&[BY_SERVER], Progress::Uncommitted);
    let groups = groups(&bench, true);
    let (consumer, ()) = tokio::join!(groups.consumer(&subscription), async {
        let (asked, request) = next_beat(&mut broker).await;
        assert_eq!(request.instance_id.as_deref(), Some("member-0"));
        assign(&asked, 1, &[0, 1]);
    });
    let mut consumer = consumer.unwrap();
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(request.instance_id.as_deref(), Some("member-0"));
    refuse(&asked, FENCED_INSTANCE_ID);
    let error = loop {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        if let Err(error) = consumer.take(|_| {}) {
            break error;
        }
    };
    assert_eq!(error.class, FailureClass::Fenced);
    assert!(error.message.contains("static member 'member-0'"), "{error:?}");
    serve(&mut consumer, |consumer| consumer.assigned().is_none()).await;
    let closed = tokio::spawn(consumer.close());
    // Nothing was said in between.
    let (asked, request) = next_beat(&mut broker).await;
    assert_eq!(request.member_epoch, -2);
    assert_eq!(request.instance_id.as_deref(), Some("member-0"));
    refuse(&asked, FENCED_INSTANCE_ID);
    closed.await.unwrap();
}

/// Of two members of a trial that does not commit, the second one begins where the first one has stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn moved_partition_resumes_where_the_first_member_stopped() {
    let (mut broker, bench) = start(2).await;
    let groups = groups(&bench, false);
    let of = |member| Subscription { members: 2, member, ..with(&[BY_SERVER], Progress::Uncommitted) };
    let (of_first, of_second) = (of(0), of(1));
    let (first, ()) = tokio::join!(groups.consumer(&of_first), async {
        assign(&next_beat(&mut broker).await.0, 1, &[1]);
        reply(&next_beat(&mut broker).await.0, &response(1));
    });
    let mut first = first.unwrap();
    let asked = broker.await_of(ApiKey::Fetch).await;
    assert_eq!(asked.positions(), [(1, 0)]);
    asked.send(answer(&asked, vec![data(plain(0..3)).with_partition_index(1)]));
    while next(&mut first).await.0.is_empty() {}
    // It is not answered any more.
    assert_eq!(broker.await_of(ApiKey::Fetch).await.positions(), [(1, 3)]);
    assign(&next_beat(&mut broker).await.0, 1, &[]);
    serve(&mut first, |first| first.assigned().is_some_and(|partitions| partitions.is_empty())).await;
    let (asked, request) = next_news(&mut broker, 1).await;
    assert_eq!(held(&request), Some(vec![]));
    // From here on, the first member is not answered, and says nothing.
    drop(asked);
    let (_second, ()) = tokio::join!(groups.consumer(&of_second), async {
        let (asked, request) = next_beat(&mut broker).await;
        assert_eq!(request.member_epoch, 0);
        assign(&asked, 2, &[1]);
    });
    assert_eq!(broker.await_of(ApiKey::Fetch).await.positions(), [(1, 3)]);
}
