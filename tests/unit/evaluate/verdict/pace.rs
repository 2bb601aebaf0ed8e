use super::super::sound::{judged, notes, reasons, share};
use super::*;
use crate::record::{Completion, Counts, LoadModel, Phase, Share};

#[test]
fn too_short_at_its_boundaries() {
    // Of 5 s that were asked for, the last message may have been due a little earlier.
    assert_eq!(reasons(|record, _, _| record.throughput.window_ns = 4_950_000_000), []);
    assert_eq!(reasons(|record, _, _| record.throughput.window_ns = 4_949_999_999), [TooShort]);
    let verdict = judged(|record, _, _| record.throughput.window_ns = 4_949_999_999);
    let evidence = &verdict.reasons[0].evidence;
    assert!(evidence.starts_with("Only 4.94 s and "), "what is asked for is not said to be too little: {evidence}");
    let with = |messages: u64| {
        reasons(move |record, _, _| {
            record.counts.attempted = messages;
            record.counts.acknowledged = messages;
        })
    };
    assert_eq!((with(1_000), with(999)), (vec![], vec![TooShort]));
}

#[test]
fn a_share_that_only_consumes_is_judged_by_what_it_consumed() {
    let with = |producers, consumed| {
        reasons(move |record, _, _| {
            record.share = Some(Share { producers, ..share() });
            record.counts = Counts { consumed: Some(consumed), ..Counts::default() };
        })
    };
    assert_eq!((with(0, 1_000), with(0, 999), with(4, 1_000)), (vec![], vec![TooShort], vec![TooShort]));
}

#[test]
fn rate_missed_at_each_boundary() {
    // 50,000/s over 10 s: 1 in 1000 may be missing, and 10 ms of messages may be under way at the end.
    assert_eq!(reasons(|record, _, _| record.throughput.sent_per_second = 49_901.0), []);
    assert_eq!(reasons(|record, _, _| record.throughput.sent_per_second = 49_899.0), [RateMissed]);
    let delayed =
        |delay: u64| reasons(move |record, _, _| record.latency.schedule_delay.as_mut().unwrap().p99_ns = Some(delay));
    assert_eq!((delayed(10_000_000), delayed(10_000_001)), (vec![], vec![RateMissed]));
    let unsent = |unsent: u64| reasons(move |record, _, _| record.counts.unsent = unsent);
    // So many are missing from the percentiles as well.
    assert_eq!((unsent(500), unsent(501)), (vec![MissingMessages], vec![MissingMessages, RateMissed]));
}

#[test]
fn rates_that_part_by_more_than_2_percent_are_noted() {
    let with = |share: f64| {
        notes(move |record, _, _| {
            let messages_per_second = record.throughput.messages_per_second * share;
            let completion = Completion { messages_per_second, ..Completion::default() };
            record.throughput.until_last_acknowledgement = Some(completion);
        })
    };
    assert_eq!((with(0.981), with(0.979)), (vec![], vec![RatesDiffer]));
}

#[test]
fn a_backlog_of_the_warm_up_in_the_window_is_said_as_that() {
    let evidence = |warm_up_messages| {
        let verdict = judged(|record, _, _| {
            record.throughput.messages_per_second *= 1.1;
            record.throughput.warm_up_messages = warm_up_messages;
        });
        assert_eq!(verdict.notes[0].kind, RatesDiffer);
        verdict.notes[0].evidence.clone()
    };
    assert!(evidence(50_000).contains("50,000 were due in the warm-up"), "{}", evidence(50_000));
    assert!(!evidence(0).contains("warm-up"));
}

#[test]
fn a_missed_rate_without_a_limit_does_not_point_to_one() {
    let advice = |unsent_share: f64, cores_used: f64| {
        let verdict = judged(|record, _, _| {
            record.throughput.sent_per_second *= unsent_share;
            record.client.cores_used = cores_used;
        });
        let missed = verdict.reasons.into_iter().find(|reason| reason.kind == RateMissed).unwrap();
        (verdict.limited_by.limiter, missed.advice)
    };
    let (limiter, unknown) = advice(0.5, 1.0);
    assert!(limiter == Limiter::Unknown && !unknown.contains("limited_by"), "{limiter} {unknown}");
    let (limiter, known) = advice(0.5, 4.0);
    assert!(limiter == Limiter::Client && known.contains("limited_by"), "{limiter} {known}");
}

#[test]
fn a_closed_loop_has_no_rate_to_miss() {
    let kinds = reasons(|record, _, _| {
        record.load_model = LoadModel::Closed;
        record.throughput.target_per_second = None;
        record.throughput.sent_per_second = 1.0;
    });
    assert_eq!(kinds, []);
}

#[test]
fn a_slow_first_second_is_noted_where_nothing_was_warmed_up() {
    use crate::record::WarmUpCounts;
    let with = |first: u64, worst_later: u64, warmed_up: bool| {
        notes(move |record, series, _| {
            if !warmed_up {
                record.counts.warm_up = WarmUpCounts::default();
            }
            let mut rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            rows.next().unwrap().p99_ns = Some(first);
            rows.by_ref().for_each(|row| row.p99_ns = Some(1_000_000));
            series[7].p99_ns = Some(worst_later);
        })
    };
    assert_eq!(with(2_000_000, 1_999_999, false), [ColdStart]);
    assert_eq!(with(1_999_999, 1_000_000, false), [], "seconds differ by chance");
    assert_eq!(with(2_000_000, 2_000_000, false), [], "a later second is as slow");
    assert_eq!(with(9_000_000, 1_000_000, true), []);
}
