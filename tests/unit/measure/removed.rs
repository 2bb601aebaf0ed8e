use super::*;
use crate::measure::{Clock, Received};

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
    let counted = |passed, ahead| {
        let GroupAccount { lost, unread, removed, .. } = account.with_removed(Unreceivable { passed, ahead });
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
