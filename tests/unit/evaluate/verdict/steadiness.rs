use hdrhistogram::Histogram;

use super::super::sound::{judged, reasons};
use super::*;
use crate::record::{Latency, Outage, Phase, ReasonKind, SeriesRow};

fn measured(series: &mut [SeriesRow], acknowledged: &[u64]) {
    let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
    rows.zip(acknowledged).for_each(|(row, acknowledged)| row.acknowledged = *acknowledged);
}

#[test]
fn variation_at_its_boundary() {
    // Alternating by ±d around the mean: the sample's deviation is d × √(10/9).
    let alternating = |difference: u64| {
        let seconds: Vec<u64> =
            (0..10).map(|second| if second % 2 == 0 { 100_000 + difference } else { 100_000 - difference }).collect();
        reasons(move |_, series, _| measured(series, &seconds))
    };
    assert_eq!((alternating(14_200), alternating(14_300)), (vec![], vec![NotSteady]));
}

#[test]
fn halves_at_their_boundary() {
    let falling = |second_half: u64| {
        let seconds = [[100_000; 5], [second_half; 5]].concat();
        reasons(move |_, series, _| measured(series, &seconds))
    };
    assert_eq!((falling(90_100), falling(89_500)), (vec![], vec![NotSteady]));
}

#[test]
fn an_empty_second_counts_unless_messages_are_rare() {
    let with_gap = |each: u64| {
        let mut seconds = [each; 10];
        seconds[4] = 0;
        judged(move |_, series, _| measured(series, &seconds))
    };
    let verdict = with_gap(50_000);
    assert!(verdict.reasons[0].evidence.contains("without an acknowledgement"), "{verdict:?}");
    assert!(with_gap(5).valid, "at 5 messages a second a gap may be chance");
}

#[test]
fn only_pauses_within_a_standstill_are_named_with_it() {
    let outage = |gap_ms: u64, paused_ms: u64| Outage {
        begin_ns: 2_000_000_000,
        longest_gap_ns: gap_ms * 1_000_000,
        in_window_ns: gap_ms * 1_000_000,
        first_acknowledgement_ns: Some(gap_ms * 1_000_000),
        recovered_ns: None,
        expected_per_second: 50_000.0,
        client_paused_ns: paused_ms * 1_000_000,
        caused_by_client: false,
    };
    let names_pause = |outages: Vec<Outage>| {
        let verdict = judged(move |record, _, _| {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
            histogram.record_n(1_000_000, 450_000).unwrap();
            histogram.record_n(1_000_000_000, 50_000).unwrap();
            record.latency.response = Latency::from_histogram(&histogram, 0, None);
            record.outages = outages;
        });
        let found = verdict.reasons.iter().find(|reason| reason.kind == NotSteady).expect("a standstill");
        assert!(found.evidence.contains("nearly nothing was answered for about 1.00 s"), "{found:?}");
        found.evidence.contains("was not woken for 800 ms of it")
    };
    assert!(names_pause(vec![outage(1_000, 800), outage(100, 0)]));
    assert!(!names_pause(vec![outage(1_000, 300)]), "the smaller part");
    assert!(!names_pause(vec![outage(1_000, 0), outage(300, 300)]), "a pause elsewhere");
    assert!(!names_pause(vec![outage(1_000, 800), outage(900, 800)]), "of two, it is not known which it was");
    assert!(!names_pause(Vec::new()));
}

#[test]
fn partial_rows_and_few_rows_are_not_judged() {
    let jump = [1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000];
    assert_eq!(reasons(|_, series, _| measured(series, &jump)), [NotSteady]);
    assert_eq!(
        reasons(|_, series, _| {
            measured(series, &jump);
            series.iter_mut().filter(|row| row.phase == Phase::Measure).skip(4).for_each(|row| row.full = false);
        }),
        []
    );
}

#[test]
fn rows_of_unequal_length_are_compared_by_their_rates() {
    let with = |lengths: [u64; 10]| {
        reasons(move |_, series, _| {
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            for (row, tenths) in rows.zip(lengths) {
                row.length_ns = tenths * 100_000_000;
                row.acknowledged = 5_000 * tenths;
                row.due = Some(5_000 * tenths);
            }
        })
    };
    assert_eq!(with([10, 14, 6, 10, 10, 5, 15, 10, 10, 10]), []);
}

#[test]
fn a_ramp_that_is_followed_is_steady_and_one_that_is_not_is_not() {
    let ramp = |carried: fn(u64) -> u64| {
        judged(move |record, series, _| {
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            for (index, row) in rows.enumerate() {
                let due = 10_000 * (1 + index as u64);
                (row.due, row.acknowledged) = (Some(due), carried(due));
            }
            record.throughput.target_per_second = Some(55_000.0);
            record.throughput.sent_per_second = 55_000.0;
        })
    };
    assert!(ramp(|due| due).valid);
    let reasons = ramp(|due| due.min(40_000)).reasons;
    assert_eq!(reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [NotSteady], "it stops at 40,000/s");
    // Of the second half, two thirds to two fifths.
    let halves = "of the first half carried 96 % of what was due in them on average, those of the second 52 %";
    assert!(reasons[0].evidence.contains(halves), "{}", reasons[0].evidence);
}

#[test]
fn bursts_are_judged_by_whole_periods() {
    let bursts = |period_ns| {
        reasons(move |_, series, shape| {
            shape.period_ns = period_ns;
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            // What is due in the burst of a second is carried half a second later.
            for (index, row) in rows.enumerate() {
                let odd = index % 2 == 1;
                row.due = Some(if odd { 1_000 } else { 9_000 });
                row.acknowledged = 5_000;
            }
        })
    };
    assert_eq!(bursts(Some(2_000_000_000)), []);
    assert_eq!(bursts(None), [NotSteady]);
}

#[test]
fn a_latency_that_drifts_is_not_steady() {
    let drifting = |per_mille: u64| -> Vec<ReasonKind> {
        reasons(move |_, series, _| {
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            for (index, row) in rows.enumerate() {
                row.p50_ns = Some(2_000_000 + 2_000_000 * per_mille * index as u64 / 9_000);
            }
        })
    };
    assert_eq!((drifting(20), drifting(30)), (vec![], vec![NotSteady]));
    let kinds = reasons(|_, series, _| {
        let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
        for (index, row) in rows.enumerate() {
            (row.p50_ns, row.due) = (Some(2_000_000 + 500_000 * (index as u64 / 5)), Some([45_000, 55_000][index / 5]));
            row.acknowledged = row.due.unwrap();
        }
    });
    assert_eq!(kinds, [], "another rate may have another latency");
}
