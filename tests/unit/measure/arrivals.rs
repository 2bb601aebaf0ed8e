//! Arrivals of made-up messages.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::measure::{NoDetails, Received, Span, TRACE_HEADER_BYTES, TraceHeader, UNORDERED_PARTITION};

const SUBSCRIPTION: SubscriptionIndex = SubscriptionIndex { group: 0, topic: 0 };

fn verified(run_tag: u32) -> Arrivals {
    Arrivals::new(Clock::start(), run_tag, 1, Some(Arc::new(Verification::new(1, 1))))
}

fn collected(arrivals: &Arrivals) -> Reception {
    let mut reception = Reception::default();
    arrivals.collect(true, &mut reception, &mut Reception::default(), &mut []);
    reception
}

fn sealed(run_tag: u32, sequence: u64) -> Vec<u8> {
    let mut message = vec![7; 100];
    let checksum = crc32fast::hash(&message[TRACE_HEADER_BYTES..]);
    TraceHeader { run_tag, producer: 0, measured: true, sequence, intended_ns: 0 }.seal(&mut message, checksum);
    message
}

fn plain(payload: &[u8]) -> Received<'_> {
    Received { payload, trace_header: None, partition: 0, offset: 0, redelivered: false, details: &NoDetails }
}

#[test]
fn every_arrival_is_counted_once_under_what_it_is() {
    let arrivals = verified(42);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    let mut broken = sealed(42, 9);
    broken[99] ^= 1;
    let messages = [sealed(42, 0), sealed(42, 2), sealed(42, 1), sealed(42, 1), broken, sealed(43, 5), vec![0; 3]];
    {
        let mut batch = recorder.batch();
        for payload in &messages {
            batch.received(plain(payload));
        }
    }
    let reception = collected(&arrivals);
    let Arrived { last_first_ns, last_consumed_ns, .. } = reception.arrived;
    let expected = Arrived {
        messages: 7,
        payload_bytes: 503 + 100,
        received: 5,
        first: 3,
        consumed: 3,
        duplicated: 1,
        reordered: 1,
        corrupt: 1,
        foreign: 2,
        last_first_ns,
        last_consumed_ns,
        ..Arrived::default()
    };
    assert_eq!(reception.arrived, expected);
    assert_eq!(reception.end_to_end.histogram().len(), 3, "a repetition has no latency");
    assert_eq!(arrivals.groups(), [expected]);
    let progress = GroupProgress { deliveries: 7, first: 3, corrupt: 1, errors: 0 };
    assert_eq!((arrivals.progress(), arrivals.received()), (vec![progress], 4));
}

#[test]
fn a_lap_has_what_arrived_since_the_last_one() {
    let arrivals = Arrivals::new(Clock::start(), 1, 2, None);
    let mut recorders = [0, 1].map(|group| arrivals.recorder(SubscriptionIndex { group, topic: 0 }, 0));
    let mut receive = |group: usize, sequences: Range<u64>| {
        let messages: Vec<Vec<u8>> = sequences.map(|sequence| sealed(1, sequence)).collect();
        let mut batch = recorders[group].batch();
        batch.arrived_at(1_000_000);
        for payload in &messages {
            batch.received(plain(payload));
        }
    };
    receive(0, 0..3);
    receive(1, 0..1);
    collected(&arrivals);
    let laps = arrivals.laps();
    assert_eq!(laps.iter().map(|lap| (lap.consumed, lap.arrived)).collect::<Vec<_>>(), [(3, 3), (1, 1)]);
    let p99_ns = laps[0].end_to_end_p99_ns.unwrap();
    assert!(p99_ns.abs_diff(1_000_000) < 20_000, "{p99_ns}");
    receive(1, 1..6);
    collected(&arrivals);
    let laps = arrivals.laps();
    assert_eq!(laps.iter().map(|lap| (lap.consumed, lap.arrived)).collect::<Vec<_>>(), [(0, 3), (5, 6)]);
    assert_eq!((laps[0].end_to_end_p50_ns, laps[1].end_to_end_p50_ns.is_some()), (None, true));
}

#[test]
fn what_is_handed_over_last_of_many_arrived_later() {
    let now: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_000_000)));
    let arrivals = Arrivals::new(Clock::set_by(now), 1, 1, None);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    let payload = &{
        let mut message = vec![7; 100 << 10];
        let checksum = crc32fast::hash(&message[TRACE_HEADER_BYTES..]);
        TraceHeader { run_tag: 1, producer: 0, measured: true, sequence: 0, intended_ns: 0 }
            .seal(&mut message, checksum);
        message
    };
    let mut batch = recorder.batch();
    // A fetch of 80 MiB, of which each message takes a tenth of a millisecond to unpack.
    for _ in 0..800 {
        batch.received(plain(payload));
        now.fetch_add(100_000, Ordering::Relaxed);
    }
    drop(batch);
    let max_ns = collected(&arrivals).end_to_end.histogram().max();
    assert!(max_ns > 80_000_000, "the last one was handed over after 81 ms: {max_ns}");
}

#[test]
fn redelivery_flag_matters_only_for_a_repetition() {
    let arrivals = verified(1);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    for (sequence, redelivered) in [(0, true), (1, false), (1, true), (2, false), (0, false), (2, true)] {
        let payload = &sealed(1, sequence);
        recorder.batch().received(Received { redelivered, ..plain(payload) });
    }
    let arrived = collected(&arrivals).arrived;
    assert_fields!(arrived, { first: 3, redelivered: 2, duplicated: 1 });
    assert_eq!(arrived.reordered, 0, "an old message that comes again is not out of order");
}

#[test]
fn what_has_been_passed_is_known_by_partition_over_all_members() {
    let verification = Arc::new(Verification::new(2, 1));
    let arrivals = Arrivals::new(Clock::start(), 1, 1, Some(verification.clone()));
    let mut members = [arrivals.recorder(SUBSCRIPTION, 0), arrivals.recorder(SUBSCRIPTION, 0)];
    for (member, partition, sequence) in [(0, 0, 0), (0, 0, 3), (1, 0, 5), (1, 1, 2)] {
        let payload = &sealed(1, sequence);
        let message = Received { partition, offset: sequence * 10, ..plain(payload) };
        members[member].batch().received(message);
    }
    assert_eq!(arrivals.next_offsets(SUBSCRIPTION), [51, 21]);
    assert_eq!(arrivals.passed_until(SUBSCRIPTION, &[0], 2), [6, 0]);
    assert_eq!(arrivals.passed_until(SUBSCRIPTION, &[0, 1], 2), [3, 0]);
    assert_eq!(arrivals.passed_until(SUBSCRIPTION, &[0, 1, 2], 2), [0, 0], "nothing of the third partition was seen");
    assert_eq!(arrivals.passed_until(SUBSCRIPTION, &[], 2), [u64::MAX; 2], "all partitions were read to their ends");
    verification.acknowledge(&mut [Span { producer_index: 0, begin: 0, end: 8 }]);
    let passed = arrivals.passed_until(SUBSCRIPTION, &[0, 1], 2);
    let account = verification.account(0, |producer| passed[producer as usize]);
    assert_eq!((account.lost, account.unread), (1, 3), "1 was passed; 4, 6 and 7 may still come");
}

#[test]
fn latencies_use_the_headers_clock_and_timed_producers() {
    const AHEAD_NS: u64 = 1_000_000_000_000;
    let arrivals = Arrivals::across_processes(Clock::start(), AHEAD_NS, 1..2, 7, 1, None);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    for (producer, intended_ns) in [(0, AHEAD_NS), (1, AHEAD_NS), (1, 2 * AHEAD_NS), (2, AHEAD_NS)] {
        let mut payload = vec![7; 100];
        let checksum = crc32fast::hash(&payload[TRACE_HEADER_BYTES..]);
        TraceHeader { run_tag: 7, producer, measured: true, sequence: 0, intended_ns }.seal(&mut payload, checksum);
        recorder.batch().received(plain(&payload));
    }
    let reception = collected(&arrivals);
    assert_eq!((reception.arrived.consumed, reception.arrived.before_intended), (4, 1));
    let early_ns = reception.arrived.most_before_intended_ns;
    assert!(early_ns > AHEAD_NS / 2 && early_ns < AHEAD_NS, "the clock has gone on a little: {early_ns}");
    assert_eq!((reception.end_to_end.histogram().len(), reception.end_to_end.beyond_range()), (2, 0));
    assert_eq!(reception.moments, 2, "a batch without a timed message is no evidence for a percentile");
}

#[test]
fn errors_are_a_part_of_a_groups_progress() {
    let arrivals = verified(1);
    arrivals.recorder(SUBSCRIPTION, 0).failed();
    assert_eq!(arrivals.progress(), [GroupProgress { errors: 1, ..GroupProgress::default() }]);
}

#[test]
fn the_arrival_is_no_earlier_than_the_handing_over() {
    let clock = Clock::start();
    let arrivals = Arrivals::new(clock, 1, 1, None);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    let mut message = vec![7; 100];
    let checksum = crc32fast::hash(&message[TRACE_HEADER_BYTES..]);
    {
        let mut batch = recorder.batch();
        let intended_ns = clock.now_ns();
        TraceHeader { run_tag: 1, producer: 0, measured: true, sequence: 0, intended_ns }.seal(&mut message, checksum);
        while clock.now_ns() < intended_ns + 10_000 {}
        batch.received(plain(&message));
    }
    let reception = collected(&arrivals);
    assert!(reception.end_to_end.histogram().min() >= 9_900, "{}", reception.end_to_end.histogram().min());
}

#[test]
fn messages_without_a_promised_order_are_counted_as_such() {
    let arrivals = verified(1);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    for sequence in [1, 0] {
        let payload = &sealed(1, sequence);
        let partition = UNORDERED_PARTITION;
        recorder.batch().received(Received { partition, ..plain(payload) });
    }
    let reception = collected(&arrivals);
    let arrived = reception.arrived;
    assert_fields!(arrived, { consumed: 2, reordered: 0, unordered: 2 });
}

#[test]
fn a_trace_header_beside_the_payload_covers_all_of_it() {
    let arrivals = verified(1);
    let mut recorder = arrivals.recorder(SUBSCRIPTION, 0);
    let mut trace_header = [0; TRACE_HEADER_BYTES];
    let payload = br#"{"a": 1}"#;
    TraceHeader { run_tag: 1, producer: 0, measured: true, sequence: 0, intended_ns: 0 }
        .seal(&mut trace_header, crc32fast::hash(payload));
    let message = Received { trace_header: Some(&trace_header), ..plain(payload) };
    recorder.batch().received(message);
    recorder.batch().received(Received { payload: br#"{"a": 2}"#, ..message });
    let reception = collected(&arrivals);
    assert_eq!((reception.arrived.consumed, reception.arrived.corrupt), (1, 1));
}

#[test]
fn figures_of_consumers_add_up_to_those_of_all() {
    let arrivals = verified(1);
    let mut recorders = [1, 0].map(|member| arrivals.recorder(SUBSCRIPTION, member));
    let mut receive = |member: usize, sequence: u64| {
        let payload = &sealed(1, sequence);
        recorders[member].batch().received(plain(payload));
    };
    (0..3).for_each(|sequence| receive(0, sequence));
    // A repetition is not a first arrival, also at another consumer.
    (2..4).for_each(|sequence| receive(1, sequence));
    let mut all = collected(&arrivals);
    // After the window.
    let mut late = Reception::default();
    receive(0, 9);
    arrivals.collect(false, &mut late, &mut Reception::default(), &mut []);
    all.merge(&late);
    let consumers = arrivals.consumers();
    let figures = |of: &ConsumerTally| (of.member, of.consumed, of.in_window, of.moments);
    assert_eq!(consumers.iter().map(figures).collect::<Vec<_>>(), [(0, 1, 1, 1), (1, 4, 3, 4)]);
    assert_eq!(consumers.iter().map(|of| of.consumed).sum::<u64>(), all.arrived.consumed);
    let timed = consumers.iter().map(|of| of.end_to_end.as_ref().unwrap().len());
    assert_eq!(timed.sum::<u64>(), all.end_to_end.histogram().len());
}

#[test]
fn latencies_of_single_consumers_are_kept_of_so_many_only() {
    let arrivals = verified(1);
    let _recorders: Vec<_> = (0..=MAX_TIMED).map(|member| arrivals.recorder(SUBSCRIPTION, member)).collect();
    let timed: Vec<bool> = arrivals.consumers().iter().map(|of| of.end_to_end.is_some()).collect();
    assert_eq!((timed.len(), timed.iter().filter(|timed| **timed).count()), (MAX_TIMED + 1, MAX_TIMED));
}
