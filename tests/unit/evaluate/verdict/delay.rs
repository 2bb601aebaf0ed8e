use super::super::sound::{judged, notes, reasons};
use super::*;
use crate::record::{Client, Headline, LoadModel, Record};

const MILLISECOND: u64 = 1_000_000;

#[test]
fn own_delay_is_a_reason_beyond_a_fifth_of_the_headline() {
    let with = |change: fn(&mut Client, u64), delay: u64| {
        reasons(move |record, _, _| {
            record.latency.response.as_mut().unwrap().p99_ns = Some(3_000_000);
            change(&mut record.client, delay);
        })
    };
    let wake_up = |client: &mut Client, p99_ns| client.wake_up_delay.as_mut().unwrap().p99_ns = p99_ns;
    let pause = |client: &mut Client, p99_ns| client.pauses.as_mut().unwrap().p99_ns = p99_ns;
    assert_eq!((with(wake_up, 600_000), with(wake_up, 600_001)), (vec![], vec![OwnDelay]));
    assert_eq!((with(pause, 600_000), with(pause, 600_001)), (vec![], vec![OwnDelay]));
    let of_older_builds = |client: &mut Client, p99_ns| {
        client.wake_up_delay = None;
        client.timer_lateness.as_mut().unwrap().p99_ns = p99_ns;
    };
    assert_eq!((with(of_older_builds, 600_000), with(of_older_builds, 600_001)), (vec![], vec![OwnDelay]));
}

#[test]
fn what_pacing_adds_is_told_apart_from_late_timers() {
    let evidence = |timer_ns: u64| {
        let verdict = judged(move |record, _, _| {
            record.latency.response.as_mut().unwrap().p99_ns = Some(1_000_000);
            record.client.wake_up_delay.as_mut().unwrap().p99_ns = 250_000;
            record.client.timer_lateness.as_mut().unwrap().p99_ns = timer_ns;
        });
        verdict.reasons[0].evidence.clone()
    };
    let chosen = evidence(60_000);
    assert!(chosen.contains("late by 60.0 µs") && chosen.contains("the rest is `load.pacing`"), "{chosen}");
    assert!(!evidence(240_000).contains("the rest is"));
}

#[test]
fn a_median_of_which_the_tool_made_a_fifth_is_a_note() {
    let with = |delay_ns: u64| {
        notes(move |record, _, _| {
            record.latency.response.as_mut().unwrap().p50_ns = 500_000;
            record.client.wake_up_delay.as_mut().unwrap().p50_ns = delay_ns;
        })
    };
    assert_eq!((with(100_000), with(100_001)), (vec![], vec![OwnDelay]));
}

#[test]
fn pauses_are_a_note_on_a_closed_loop_and_long_ones_a_reason() {
    let closed = |record: &mut Record, pause: u64| {
        (record.load_model, record.headline) = (LoadModel::Closed, Headline::Service);
        record.throughput.target_per_second = None;
        record.latency.service.as_mut().unwrap().p99_ns = Some(10_000_000);
        record.client.pauses.as_mut().unwrap().p99_ns = pause;
    };
    assert_eq!(notes(|record, _, _| closed(record, 2_000_000)), []);
    assert_eq!(notes(|record, _, _| closed(record, 2_000_001)), [OwnDelay]);
    assert_eq!(reasons(|record, _, _| closed(record, 10_000_000)), []);
    assert_eq!(reasons(|record, _, _| closed(record, 10_000_001)), [OwnDelay]);
}

#[test]
fn long_pause_is_a_reason_and_a_core_waking_up_is_not() {
    let with = |headline: u64, pause: u64| {
        reasons(move |record, _, _| {
            record.latency.response.as_mut().unwrap().p99_ns = Some(headline);
            (record.client.timer_lateness, record.client.wake_up_delay) = (None, None);
            record.client.pauses.as_mut().unwrap().p99_ns = pause;
        })
    };
    let second = 1_000_000_000;
    assert_eq!((with(second, 10_000_000), with(second, 10_000_001)), (vec![], vec![OwnDelay]));
    assert_eq!((with(2_000, 100_000), with(2_000, 100_001)), (vec![], vec![OwnDelay]));
}

/// The response time with a tail, of which so many tenths of a second were the client's.
fn tail(record: &mut Record, quantile: f64, tenths: u64, seconds: u64, paused: Option<u64>) {
    let response = record.latency.response.as_mut().unwrap();
    response.tails.retain(|tail| tail.percentile != quantile * 100.0);
    response.tails.push(Tail { percentile: quantile * 100.0, tenths, seconds, client_paused_tenths: paused });
    response.p99_99_ns = Some(230 * MILLISECOND);
}

#[test]
fn a_p99_9_that_lies_in_pauses_of_the_client_is_a_reason() {
    let with = |quantile, paused| {
        let verdict = judged(|record, _, _| tail(record, quantile, 4, 3, Some(paused)));
        let kinds = |list: &[crate::record::Reason]| list.iter().map(|reason| reason.kind).collect::<Vec<_>>();
        (kinds(&verdict.reasons), kinds(&verdict.notes))
    };
    assert_eq!(with(0.999, 3), (vec![OwnDelay], vec![]));
    assert_eq!(with(0.999, 2), (vec![], vec![FewEventsInTail]), "not most of it");
    assert_eq!(with(0.9999, 4), (vec![], vec![OwnDelay]));
}

#[test]
fn a_high_percentile_of_few_events_is_a_note() {
    let with = |tenths, seconds| notes(move |record, _, _| tail(record, 0.999, tenths, seconds, Some(0)));
    assert_eq!(with(10, 3), vec![]);
    assert_eq!(with(9, 3), vec![FewEventsInTail]);
    assert_eq!(with(10, 2), vec![FewEventsInTail]);
    let short = reasons(|record, _, _| {
        tail(record, 0.999, 1, 1, Some(0));
        record.throughput.window_ns = 1_000_000_000;
    });
    assert_eq!(short, [TooShort], "which says it already");
    let evidence = |tenths, seconds| {
        judged(move |record, _, _| tail(record, 0.999, tenths, seconds, Some(0))).notes[0].evidence.clone()
    };
    assert!(evidence(1, 1).ends_with("were answered in 1 tenth of a second."), "{}", evidence(1, 1));
    assert!(evidence(12, 2).contains("12 tenths of a second, all within 2 different seconds"));
}

#[test]
fn pauses_are_compared_with_the_highest_percentile() {
    let with = |pause_ns: u64| {
        notes(move |record, _, _| {
            record.latency.response.as_mut().unwrap().p99_99_ns = Some(10 * MILLISECOND);
            record.client.pauses.as_mut().unwrap().p99_99_ns = pause_ns;
        })
    };
    assert_eq!((with(2 * MILLISECOND), with(2 * MILLISECOND + 1)), (vec![], vec![OwnDelay]));
    let verdict = judged(|record, _, _| {
        record.latency.response.as_mut().unwrap().p99_99_ns = Some(10 * MILLISECOND);
        record.client.pauses.as_mut().unwrap().p99_99_ns = 3 * MILLISECOND;
    });
    let text =
        "the p99.99 of the pauses of a thread that only sleeps, 3.00 ms, is 30 % of the reported response p99.99";
    assert!(verdict.notes[0].evidence.contains(text), "{verdict:?}");
}

#[test]
fn an_outage_in_which_the_client_stood_still_is_a_note() {
    let outage = |client_paused_ms: u64, caused_by_client| Outage {
        begin_ns: 13_300 * MILLISECOND,
        longest_gap_ns: 258 * MILLISECOND,
        in_window_ns: 258 * MILLISECOND,
        first_acknowledgement_ns: Some(258 * MILLISECOND),
        recovered_ns: Some(258 * MILLISECOND),
        expected_per_second: 2_000.0,
        client_paused_ns: client_paused_ms * MILLISECOND,
        caused_by_client,
    };
    let verdict = |outages: &[Outage]| judged(|record, _, _| record.outages = outages.to_vec());
    assert!(verdict(&[outage(0, false)]).notes.is_empty());
    let found = verdict(&[outage(227, true), outage(0, false)]);
    assert_eq!(found.notes[0].kind, OwnDelay);
    let text = "was not woken for 227 ms of the 258 ms without an acknowledgement, in an outage that began at 13.3 s";
    assert!(found.notes[0].evidence.contains(text), "{}", found.notes[0].evidence);
    let two = verdict(&[outage(227, true), outage(226, true), outage(250, false)]);
    assert!(
        two.notes[0].evidence.contains("227 ms of the 258 ms") && two.notes[0].evidence.contains("in 1 more"),
        "{two:?}"
    );
}
