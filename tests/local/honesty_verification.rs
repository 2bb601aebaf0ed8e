//! Proof of the verification: each group receives other messages from the null broker, and the record has the exact numbers of
//! lost, unread and duplicated messages, and of those that failed and were stored.

use brokermark::record::{GroupVerification, ReasonKind, Record, Verification};

use crate::harness::{Bench, assert_acknowledged, assert_balanced, finding, reasons, record_of, records_of};

const SECOND_NS: u64 = 1_000_000_000;

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\n{tables}")
}

fn verification(record: &Record) -> &Verification {
    record.verification.as_ref().unwrap()
}

/// The groups without their times, which no test can foretell.
fn groups(record: &Record) -> Vec<GroupVerification> {
    let timeless = |group: &GroupVerification| GroupVerification {
        consumer_lag_at_load_end: None,
        catch_up_ns: None,
        ..group.clone()
    };
    verification(record).groups.iter().map(timeless).collect()
}

fn sound(group: usize, messages: u64) -> GroupVerification {
    GroupVerification { group, received: messages, consumed: messages, ..GroupVerification::default() }
}

#[test]
fn what_failed_and_was_stored_hides_no_loss() {
    let record = record_of(&null(
        "broker.null = { lose = 0.01, fail_after_storing = 0.02 }
        [consumers]
        [run]
        messages = 10_050
        drain_deadline = \"1s\"",
    ));
    assert_balanced(&record);
    // 9,950 of 10,050 are not lost; of these 199 failed and arrived all the same: more than the 100 that did not arrive.
    assert_eq!((record.counts.acknowledged, record.counts.failed), (9_851, 199));
    let found = verification(&record);
    assert_fields!(found, { received: 9_950, lost: 100, unread: 0, not_acknowledged_but_stored: 199 });
    let loss = finding(&record, ReasonKind::Losses).unwrap();
    assert!(loss.evidence.contains("100 of 9,851 acknowledged messages were lost"), "{}", loss.evidence);
    let stored = finding(&record, ReasonKind::NotAcknowledgedButStored).unwrap();
    assert_eq!(stored.figures["not_acknowledged_but_stored"], 199.0);
}

#[test]
fn a_duplicate_in_one_group_hides_no_loss_in_another() {
    let record = record_of(&null(
        "broker.null.groups = [{ duplicate = 0.02 }, {}, { lose = 0.01 }]
        producers.count = 3
        consumers.groups = 3
        [run]
        messages = 10_050
        warm_up = \"50ms\"
        drain_deadline = \"1s\"",
    ));
    assert_acknowledged(&record, 10_050);
    let all = 10_050 + record.counts.warm_up.acknowledged;
    let [duplicated, sound, lossy] = &verification(&record).groups[..] else { panic!("{:?}", record.verification) };
    assert_fields!(duplicated, { duplicated: all / 50, lost: 0, received: all + all / 50 });
    assert_fields!(sound, { duplicated: 0, lost: 0, received: all, consumed: 10_050 });
    // A message at the very end of its partition may never be passed: the group does not get behind it.
    assert_eq!(lossy.duplicated, 0);
    assert_eq!(lossy.lost + lossy.unread, all / 100);
    assert_eq!(lossy.received, all - all / 100);
    assert!(lossy.unread <= 1 && lossy.lost > 0, "{lossy:?}");
    assert_eq!(verification(&record).lost, lossy.lost);
    // Of warm-up and measurement together, the repetitions are in no other figure.
    assert_eq!(record.counts.consumed, Some(duplicated.consumed + sound.consumed + lossy.consumed));
    assert_eq!((duplicated.consumed, record.counts.consumed.unwrap() <= 3 * 10_050), (10_050, true));
    assert_eq!(record.latency.end_to_end.as_ref().unwrap().count, record.counts.consumed.unwrap());
    let evidence = &finding(&record, ReasonKind::Losses).unwrap().evidence;
    assert!(evidence.contains("In group 0, 0 of") && evidence.contains("in group 2, "), "{evidence}");
    assert!(!evidence.contains("group 1"), "{evidence}");
}

#[test]
fn redelivery_flag_counts_only_after_first_delivery() {
    let record = record_of(&null(
        "broker.null.groups = [{ flag = 0.5 }, { redeliver = 0.01 }, { redeliver = 0.01, duplicate = 0.02 }]
        consumers.groups = 3
        run.messages = 10_050",
    ));
    assert_acknowledged(&record, 10_050);
    let [flagged, redelivered, both] = &groups(&record)[..] else { panic!("{:?}", record.verification) };
    assert_eq!(*flagged, sound(0, 10_050));
    let expected = GroupVerification { received: 10_150, redelivered: 100, ..sound(1, 10_050) };
    assert_eq!(*redelivered, expected);
    let expected = GroupVerification { received: 10_351, redelivered: 100, duplicated: 201, ..sound(2, 10_050) };
    assert_eq!(*both, expected, "redeliveries cancel no duplicates");
    assert_eq!(record.counts.consumed, Some(3 * 10_050));
    assert_eq!(record.latency.end_to_end.as_ref().unwrap().count, 3 * 10_050, "a repetition has no latency");
}

/// 12,000 messages for a group that takes 6,000 a second, and a deadline without progress that is shorter than that takes.
#[test]
fn a_slow_group_that_catches_up_is_waited_for_and_noted() {
    let record = record_of(&null(
        "broker.null.groups = [{}, { rate = 6_000 }]
        consumers.groups = 2
        [run]
        messages = 12_000
        drain_deadline = \"500ms\"",
    ));
    assert_acknowledged(&record, 12_000);
    assert_eq!(groups(&record), [sound(0, 12_000), sound(1, 12_000)]);
    let [quick, slow] = &verification(&record).groups[..] else { panic!("{:?}", record.verification) };
    assert!(slow.consumer_lag_at_load_end.unwrap() > 6_000, "{slow:?}");
    assert!(slow.catch_up_ns.unwrap() > SECOND_NS, "{slow:?}");
    assert!(quick.catch_up_ns.unwrap() < slow.catch_up_ns.unwrap(), "{quick:?}");
    for kind in [ReasonKind::Losses, ReasonKind::Unread] {
        assert!(!reasons(&record).contains(&kind), "{:?}", record.verdict);
    }
    let note = record.verdict.notes.iter().find(|note| note.kind == ReasonKind::ConsumersBehind).unwrap();
    assert!(note.evidence.starts_with("Group 1 was "), "{}", note.evidence);
}

#[test]
fn slow_group_has_unread_and_no_lost_messages() {
    let bench = Bench::new(&null(
        "broker.null.groups = [{}, { rate = 1_000 }]
        consumers.groups = 2
        [run]
        messages = 10_000
        warm_up = \"50ms\"
        catch_up_deadline = \"1s\"
        [thresholds]
        require = [\"lost = 0\", \"unread = 0\"]",
    ));
    let record = bench.run(&[]).expect(3).record();
    assert_acknowledged(&record, 10_000);
    let all = 10_000 + record.counts.warm_up.acknowledged;
    let [quick, slow] = &verification(&record).groups[..] else { panic!("{:?}", record.verification) };
    assert_fields!(quick, { received: all, unread: 0, lost: 0 });
    assert_eq!(slow.received + slow.unread, all);
    assert_eq!(slow.lost, 0);
    assert_eq!(slow.catch_up_ns, None);
    assert!(slow.unread > 1_000, "{slow:?}");
    assert_eq!((reasons(&record).contains(&ReasonKind::Losses), verification(&record).lost), (false, 0));
    let unread = finding(&record, ReasonKind::Unread).unwrap();
    assert!(unread.evidence.starts_with("In group 1, "), "{}", unread.evidence);
    assert_eq!(record.thresholds.iter().map(|one| one.held).collect::<Vec<_>>(), [true, false]);
}

/// The group is cut off in the middle of a partition: what it has passed by then was lost, the rest is unread.
#[test]
fn of_a_group_that_is_cut_off_only_what_it_has_passed_is_lost() {
    let record = record_of(&null(
        "broker.null.groups = [{ lose = 0.1, rate = 2_000 }]
        [consumers]
        [run]
        messages = 10_000
        catch_up_deadline = \"1s\"",
    ));
    let [group] = &verification(&record).groups[..] else { panic!("{:?}", record.verification) };
    assert_eq!(group.received + group.lost + group.unread, 10_000);
    // One in ten of those up to the last received.
    assert!(group.received.abs_diff(9 * group.lost) <= 9, "{group:?}");
    assert!(group.unread > 1_000, "{group:?}");
}

/// Where the ends are not known, only what came before a later message in every partition has been passed for certain.
#[test]
fn cut_off_group_without_ends_counts_no_loss() {
    let records = records_of(&null(
        "broker.null = { hide_ends = true, groups = [{ lose = 0.1, rate = 2_000 }] }
        [consumers]
        [run]
        messages = 10_000
        catch_up_deadline = \"1s\"
        [sweep.over]
        \"topology.partitions\" = [1, 2]",
    ));
    let [one, two] = &records[..] else { panic!("{} records", records.len()) };
    let [group] = &verification(one).groups[..] else { panic!("{:?}", one.verification) };
    assert!(group.lost > 0 && group.received.abs_diff(9 * group.lost) <= 9, "{group:?}");
    let [group] = &verification(two).groups[..] else { panic!("{:?}", two.verification) };
    assert_eq!((group.lost, group.received + group.unread), (0, 10_000), "nothing of the second partition was seen");
}

/// Consumers that ask for the whole deadline and are given nothing have been offered all there is.
#[test]
fn idle_group_without_ends_counts_loss() {
    let record = record_of(&null(
        "broker.null = { hide_ends = true, groups = [{ lose = 0.01 }] }
        [consumers]
        [topology]
        partitions = 3
        [run]
        messages = 10_000
        drain_deadline = \"700ms\"",
    ));
    assert_acknowledged(&record, 10_000);
    let [group] = &groups(&record)[..] else { panic!("{:?}", record.verification) };
    let expected = GroupVerification { received: 9_900, consumed: 9_900, lost: 100, ..GroupVerification::default() };
    assert_eq!(*group, expected, "the very last one as well");
}

/// The order of 64 topics is broken on the way, and consumers are cut off: what a later message overtook is still to come.
#[test]
fn reordered_messages_that_were_not_read_are_not_lost() {
    let record = record_of(
        "broker = { kind = \"null\", null = { reorder = 0.3, groups = [{ rate = 50 }] } }
        topology.topics = 64
        producers.count = 64
        load.rate = \"6400/s\"
        consumers = {}
        run = { duration = \"2s\", catch_up_deadline = \"500ms\" }",
    );
    let found = record.verification.unwrap();
    assert!(found.reordered > 0 && found.unread > 0, "{found:?}");
    assert_eq!(found.lost, 0, "{found:?}");
}

#[test]
fn a_slow_group_is_waited_for_where_nothing_is_verified_too() {
    let record = record_of(&null(
        "broker.null.groups = [{}, { rate = 6_000 }]
        consumers = { groups = 2, verify = false }
        [run]
        messages = 9_000
        drain_deadline = \"500ms\"",
    ));
    assert_eq!((record.counts.consumed, record.verification), (Some(18_000), None));
}

/// 6,000 messages for an instance that is given 4,000 a second: longer than the deadline without progress.
#[test]
fn a_pipeline_is_waited_for_as_long_as_it_makes_progress() {
    let record = record_of(&null(
        "broker.null.groups = [{ rate = 4_000 }]
        pipeline = { parse = \"none\", commit = \"on-receipt\" }
        [run]
        messages = 6_000
        drain_deadline = \"300ms\"",
    ));
    assert_acknowledged(&record, 6_000);
    assert_eq!(groups(&record), [sound(0, 6_000)]);
    assert_eq!(record.pipeline.unwrap().consumed, 6_000);
}
