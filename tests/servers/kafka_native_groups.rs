//! Pipelines on a real Kafka through `client = "native"`: members of a group commit their offsets, and the group is removed or goes on.

use brokermark::record::{Pipeline, Record};

use crate::harness::{Bench, kafka};

const PARTITIONS: i32 = 8;

/// Who assigns partitions: keys of `[broker.kafka]`, and what is of consumers.
const ASSIGNMENTS: [(&str, &str); 3] = [
    ("assignment = \"manual\"", ""),
    ("assignment = \"group\", session_timeout = \"6s\"", ""),
    ("assignment = \"group\"", BY_SERVER),
];

const BY_SERVER: &str = "\n[consumers.properties]\n\"group.protocol\" = \"consumer\"";

/// Members without databases, with these keys of `[broker.kafka]`.
fn scenario(options: &str, load: &str, pipeline: &str, run: &str) -> String {
    let address = kafka::address();
    format!(
        "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"{address}\"\n\
         kafka = {{ {options} }}\n{load}\n\
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
fn real_kafka_native_pipelines_work_off_a_backlog() {
    for (options, consumers) in ASSIGNMENTS {
        let load = format!("[topology]\npartitions = {PARTITIONS}{consumers}");
        let text = scenario(options, &load, "producer_mode = \"backlog\"", "messages = 20_000");
        let record = Bench::new(&text).run(&[]).expect(0).record();
        let pipeline = assert_worked_off(&record, 20_000);
        assert_eq!(pipeline.reconciliation.balanced, Some(true), "{options}: {pipeline:#?}");
        assert_eq!(record.verification.as_ref().map(|found| (found.lost, found.duplicated)), Some((0, 0)));
    }
}

#[cfg(feature = "kafka")]
#[test]
fn real_kafka_native_kept_group_resumes_at_its_commit() {
    for (index, (options, consumers)) in ASSIGNMENTS.into_iter().enumerate() {
        let name = format!("native-kept-{index}-{}", std::process::id());
        let load = format!("[topology]\npartitions = {PARTITIONS}\nname = \"{name}\"\nkeep = true{consumers}");
        let group = format!("group = \"{name}\"");
        let text = scenario(options, &load, &group, "messages = 5_000");
        assert_worked_off(&Bench::new(&text).run(&[]).expect(0).record(), 5_000);
        let committed = kafka::committed(&kafka::address(), &name, &name, PARTITIONS);
        assert!(committed.iter().all(|(done, end)| done == end), "{committed:?}");
        assert_eq!(committed.iter().map(|(_, end)| end).sum::<u64>(), 5_000);

        // Nothing is left, and what comes now is read from there.
        let found = format!("[topology]\nname = \"{name}\"{consumers}");
        let rest = format!("{group}\nproducer_mode = \"none\"");
        let text = scenario(options, &found, &rest, "duration = \"60s\"");
        assert_worked_off(&Bench::new(&text).run(&[]).expect(0).record(), 0);
        kafka::remove_topic(&kafka::address(), &name);
    }
}

/// The group's line of Kafka's own tool, which lists groups of the type `consumer`.
#[cfg(feature = "kafka")]
fn listed(group: &str) -> Option<String> {
    use std::path::Path;
    use std::process::Command;

    use crate::harness::server::variable;
    use crate::harness::{PATIENCE, Running};

    let libraries = Path::new(&variable("BROKERMARK_KAFKA_LIBS")).join("*");
    let mut command = Command::new("java");
    command.arg("-cp").arg(libraries).arg("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand");
    command.args(["--bootstrap-server", &kafka::address(), "--list", "--type", "consumer"]);
    let listed = Running::start(&mut command).finish(PATIENCE);
    listed.stdout.lines().find(|line| line.starts_with(group)).map(str::to_owned)
}

/// Members of two processes are in one group, which the server shares out. Those of the second one come while messages flow, and leave.
/// Each message is taken once, by one of them: what goes from one to the other was committed before.
#[cfg(feature = "kafka")]
#[test]
fn real_kafka_native_server_assigned_group_takes_each_once() {
    let name = format!("native-server-{}", std::process::id());
    let options = "assignment = \"group\"";
    let group = format!("group = \"{name}\"");
    let run = |rate: &str, run: &str| {
        let topology = format!("[topology]\npartitions = {PARTITIONS}\nname = \"{name}\"\nkeep = true");
        let keys = "[producers]\nkeys = { kind = \"random\", distinct = 1000 }";
        let load = format!("{topology}\n{keys}\n[load]\nrate = \"{rate}\"{BY_SERVER}");
        Bench::new(&scenario(options, &load, &group, run))
    };
    let (hosts, guests) = (run("2k/s", "duration = \"15s\""), run("1k/s", "duration = \"4s\""));
    let mut running = hosts.start(&[]);
    running.await_stderr("measuring");
    let guest = guests.run(&[]).expect(0).record();
    let line = listed(&name).expect("the group is of the type `consumer`");
    assert!(line.to_lowercase().contains("consumer"), "{line}");
    let record = running.finish(crate::harness::PATIENCE).expect(0).record();
    let sent = |record: &Record| record.counts.acknowledged + record.counts.warm_up.acknowledged;
    let sent = sent(&record) + sent(&guest);
    let (all, others) = (record.pipeline.as_ref().unwrap(), guest.pipeline.as_ref().unwrap());
    assert_eq!(all.consumed + others.consumed, sent, "{all:#?} {others:#?}");
    assert!(others.consumed > 0, "{others:#?}");
    let committed = kafka::committed(&kafka::address(), &name, &name, PARTITIONS);
    assert_eq!(committed.iter().map(|(done, _)| done).sum::<u64>(), sent, "{committed:?}");
    kafka::remove_topic(&kafka::address(), &name);
}
