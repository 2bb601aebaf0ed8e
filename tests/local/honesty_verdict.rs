//! Proof of the verdict: thresholds, tails, and the part of the machine.

use std::time::Duration;

use brokermark::record::{ReasonKind, Record};

use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_balanced, execute, finding, reasons, record_of};

const MILLISECOND: u64 = 1_000_000;

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\n{tables}")
}

/// What each threshold came to: whether it held, and why.
fn outcomes(record: &Record) -> Vec<(bool, &str)> {
    record.thresholds.iter().map(|outcome| (outcome.held, outcome.explanation.as_str())).collect()
}

#[test]
fn threshold_counts_failed_messages() {
    let require = r#"["p50 < 10s", "p99 < 10s", "service.mean < 10s", "max < 10s"]"#;
    for (fate, what) in [("fail", "failed"), ("ignore", "unresolved")] {
        let bench = Bench::new(&null(&format!(
            "broker.null.{fate} = 0.4
            producers.in_flight = 10_000
            run = {{ messages = 10_000, drain_deadline = \"300ms\" }}
            thresholds = {{ require = {require}, when_invalid = \"ignore\" }}"
        )));
        let record = bench.run(&[]).expect(3).record();
        assert_balanced(&record);
        assert_eq!(record.counts.without_acknowledgement(), 4_000);
        let [p50, p99, mean, max] = outcomes(&record)[..] else { panic!("{:?}", record.thresholds) };
        assert!(p50.0, "the faster half was acknowledged: {p50:?}");
        for (held, explanation) in [p99, mean, max] {
            assert!(!held && explanation.contains("40 % of the messages had no acknowledgement"), "{explanation}");
        }
        let found = finding(&record, ReasonKind::MissingMessages).unwrap();
        assert!(found.evidence.contains(&format!("4,000 {what}")), "{}", found.evidence);
    }
}

#[test]
fn unreceived_messages_are_slower_than_received_ones() {
    let bench = Bench::new(&null(
        "broker.null.lose = 0.05
        consumers.groups = 2
        run = { messages = 10_000, drain_deadline = \"300ms\" }
        thresholds = { require = [\"end_to_end.p50 < 10s\", \"end_to_end.p99 < 10s\"], when_invalid = \"ignore\" }",
    ));
    let record = bench.run(&[]).expect(3).record();
    let [half, _, most, _] = outcomes(&record)[..] else { panic!("{:?}", record.thresholds) };
    assert!(!most.0 && most.1.contains("5.0 % of the messages were not received"), "{most:?}");
    assert!(!half.1.contains("not received"), "{half:?}");
}

#[test]
fn threshold_beyond_the_data_says_messages_needed() {
    let bench = Bench::new(&null(
        "run.messages = 20_000\nthresholds = { require = [\"p99 < 10s\", \"p99.99 < 10s\"], when_invalid = \"ignore\" }",
    ));
    let record = bench.run(&[]).expect(3).record();
    let [p99, p99_99] = outcomes(&record)[..] else { panic!("{:?}", record.thresholds) };
    assert!(p99.0, "{p99:?}");
    assert!(!p99_99.0 && p99_99.1.contains("100,000 independent messages"), "{p99_99:?}");
    assert!(p99_99.1.contains("20,000 were measured"), "{p99_99:?}");
}

/// All messages of a batch are acknowledged together: 100 batches say no more of the slowest in 100 than 100 messages do.
#[test]
fn messages_of_one_request_count_once_for_a_tail() {
    let bench = Bench::new(&null(
        "producers.batch = 1_000
        run.messages = 100_000
        thresholds = { require = [\"p50 < 10s\", \"p99 < 10s\"], when_invalid = \"ignore\" }",
    ));
    let record = bench.run(&[]).expect(3).record();
    let service = record.latency.service.as_ref().unwrap();
    assert_eq!((service.count, service.independent), (100_000, Some(100)));
    assert_fields!(service, { p99_ns: None, p99_9_ns: None, p99_99_ns: None });
    let [p50, p99] = outcomes(&record)[..] else { panic!("{:?}", record.thresholds) };
    assert!(p50.0, "{p50:?}");
    assert!(!p99.0 && p99.1.contains("1,000 independent messages") && p99.1.contains("100 were measured"), "{p99:?}");
    let shown = execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout;
    let row = shown.lines().find(|line| line.starts_with("service")).unwrap();
    assert_eq!(row.matches('–').count(), 3, "p99, p99.9 and p99.99: {row}");
}

#[test]
fn thresholds_do_not_pass_on_an_invalid_record() {
    let scenario = |more: &str| {
        Bench::new(&null(&format!("run.messages = 100\nthresholds = {{ require = [\"failed = 0\"]{more} }}")))
    };
    let ended = scenario("").run(&[]).expect(3);
    ended.complains_of(&["not valid", "too-short", "when_invalid"]);
    let record = ended.record();
    assert!(reasons(&record).contains(&ReasonKind::TooShort));
    assert!(record.thresholds[0].held, "it did hold, for what that is worth: {:?}", record.thresholds);
    scenario(", when_invalid = \"ignore\"").run(&[]).expect(0);
    Bench::new(&null("run.messages = 100")).run(&[]).expect(0);
}

#[test]
#[cfg(feature = "kafka")]
fn an_embedded_broker_is_there_to_try_thresholds_out() {
    let bench = Bench::new(
        "broker = { kind = \"kafka\", address = \"embedded\" }
        run.messages = 100
        thresholds.require = [\"failed = 0\"]",
    );
    assert!(!bench.run(&[]).expect(0).record().verdict.valid);
}

#[test]
fn a_word_on_invalid_records_without_thresholds_is_refused() {
    Bench::new(&null("run.messages = 100\nthresholds.when_invalid = \"ignore\""))
        .run(&[])
        .expect(2)
        .complains_of(&["`require` is missing", "when_invalid"]);
}

#[test]
fn closed_loop_pause_of_the_machine_is_a_reason() {
    let bench = Bench::new(&null("broker.null.service_time = \"1ms\"\nrun.duration = \"3s\""));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    run.stall(Duration::from_secs(1));
    let record = run.finish(PATIENCE).expect(0).record();
    let pauses = record.client.pauses.unwrap();
    assert!(pauses.count > 2_500, "one for each millisecond, those of the pause included: {pauses:?}");
    assert!(pauses.max_ns > 900 * MILLISECOND, "{pauses:?}");
    assert!(pauses.p99_ns > 800 * MILLISECOND, "a third of the time was a pause: {pauses:?}");
    let found = finding(&record, ReasonKind::OwnDelay).unwrap();
    assert!(reasons(&record).contains(&ReasonKind::OwnDelay), "{found:?}");
}

/// What happened to the client while the broker answered in a millisecond throughout.
#[test]
fn a_pause_of_the_client_is_not_an_outage_of_the_broker() {
    let bench = Bench::new(&null("broker.null.service_time = \"1ms\"\nload.rate = \"2k/s\"\nrun.duration = \"4s\""));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    run.stall(Duration::from_millis(450));
    let ended = run.finish(PATIENCE).expect(0);
    let record = ended.record();
    let outage = record.outages.iter().max_by_key(|outage| outage.longest_gap_ns).expect("no answer came for 450 ms");
    assert!(outage.longest_gap_ns > 440 * MILLISECOND && outage.caused_by_client, "{outage:?}");
    assert!(outage.longest_gap_ns - outage.client_paused_ns < 100 * MILLISECOND, "{outage:?}");
    let found = finding(&record, ReasonKind::OwnDelay).unwrap();
    assert!(reasons(&record).contains(&ReasonKind::OwnDelay), "{found:?}");
    assert!(
        found.evidence.contains("a thread of the load generator that only sleeps was not woken for")
            && found.evidence.contains("without an acknowledgement"),
        "{found:?}"
    );
    let longest_ns = record.client.long_pauses.iter().map(|pause| pause.length_ns).max();
    assert!(longest_ns.is_some_and(|longest_ns| longest_ns > 440 * MILLISECOND), "{:?}", record.client.long_pauses);
    let shown =
        execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout.replace("\n             ", " ");
    assert!(shown.contains("a thread of the load generator that only sleeps was not woken for"), "{shown}");
    assert!(shown.contains("it may not be the broker's"), "{shown}");
}

#[test]
fn an_outage_of_the_broker_is_not_the_client_s() {
    let stall = "broker.null = { service_time = \"1ms\", stalls = [{ at = \"1s\", for = \"900ms\" }] }";
    let record = record_of(&null(&format!("{stall}\nload.rate = \"2k/s\"\nrun.duration = \"4s\"")));
    let outage = record.outages.iter().max_by_key(|outage| outage.longest_gap_ns).unwrap();
    assert!(outage.longest_gap_ns > 700 * MILLISECOND && !outage.caused_by_client, "{outage:?}");
}

/// Far below an outage, and below 1 % of the time.
#[test]
fn a_p99_9_that_a_pause_of_the_client_made_is_not_the_broker_s() {
    let bench = Bench::new(&null("broker.null.service_time = \"1ms\"\nload.rate = \"4k/s\"\nrun.duration = \"8s\""));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    run.stall(Duration::from_millis(70));
    let record = run.finish(PATIENCE).expect(0).record();
    let response = record.latency.response.as_ref().unwrap();
    assert!(response.p99_9_ns.unwrap() > 50 * MILLISECOND, "{response:?}");
    assert!(response.tail(0.999).unwrap().is_the_clients(), "{:?} {:?}", response.tails, record.client.long_pauses);
    assert!(reasons(&record).contains(&ReasonKind::OwnDelay));
}

#[test]
fn one_stall_is_one_event_however_many_messages_wait() {
    let stall = "broker.null = { service_time = \"1ms\", stalls = [{ at = \"3s\", for = \"120ms\" }] }";
    let threshold = "thresholds.require = [\"p99.9 < 10ms\", \"p99.9 < 60s\"]";
    let bench = Bench::new(&null(&format!("{stall}\nload.rate = \"4k/s\"\nrun.duration = \"8s\"\n{threshold}")));
    let record = bench.run(&[]).expect(3).record();
    let response = record.latency.response.as_ref().unwrap();
    assert!(response.independent.unwrap() >= 10_000 && response.p99_9_ns.unwrap() > 50 * MILLISECOND, "{response:?}");
    let found = finding(&record, ReasonKind::FewEventsInTail).expect("one event");
    assert!(found.evidence.contains("tenth"), "{found:?}");
    let [missed, held] = &record.thresholds[..] else { panic!("{:?}", record.thresholds) };
    assert!(
        !missed.held && missed.explanation.contains("by few events"),
        "what one event broke was broken: {missed:?}"
    );
    assert!(held.held && held.explanation.contains("by few events"), "{held:?}");
}

#[test]
fn own_delay_contains_the_wake_interval() {
    let with = |interval: &str| {
        let pacing = format!("load.pacing.wake_interval = \"{interval}\"\nload.rate = \"20k/s\"");
        record_of(&null(&format!("broker.null.service_time = \"20ms\"\n{pacing}\nrun.duration = \"2s\""))).client
    };
    let client = with("10ms");
    let (timers, all) = (client.timer_lateness.unwrap(), client.wake_up_delay.unwrap());
    assert!(all.p50_ns > timers.p50_ns + 3 * MILLISECOND, "half of 10 ms: {all:?} {timers:?}");
    let client = with("10us");
    assert!(client.wake_up_delay.unwrap().p50_ns < 5 * MILLISECOND, "{client:?}");
}

/// The null broker answers at once, so its response time is the tool's own.
#[test]
fn a_response_time_that_is_the_tool_s_own_delay_is_marked() {
    let record = record_of(&null("load.rate = \"2k/s\"\nrun.duration = \"2s\""));
    let found = finding(&record, ReasonKind::OwnDelay).unwrap();
    assert!(found.evidence.contains("of the response p99 it reports"), "{}", found.evidence);
    assert!(reasons(&record).contains(&ReasonKind::OwnDelay));
}

#[test]
fn messages_in_flight_are_known_by_littles_law() {
    let record = record_of(&null(
        "broker.null.service_time = \"20ms\"\nproducers = { count = 2, in_flight = 50 }\nrun.duration = \"2s\"",
    ));
    // Each of the two keeps its window full, but for the time until it is woken to send again.
    let in_flight = record.throughput.in_flight_by_littles_law.unwrap();
    assert!((50.0..=101.0).contains(&in_flight), "{in_flight} of 100");
}

#[test]
fn a_slow_start_that_nothing_warmed_up_is_noted() {
    let record = record_of(&null(
        "broker.null.stalls = [{ at = \"0s\", for = \"500ms\" }]\nload.rate = \"500/s\"\nrun.duration = \"6500ms\"",
    ));
    let found = finding(&record, ReasonKind::ColdStart).unwrap();
    assert!(found.figures["first_row_p99_ns"] > 400e6, "{found:?}");
    assert!(!reasons(&record).contains(&ReasonKind::ColdStart), "it is worth knowing, and no more");
}

/// What comes due while a producer may not be woken waits, and is late by as much.
#[test]
fn a_producer_is_woken_at_most_once_per_interval() {
    let record = record_of(&null(
        "load = { rate = \"10k/s\", pacing = { wake_interval = \"50ms\", spin = true } }\nrun.duration = \"2s\"",
    ));
    assert_acknowledged(&record, 20_000);
    let delay = record.latency.schedule_delay.unwrap();
    assert!(delay.p50_ns > 15 * MILLISECOND, "half of 50 ms, were it not for the machine: {}", delay.p50_ns);
}

#[test]
fn a_closed_loop_has_nothing_to_pace() {
    let bench = Bench::new(&null("load.pacing.spin = true\nrun.messages = 1"));
    bench.run(&[]).expect(2).complains_of(&["load.pacing", "no intended times"]);
}

#[test]
fn a_slice_beyond_the_wake_interval_is_refused() {
    let bench = Bench::new(&null("load = { rate = \"1k/s\", pacing = { slice = \"201us\" } }\nrun.messages = 1"));
    bench.run(&[]).expect(2).complains_of(&["load.pacing.slice", "wake_interval"]);
}

/// Fields are added and reasons are named anew; what was measured before is still there to be compared with.
#[test]
fn every_record_that_is_kept_can_still_be_read() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
    let brokers = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let runs = brokers.flat_map(|broker| std::fs::read_dir(broker).unwrap().map(|entry| entry.unwrap().path()));
    let mut records = 0;
    for run in runs.filter(|run| run.join("records.jsonl").exists()) {
        let read = brokermark::record::read_records(&run).unwrap_or_else(|error| panic!("{}: {error}", run.display()));
        records += read.records.len();
    }
    assert!(records > 0);
}
