//! Proof of the measurements: the null broker follows a script, and the records must show the same.
//!
//! Every expectation is an exact count, or a bound that holds on a busy machine as well: a slow test machine can make
//! latencies longer, never shorter, and cannot hide a stall.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use brokermark::broker::FailureClass;
use brokermark::record::{Headline, Latency, LoadModel, Outage, ReasonKind, Record, Verification};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::harness::{
    Bench, PATIENCE, assert_acknowledged, assert_balanced, finding, reasons, record_of, records_of, sums,
};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\n{tables}")
}

/// Four seconds, of which the broker stands still in the second one.
fn stalled(load: &str) -> Record {
    record_of(&null(&format!(
        "[broker.null]
        service_time = \"1ms\"
        stalls = [{{ at = \"1s\", for = \"1s\" }}]
        {load}"
    )))
}

#[test]
fn a_stall_is_paid_for_by_every_message_that_was_due_in_it() {
    let record = stalled("[load]\nrate = \"1k/s\"\n[run]\nduration = \"4s\"");
    assert_acknowledged(&record, 4000);
    let response = record.latency.response.as_ref().unwrap();
    // A quarter of all messages waited for between 0 and 1 s, so that 4 % of them waited longer than 0.84 s.
    assert!(response.p99_ns.unwrap() > 900 * MILLISECOND, "{}", response.p99_ns.unwrap());
    assert!(response.p95_ns > 750 * MILLISECOND, "{}", response.p95_ns);
    assert!((990 * MILLISECOND..2 * SECOND).contains(&response.max_ns), "{}", response.max_ns);
    assert!(response.p50_ns < 200 * MILLISECOND, "{}", response.p50_ns);
}

#[test]
fn small_window_keeps_the_wait_in_response_time() {
    let record = stalled("[producers]\nin_flight = 20\n[load]\nrate = \"1k/s\"\n[run]\nduration = \"4s\"");
    assert_acknowledged(&record, 4000);
    let latency = &record.latency;
    let (response, service) = (latency.response.as_ref().unwrap(), latency.service.as_ref().unwrap());
    let delay = latency.schedule_delay.as_ref().unwrap();
    assert!(service.p99_ns.unwrap() < 500 * MILLISECOND, "only 20 of 4000 were in flight: {}", service.p99_ns.unwrap());
    assert!(delay.p99_ns.unwrap() > 850 * MILLISECOND, "{}", delay.p99_ns.unwrap());
    assert!(response.p99_ns.unwrap() > 900 * MILLISECOND, "{}", response.p99_ns.unwrap());
    assert!(reasons(&record).contains(&ReasonKind::RateMissed), "{:?}", reasons(&record));
}

#[test]
fn closed_loop_never_reports_response_time() {
    let record = stalled("[producers]\nin_flight = 10\n[run]\nduration = \"4s\"");
    assert_eq!((record.load_model, record.headline), (LoadModel::Closed, Headline::Service));
    assert_eq!((&record.latency.response, &record.latency.schedule_delay), (&None, &None));
    let service = record.latency.service.as_ref().unwrap();
    assert!(record.counts.acknowledged > 2000, "{:?}", record.counts);
    assert!(
        service.p99_ns.unwrap() < 500 * MILLISECOND,
        "10 messages were in flight, the others never sent: {service:?}"
    );
    assert!(service.max_ns > 990 * MILLISECOND, "{}", service.max_ns);
    assert_eq!(record.throughput.target_per_second, None);
    assert_eq!(record.client.timer_lateness, None);
}

#[test]
fn outages_are_as_long_as_the_broker_stood_still() {
    let stalls = [(1_000, 700), (3_000, 1_100)];
    let script = stalls.map(|(at_ms, for_ms)| format!("{{ at = \"{at_ms}ms\", for = \"{for_ms}ms\" }}")).join(", ");
    for load in ["load.rate = \"2k/s\"\nproducers.in_flight = 10_000", "producers.in_flight = 10"] {
        let broker = format!("broker.null = {{ service_time = \"1ms\", stalls = [{script}] }}");
        let record = record_of(&null(&format!("{broker}\n{load}\nrun.duration = \"6s\"")));
        let found = &record.outages;
        for (at_ms, for_ms) in stalls {
            let end_ns = (at_ms + for_ms) * MILLISECOND;
            // A busy machine may have outages of its own, which are one with this if the rate was not held in between.
            let covers = |outage: &&Outage| {
                let recovered_ns = outage.recovered_ns.unwrap_or(u64::MAX);
                outage.begin_ns < end_ns && outage.begin_ns.saturating_add(recovered_ns) >= end_ns
            };
            let outage = found.iter().find(covers).unwrap_or_else(|| panic!("{end_ns}: {found:?}"));
            // The last acknowledgement before it may have been late, and the first one after it.
            let length_ns = (for_ms - 200) * MILLISECOND..(for_ms + 1_000) * MILLISECOND;
            assert!(length_ns.contains(&outage.longest_gap_ns), "{found:?}");
            let [first_ns, recovered_ns] = [outage.first_acknowledgement_ns, outage.recovered_ns];
            // A closed loop on a busy machine may not get back to its rate.
            assert!(recovered_ns.is_none() || first_ns <= recovered_ns, "{found:?}");
            if record.load_model == LoadModel::Open {
                assert!(recovered_ns.is_some() && (outage.expected_per_second - 2_000.0).abs() < 20.0, "{found:?}");
            }
        }
        let longest_ns = found.iter().map(|outage| outage.longest_gap_ns).max();
        assert_eq!(record.throughput.longest_gap_ns, longest_ns);
    }
}

/// The program itself is held up, as by a garbage collector or a busy machine.
#[test]
fn client_that_slept_sends_with_intended_times() {
    let bench = Bench::new(&null("producers.count = 3\nload.rate = \"1k/s\"\nrun.duration = \"4s\""));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    run.stall(Duration::from_secs(1));
    let record = run.finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 4000);
    let delay = record.latency.schedule_delay.as_ref().unwrap();
    assert!(delay.max_ns > 900 * MILLISECOND, "{}", delay.max_ns);
    // A quarter of the messages was due meanwhile: a schedule that restarted after the sleep would have skipped them,
    // one that went by the waking time would have given them no delay.
    assert!(delay.p95_ns > 700 * MILLISECOND, "{}", delay.p95_ns);
    let response = record.latency.response.as_ref().unwrap();
    assert!(response.p95_ns > 700 * MILLISECOND, "{}", response.p95_ns);
    assert!(record.client.timer_lateness.unwrap().max_ns > 900 * MILLISECOND);
}

#[test]
fn a_high_rate_is_sent_to_the_message() {
    let record =
        record_of(&null("producers = { count = 2, batch = 50 }\nload.rate = \"50k/s\"\nrun.duration = \"3s\""));
    assert_acknowledged(&record, 150_000);
    let throughput = &record.throughput;
    let target = throughput.target_per_second.unwrap();
    assert!((49_000.0..=50_001.0).contains(&target), "{target}");
    // A pause of the machine at the end of the window makes it a few milliseconds longer.
    assert!((throughput.sent_per_second / target - 1.0).abs() < 0.02, "{throughput:?}");
    assert_eq!(record.latency.schedule_delay.as_ref().unwrap().count, 150_000);
}

#[test]
fn failed_sends_are_counted_one_by_one() {
    let record = record_of(&null(
        "broker.null.fail = 0.01
run.messages = 10_000",
    ));
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.failed), (9_900, 100));
    assert_eq!(record.latency.service.as_ref().unwrap().count, 9_900, "a failure has no latency");
    let [error] = &record.errors[..] else { panic!("{:?}", record.errors) };
    assert_eq!((error.class, error.count), (FailureClass::Injected, 100));
    assert!(error.first_message.contains("script"), "{}", error.first_message);
    let found = finding(&record, ReasonKind::MissingMessages).unwrap();
    assert_eq!((found.figures["failed"], found.figures["share"]), (100.0, 0.01));
    assert!(!record.verdict.valid);
}

#[test]
fn few_failures_are_a_note_and_are_still_counted() {
    let record = record_of(&null("broker.null.fail = 0.0001\nrun.messages = 20_000"));
    assert_eq!(record.counts.failed, 2);
    assert!(record.verdict.notes.iter().any(|note| note.kind == ReasonKind::MissingMessages));
    assert!(!reasons(&record).contains(&ReasonKind::MissingMessages));
}

#[test]
fn losses_repetitions_swaps_and_damage_are_found_to_the_message() {
    let records = records_of(&null(
        "[consumers]
        [run]
        messages = 10_050
        drain_deadline = \"1s\"
        [sweep.over]
        \"broker.null\" = [{ lose = 0.01 }, { duplicate = 0.02 }, { reorder = 0.003 }, { corrupt = 0.004 }, {}]",
    ));
    let all = Verification { received: 10_050, ..Verification::default() };
    let expected = [
        Verification { received: 9_950, lost: 100, ..all.clone() },
        Verification { received: 10_251, duplicated: 201, ..all.clone() },
        Verification { reordered: 30, ..all.clone() },
        // A damaged message counts as lost as well.
        Verification { corrupt: 40, lost: 40, ..all.clone() },
        all,
    ];
    let kinds = [
        Some(ReasonKind::Losses),
        Some(ReasonKind::Losses),
        Some(ReasonKind::Reordered),
        Some(ReasonKind::Losses),
        None,
    ];
    assert_eq!(records.len(), expected.len());
    for ((record, expected), kind) in records.iter().zip(expected).zip(kinds) {
        assert_acknowledged(record, 10_050);
        let found = sums(record);
        assert_eq!(found, expected, "{:?}", record.point);
        for candidate in [ReasonKind::Losses, ReasonKind::Reordered] {
            assert_eq!(finding(record, candidate).is_some(), Some(candidate) == kind, "{:?}", record.verdict);
        }
    }
}

#[test]
fn a_loss_counts_for_every_group_that_was_owed_the_message() {
    let record = record_of(&null(
        "broker.null.lose = 0.01\nconsumers.groups = 3\nproducers.count = 4\nrun.messages = 10_000\nrun.drain_deadline = \"1s\"",
    ));
    let found = record.verification.unwrap();
    assert_eq!((found.lost, found.received), (300, 29_700));
    assert!(found.groups.iter().all(|group| (group.lost, group.received) == (100, 9_900)), "{:?}", found.groups);
}

#[test]
fn unanswered_messages_are_unresolved_after_the_deadline() {
    let bench = Bench::new(&null(
        "broker.null.ignore = 0.01\n[run]\nmessages = 10_000\ndrain_deadline = \"700ms\"\n[thresholds]\nrequire = [\"unresolved = 0\"]",
    ));
    let begin = Instant::now();
    let record = bench.run(&[]).expect(3).record();
    assert!(begin.elapsed() >= Duration::from_millis(700));
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.unresolved), (9_900, 100));
    let found = finding(&record, ReasonKind::MissingMessages).unwrap();
    assert_eq!(found.figures["unresolved"], 100.0);
    assert!(reasons(&record).contains(&ReasonKind::MissingMessages));
}

#[test]
fn a_run_in_which_nothing_was_acknowledged_is_a_failure() {
    let record = Bench::new(&null("broker.null.fail = 1.0\nrun.messages = 50")).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!((record.counts.failed, record.counts.acknowledged), (50, 0));
    assert_eq!(record.latency.service, None, "no latency is not a latency of zero");
}

/// Eight connections record on threads of their own.
#[test]
fn merged_histogram_has_every_message_and_figure() {
    let bench = Bench::new(
        &null(
            "[broker]
        connections = 8
        [broker.null]
        service_time = \"200us\"
        stalls = [{ at = \"500ms\", for = \"300ms\" }]
        [producers]
        count = 16
        [load]
        rate = \"4k/s\"
        [run]
        duration = \"2s\"",
        )
        .replace("broker.kind = \"null\"\n[broker]", "[broker]\nkind = \"null\""),
    );
    let record = bench.run(&[]).expect(0).record();
    assert_acknowledged(&record, 8_000);
    let log = std::fs::read_to_string(bench.run_directory().join("latency.hlog")).unwrap();
    for (tag, latency) in [
        ("response", &record.latency.response),
        ("service", &record.latency.service),
        ("schedule_delay", &record.latency.schedule_delay),
    ] {
        let latency = latency.as_ref().unwrap();
        let histogram = latency.decode_histogram().unwrap();
        assert_eq!(histogram.len(), 8_000);
        assert_figures_of(&histogram, latency);
        assert_eq!(sum_of_intervals(&log, tag), histogram, "the seconds of the log are the same messages");
    }
}

fn assert_figures_of(histogram: &Histogram<u64>, latency: &Latency) {
    for (quantile, value) in [
        (0.5, latency.p50_ns),
        (0.75, latency.p75_ns),
        (0.9, latency.p90_ns),
        (0.95, latency.p95_ns),
        (0.99, latency.p99_ns.unwrap()),
    ] {
        assert_eq!(histogram.value_at_quantile(quantile), value, "{quantile}");
    }
    for (quantile, value) in [(0.999, latency.p99_9_ns), (0.9999, latency.p99_99_ns)] {
        let stated = latency.supports(quantile).then(|| histogram.value_at_quantile(quantile));
        assert_eq!(stated, value, "{quantile}");
    }
    assert_eq!((histogram.min(), histogram.max()), (latency.min_ns, latency.max_ns));
    assert!((histogram.mean() - latency.mean_ns).abs() < 1e-6);
}

fn sum_of_intervals(log: &str, wanted: &str) -> Histogram<u64> {
    let mut sum: Option<Histogram<u64>> = None;
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        if interval.tag().map(|tag| tag.as_str()) != Some(wanted) {
            continue;
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
        let part: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        match &mut sum {
            Some(sum) => sum.add(part).unwrap(),
            None => sum = Some(part),
        }
    }
    sum.unwrap()
}

#[test]
#[cfg(feature = "kafka")]
fn an_embedded_broker_is_never_trusted() {
    let scenario =
        "broker = { kind = \"kafka\", address = \"embedded\" }\nload.rate = \"500/s\"\nrun.duration = \"5500ms\"";
    let record = record_of(scenario);
    assert!(record.environment.embedded);
    let found = finding(&record, ReasonKind::Embedded).unwrap();
    assert!(found.evidence.contains("inside this process"), "{}", found.evidence);
    assert!(!record.verdict.valid && reasons(&record).contains(&ReasonKind::Embedded));
}

#[test]
fn a_sound_run_is_valid_and_limited_by_its_schedule() {
    let bench = Bench::new(&null(
        "broker.null.service_time = \"5ms\"\nproducers.count = 2\nload.rate = \"500/s\"\nrun.duration = \"5500ms\"",
    ));
    let finished = bench.run(&[]).expect(0);
    let record = finished.record();
    assert!(!record.environment.embedded);
    // A machine that is busy with other things may make the pace wrong, and then the verdict is right to say so.
    let by_the_machine = [
        ReasonKind::RateMissed,
        ReasonKind::ClientBound,
        ReasonKind::NotSteady,
        ReasonKind::OwnDelay,
        ReasonKind::TimeWithheld,
    ];
    let others: Vec<ReasonKind> = reasons(&record).into_iter().filter(|kind| !by_the_machine.contains(kind)).collect();
    assert_eq!(others, []);
    assert_eq!(record.verdict.valid, reasons(&record).is_empty());
    let rerun = brokermark::record::read_records(Path::new(&bench.run_directory())).unwrap();
    assert_eq!(rerun.records, [record]);
}

/// The null broker never lets it wait, and other threads are there to move to.
#[test]
fn the_task_that_is_always_busy_is_named() {
    let record =
        record_of(&null("run = { duration = \"1s\", threads = 4 }\nproducers = { count = 1, in_flight = 10_000 }"));
    assert_eq!(record.client.busiest_task.as_deref(), Some("producer 0"));
    assert!(record.client.busiest_task_cores.unwrap() > 0.5, "{:?}", record.client);
}

/// What the threads had, which need not be what the scenario asks for.
#[test]
#[cfg(target_os = "linux")]
fn the_record_tells_the_scheduling_policy_of_the_load() {
    for policy in ["batch", "other"] {
        let record =
            record_of(&format!("broker.kind = \"null\"\n[run]\nmessages = 1000\nscheduling_policy = \"{policy}\"\n"));
        assert_eq!(record.client.scheduling_policy.as_deref(), Some(policy));
    }
}
