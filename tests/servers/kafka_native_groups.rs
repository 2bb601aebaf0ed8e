//! Pipelines on a real Kafka through `client = "native"`: members of a group commit their offsets, and the group is removed or goes on.

use brokermark::record::{Pipeline, Record};

use crate::harness::{Bench, kafka};

const PARTITIONS: i32 = 8;

/// Members without databases, with these keys of `[broker.kafka]`.
fn scenario(options: &str, load: &str, pipeline: &str, run: &str) -> String {
    let address = kafka::address();
    format!(
        "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"{address}\"\n\
         kafka = {{ session_timeout = \"6s\", {options} }}\n{load}\n\
         [payload]\nsize = \"100B\"\n[pipeline]\nparse = \"none\"\ninstances = 3\n{pipeline}\n[run]\n{run}"
    )
}

/// Every message was taken once, and everything is committed.
fn assert_worked_off(record: &Record, messages: u64) -> &Pipeline {
    let pipeline = record.pipeline.as_ref().unwrap();
    assert_eq!((pipeline.consumed, pipeline.consumer_lag_at_end), (messages, Some(0)), "{pipeline:#?}");
    pipeline
}

#[test]
fn real_kafka_native_pipelines_work_off_a_backlog_however_partitions_are_assigned() {
    for assignment in ["manual", "group"] {
        let options = format!("assignment = \"{assignment}\"");
        let load = format!("[topology]\npartitions = {PARTITIONS}");
        let text = scenario(&options, &load, "producer_mode = \"backlog\"", "messages = 20_000");
        let record = Bench::new(&text).run(&[]).expect(0).record();
        let pipeline = assert_worked_off(&record, 20_000);
        assert_eq!(pipeline.reconciliation.balanced, Some(true), "{assignment}: {pipeline:#?}");
        assert_eq!(record.verification.as_ref().map(|found| (found.lost, found.duplicated)), Some((0, 0)));
    }
}

#[cfg(feature = "kafka")]
#[test]
fn real_kafka_native_group_that_is_kept_goes_on_where_it_has_committed() {
    for assignment in ["manual", "group"] {
        let name = format!("native-kept-{assignment}-{}", std::process::id());
        let options = format!("assignment = \"{assignment}\"");
        let load = format!("[topology]\npartitions = {PARTITIONS}\nname = \"{name}\"\nkeep = true");
        let group = format!("group = \"{name}\"");
        let text = scenario(&options, &load, &group, "messages = 5_000");
        assert_worked_off(&Bench::new(&text).run(&[]).expect(0).record(), 5_000);
        let committed = kafka::committed(&kafka::address(), &name, &name, PARTITIONS);
        assert!(committed.iter().all(|(done, end)| done == end), "{committed:?}");
        assert_eq!(committed.iter().map(|(_, end)| end).sum::<u64>(), 5_000);

        // Nothing is left, and what comes now is read from there.
        let found = format!("[topology]\nname = \"{name}\"");
        let rest = format!("{group}\nproducer_mode = \"none\"");
        let text = scenario(&options, &found, &rest, "duration = \"60s\"");
        assert_worked_off(&Bench::new(&text).run(&[]).expect(0).record(), 0);
        kafka::remove_topic(&kafka::address(), &name);
    }
}
