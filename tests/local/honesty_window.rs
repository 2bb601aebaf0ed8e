//! Proof of the window: late answers and a long drain do not change rates, and a stalled load ends.

use std::time::{Duration, Instant};

use brokermark::record::{ReasonKind, Record, SchedulePart, Status};

use crate::harness::{Bench, assert_acknowledged, assert_balanced, finding, reasons, record_of};

const SECOND: u64 = 1_000_000_000;

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\n{tables}")
}

/// Whether `value` is within `percent` of `expected`.
fn near(value: f64, expected: f64, percent: f64) -> bool {
    (value - expected).abs() <= expected * percent / 100.0
}

/// Two seconds at 2,000/s, of which one message in 4,000 is answered 3 s later.
fn straggler() -> Record {
    record_of(&null(
        "broker.null = { service_time = \"1ms\", late = 0.00025, late_by = \"3s\" }
        [load]
        rate = \"2k/s\"
        [run]
        duration = \"2s\"",
    ))
}

#[test]
fn one_straggler_does_not_decide_the_throughput() {
    let record = straggler();
    assert_acknowledged(&record, 4_000);
    let throughput = &record.throughput;
    assert!(near(throughput.window_ns as f64, 2.0 * SECOND as f64, 5.0), "{throughput:?}");
    assert!(near(throughput.messages_per_second, 2_000.0, 5.0), "{throughput:?}");
    assert!(near(throughput.payload_bytes_per_second, throughput.messages_per_second * 100.0, 60.0), "{throughput:?}");
    let whole = throughput.until_last_acknowledgement.unwrap();
    assert!(whole.duration_ns > 3 * SECOND, "the last message was due in the window and 3 s late: {whole:?}");
    assert!(whole.messages_per_second < 1_400.0, "{whole:?}");
    let note = record.verdict.notes.iter().find(|note| note.kind == ReasonKind::RatesDiffer).unwrap();
    assert!(note.figures["duration_until_last_acknowledgement_ns"] > 3e9, "{note:?}");
}

#[test]
fn wait_for_a_straggler_after_the_load_is_no_gap_of_the_window() {
    // The last of 20 messages, 100 ms after the one before it, is answered 3 s late.
    let record = record_of(&null(
        "broker.null = { late = 0.05, late_by = \"3s\" }
        load.rate = \"10/s\"
        run.duration = \"2s\"",
    ));
    assert_acknowledged(&record, 20);
    assert!(record.throughput.longest_gap_ns.is_some_and(|gap_ns| gap_ns < SECOND), "{:?}", record.throughput);
}

#[test]
fn the_client_s_cpu_is_that_of_the_window_and_not_of_the_drain() {
    let record = record_of(&null(
        "broker.null = { service_time = \"100us\", late = 0.0001, late_by = \"4s\" }
        [producers]
        in_flight = 1000
        [run]
        duration = \"1s\"
        drain_deadline = \"10s\"",
    ));
    let whole = record.throughput.until_last_acknowledgement.unwrap();
    assert!(whole.duration_ns > 3 * SECOND, "the drain was long: {whole:?}");
    let elapsed = record.client.cpu_seconds / record.client.cores_used;
    assert!(near(elapsed * 1e9, record.throughput.window_ns as f64, 10.0), "{elapsed} s of {whole:?}");
    assert!(near(record.throughput.window_ns as f64, SECOND as f64, 20.0), "{:?}", record.throughput);
    let inside = record.client.cpu_seconds * 1e9 / (record.throughput.messages_per_second * elapsed);
    assert!(near(record.client.cpu_ns_per_message.unwrap(), inside, 10.0), "{:?}", record.client);
}

#[test]
fn unreached_rate_is_missed_when_bounded_by_messages() {
    // One message in flight that takes 2 ms: 500/s of the 2,000/s that are asked for.
    let record = record_of(&null(
        "broker.null.service_time = \"2ms\"
        producers.in_flight = 1
        load.rate = \"2k/s\"
        run.messages = 2_000",
    ));
    assert_acknowledged(&record, 2_000);
    let throughput = &record.throughput;
    assert!(near(throughput.target_per_second.unwrap(), 2_000.0, 3.0), "{throughput:?}");
    assert!(throughput.sent_per_second < 600.0, "{throughput:?}");
    assert!(
        near(throughput.window_ns as f64, SECOND as f64, 10.0),
        "the last message is due after 1 s: {throughput:?}"
    );
    assert!(reasons(&record).contains(&ReasonKind::RateMissed), "{:?}", record.verdict);
}

#[test]
fn target_rate_is_that_of_the_time_in_which_the_load_lasted() {
    // 500 messages of 100 bytes on average.
    let record = record_of(&null(
        "load.rate = \"1k/s\"
        payload.size = { uniform = [\"50B\", \"150B\"] }
        run = { duration = \"1h\", payload_bytes = \"50kB\" }",
    ));
    let target = record.throughput.target_per_second.unwrap();
    assert!((300.0..=1_100.0).contains(&target), "{:?}", record.throughput);
    // The last of four messages is due after 750 ms, and the limit in messages is not reached.
    let record = record_of(&null("load.rate = \"4/s\"\nrun = { duration = \"1s\", messages = 1_000 }"));
    assert_acknowledged(&record, 4);
    assert!(record.throughput.window_ns >= SECOND, "{:?}", record.throughput);
}

#[test]
fn what_was_due_and_never_sent_is_counted() {
    // One message in flight, and the second one is never answered: the other 1,998 are never sent.
    let record = Bench::new(&null(
        "broker.null.ignore = 0.5
        producers.in_flight = 1
        load.rate = \"1k/s\"
        [run]
        duration = \"2s\"
        drain_deadline = \"200ms\"",
    ))
    .run(&[])
    .expect(0)
    .record();
    assert_balanced(&record);
    let counts = &record.counts;
    assert_fields!(counts, { attempted: 2, acknowledged: 1, unresolved: 1, unsent: 1_998 });
    assert_eq!(finding(&record, ReasonKind::RateMissed).unwrap().figures["unsent"], 1_998.0);
}

#[test]
fn a_poisson_schedule_is_measured_against_its_own_arrivals() {
    for seed in [1, 2, 3] {
        let record = record_of(&null(&format!(
            "load.schedule = {{ kind = \"poisson\", rate = \"500/s\", seed = {seed} }}
            run.duration = \"2s\""
        )));
        let (counts, throughput) = (&record.counts, &record.throughput);
        assert_eq!(counts.unsent, 0, "{throughput:?}");
        let due = throughput.target_per_second.unwrap() * 2.0;
        assert!((due - counts.attempted as f64).abs() < 0.5, "{due} due, {counts:?}");
    }
}

#[test]
fn a_load_whose_broker_stops_answering_ends_with_the_reason() {
    for load in ["", "load.rate = \"1k/s\"\n"] {
        let begin = Instant::now();
        let record = Bench::new(&null(&format!(
            "broker.null.ignore = 0.5
            {load}producers.in_flight = 10
            [run]
            messages = 10_000
            stall_deadline = \"1s\"
            drain_deadline = \"300ms\""
        )))
        .run(&[])
        .expect(1)
        .record();
        assert!(begin.elapsed() >= Duration::from_secs(1));
        assert_balanced(&record);
        assert_eq!(record.status, Status::Stalled);
        let counts = &record.counts;
        assert_eq!((counts.unresolved, counts.acknowledged), (10, counts.attempted - 10), "{counts:?}");
        assert!(reasons(&record).contains(&ReasonKind::Stalled));
    }
}

#[test]
fn a_load_that_a_duration_ends_sits_a_silent_broker_out() {
    let record = record_of(&null(
        "broker.null = { service_time = \"1ms\", stalls = [{ at = \"200ms\", for = \"2s\" }] }
        producers.in_flight = 10
        [run]
        duration = \"3s\"
        stall_deadline = \"500ms\"",
    ));
    assert_eq!(record.status, Status::Completed);
    assert!(record.counts.acknowledged > 100, "{:?}", record.counts);
}

#[test]
fn producers_that_starve_are_seen() {
    let even = record_of(&null("producers.count = 4\nload.rate = \"1k/s\"\nrun.messages = 1000"));
    let shares = even.throughput.producer_shares.unwrap();
    assert_fields!(shares, { smallest_messages: 250, largest_messages: 250, jain_index: 1.0 });
}

#[test]
fn every_step_of_a_schedule_has_a_result_of_its_own() {
    let record = record_of(&null(
        "broker.null.service_time = \"1ms\"
        producers.in_flight = 100_000
        load.schedule = { kind = \"steps\", steps = [{ rate = \"1k/s\", for = \"2s\" }, { rate = \"3k/s\", for = \"2s\" }] }
        [run]
        warm_up = \"500ms\"
        duration = \"3s\"",
    ));
    let [first, second] = &record.parts[..] else { panic!("{:?}", record.parts) };
    // A part ends with the sample that is due at its end, which comes late on a busy machine. What was wanted until then is said.
    for (part, rate) in [(first, 1_000.0), (second, 3_000.0)] {
        assert!(near(part.duration_ns as f64, 1.5e9, 5.0) && near(part.target_per_second, rate, 10.0), "{part:?}");
        assert!(near(part.messages_per_second, part.target_per_second, 5.0), "{part:?}");
    }
    assert_eq!((counted(first), counted(first) + counted(second)), (1_500, record.counts.acknowledged));
    assert!(!reasons(&record).contains(&ReasonKind::NotSteady), "a step is not unsteady: {:?}", record.verdict);
}

fn counted(part: &SchedulePart) -> u64 {
    part.response.as_ref().map_or(0, |response| response.count)
}

/// A broker of 2,000/s, for one second at 4,000/s: the last of these messages wait for a second, and are answered in the next step.
#[test]
fn a_step_is_charged_with_the_messages_that_it_left_waiting() {
    let record = record_of(&null(
        "broker.null.capacity = 2_000
        producers.in_flight = 100_000
        load.schedule = { kind = \"steps\", steps = [
            { rate = \"1k/s\", for = \"1s\" }, { rate = \"4k/s\", for = \"1s\" }, { rate = \"500/s\", for = \"3s\" }] }
        [run]
        duration = \"5s\"",
    ));
    assert_eq!(record.parts.iter().map(counted).collect::<Vec<_>>(), [1_000, 4_000, 1_500]);
    let slowest = |part: &SchedulePart| part.response.as_ref().unwrap().max_ns;
    assert!(slowest(&record.parts[1]) > 950_000_000, "{:?}", record.parts[1]);
    let all = record.latency.response.as_ref().unwrap();
    assert_eq!(slowest(&record.parts[1]).max(slowest(&record.parts[2])), all.max_ns);
}

/// Its producers have nothing to do in the last second.
#[test]
fn window_of_steps_that_end_at_zero_has_the_planned_length() {
    let record = record_of(&null(
        "[load]
        schedule = { kind = \"steps\", steps = [
            { rate = \"0/s\", for = \"1s\" }, { rate = \"600/s\", for = \"1s\" }, { rate = \"0/s\", for = \"1s\" }] }
        [run]
        duration = \"3s\"",
    ));
    assert_acknowledged(&record, 600);
    let throughput = &record.throughput;
    assert!(near(throughput.window_ns as f64, 3.0 * SECOND as f64, 3.0), "{throughput:?}");
    assert!(near(throughput.messages_per_second, 200.0, 3.0), "{throughput:?}");
}

#[test]
fn growing_latency_at_a_constant_rate_is_not_steady() {
    let record = record_of(&null(
        "broker.null = { service_time = \"20ms\", service_time_grows = \"20ms\" }
        load.rate = \"2k/s\"
        [run]
        duration = \"6s\"",
    ));
    let found = finding(&record, ReasonKind::NotSteady).unwrap();
    assert!(found.figures["p50_change_ns"] > 60e6, "{found:?}");
    assert!(found.evidence.contains("median of the response time grew"), "{found:?}");
}
