//! Groups that commit: where members resume, and how partitions move between them.

use std::sync::Arc;

use super::group::Message;
use super::script::NullOptions;
use super::topic::{Membership, TopicLog};
use crate::broker::{Progress, Subscription, Topic};
use crate::measure::PartitionIndex;
use crate::scenario::StartFrom;

fn topic(options: &str) -> Arc<TopicLog> {
    Arc::new(TopicLog::new(vec![PartitionIndex::UNKNOWN; 2], toml::from_str::<NullOptions>(options).unwrap()))
}

fn member(log: &Arc<TopicLog>, number: usize) -> Membership {
    log.join(&Subscription {
        group: "group".to_owned(),
        number: 0,
        topic: Topic { name: "topic".to_owned(), partitions: 2, replication: 1 },
        from: StartFrom::Latest,
        members: 2,
        member: number,
        consumer_number: number,
        is_divided: false,
        properties: Vec::new(),
        progress: Progress::OfTheTrial,
    })
}

fn publish(log: &Arc<TopicLog>, messages: usize) {
    for number in 0..messages {
        log.publish(
            number as u32 % 2,
            Message { payload: Box::new([number as u8]), trace_header: None, key: None, partition: None },
        );
    }
}

/// Partition and offset of each message.
fn take(membership: &Membership) -> Vec<(u32, u64)> {
    let mut taken = Vec::new();
    membership.member.take(usize::MAX, |message| taken.push((message.partition, message.offset)));
    taken
}

#[test]
fn a_receiver_that_asks_is_given_the_key() {
    let log = topic("");
    let membership = member(&log, 0);
    log.publish(
        0,
        Message { payload: Box::new([1]), trace_header: None, key: Some(Box::new(*b"key")), partition: None },
    );
    let mut keys = Vec::new();
    membership.member.take(usize::MAX, |message| keys.push(message.details.key().map(|key| key.into_owned())));
    assert_eq!(keys, [Some(b"key".to_vec())]);
}

#[test]
fn a_member_resumes_after_the_last_commit() {
    let log = topic("");
    let first = member(&log, 0);
    publish(&log, 6);
    assert_eq!(take(&first).len(), 6);
    assert_eq!(first.assigned(), Some(vec![(0, Some(3)), (1, Some(3))]));
    first.commit(&[(0, 3), (1, 1)]);
    drop(first);
    publish(&log, 2);
    let second = member(&log, 0);
    assert_eq!(second.assigned(), Some(vec![(0, Some(3)), (1, Some(1))]));
    assert_eq!(take(&second), [(0, 3), (1, 1), (1, 2), (1, 3)]);
}

#[test]
fn members_exchange_their_partitions_once_all_have_revoked_them() {
    let log = topic("rebalance_every = \"1ms\"");
    let members = [member(&log, 0), member(&log, 1)];
    publish(&log, 4);
    assert_eq!(take(&members[0]), [(0, 0), (0, 1)]);
    while !members.iter().all(Membership::is_revocation_requested) {
        std::thread::yield_now();
    }
    members[0].commit(&[(0, 1)]);
    publish(&log, 2);
    members[0].revoke();
    assert_eq!((members[0].assigned(), members[0].is_revocation_requested()), (None, false));
    publish(&log, 2);
    assert_eq!(take(&members[0]), [], "its partition is revoked, with what was on the way to it");
    members[1].revoke();
    assert_eq!(members[0].assigned(), Some(vec![(1, Some(0))]));
    assert_eq!(take(&members[0]), [(1, 0), (1, 1), (1, 2), (1, 3)]);
    assert_eq!(take(&members[1]), [(0, 1), (0, 2), (0, 3)]);
}
