//! Pipelines from a real Kafka to real databases: every message arrives once, or the record has the exceptions with their
//! causes. Only written messages are committed.
#![cfg(all(feature = "kafka", feature = "kafka-native", feature = "redis", feature = "mongodb"))]

mod sinks;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::databases::{ask_redis, documents, mongodb, mongodb_server, redis, redis_server};
use crate::harness::kafka;
use crate::harness::{Bench, PATIENCE, finding, reasons};
use brokermark::broker::FailureClass;
use brokermark::record::{ErrorCount, Limiter, Pipeline, ReasonKind, Record, SeriesRow};

const PARTITIONS: i32 = 4;

/// Messages as the published benchmark sends them, through a pipeline with these keys, to these sinks.
fn scenario(load: &str, pipeline: &str, sinks: &[String], run: &str) -> String {
    scenario_of("native", load, pipeline, sinks, run)
}

/// The same through this client. Its members send a sign of life twice a second at least, so that a group rebalances soon.
fn scenario_of(client: &str, load: &str, pipeline: &str, sinks: &[String], run: &str) -> String {
    let address = kafka::address();
    let sinks = sinks.concat();
    let sessions = match client {
        "native" => "[broker.kafka]\nsession_timeout = \"6s\"",
        _ => {
            "[consumers.properties]
            \"session.timeout.ms\" = 6000
            \"heartbeat.interval.ms\" = 500
            \"fetch.wait.max.ms\" = 20
            [broker.kafka]"
        }
    };
    format!(
        r#"
        [broker]
        kind = "kafka"
        client = "{client}"
        address = "{address}"
        {sessions}
        acks = "1"
        linger = "5ms"
        [producers]
        batch = 10
        [payload]
        kind = "template"
        text = '{{"timestamp": ${{timestamp}}, "device_id": "dev-${{random:1..11}}", "value": ${{random:0.0..100.0}}}}'
        {load}
        [pipeline]
        timestamp = "timestamp"
        batch = 500
        {pipeline}
        {sinks}
        {run}
        "#
    )
}

for_each_kafka_client! {
    real_clean_run_reconciles_in_both_databases,
    real_backlog_is_read_by_eight_instances_without_databases,
    real_messages_of_other_programs_are_counted_apart,
    real_kill_and_restart_loses_nothing_and_counts_duplicates,
    real_eight_instances_in_two_processes_share_a_group,
    real_foreign_messages_have_latency_by_broker_timestamps,
}

fn topology(name: &str) -> String {
    format!("[topology]\npartitions = {PARTITIONS}\nname = \"{name}\"\nkeep = true")
}

/// The same topic for a pipeline without producers, which takes it as it is.
fn found(name: &str) -> String {
    format!("[topology]\nname = \"{name}\"")
}

fn to_redis(address: &str, more: &str) -> String {
    format!("[[pipeline.sinks]]\nkind = \"redis\"\naddress = \"{address}\"\nkey = \"device_id\"\n{more}\n")
}

fn to_mongodb(address: &str, collection: &str, more: &str) -> String {
    format!(
        "[[pipeline.sinks]]\nkind = \"mongodb\"\naddress = \"{address}\"\ndatabase = \"tests\"\ncollection = \"{collection}\"\n\
         fields = [\"device_id\", \"value\"]\n{more}\n"
    )
}

/// A name that no other test and no earlier run has.
fn unique(name: &str) -> String {
    format!("pipeline-{name}-{}", std::process::id())
}

/// The same with the name of a client.
fn unique_to(client: &str, name: &str) -> String {
    unique(&format!("{name}-{client}"))
}

fn pipeline(record: &Record) -> &Pipeline {
    record.pipeline.as_ref().unwrap()
}

fn of_class(errors: &[ErrorCount], class: FailureClass) -> u64 {
    errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// Everything that was produced is in every sink once, and the databases say so themselves.
fn assert_balanced(record: &Record, messages: u64) {
    let pipeline = pipeline(record);
    let sum = &pipeline.reconciliation;
    assert_fields!(sum, { produced: Some(messages), consumed: messages, balanced: Some(true) }, "{pipeline:#?}");
    for sink in &pipeline.sinks {
        let found = (sink.written, sink.refused, sink.not_written);
        assert_eq!(found, (messages, 0, 0), "{sink:?}");
    }
    assert_eq!(finding(record, ReasonKind::NotReconciled), None);
    assert_eq!(record.verification.as_ref().map(|found| (found.lost, found.duplicated)), Some((0, 0)));
}

fn real_clean_run_reconciles_in_both_databases(client: &str) {
    let collection = unique_to(client, "clean");
    for (run, order) in ["in-order", "in-parallel"].into_iter().enumerate() {
        let prefix = format!("prefix = \"{collection}-{run}:\"");
        let sinks = [to_redis(&redis(), &prefix), to_mongodb(&mongodb(), &format!("{collection}-{run}"), "")];
        let keys = format!("instances = 2\nsinks_run = \"{order}\"");
        let load = "[topology]\npartitions = 4\n[load]\nrate = \"5k/s\"";
        let text = scenario_of(
            client,
            load,
            &keys,
            &sinks,
            "[run]\nmessages = 10_000\n[thresholds]\nrequire = [\"consumer_lag = 0\", \"written_per_second > 1\"]\nwhen_invalid = \"ignore\"",
        );
        let record = Bench::new(&text).run(&[]).expect(0).record();
        assert_balanced(&record, 10_000);
        let pipeline = pipeline(&record);
        let [keys, documents] = &pipeline.sinks[..] else { panic!("{pipeline:?}") };
        // Ten devices, of which Redis holds the latest value; MongoDB counts the rows.
        assert_eq!(keys.read_back.map(|sample| (sample.keys, sample.found)), Some((10, 10)), "{keys:?}");
        assert_eq!((keys.row_count.delta, keys.row_count.error.as_ref()), (None, None), "{keys:?}");
        assert_eq!((documents.row_count.delta, documents.read_back), (Some(10_000), None), "{documents:?}");
        assert_eq!(pipeline.consumer_lag_at_end, Some(0));
        // Receipt comes before any write, for every message.
        let receipt = pipeline.receipt.as_ref().unwrap();
        assert_eq!(receipt.count, 10_000);
        for sink in &pipeline.sinks {
            let written = sink.latency.as_ref().unwrap();
            assert!(written.count == 10_000 && written.min_ns >= receipt.min_ns && written.mean_ns > receipt.mean_ns);
        }
        let stages: Vec<&str> = pipeline.stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!(stages, ["fetch", "parse", "blocked", "wait", "redis", "mongodb", "commit"]);
        assert!(pipeline.as_published.mean_of_p99s_ns.is_some());
        let told = pipeline.sinks.iter().map(|sink| sink.durability.keys().cloned().collect::<Vec<_>>());
        assert_eq!(told.collect::<Vec<_>>(), [vec!["appendfsync", "appendonly"], vec!["write-concern"]]);
    }
}

fn real_backlog_is_read_by_eight_instances_without_databases(client: &str) {
    let load = "[topology]\npartitions = 8";
    let text =
        scenario_of(client, load, "instances = 8\nproducer_mode = \"backlog\"", &[], "[run]\nmessages = 200_000");
    let record = Bench::new(&text).run(&[]).expect(0).record();
    assert_balanced(&record, 200_000);
    assert_eq!(pipeline(&record).consumer_kept_up, None, "they did not work at the same time");
}

fn real_messages_of_other_programs_are_counted_apart(client: &str) {
    let (address, topic) = (kafka::address(), unique_to(client, "others"));
    kafka::make_topic(&address, &topic, PARTITIONS);
    let load =
        format!("{}\n[load]\nrate = \"500/s\"", found(&topic).replace("[topology]", "[topology]\npartitions = 4"));
    let sinks = [to_redis(&redis(), &format!("prefix = \"{topic}:\"")), to_mongodb(&mongodb(), &topic, "")];
    let text = scenario_of(client, &load, "", &sinks, "[run]\nduration = \"8s\"");
    let bench = Bench::new(&text);
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    let (broker, _) = text.split_once("[load]").unwrap();
    Bench::new(&format!("{broker}[run]\nmessages = 1000\n")).run(&[]).expect(0);
    let record = running.finish(PATIENCE).expect(0).record();
    kafka::remove_topic(&address, &topic);
    let (pipeline, acknowledged) = (pipeline(&record), record.counts.acknowledged);
    let sum = &pipeline.reconciliation;
    assert_eq!((sum.produced, sum.foreign), (Some(acknowledged), 1000), "{pipeline:#?}");
    assert_eq!((sum.consumed, sum.balanced), (acknowledged + 1000, Some(true)), "{pipeline:#?}");
    let kept_up = pipeline.consumer_kept_up.unwrap();
    assert!(kept_up.held && kept_up.finished <= kept_up.acknowledged, "{kept_up:?}");
    assert_eq!(finding(&record, ReasonKind::NotReconciled), None);
}

#[test]
fn real_unparsable_messages_are_counted_and_do_not_block() {
    let collection = unique("unparsable");
    let text = scenario("", "", &[to_mongodb(&mongodb(), &collection, "")], "[run]\nmessages = 4000");
    let (before, after) = text.split_once("text = '").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let payloads = r#"text = '{"device_id": ${choice:1|[]|oops}, "${choice:value|worth}": 1}'"#;
    let record = Bench::new(&format!("{before}{payloads}\n{after}")).run(&[]).expect(0).record();
    let pipeline = pipeline(&record);
    let classes: BTreeSet<&str> = pipeline.unparsable.iter().map(|unparsable| unparsable.class.as_str()).collect();
    assert_eq!(classes, BTreeSet::from(["field-missing", "field-nested", "not-json"]));
    let unparsable = pipeline.reconciliation.unparsable;
    let written = pipeline.sinks[0].written;
    assert_eq!((unparsable + written, pipeline.consumer_lag_at_end), (4000, Some(0)));
    assert_eq!(documents(&mongodb(), "tests", &collection).len() as u64, written);
    assert!(pipeline.unparsable[0].first.contains("at offset"), "{:?}", pipeline.unparsable);
    assert!(finding(&record, ReasonKind::Unparsable).is_some());
}

/// Asserts that everything before the committed offsets is written; returns where the partitions end.
fn assert_committed_is_written(group: &str, topic: &str, collection: &str) -> (u64, u64) {
    let written = documents(&mongodb(), "tests", collection);
    // Behind the topic.
    let written: BTreeSet<&str> = written.iter().map(|id| id.split_once('/').unwrap().1).collect();
    let committed = kafka::committed(&kafka::address(), group, topic, PARTITIONS);
    for (partition, (done, _)) in committed.iter().enumerate() {
        let missing = (0..*done).find(|offset| !written.contains(format!("{partition}-{offset}").as_str()));
        assert_eq!(missing, None, "of partition {partition}, committed up to {done}");
    }
    committed.into_iter().fold((0, 0), |sum, (done, end)| (sum.0 + done, sum.1 + end))
}

fn real_kill_and_restart_loses_nothing_and_counts_duplicates(client: &str) {
    let topic = unique_to(client, "killed");
    let sinks = [to_mongodb(&mongodb(), &topic, "")];
    let keys = format!("group = \"{topic}\"\ninstances = 2");
    let load = format!("{}\n[load]\nrate = \"5k/s\"", topology(&topic));
    let bench = Bench::new(&scenario_of(client, &load, &keys, &sinks, "[run]\nduration = \"60s\""));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    crate::harness::eventually("something is committed", || {
        kafka::committed(&kafka::address(), &topic, &topic, PARTITIONS).iter().any(|(done, _)| *done > 0)
    });
    // Ends the process group of the test.
    running.signal(libc::SIGKILL);
    drop(running);
    let (done, end) = assert_committed_is_written(&topic, &topic, &topic);
    assert!(done > 0 && done < end, "{done} of {end}");

    let keys = format!("{keys}\nproducer_mode = \"none\"");
    let text = scenario_of(client, &found(&topic), &keys, &sinks, "[run]\nduration = \"60s\"");
    let record = Bench::new(&text).run(&[]).expect(0).record();
    let rest = pipeline(&record);
    assert_eq!((rest.consumer_lag_at_end, rest.consumed), (Some(0), end - done));
    let sink = &rest.sinks[0];
    assert_eq!(sink.written + sink.duplicates, end - done);
    assert_eq!(sink.refused, 0);
    assert_eq!(sink.not_written, 0);
    assert_eq!(documents(&mongodb(), "tests", &topic).len() as u64, end, "each once");
    // The database may still have been at what the killed process sent last when it was asked how much it holds.
    let gained = sink.row_count.delta.unwrap();
    assert!(
        (sink.written..=sink.written + sink.duplicates).contains(&gained),
        "the database counts the same: {sink:?}"
    );
    assert!(rest.receipt.as_ref().is_some_and(|receipt| receipt.count == end - done), "by the message's own time");
    assert_eq!(assert_committed_is_written(&topic, &topic, &topic), (end, end));
    kafka::remove_topic(&kafka::address(), &topic);
}

fn real_eight_instances_in_two_processes_share_a_group(client: &str) {
    let topic = unique_to(client, "shared");
    let filled = format!("[broker]\nkind = \"kafka\"\naddress = \"{}\"\n{}\n", kafka::address(), topology(&topic));
    let payload = "[payload]\nkind = \"template\"\ntext = '{\"device_id\": \"dev-${random:1..11}\", \"value\": 1}'\n";
    Bench::new(&format!("{filled}{payload}[run]\nmessages = 60_000")).run(&[]).expect(0);
    let keys = format!("group = \"{topic}\"\ninstances = 4\nproducer_mode = \"none\"");
    let sinks = [to_mongodb(&mongodb(), &topic, "")];
    let bench = Bench::new(&scenario_of(client, &found(&topic), &keys, &sinks, "[run]\nduration = \"90s\""));
    let both = [bench.start(&[]), bench.start(&[])];
    let records = both.map(|running| running.finish(Duration::from_secs(120)).expect(0).record());
    let consumed: u64 = records.iter().map(|record| pipeline(record).consumed).sum();
    let written: u64 = records.iter().map(|record| pipeline(record).sinks[0].written).sum();
    let duplicates: u64 = records.iter().map(|record| pipeline(record).sinks[0].duplicates).sum();
    assert_eq!((written, consumed), (60_000, 60_000 + duplicates));
    assert_eq!(documents(&mongodb(), "tests", &topic).len(), 60_000);
    assert_eq!(assert_committed_is_written(&topic, &topic, &topic), (60_000, 60_000));
    kafka::remove_topic(&kafka::address(), &topic);
}

#[test]
fn real_databases_that_are_down_at_the_start_are_waited_for() {
    let (cache, store) = (redis_server("pipeline-late", 16581, ""), mongodb_server("pipeline-late", 17217));
    let sinks = [to_redis(&cache.address(), ""), to_mongodb(&store.address(), "late", "timeout = \"300ms\"")];
    cache.kill();
    store.kill();
    let keys = "sinks_run = \"in-parallel\"\nwait_for_sinks = true";
    let text = scenario("[load]\nrate = \"2k/s\"", keys, &sinks, "[run]\nmessages = 6000\ndrain_deadline = \"60s\"");
    let bench = Bench::new(&text);
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    cache.restart();
    store.restart();
    let record = running.finish(Duration::from_secs(120)).expect(0).record();
    for sink in &pipeline(&record).sinks {
        assert_eq!((sink.written + sink.duplicates, sink.not_written), (6000, 0), "{sink:?}");
        assert!(of_class(&sink.errors, FailureClass::ConnectionLost) > 0, "{:?}", sink.errors);
        assert!(sink.retries > 0 && sink.row_count.before.is_none() && sink.row_count.error.is_some(), "{sink:?}");
    }
    assert!(finding(&record, ReasonKind::SinkErrors).is_some());
}

#[test]
fn real_database_that_dies_and_comes_back_has_every_row_once() {
    let server = mongodb_server("pipeline-returns", 17218);
    let collection = unique("returns");
    let sinks = [to_mongodb(&server.address(), &collection, "timeout = \"2s\"")];
    let text = scenario("[load]\nrate = \"1k/s\"", "", &sinks, "[run]\nmessages = 10_000\ndrain_deadline = \"90s\"");
    let bench = Bench::new(&text);
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.kill();
    server.restart();
    let record = running.finish(Duration::from_secs(150)).expect(0).record();
    let sink = &pipeline(&record).sinks[0];
    assert_eq!(sink.written + sink.duplicates, 10_000, "{sink:?}");
    assert_eq!(sink.refused, 0, "{sink:?}");
    assert_eq!(sink.not_written, 0, "{sink:?}");
    assert!(of_class(&sink.errors, FailureClass::ConnectionLost) > 0, "{:?}", sink.errors);
    assert_eq!(documents(&server.address(), "tests", &collection).len(), 10_000);
    assert_eq!(pipeline(&record).reconciliation.balanced, Some(true), "each is there once: {:#?}", pipeline(&record));
}

#[test]
fn real_slow_database_is_what_binds_the_pipeline() {
    let server = redis_server("pipeline-slow", 16582, "");
    let sinks = [to_redis(&server.address(), "timeout = \"500ms\"")];
    let keys = "batch = 100\nwriters = 1".to_owned();
    let text = scenario("[load]\nrate = \"2k/s\"", "", &sinks, "[run]\nmessages = 8000\ndrain_deadline = \"60s\"");
    let bench = Bench::new(&text.replace("batch = 500", &keys));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    assert_eq!(ask_redis(&server.address(), "CLIENT PAUSE 4000 WRITE"), "+OK");
    let record = running.finish(PATIENCE).expect(0).record();
    let found = pipeline(&record);
    assert_eq!((found.sinks[0].written, found.sinks[0].not_written), (8000, 0));
    assert!(of_class(&found.sinks[0].errors, FailureClass::Timeout) > 0, "{:?}", found.sinks[0].errors);
    assert_eq!(found.bottleneck.stage.as_deref(), Some("redis"), "{:?}", found.bottleneck);
    assert!(found.sinks[0].latency.as_ref().unwrap().max_ns > 2_000_000_000);
    // The verdict has it, with its effect on latency.
    let kept_up = found.consumer_kept_up.unwrap();
    assert!(!kept_up.held && kept_up.finished < kept_up.acknowledged, "{kept_up:?}");
    assert!(finding(&record, ReasonKind::FellBehind).is_some());
    let limited_by = &record.verdict.limited_by;
    assert!(limited_by.limiter == Limiter::Pipeline && limited_by.evidence.contains("`redis`"), "{limited_by:?}");
    let series = std::fs::read_to_string(bench.run_directory().join("series.jsonl")).unwrap();
    let seconds: Vec<SeriesRow> = series.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seconds.iter().filter_map(|second| second.finished).sum::<u64>(), 8000);
    let lags: Vec<u64> = seconds.iter().filter_map(|second| second.consumer_lag).collect();
    assert!(lags.iter().any(|lag| *lag > 1000) && lags.last() == Some(&0), "{lags:?}");
}

#[test]
fn real_full_database_ends_the_run_in_time() {
    let server = redis_server("pipeline-full", 16583, "--maxmemory 1 --maxmemory-policy noeviction");
    for (policy, expected) in [("after-write", 0), ("on-receipt", 4000)] {
        let topic = unique(&format!("full-{policy}"));
        // The writers can hold every message.
        let keys = format!("group = \"{topic}\"\ncommit = \"{policy}\"\nwriters = 16\nwait_for_sinks = true");
        let load = format!("{}\n[load]\nrate = \"2k/s\"", topology(&topic));
        let sinks = [to_redis(&server.address(), "")];
        let text = scenario(&load, &keys, &sinks, "[run]\nmessages = 4000\ndrain_deadline = \"3s\"");
        let text = text.replace("batch = 500", "batch = 500\nlinger = \"1s\"");
        let ended = Bench::new(&text).run(&[]).expect(1);
        assert!(ended.stderr.contains("the pipeline wrote nothing to redis"), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(45), "{:?}", ended.took);
        let record = ended.record();
        let found = pipeline(&record);
        let sink = &found.sinks[0];
        assert_eq!(sink.written, 0, "{sink:?}");
        assert_eq!(sink.not_written, 4000, "{sink:?}");
        assert_eq!(found.consumed, 4000, "{sink:?}");
        assert!(of_class(&sink.errors, FailureClass::Full) > 0, "{:?}", sink.errors);
        assert!(reasons(&record).contains(&ReasonKind::NotReconciled));
        let committed = kafka::committed(&kafka::address(), &topic, &topic, PARTITIONS);
        assert_eq!(committed.iter().map(|(done, _)| done).sum::<u64>(), expected, "{policy}: {committed:?}");
        if expected == 0 {
            // What is left is worked at for the whole time, which is what the figures of the client are of: a value for each millisecond.
            let keys = format!("{keys}\nproducer_mode = \"none\"");
            let run = "[run]\nduration = \"2s\"\ndrain_deadline = \"1s\"";
            let record = Bench::new(&scenario(&self::found(&topic), &keys, &sinks, run)).run(&[]).record();
            assert!(record.client.pauses.is_some_and(|pauses| pauses.count >= 1000), "{:?}", record.client);
        }
        kafka::remove_topic(&kafka::address(), &topic);
    }
}

#[test]
fn real_pipeline_without_producers_demands_its_topic() {
    let topic = unique("absent");
    let keys = "parse = \"none\"\nproducer_mode = \"none\"";
    let text = scenario(&found(&topic), keys, &[], "[run]\nduration = \"60s\"");
    let ended = Bench::new(&text.replace("timestamp = \"timestamp\"\n", "")).run(&[]).expect(1);
    assert!(ended.stderr.contains("does not exist"), "{}", ended.stderr);
    // It was not created either.
    let ended = Bench::new(&text.replace("timestamp = \"timestamp\"\n", "")).run(&[]).expect(1);
    assert!(ended.stderr.contains("does not exist"), "{}", ended.stderr);
}

/// Messages of another producer carry no intended time; the broker keeps one with each of them.
fn real_foreign_messages_have_latency_by_broker_timestamps(client: &str) {
    let topic = unique_to(client, "timestamps");
    let filled = format!("[broker]\nkind = \"kafka\"\naddress = \"{}\"\n{}\n", kafka::address(), topology(&topic));
    Bench::new(&format!("{filled}[payload]\nsize = \"20B\"\n[run]\nmessages = 1000")).run(&[]).expect(0);
    for (key, known) in [("broker_timestamp = true", true), ("", false)] {
        let keys = format!("parse = \"none\"\nproducer_mode = \"none\"\n{key}");
        let text = scenario_of(client, &found(&topic), &keys, &[], "[run]\nduration = \"60s\"");
        let record = Bench::new(&text.replace("timestamp = \"timestamp\"\n", "")).run(&[]).expect(0).record();
        let pipeline = pipeline(&record);
        assert_eq!(pipeline.consumed, 1000, "{pipeline:#?}");
        assert_eq!(pipeline.receipt.as_ref().map(|receipt| receipt.count), known.then_some(1000));
    }
    kafka::remove_topic(&kafka::address(), &topic);
}
