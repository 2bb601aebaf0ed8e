//! Groups that work, and backlogs, on real brokers: what is sent before the consumers begin is kept for every group.

use brokermark::record::Record;

use crate::harness::{assert_delivered, record_of};

/// 3,000 messages in three seconds. The consumers begin when 1,000 are there, and the second group works on each.
fn with_backlog(broker: &str) -> Record {
    let record = record_of(&format!(
        "{broker}
        [producers]
        count = 2
        [load]
        rate = \"1k/s\"
        [payload]
        kind = \"random\"
        size = \"100B\"
        [[consumers.group]]
        [[consumers.group]]
        work = {{ kind = \"exponential\", mean = \"100us\" }}
        [consumers.backlog]
        messages = 1000
        [run]
        messages = 3000"
    ));
    assert_delivered(&record, 3000, 2);
    let found = record.backlog.as_ref().unwrap();
    let messages = found.messages.unwrap();
    assert!((1000..=3000).contains(&messages), "{found:?}");
    assert_eq!((found.payload_bytes, found.build.consumed_per_second), (Some(messages * 100), 0.0), "{found:?}");
    assert!(found.build.response.is_some() && found.drain.is_some(), "{found:?}");
    assert_eq!(found.groups.len(), 2);
    // On a busy machine the consumers may take until the load ends to join.
    for group in found.groups.iter().filter(|group| group.duration_ns.is_some()) {
        assert!(group.received + group.behind >= messages && group.received_per_second > Some(0.0), "{group:?}");
    }
    let groups = &record.verification.as_ref().unwrap().groups;
    assert_eq!(groups[1].task.as_ref().unwrap().work_mean_ns, Some(100_000));
    record
}

/// 1,000 messages in a second; a group that takes 2 ms for each, and one that begins after half of them.
fn with_slow_and_late_groups(broker: &str) {
    let record = record_of(&format!(
        "{broker}
        [load]
        rate = \"1k/s\"
        [[consumers.group]]
        work = \"2ms\"
        [[consumers.group]]
        start_after = \"500ms\"
        rate = \"5k/s\"
        [run]
        messages = 1000"
    ));
    assert_delivered(&record, 1000, 2);
    let longest_ns = record.latency.end_to_end.as_ref().unwrap().max_ns;
    assert!(longest_ns >= 995_000_000, "the last message is begun after 999 times 2 ms: {longest_ns}");
}

#[cfg(feature = "kafka")]
#[test]
fn real_kafka_groups_find_a_backlog_work_and_begin_late() {
    let address = crate::harness::kafka::address();
    let broker = format!("topology.partitions = 2\n[broker]\nkind = \"kafka\"\naddress = \"{address}\"");
    with_backlog(&broker);
    with_slow_and_late_groups(&broker);
}

#[cfg(feature = "nsq")]
#[test]
fn real_nsq_groups_find_a_backlog_work_and_begin_late() {
    let nsqd = crate::harness::nsq::Nsqd::start(&[]);
    with_backlog(&nsqd.broker());
    with_slow_and_late_groups(&nsqd.broker());
}

#[cfg(feature = "pulsar")]
#[test]
fn real_pulsar_groups_find_a_backlog_work_and_begin_late() {
    let (address, admin) = (crate::harness::pulsar::address(), crate::harness::pulsar::admin());
    let broker = format!(
        "topology.partitions = 2\n[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\npulsar.admin = \"{admin}\""
    );
    with_backlog(&broker);
    with_slow_and_late_groups(&broker);
}

#[cfg(feature = "rabbitmq-stream")]
#[test]
fn real_rabbitmq_groups_find_a_backlog_work_and_begin_late() {
    let broker = crate::rabbitmq_stream::real("");
    with_backlog(&broker);
    with_slow_and_late_groups(&broker);
}
