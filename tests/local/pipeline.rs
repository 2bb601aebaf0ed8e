//! Pipelines and commits on the null broker, without a server.

use std::time::{Duration, Instant};

use brokermark::record::{Record, Verification};

use crate::harness::{Bench, assert_acknowledged, record_of, sums};

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
    assert_eq!((sum.produced, sum.consumed, sum.abandoned, sum.balanced), (Some(2000), 2000, 0, Some(true)));
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
fn members_that_exchange_their_partitions_receive_every_message_once() {
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
