//! The end of a load: exactly at its stop condition, or by a signal with the results so far.

use brokermark::record::{ReasonKind, Status};

use super::Broker;
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_balanced, assert_delivered, reasons, record_of};

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
