//! Outcomes of made-up messages.

use std::sync::Arc;
use std::time::Duration;

use super::super::interval::Tally;
use super::*;
use crate::measure::SendRuns;

fn collected(acks: &Acks) -> Interval {
    let mut interval = Interval::default();
    acks.close(&mut interval, &mut Interval::default());
    interval
}

#[test]
fn outcomes_of_recorders_add_up_and_open_their_windows() {
    let acks = Acks::new(Clock::start(), 2, true);
    acks.window(0).submit(3);
    acks.window(1).submit(2);
    let (first, second) = (acks.recorder(), acks.recorder());
    {
        let mut batch = first.batch();
        batch.acknowledged(SendTag::new(0, 0, 0, 0, true), 100);
        batch.acknowledged(SendTag::new(1, 0, 0, 0, true), 100);
        batch.acknowledged(SendTag::new(0, 0, 0, 0, false), 100);
    }
    second.batch().failed(SendTag::new(1, 0, 0, 0, true), FailureClass::Timeout, || "too late".into());
    assert_eq!((acks.window(0).in_flight(), acks.window(1).in_flight()), (1, 0));
    acks.reject(SendTag::new(0, 0, 0, 0, true), FailureClass::TooLarge, || "no".into());
    assert_eq!(acks.in_flight(), 0);
    let interval = collected(&acks);
    assert_eq!(interval.measured, Tally { acknowledged: 2, failed: 2, payload_bytes: 200 });
    assert_eq!(interval.warm_up, Tally { acknowledged: 1, failed: 0, payload_bytes: 100 });
    assert_eq!(interval.service.histogram().len(), 2);
    let classes: Vec<_> = interval.errors.iter().map(|(class, tally)| (class, tally.count)).collect();
    assert_eq!(classes, [(FailureClass::Timeout, 1), (FailureClass::TooLarge, 1)]);
}

/// Every message of a run counts, with its latency and its payload.
#[test]
fn a_run_of_messages_counts_as_each_of_them() {
    let acks = Acks::new(Clock::start(), 1, true);
    acks.window(0).submit(700);
    let mut sent = SendRuns::default();
    (0..500).for_each(|number| sent.push(SendTag::new(0, number, 0, 2_000_000, true), 10));
    (500..700).for_each(|number| sent.push(SendTag::new(0, number, 0, 5_000_000, true), 20));
    let recorder = acks.recorder();
    {
        let mut batch = recorder.batch();
        sent.runs().iter().for_each(|run| batch.acknowledged_run(run));
    }
    assert_eq!(acks.in_flight(), 0);
    let interval = collected(&acks);
    assert_eq!(interval.measured, Tally { acknowledged: 700, failed: 0, payload_bytes: 9_000 });
    assert_eq!(interval.service.histogram().len(), 700);
    let delays = interval.schedule_delay.histogram();
    assert_eq!(delays.len(), 700);
    assert_eq!(delays.count_between(1_900_000, 2_100_000), 500);
    assert_eq!(delays.count_between(4_900_000, 5_100_000), 200);
}

#[test]
fn what_comes_after_the_account_is_closed_stays_unresolved() {
    let acks = Acks::new(Clock::start(), 1, false);
    acks.window(0).submit(1);
    let recorder = acks.recorder();
    assert_eq!(collected(&acks).measured.resolved(), 0);
    recorder.batch().acknowledged(SendTag::new(0, 0, 0, 0, true), 1);
    assert_eq!(acks.in_flight(), 1);
    assert_eq!(collected(&acks).measured.resolved(), 0);
}

/// As that of a client which connects again.
#[test]
fn what_comes_to_a_recorder_that_is_made_after_that_stays_unresolved() {
    let acks = Acks::new(Clock::start(), 1, false);
    acks.window(0).submit(1);
    assert_eq!(collected(&acks).measured.resolved(), 0);
    acks.recorder().batch().acknowledged(SendTag::new(0, 0, 0, 0, true), 1);
    assert_eq!(acks.in_flight(), 1, "its window stays as it was accounted for");
    assert_eq!(collected(&acks).measured.resolved(), 0);
}

#[test]
fn messages_that_were_acknowledged_together_are_one_moment() {
    let acks = Acks::new(Clock::start(), 1, false);
    let recorder = acks.recorder();
    for messages in [1, 500] {
        let mut batch = recorder.batch();
        for sent_ns in 0..messages {
            batch.acknowledged(SendTag::new(0, 0, sent_ns * 1_000, 0, true), 1);
        }
    }
    recorder.batch().acknowledged(SendTag::new(0, 0, 0, 0, false), 1);
    recorder.batch().failed(SendTag::new(0, 0, 0, 0, true), FailureClass::Timeout, String::new);
    drop(recorder.batch());
    let interval = collected(&acks);
    assert_eq!((interval.measured.acknowledged, interval.moments), (501, 2));
    let on_the_timeline: u64 = interval.timeline.bins().iter().map(|bin| bin.messages).sum();
    assert_eq!(on_the_timeline, 502, "the warm-up's as well");
}

#[test]
fn response_is_service_plus_schedule_delay() {
    let acks = Acks::new(Clock::start(), 1, true);
    acks.recorder().batch().acknowledged(SendTag::new(0, 0, 0, 5_000_000, true), 1);
    let interval = collected(&acks);
    let of = |distribution: &super::super::Distribution| distribution.histogram().max();
    assert!(of(&interval.response) >= of(&interval.service) + 4_990_000);
    assert!(of(&interval.schedule_delay).abs_diff(5_000_000) < 5_000);
}

#[test]
fn late_answer_has_its_service_time_or_is_beyond_the_range() {
    let clock = Clock::started_ago(Duration::from_secs(2_000));
    let sent_ns = |ago_s: u64| clock.now_ns() - ago_s * 1_000_000_000;
    let acks = Acks::new(clock, 1, true);
    let recorder = acks.recorder();
    for ago_s in [480, 1_990] {
        recorder.batch().acknowledged(SendTag::new(0, 0, sent_ns(ago_s), 0, true), 1);
    }
    let service = collected(&acks).service;
    assert_eq!((service.histogram().len(), service.beyond_range()), (1, 1));
    let told_s = service.histogram().max() / 1_000_000_000;
    assert!((480..=485).contains(&told_s), "{told_s}");
}

#[test]
fn acknowledged_messages_are_marked_and_failed_ones_are_not() {
    let verification = Arc::new(Verification::new(3, 1));
    let acks = Acks::verified(Clock::start(), 3, false, Some(verification.clone()), None);
    let recorder = acks.recorder();
    assert!(recorder.needs_sequences());
    {
        let mut batch = recorder.batch();
        for sequence in 0..10_000 {
            for producer_index in 0..3 {
                let send_tag = SendTag::new(producer_index, sequence, 0, 0, true);
                match (producer_index, sequence % 10) {
                    (2, 0) => batch.failed(send_tag, FailureClass::Refused, || "no".into()),
                    _ => batch.acknowledged(send_tag, 1),
                }
            }
        }
    }
    let missing =
        |producer_index| verification.account(0, |producer| u64::from(producer == producer_index) * u64::MAX).lost;
    assert_eq!(missing(0), 10_000);
    assert_eq!(missing(1), 10_000);
    assert_eq!(missing(2), 9_000);
}

#[test]
fn latencies_of_partitions_add_up_to_those_of_all() {
    let names = PartitionNames::new(["topic"].map(Arc::from).into_iter());
    let acks = Acks::verified(Clock::started_ago(Duration::from_secs(1)), 1, false, None, Some(names));
    let [first, second] = [0, 1].map(|number| acks.partition("topic", Some(number)));
    let recorder = acks.recorder();
    {
        let mut batch = recorder.batch();
        batch.to_partition(first);
        // Sent at the same time, and yet in partitions of their own.
        (0..3).for_each(|number| batch.acknowledged(SendTag::new(0, number, 500_000_000, 0, true), 1));
        batch.to_partition(second);
        (3..5).for_each(|number| batch.acknowledged(SendTag::new(0, number, 500_000_000, 0, true), 1));
        batch.acknowledged(SendTag::new(0, 5, 900_000_000, 0, true), 1);
        batch.acknowledged(SendTag::new(0, 6, 0, 0, false), 1);
    }
    recorder.batch().acknowledged(SendTag::new(0, 7, 0, 0, true), 1);
    let found = acks.by_partition().unwrap();
    let counts: Vec<_> = found.partitions.iter().map(|of| (of.name.partition, of.acknowledged, of.moments)).collect();
    assert_eq!(counts, [(Some(0), 3, 1), (Some(1), 3, 1)]);
    assert_eq!(found.unknown, 1, "the client did not name a partition; the warm-up is not among them");
    let median = |index: usize| found.partitions[index].latency.as_ref().unwrap().value_at_quantile(0.01);
    assert!(median(0) >= 490_000_000 && median(1) < 490_000_000, "{} {}", median(0), median(1));
    assert_eq!(collected(&acks).service.histogram().len(), 7);
    assert_eq!(Acks::new(Clock::start(), 1, false).by_partition(), None);
}
