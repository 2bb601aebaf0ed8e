//! Pipelines and commits on the null broker, without a server but for scripted ones.

use std::time::{Duration, Instant};

#[cfg(feature = "redis")]
use brokermark::record::{ReasonKind, SinkRecord, Status};
use brokermark::record::{Record, Verification};

use crate::harness::{Bench, assert_acknowledged, record_of, sums};
#[cfg(feature = "redis")]
use crate::harness::{Finished, finding, reasons, scripted_redis::ScriptedRedis};

/// 2,000 messages in one second, through a pipeline that writes nowhere.
fn pipeline(broker: &str, pipeline: &str) -> Record {
    record_of(&scenario(broker, pipeline))
}

fn scenario(broker: &str, pipeline: &str) -> String {
    format!(
        "broker.kind = \"null\"
        broker.null = {{ {broker} }}
        topology.partitions = 4
        producers.count = 4
        payload.size = 64
        load.rate = \"2k/s\"
        [pipeline]
        parse = \"none\"
        batch = 50
        linger = \"10ms\"
        sinks = []
        {pipeline}
        [run]
        duration = \"1s\""
    )
}

/// Every message was received once, finished and committed.
fn assert_complete(record: &Record) {
    assert_acknowledged(record, 2000);
    assert_eq!(sums(record), Verification { received: 2000, ..Verification::default() });
    let pipeline = record.pipeline.as_ref().unwrap();
    let sum = &pipeline.reconciliation;
    assert_fields!(sum, { produced: Some(2000), consumed: 2000, abandoned: 0, balanced: Some(true) });
    assert_eq!((pipeline.consumer_lag_at_end, &pipeline.commit_errors), (Some(0), &Vec::new()));
}

fn commits(record: &Record) -> u64 {
    let stages = &record.pipeline.as_ref().unwrap().stages;
    let commit = stages.iter().find(|stage| stage.stage == "commit").unwrap();
    commit.per_batch.as_ref().map_or(0, |latency| latency.count)
}

#[test]
fn a_pipeline_commits_all_that_it_received() {
    let record = pipeline("", "");
    assert_complete(&record);
    assert!(commits(&record) > 10, "{}", commits(&record));
}

#[test]
fn members_exchanging_partitions_receive_each_once() {
    let record = pipeline("rebalance_every = \"150ms\", groups = [{ rate = 1_500 }]", "instances = 2");
    assert_complete(&record);
}

#[test]
fn topics_that_were_created_before_a_refused_one_are_removed() {
    let time = |refused: usize| {
        let bench = Bench::new(&format!(
            "broker.kind = \"null\"
            broker.null = {{ refuse_topic = {refused}, removal_time = \"700ms\" }}
            topology.topics = 2
            producers.count = 2
            run.messages = 1"
        ));
        let begin = Instant::now();
        let finished = bench.run(&[]).expect(1);
        assert!(finished.stderr.contains("refused by the null broker's script"), "{}", finished.stderr);
        begin.elapsed()
    };
    let (none, one) = (time(0), time(1));
    assert!(one >= Duration::from_millis(700), "{one:?}");
    assert!(none < one, "{none:?}: there was nothing to remove");
}

#[test]
fn topics_whose_answer_was_lost_are_named_or_removed() {
    let ended = |topology: &str| {
        let null = "broker = { kind = \"null\", null = { forget_topic = 0 } }";
        let bench = Bench::new(&format!("{null}\n[topology]\n{topology}\n[run]\nmessages = 1\n"));
        bench.run(&[]).expect(1).stderr
    };
    let left = ended("name = \"orders\"");
    assert!(left.contains("no answer") && left.contains("were not removed: orders"), "{left}");
    let own = ended("");
    assert!(own.contains("no answer") && !own.contains("removed"), "{own}");
}

/// 500 messages in a quarter of a second, through a pipeline with these keys to this sink, which has so long for the last of them.
#[cfg(feature = "redis")]
fn to_sink(broker: &str, pipeline: &str, sink: &str, drain_deadline: &str) -> Finished {
    Bench::new(&format!(
        "broker.kind = \"null\"
        broker.null = {{ {broker} }}
        topology.partitions = 2
        producers.count = 2
        load.rate = \"2k/s\"
        [payload]
        kind = \"template\"
        text = '{{\"id\": ${{counter}}}}'
        [pipeline]
        batch = 50
        linger = \"10ms\"
        {pipeline}
        [[pipeline.sinks]]
        {sink}
        [run]
        messages = 500
        drain_deadline = \"{drain_deadline}\""
    ))
    .run(&[])
}

/// The address of a server that is gone.
#[cfg(feature = "redis")]
fn nowhere() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[cfg(feature = "redis")]
fn redis(address: &str) -> String {
    format!("kind = \"redis\"\naddress = \"{address}\"\nkey = \"id\"")
}

#[cfg(feature = "redis")]
fn sink(record: &Record) -> &SinkRecord {
    &record.pipeline.as_ref().unwrap().sinks[0]
}

#[cfg(all(feature = "redis", feature = "mongodb"))]
#[test]
fn a_sink_that_is_not_there_ends_the_run_before_the_load() {
    let address = nowhere();
    let mongodb = format!(
        "kind = \"mongodb\"\naddress = \"{address}\"\ndatabase = \"d\"\ncollection = \"c\"\nfields = [\"id\"]\ntimeout = \"100ms\""
    );
    for sink in [redis(&address), mongodb] {
        let ended = to_sink("", "", &sink, "20s");
        let ended = ended.expect(1);
        let words = [&address, "cannot be written to", "pipeline.wait_for_sinks = true"];
        assert!(words.iter().all(|word| ended.stderr.contains(*word)), "{}", ended.stderr);
        let record = ended.record();
        assert_eq!((record.status, record.counts.attempted), (Status::Failed, 0));
    }
}

#[cfg(feature = "redis")]
#[test]
fn pipeline_that_wrote_nothing_fails_by_its_dead_sink() {
    let ended = to_sink("", "wait_for_sinks = true", &redis(&nowhere()), "1s").expect(1);
    assert!(ended.stderr.contains("the pipeline wrote nothing to redis"), "{}", ended.stderr);
    let record = ended.record();
    assert_eq!(record.status, Status::Completed);
    let (found, pipeline) = (sink(&record), record.pipeline.as_ref().unwrap());
    assert_eq!((found.written, found.written_per_second), (0, 0.0));
    assert!(found.not_written > 0 && found.latency.is_none(), "{found:?}");
    assert_eq!(pipeline.bottleneck.stage.as_deref(), Some("redis"), "{:?}", pipeline.bottleneck);
    assert!(pipeline.working_ns > pipeline.consuming_ns, "it was tried until the end: {pipeline:?}");
    // What the instances could not take is unread: nothing is lost.
    let sums = sums(&record);
    assert!(sums.lost == 0 && sums.received + sums.unread == 500, "{sums:?}");
    let found = reasons(&record);
    assert!(found.contains(&ReasonKind::NotReconciled) && !found.contains(&ReasonKind::Losses), "{found:?}");
}

#[cfg(feature = "redis")]
#[test]
fn rows_written_after_revocation_are_duplicates() {
    let server = ScriptedRedis::that_holds();
    let broker = "rebalance_every = \"150ms\"";
    let record = to_sink(broker, "instances = 2\nwriters = 1", &redis(&server.address()), "30s").expect(0).record();
    let (found, pipeline) = (sink(&record), record.pipeline.as_ref().unwrap());
    assert!(found.repeated > 0, "{pipeline:#?}");
    assert_eq!(found.written + found.duplicates, 500 + found.repeated);
    assert_eq!((found.not_written, pipeline.reconciliation.balanced), (0, Some(true)), "{pipeline:#?}");
    assert!(finding(&record, ReasonKind::WrittenTwice).is_some());
}

#[cfg(feature = "redis")]
#[test]
fn keys_that_do_not_hold_what_was_written_are_a_mismatch() {
    let server = ScriptedRedis::that_forgets();
    let record = to_sink("", "", &redis(&server.address()), "20s").expect(0).record();
    let (found, pipeline) = (sink(&record), record.pipeline.as_ref().unwrap());
    let sample = found.read_back.unwrap();
    assert!(sample.keys > 0 && sample.found == 0, "{sample:?}");
    assert_eq!(pipeline.reconciliation.balanced, Some(false));
    let mismatch = finding(&record, ReasonKind::NotReconciled).unwrap();
    assert!(mismatch.evidence.contains("did not hold"), "{mismatch:?}");
}
