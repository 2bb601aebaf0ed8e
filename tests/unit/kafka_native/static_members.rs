//! Static members of a classic group (KIP-345) on a scripted cluster.

use std::time::Duration;

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{ApiKey, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::bench::{Bench, TIMEOUT, one_message_a_batch, subscription};
use super::scripted::Scripted;
use super::server_assigned::serve;
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::kafka_options::Assignment;
use crate::broker::{Consumer, FailureClass, Offsets, Progress, Subscription};

const FENCED_INSTANCE_ID: i16 = 82;

async fn start() -> (Scripted, Bench, Groups) {
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let options = KafkaNativeOptions {
        assignment: Some(Assignment::Group),
        static_members: true,
        // A sign of life every 200 ms.
        session_timeout: Some(Duration::from_secs(3)),
        ..KafkaNativeOptions::default()
    };
    let groups = Groups::new(bench.admin.clone(), options);
    (broker, bench, groups)
}

/// Makes the next member that joins the only one; returns its name.
async fn admit(broker: &mut Scripted) -> String {
    let text = StrBytes::from_static_str;
    let asked = broker.await_of(ApiKey::JoinGroup).await;
    let request = asked.request::<JoinGroupRequest>();
    let member = JoinGroupResponseMember::default()
        .with_member_id(text("m1"))
        .with_metadata(request.protocols[0].metadata.clone());
    let response = JoinGroupResponse::default()
        .with_generation_id(1)
        .with_protocol_name(Some(text("range")))
        .with_leader(text("m1"))
        .with_member_id(text("m1"))
        .with_members(vec![member]);
    asked.send(asked.frame::<JoinGroupRequest>(&response));
    let asked = broker.await_of(ApiKey::SyncGroup).await;
    let synced = asked.request::<SyncGroupRequest>();
    assert_eq!(synced.group_instance_id, request.group_instance_id);
    let own = synced.assignments[0].assignment.clone();
    asked.send(asked.frame::<SyncGroupRequest>(&SyncGroupResponse::default().with_assignment(own)));
    request.group_instance_id.unwrap().to_string()
}

/// Each member has a name of its own. The group keeps its place when it goes, until another client has the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn static_members_do_not_leave_and_stay_out_when_replaced() {
    let (mut broker, _bench, groups) = start().await;
    for number in 0..2 {
        let of = Subscription { members: 2, member: number, ..subscription(2, Progress::Uncommitted) };
        let (consumer, name) = tokio::join!(groups.consumer(&of), admit(&mut broker));
        assert_eq!(name, format!("member-{number}"));
        let mut consumer = consumer.unwrap();
        if number == 0 {
            consumer.close().await;
            continue;
        }
        broker.answer_heartbeats(FENCED_INSTANCE_ID);
        let error = loop {
            tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
            if let Err(error) = consumer.take(|_| {}) {
                break error;
            }
        };
        assert_eq!(error.class, FailureClass::Fenced);
        assert!(error.message.contains("static member 'member-1'"), "{error:?}");
        serve(&mut consumer, |consumer| consumer.assigned().is_none()).await;
        consumer.close().await;
    }
    for key in [ApiKey::LeaveGroup, ApiKey::JoinGroup] {
        assert!(!broker.has_been_asked(key), "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_broker_that_does_not_know_static_members_is_refused() {
    let (broker, _bench, groups) = start().await;
    broker.know_only(ApiKey::JoinGroup, 0, 4);
    let error = groups.consumer(&subscription(2, Progress::Uncommitted)).await.err().unwrap().to_string();
    assert!(error.contains("Kafka 2.3") && error.contains("remove `static_members`"), "{error}");
}
