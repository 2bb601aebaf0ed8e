use super::super::sound::{self, judged, notes, reasons};
use super::*;
use crate::record::{ReasonKind, Record, Tail};

/// Two groups, of which the second is so far behind at the end of each measured second.
fn behind(series: &mut [SeriesRow], lag: impl Fn(i64) -> i64) {
    for (index, row) in series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate() {
        let (lag, first) = (lag(index as i64), row.groups[0]);
        let end_to_end_p50_ns = Some(1_000_000 + lag.max(0) as u64 * 20_000);
        row.groups.push(GroupRow { group: 1, consumer_lag: Some(lag), end_to_end_p50_ns, ..first });
    }
}

fn kinds(lag: fn(i64) -> i64) -> Vec<ReasonKind> {
    notes(|_, series, _| behind(series, lag))
}

#[test]
fn a_lag_that_grows_is_noted_and_one_that_does_not_is_not() {
    // 50,000/s: 250 more a second are 0.5 % of the rate, 50 ms after ten seconds.
    assert_eq!(kinds(|second| 60 + 250 * second), [LagGrew]);
    assert_eq!(kinds(|second| 60 + second % 3), []);
    assert_eq!(kinds(|second| 60 + 4 * second), [], "under a millisecond");
    assert_eq!(kinds(|second| 90_000 - 250 * second), [], "a backlog is drained");
    assert_eq!(kinds(|second| if second == 6 { 20_000 } else { 60 }), [], "one second");
}

#[test]
fn a_lag_that_rose_by_chance_is_not_noted() {
    let notes = notes(|_, series, _| {
        behind(series, |second| 60 + 250 * second);
        let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate();
        rows.for_each(|(second, row)| row.groups[1].end_to_end_p50_ns = Some(1_400_000 + second as u64 * 7 % 5));
    });
    assert_eq!(notes, [], "its messages took as long as before");
}

#[test]
fn the_group_is_named_with_its_lag_and_the_record_stays_valid() {
    let verdict = judged(|_, series, _| behind(series, |second| 1_000 + 1_250 * second));
    assert!(verdict.valid);
    let found = &verdict.notes[0];
    let text = "in group 1, messages waited 250 ms longer at the end (lag: 1,000 messages after the first second, 12,250 after the last one)";
    assert!(found.evidence.contains(text), "{}", found.evidence);
}

#[test]
fn a_percentile_that_is_left_out_is_not_told_to_come_from_few_events() {
    let with = |growth: i64| {
        notes(move |record, series, _| {
            let tail = Tail { percentile: 99.9, tenths: 1, seconds: 1, client_paused_tenths: Some(0) };
            record.latency.end_to_end.as_mut().unwrap().tails = vec![tail];
            behind(series, |second| 60 + growth * second);
        })
    };
    assert_eq!((with(0), with(250)), (vec![FewEventsInTail], vec![LagGrew]));
}

#[test]
fn a_group_is_judged_from_when_it_began() {
    let late = |begins: i64| {
        notes(move |_, series, _| {
            behind(series, |second| 50_000 * second);
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate();
            rows.filter(|(second, _)| (*second as i64) < begins).for_each(|(_, row)| row.groups[1].consumed = 0);
        })
    };
    assert_eq!((late(0), late(9)), (vec![LagGrew], vec![]));
}

#[test]
fn a_rate_that_grows_has_more_messages_on_their_way() {
    let ramp = notes(|_, series, _| {
        behind(series, |second| 1_000 + 1_000 * second);
        for (index, row) in series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate() {
            let due = 10_000 * (index as u64 + 1);
            (row.due, row.acknowledged) = (Some(due), due);
        }
    });
    assert_eq!(ramp, []);
}

#[test]
fn a_group_that_is_no_longer_among_the_furthest_behind_is_not_told_to_have_fallen_behind() {
    let verdict = judged(|_, series, _| {
        for (second, row) in series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate() {
            let (lag, first) = (1_000 + 1_250 * second as i64, row.groups[0]);
            let end_to_end_p50_ns = Some(1_000_000 + lag as u64 * 20_000);
            let listed = |group| GroupRow { group, consumer_lag: Some(lag), end_to_end_p50_ns, ..first };
            row.groups = (1..=16).map(listed).collect();
            if second == 0 {
                row.groups.push(first);
            }
        }
    });
    assert_eq!(verdict.notes[0].figures["groups"], 16.0, "{}", verdict.notes[0].evidence);
}

#[test]
fn a_share_is_judged_by_how_long_its_messages_took() {
    let of_share = |grows: u64| {
        notes(move |record, series, _| {
            record.share = Some(sound::share());
            behind(series, |second| -1_000 * second);
            for (index, row) in series.iter_mut().filter(|row| row.phase == Phase::Measure).enumerate() {
                row.groups[1].end_to_end_p50_ns = Some(2_000_000 + grows * index as u64);
            }
        })
    };
    assert_eq!(of_share(0), [OneShare]);
    assert_eq!(of_share(20_000_000), [LagGrew, OneShare]);
}

#[test]
fn missing_messages_are_a_reason_without_verification() {
    let with = |verify: bool, lag| {
        reasons(move |record: &mut Record, series, _| {
            record.verification = record.verification.take().filter(|_| verify);
            series.last_mut().unwrap().groups[0].consumer_lag = lag;
        })
    };
    assert_eq!(with(false, Some(1)), [Unread]);
    assert_eq!((with(false, Some(0)), with(false, None)), (vec![], vec![]));
    assert_eq!(with(true, Some(1)), [], "verification has counted them");
}

#[test]
fn counts_of_a_crafted_record_are_not_too_large() {
    let verdict = judged(|record, series, _| {
        record.verification = None;
        record.counts.acknowledged = u64::MAX;
        record.counts.warm_up.acknowledged = 1;
        series.last_mut().unwrap().groups[0].consumer_lag = Some(1);
    });
    assert!(verdict.reasons.iter().any(|reason| reason.kind == Unread), "{verdict:?}");
}
