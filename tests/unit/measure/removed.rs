use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::measure::{Clock, Received, Span};

const GROUP: SubscriptionIndex = SubscriptionIndex { group: 0, topic: 0 };

/// What members of a group received of partition 0, by their offsets.
fn received(members: &[&[u64]]) -> Arrivals {
    let arrivals = Arrivals::new(Clock::start(), 7, 1, None);
    for (member, offsets) in members.iter().enumerate() {
        let mut recorder = arrivals.recorder(GROUP, member);
        let mut batch = recorder.batch();
        for offset in *offsets {
            let details = &crate::measure::NoDetails;
            let (payload, trace_header, partition, redelivered) = (&b"x"[..], None, 0, false);
            batch.received(Received { payload, trace_header, partition, offset: *offset, redelivered, details });
        }
    }
    arrivals
}

fn unreceivable(members: &[&[u64]], start: u64, first: u64, has_gaps: bool) -> (u64, u64) {
    let Unreceivable { passed, ahead } = received(members).unreceivable(GROUP, &[start], &[first], has_gaps);
    (passed, ahead)
}

#[test]
fn offsets_below_the_first_readable_one_were_removed() {
    // It read 0 and 1, went on at 5, and has read 5 and 6. The log begins at 5, or has gone on to 9.
    let slow: &[&[u64]] = &[&[0, 1, 5, 6]];
    assert_eq!(unreceivable(slow, 0, 5, false), (3, 0));
    assert_eq!(unreceivable(slow, 0, 9, false), (3, 2), "two more that it had not reached");
    assert_eq!(unreceivable(slow, 0, 4, false), (2, 0), "the broker still has offset 4: it is not removed");
    assert_eq!(unreceivable(slow, 3, 5, false), (2, 0), "those before the trial do not count");
    assert_eq!(unreceivable(&[], 0, 9, false), (0, 9));
    assert_eq!(unreceivable(slow, u64::MAX, 9, false), (0, 0), "where the partition began is not known");
}

#[test]
fn another_member_that_goes_on_has_skipped_nothing() {
    assert_eq!(unreceivable(&[&[0, 1, 2], &[3, 4, 5, 8]], 0, 8, false), (2, 0));
    assert_eq!(unreceivable(&[&[0, 3, 6], &[1, 4, 7], &[2, 5, 8]], 0, 9, false), (0, 0));
}

#[test]
fn compaction_leaves_gaps_behind_the_first_offset() {
    assert_eq!(unreceivable(&[&[0, 4, 9]], 0, 0, false), (0, 0));
    assert_eq!(unreceivable(&[&[0, 4, 9]], 0, 0, true), (7, 0));
    let every_third: Vec<u64> = (0..1000).map(|number| 3 * number).collect();
    assert_eq!(unreceivable(&[&every_third], 0, 0, true), (2 * 999, 0), "also those that are not kept one by one");
    assert_eq!(unreceivable(&[&every_third], 0, 3000, false), (2 * 64, 2), "fewer than there were, not more");
}

#[test]
fn as_many_missing_messages_are_removed_as_the_broker_shows() {
    let account = GroupAccount { lost: 10, unread: 5, ..GroupAccount::default() };
    let kept = GroupAccount::default();
    let counted = |passed, ahead| {
        let GroupAccount { lost, unread, removed, .. } = account.with_removed(Unreceivable { passed, ahead }, kept);
        (lost, unread, removed)
    };
    assert_eq!(counted(0, 0), (10, 5, 0));
    assert_eq!(counted(7, 2), (3, 3, 9));
    assert_eq!(counted(99, 99), (0, 0, 15));
    assert_eq!(counted(12, 0), (0, 3, 12));
    assert_eq!(counted(0, 99), (10, 0, 5), "what the group had not reached explains no loss");
    let shown = Unreceivable { passed: 7, ahead: 4 };
    assert_eq!(shown.without(9), Unreceivable { passed: 0, ahead: 2 });
}

#[test]
fn what_compaction_keeps_does_not_count_as_removed() {
    let account = GroupAccount { lost: 10, unread: 5, ..GroupAccount::default() };
    let kept = GroupAccount { lost: 2, unread: 1, ..GroupAccount::default() };
    let expected = GroupAccount { lost: 2, unread: 1, removed: 12, ..GroupAccount::default() };
    assert_eq!(account.with_removed(Unreceivable { passed: 99, ahead: 99 }, kept), expected);
}

/// One producer of these keys, all acknowledged but `failed`, of which these messages arrived and those before `passed` were offered.
fn latest(keys: &[u64], failed: &[u64], arrived: &[u64], (passed, reordered): (u64, u64)) -> (u64, u64) {
    let verification = Verification::new(1, 1);
    let acknowledged = (0..keys.len() as u64).filter(|sequence| !failed.contains(sequence));
    let span = |sequence| Span { producer_index: 0, begin: sequence, end: sequence + 1 };
    verification.acknowledge(&mut acknowledged.map(span).collect::<Vec<_>>());
    arrived.iter().for_each(|sequence| _ = verification.arrive(0, 0, *sequence));
    let senders = std::iter::once((0, keys.iter().copied()));
    let GroupAccount { lost, unread, .. } = verification.account_of_latest(0, 3, reordered, senders, |_| passed);
    (lost, unread)
}

#[test]
fn only_the_latest_message_of_a_key_is_lost_to_compaction() {
    let keys = [0, 1, 0, 1, 0];
    assert_eq!(latest(&keys, &[], &[3, 4], (u64::MAX, 0)), (0, 0), "older values may go");
    assert_eq!(latest(&keys, &[], &[4], (u64::MAX, 0)), (1, 0), "that of key 1 is missing");
    assert_eq!(latest(&keys, &[], &[0, 1, 2], (u64::MAX, 0)), (2, 0), "older values do not stand for it");
    assert_eq!(latest(&keys, &[], &[], (4, 0)), (1, 1), "that of key 0 was not reached");
    assert_eq!(
        latest(&keys, &[4], &[3], (u64::MAX, 0)),
        (0, 0),
        "message 4 may be stored, and have replaced message 2"
    );
    assert_eq!(latest(&keys, &[], &[2, 3], (u64::MAX, 2)), (0, 0), "message 2 may have come behind message 4");
    assert_eq!(latest(&keys, &[], &[0, 3], (u64::MAX, 2)), (1, 0), "message 0 cannot");
}

/// Messages of two producers in the order of the log: producer, key, and whether it arrives although another one follows.
type Log = Vec<(usize, u64, bool)>;

proptest! {
    /// However the log is ordered and compacted: nothing counts unless the latest message of its key is missing, and with one producer
    /// all of these do.
    #[test]
    fn a_missing_latest_message_counts_once(
        log in proptest::collection::vec((0..2usize, 0..8u64, any::<bool>()), 0..200),
        lost in proptest::collection::btree_set(0..8u64, 0..4),
        producers in 1..3usize,
    ) {
        let log: Log = log.into_iter().map(|(producer, key, kept)| (producer % producers, key, kept)).collect();
        let last: BTreeMap<u64, usize> = log.iter().enumerate().map(|(place, (_, key, _))| (*key, place)).collect();
        let verification = Verification::new(2, 1);
        let mut sent: [Vec<u64>; 2] = Default::default();
        for (place, (producer, key, kept)) in log.iter().enumerate() {
            let sequence = sent[*producer].len() as u64;
            sent[*producer].push(*key);
            let span = Span { producer_index: *producer as u32, begin: sequence, end: sequence + 1 };
            verification.acknowledge(&mut [span]);
            let arrives = if last[key] == place { !lost.contains(key) } else { *kept };
            if arrives {
                verification.arrive(0, *producer as u32, sequence);
            }
        }
        let missing = last.keys().filter(|key| lost.contains(key)).count() as u64;
        let senders = sent.iter().map(|keys| keys.iter().copied()).enumerate();
        let counted = verification.account_of_latest(0, 8, 0, senders, |_| u64::MAX);
        prop_assert!(counted.lost <= missing && counted.unread == 0);
        prop_assert!(producers > 1 || counted.lost == missing);
    }
}

/// The broker delivers in order: what it has left for a group lies behind those that it removed.
#[test]
fn undelivered_messages_were_removed_as_far_as_the_group_has_passed_them() {
    let account = GroupAccount { lost: 25, unread: 10, ..GroupAccount::default() };
    let removed = |messages, some_are_left| {
        let unreceivable = Unreceivable::from_undelivered(messages, some_are_left, account.lost);
        let found = account.with_removed(unreceivable, GroupAccount::default());
        (found.lost, found.unread, found.removed)
    };
    assert_eq!(removed(33, true), (0, 10, 25), "the others are left");
    assert_eq!(removed(33, false), (0, 2, 33));
    assert_eq!(removed(20, true), (5, 10, 20), "five were delivered, and did not arrive");
}
