//! The end of a load: exactly at its stop condition, or by a signal with the results so far.

use brokermark::record::{ReasonKind, Status};

use super::Broker;
use crate::harness::{
    Bench, Finished, PATIENCE, Running, assert_acknowledged, assert_balanced, assert_delivered, brokermark, reasons,
    record_of,
};

pub fn after_exactly_the_messages_asked_for(broker: &Broker) {
    let record = record_of(&broker.scenario("producers.count = 3\nproducers.batch = 7\nrun.messages = 1001"));
    assert_acknowledged(&record, 1001);
    assert_eq!(record.counts.consumed, None);
    assert_eq!(record.verification, None);
}

pub fn after_exactly_the_payload_bytes_asked_for(broker: &Broker) {
    let scenario = broker.scenario(
        "producers.count = 3\nproducers.batch = 7\npayload = { kind = \"zeros\", size = \"100B\" }\nrun.payload_bytes = 30050",
    );
    let record = record_of(&scenario);
    assert_acknowledged(&record, 301);
    assert_eq!(record.counts.payload_bytes_acknowledged, 30_100, "the message that crosses the limit is the last");
}

pub fn after_the_duration_asked_for(broker: &Broker) {
    let scenario = broker.scenario("producers.in_flight = 10\nrun.duration = \"700ms\"");
    let record = record_of(&scenario);
    assert_acknowledged(&record, record.counts.attempted);
    assert!(record.counts.attempted > 10, "{:?}", record.counts);
    // To the last acknowledgement, which may come a little later on a busy machine.
    let duration_ns = record.throughput.completion_ns();
    assert!((600_000_000..5_000_000_000).contains(&duration_ns), "{duration_ns}");
}

pub fn after_whole_rounds(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "[producers]
        count = 3
        batch = 4
        round_barrier = true
        [consumers]
        [run]
        messages = 25",
    ));
    assert_delivered(&record, 36, 1);
}

pub fn at_the_first_signal_with_what_was_measured(broker: &Broker) {
    let bench = Bench::new(&broker.scenario(
        "load.rate = \"500/s\"
        [consumers]
        [run]
        duration = \"10min\"
        [sweep]
        trials = 2",
    ));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    run.signal(libc::SIGINT);
    let ended = run.finish(PATIENCE).expect(130);
    ended.complains_of(&["interrupted"]);
    let record = ended.record();
    assert_eq!(record.status, Status::Interrupted);
    assert!(reasons(&record).contains(&ReasonKind::Interrupted));
    assert!(record.counts.acknowledged > 0, "{:?}", record.counts);
    assert_balanced(&record);
    assert_delivered(&record, record.counts.attempted, 1);
    let kept = std::fs::read_to_string(bench.run_directory().join("records.jsonl")).unwrap();
    assert_eq!(kept, ended.stdout, "the record on disk is the one that was printed, and the second trial never began");
}

/// `remove-topics` creates nothing, and removes nothing that is not named after a run or is not as the run would have created it.
pub fn topics_are_removed_by_their_run_alone(broker: &Broker) {
    let bench = Bench::new(&broker.scenario("topology.keep = true\nrun.messages = 10"));
    let record = bench.run(&[]).expect(0).record();
    let [topic] = &record.topics[..] else { panic!("{:?}", record.topics) };
    let run = topic.strip_suffix("-0").unwrap();
    let remove = |run: &str, more: &[&str]| -> Finished {
        let mut command = brokermark();
        command.arg("remove-topics").arg(bench.scenario()).args(["--run-id", run]).args(more);
        Running::start(&mut command).finish(PATIENCE)
    };
    // What this process emulates ends with it; a topic of MQTT is nothing but a name.
    let ends = ["\"embedded\"", "\"null\"", "\"mqtt\""].iter().any(|word| broker.keys.contains(word));
    let kept = format!("{topic}\n");
    remove("demo", &[]).expect(2).complains_of(&["is not the id of a run"]);
    // A run that never was.
    let never = run.replacen("brokermark", "never", 1);
    let finds_nothing = |run: &str, more: &[&str]| {
        let ended = remove(run, more).expect(1);
        ended.complains_of(&["no topic of this run exists"]);
        assert_eq!(ended.stdout, "");
    };
    for _ in 0..2 {
        finds_nothing(&never, &[]);
    }
    if ends {
        return finds_nothing(run, &["--dry-run"]);
    }
    assert_eq!(remove(run, &["--dry-run"]).expect(0).stdout, kept);
    if broker.can().partitions {
        let other = remove(run, &["--set", "topology.partitions=2"]).expect(1);
        other.complains_of(&[topic, "nothing was removed"]);
    }
    assert_eq!(remove(run, &["--dry-run"]).expect(0).stdout, kept);
    assert_eq!(remove(run, &[]).expect(0).stdout, kept);
    finds_nothing(run, &[]);
}
