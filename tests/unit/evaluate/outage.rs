use super::*;
use crate::measure::{Slowest, Timeline};

const MILLISECOND: u64 = 1_000_000;

/// Begin, longest gap, first acknowledgement and recovery of an outage, in milliseconds.
type Times = (u64, u64, Option<u64>, Option<u64>);

/// 10 s at 1,000 messages/s, of which `answer` says when each one is acknowledged, in milliseconds since the load began.
fn found(schedule: Option<&Schedule>, answer: impl Fn(u64) -> Option<u64>) -> Vec<Times> {
    found_of(schedule, 1.0, answer)
}

/// The same where this share of the messages is to be acknowledged.
fn found_of(schedule: Option<&Schedule>, acknowledged_share: f64, answer: impl Fn(u64) -> Option<u64>) -> Vec<Times> {
    let mut timeline = Timeline::default();
    let load_start_ns = 345 * MILLISECOND;
    let mut moments: Vec<u64> = (0..10_000).filter_map(answer).collect();
    moments.sort_unstable();
    moments.iter().for_each(|at_ms| timeline.add(load_start_ns + at_ms * MILLISECOND, 1, Slowest::default()));
    let load_end_ns = load_start_ns + 10_000 * MILLISECOND;
    let (bins, window) = (timeline.bins(), load_start_ns..load_end_ns);
    let timeline = AckTimeline { bins, schedule, acknowledged_share, load_start_ns, load_end_ns, window, pauses: &[] };
    let figures = |outage: Found| {
        let outage = outage.record(load_start_ns);
        let [begin, gap] = [outage.begin_ns, outage.longest_gap_ns].map(|ns| ns / MILLISECOND);
        let since = |ns: Option<u64>| ns.map(|ns| ns / MILLISECOND);
        (begin, gap, since(outage.first_acknowledgement_ns), since(outage.recovered_ns))
    };
    timeline.outages().into_iter().map(figures).collect()
}

const CONSTANT: Schedule = Schedule::Constant { rate: 1000.0 };

/// Acknowledged after 2 ms, or when a stall is over.
fn stalled(stalls: &'static [(u64, u64)]) -> impl Fn(u64) -> Option<u64> {
    move |sent_ms| {
        let stall = stalls.iter().find(|(begin_ms, end_ms)| (*begin_ms..*end_ms).contains(&(sent_ms + 2)));
        Some(stall.map_or(sent_ms + 2, |(_, end_ms)| *end_ms))
    }
}

#[test]
fn a_steady_load_has_no_outage_and_a_short_gap_is_not_one() {
    assert_eq!(found(Some(&CONSTANT), stalled(&[])), []);
    assert_eq!(found(None, stalled(&[])), []);
    assert_eq!(found(Some(&CONSTANT), stalled(&[(3000, 3150)])), []);
}

#[test]
fn outage_lasts_between_two_acknowledgements() {
    let outages = found(Some(&CONSTANT), stalled(&[(3000, 4500), (7000, 7300)]));
    assert_eq!(outages, [(2999, 1501, Some(1501), Some(1501)), (6999, 301, Some(301), Some(301))]);
}

#[test]
fn the_rate_is_held_again_when_it_is_carried_for_a_second() {
    // For 2 s after the gap every fourth message is dropped.
    let slow = |sent_ms: u64| match sent_ms {
        3000..4000 => None,
        4000..6000 if sent_ms.is_multiple_of(4) => None,
        _ => Some(sent_ms + 2),
    };
    let [(begin_ms, gap_ms, Some(first_ms), Some(recovered_ms))] = found(Some(&CONSTANT), slow)[..] else { panic!() };
    assert_eq!(begin_ms, 3001);
    assert_eq!(gap_ms, 1002);
    assert_eq!(first_ms, 1002);
    // A second has 95 % of its messages once it reaches no more than 200 ms into the 2 s.
    assert!((2800..=2900).contains(&recovered_ms), "{recovered_ms}");
}

#[test]
fn messages_that_the_scenario_aborts_are_not_missing_from_the_rate() {
    // Every tenth message is of a transaction that is aborted, and what is due in the gap fails.
    let committed = |sent_ms: u64| match sent_ms {
        3000..4000 => None,
        _ if sent_ms.is_multiple_of(10) => None,
        _ => Some(sent_ms + 2),
    };
    let recovered = |acknowledged_share| {
        let [(3001, 1002, Some(1002), recovered_ms)] = found_of(Some(&CONSTANT), acknowledged_share, committed)[..]
        else {
            panic!()
        };
        recovered_ms
    };
    assert_eq!(recovered(1.0), None);
    assert!(recovered(0.9).is_some_and(|recovered_ms| recovered_ms < 1200), "{:?}", recovered(0.9));
}

#[test]
fn gaps_before_the_rate_is_held_again_are_one_outage() {
    let outages = found(Some(&CONSTANT), stalled(&[(3000, 3500), (3600, 5000), (5100, 5500)]));
    assert_eq!(outages, [(2999, 1401, Some(501), Some(2501))]);
}

#[test]
fn a_closed_loop_is_held_to_the_rate_before() {
    let faulty = |after_share: u64| {
        move |sent_ms: u64| match sent_ms {
            3000..4000 => None,
            4000.. if sent_ms % 100 >= after_share => None,
            _ => Some(sent_ms),
        }
    };
    let recovered = |after_share| found(None, faulty(after_share))[0];
    assert_eq!((recovered(97).0, recovered(97).1), (2999, 1001));
    assert!(recovered(97).3.is_some_and(|recovered_ms| recovered_ms <= 1101), "{:?}", recovered(97));
    assert_eq!(recovered(93), (2999, 1001, Some(1001), None));
}

#[test]
fn an_outage_that_does_not_end_lasts_as_long_as_the_load() {
    let dead = |sent_ms| (sent_ms < 8000).then_some(sent_ms + 2);
    assert_eq!(found(Some(&CONSTANT), dead), [(8001, 1999, None, None)]);
    let late = |sent_ms: u64| Some(if sent_ms < 8000 { sent_ms + 2 } else { 12_000 });
    assert_eq!(found(Some(&CONSTANT), late), [(8001, 3999, Some(3999), None)]);
}

#[test]
fn schedule_pauses_and_large_batches_are_not_outages() {
    let second = Duration::from_secs(1);
    let bursts = Schedule::Bursts { base: 0.5, burst: 1000.0, every: 2 * second, length: second };
    let in_bursts = |sent_ms: u64| (sent_ms % 2000 < 1000).then_some(sent_ms + 2);
    assert_eq!(found(Some(&bursts), in_bursts), []);
    let stalled =
        |sent_ms: u64| in_bursts(sent_ms).map(|at_ms| if (4000..4700).contains(&at_ms) { 4700 } else { at_ms });
    assert_eq!(found(Some(&bursts), stalled), [(4001, 699, Some(699), Some(699))]);
    let batches = |sent_ms: u64| Some((sent_ms / 300 + 1) * 300);
    assert_eq!(found(Some(&CONSTANT), batches), []);
}

#[test]
fn an_outage_that_pauses_of_the_client_explain_is_its_own() {
    let mut timeline = Timeline::default();
    let mut moments: Vec<u64> = (0..10_000).filter_map(stalled(&[(3000, 3258), (6000, 6600), (6700, 7200)])).collect();
    moments.sort_unstable();
    moments.iter().for_each(|at_ms| timeline.add(at_ms * MILLISECOND, 1, Slowest::default()));
    let caused = |pauses: &[(u64, u64)]| {
        let pause = |(begin_ms, end_ms): &(u64, u64)| LongPause {
            begin_ns: begin_ms * MILLISECOND,
            end_ns: end_ms * MILLISECOND,
        };
        let pauses: Vec<LongPause> = pauses.iter().map(pause).collect();
        let (bins, schedule, load_end_ns) = (timeline.bins(), Some(&CONSTANT), 10_000 * MILLISECOND);
        let window = 0..load_end_ns;
        #[rustfmt::skip]
        let timeline = AckTimeline {
            bins, schedule, acknowledged_share: 1.0, load_start_ns: 0, load_end_ns, window, pauses: &pauses,
        };
        let told = |outage: Found| {
            let outage = outage.record(0);
            (outage.client_paused_ns / MILLISECOND, outage.caused_by_client)
        };
        timeline.outages().into_iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(caused(&[]), [(0, false), (0, false)]);
    assert_eq!(caused(&[(3020, 3247), (9000, 9500)]), [(227, true), (0, false)]);
    assert_eq!(caused(&[(3000, 3050)]), [(50, false), (0, false)], "208 ms are left, an outage");
    assert_eq!(caused(&[(6000, 6600)]), [(0, false), (600, false)], "a gap that follows is the broker's");
    assert_eq!(caused(&[(6000, 6600), (6800, 7150)]), [(0, false), (600, true)]);
}

#[test]
fn of_an_outage_what_lies_in_the_window_is_told() {
    let mut timeline = Timeline::default();
    // The first begins in the warm-up, the last ends when the load is over.
    let mut moments: Vec<u64> =
        (0..10_000).filter_map(stalled(&[(1000, 3500), (6000, 6600), (9500, 14_000)])).collect();
    moments.sort_unstable();
    moments.iter().for_each(|at_ms| timeline.add(at_ms * MILLISECOND, 1, Slowest::default()));
    let [measure_start_ns, load_end_ns] = [3_000, 10_000].map(|ms| ms * MILLISECOND);
    let pauses = [LongPause { begin_ns: 2_000 * MILLISECOND, end_ns: 3_100 * MILLISECOND }];
    let (bins, window) = (timeline.bins(), measure_start_ns..load_end_ns);
    let (schedule, acknowledged_share, load_start_ns) = (Some(&CONSTANT), 1.0, 0);
    let timeline =
        AckTimeline { bins, schedule, acknowledged_share, load_start_ns, load_end_ns, window, pauses: &pauses };
    let told = |outage: Found| {
        let outage = outage.record(measure_start_ns);
        let first_ns = outage.first_acknowledgement_ns.expect("it ends");
        [outage.begin_ns, outage.longest_gap_ns, outage.in_window_ns, first_ns].map(|ns| ns / MILLISECOND)
    };
    let found: Vec<_> = timeline.outages().into_iter().map(told).collect();
    assert_eq!(found, [[0, 2501, 400, 500], [2999, 601, 601, 601], [6499, 4501, 501, 4501]]);
}
