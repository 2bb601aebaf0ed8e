//! Groups whose members join and leave during a trial, or do not read in time.

#![cfg(feature = "kafka")]

use std::time::Duration;

use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::{ReasonKind, Verification};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::harness::{Bench, PATIENCE, assert_acknowledged, eventually, kafka, reasons, record_of, sums};

/// The run whose only topic has so many partitions, as no other test's has.
pub fn run_with(address: &str, partitions: usize) -> String {
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let mut run = None;
    eventually("the trial's topic is there", || {
        let metadata = client.fetch_metadata(None, PATIENCE).unwrap();
        let mut topics = metadata.topics().iter().filter(|topic| topic.partitions().len() == partitions);
        run = topics.find_map(|topic| topic.name().strip_suffix("-0").map(str::to_owned));
        run.is_some()
    });
    run.unwrap()
}

/// Joins `group`, reads so many messages at least from the partitions it is given, and leaves when it is dropped.
fn visit(address: &str, group: &str, topic: &str, (property, value): (&str, &str), messages: usize) -> BaseConsumer {
    let guest: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("group.id", group)
        .set(property, value)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    guest.subscribe(&[topic]).unwrap();
    let mut taken = 0;
    eventually("the guest has read", || {
        taken += usize::from(matches!(guest.poll(Duration::from_millis(100)), Some(Ok(_))));
        taken >= messages
    });
    guest
}

/// The group hears of the guest soon.
const SOON: &str = ", \"heartbeat.interval.ms\" = \"200\"";

/// The guest's messages are not lost to the group, as it commits nothing, and the members that had its partitions before
/// go on where they were.
fn assert_members_resume(partitions: usize, way: (&str, &str), more: &str) {
    let (property, value) = way;
    let properties = format!("properties = {{ \"{property}\" = \"{value}\"{more} }}");
    let client = ", client = \"librdkafka\", kafka.assignment = \"group\"";
    assert_members_of_a_client_resume(partitions, way, client, &properties);
}

/// The same with more keys of the broker and of the consumers.
fn assert_members_of_a_client_resume(partitions: usize, way: (&str, &str), client: &str, consumers: &str) {
    let address = kafka::address();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", address = \"{address}\"{client} }}
        topology.partitions = {partitions}
        producers = {{ count = 3, keys = {{ kind = \"random\", distinct = 1000 }} }}
        load.rate = \"2k/s\"
        [consumers]
        groups = 2
        members = 2
        {consumers}
        [run]
        warm_up = \"1s\"
        duration = \"12s\""
    ));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let id = run_with(&address, partitions);
    drop(visit(&address, &format!("{id}-1-0"), &format!("{id}-0"), way, 100));
    let record = run.finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 24_000);
    let each = 24_000 + record.counts.warm_up.acknowledged;
    let verification = record.verification.as_ref();
    let expected = Verification { received: 2 * each, ..Verification::default() };
    assert_eq!(sums(&record), expected, "by group: {verification:?}; {:?}", record.client);
    assert_eq!(record.counts.consumed, Some(48_000));
    assert!(!reasons(&record).contains(&ReasonKind::Losses), "{:?}", record.verdict);
}

#[test]
fn real_kafka_members_resume_after_a_rebalance() {
    assert_members_resume(7, ("partition.assignment.strategy", "range,roundrobin"), SOON);
}

/// Members of both clients are in one group.
#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_native_members_resume_after_foreign_member() {
    let client =
        ", client = \"native\", kafka = { assignment = \"group\", session_timeout = \"6s\", idempotence = true }";
    assert_members_of_a_client_resume(19, ("partition.assignment.strategy", "range,roundrobin"), client, "");
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_native_members_keep_their_partitions() {
    let client =
        ", client = \"native\", kafka = { assignment = \"group\", session_timeout = \"6s\", idempotence = true }";
    let (property, value) = ("partition.assignment.strategy", "cooperative-sticky");
    let properties = format!("properties = {{ \"{property}\" = \"{value}\" }}");
    assert_members_of_a_client_resume(31, (property, value), client, &properties);
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_native_server_assigned_members_resume() {
    let client = ", client = \"native\", kafka = { assignment = \"group\", idempotence = true }";
    let (property, value) = ("group.protocol", "consumer");
    let properties = format!("properties = {{ \"{property}\" = \"{value}\" }}");
    assert_members_of_a_client_resume(29, (property, value), client, &properties);
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_native_partitions_of_a_guest_are_told() {
    assert_guest_is_told(23, "client = \"native\", kafka = { assignment = \"group\", session_timeout = \"6s\" }");
}

#[test]
fn real_kafka_partitions_of_a_guest_are_told() {
    let session = "properties = { \"session.timeout.ms\" = \"6000\", \"heartbeat.interval.ms\" = \"1000\" }";
    assert_guest_is_told(41, &format!("client = \"librdkafka\", kafka = {{ assignment = \"group\" }}, {session}"));
}

/// The guest stays until the run tells of it.
fn assert_guest_is_told(partitions: usize, client: &str) {
    let address = kafka::address();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", address = \"{address}\", {client} }}
        topology.partitions = {partitions}
        load.rate = \"1k/s\"
        consumers.members = 2
        run.duration = \"25s\""
    ));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let id = run_with(&address, partitions);
    let way = ("partition.assignment.strategy", "range,roundrobin");
    let guest = visit(&address, &format!("{id}-0-0"), &format!("{id}-0"), way, 10);
    run.await_stderr("with other members of the group");
    drop(guest);
    let record = run.finish(PATIENCE).expect(0).record();
    let of_kind = |kind: ConditionKind| record.conditions.iter().find(|condition| condition.kind == kind);
    let [found, rebalancing] = [ConditionKind::GroupHasOthers, ConditionKind::Rebalancing].map(of_kind);
    assert!(rebalancing.is_some_and(|rebalancing| rebalancing.end_ns.is_some()), "{:?}", record.conditions);
    let found = found.unwrap_or_else(|| panic!("{:?}", record.conditions));
    assert!(found.end_ns.is_some() && found.words.contains("(rebalances: "), "{found:?}");
}

#[test]
fn real_kafka_cooperative_members_resume() {
    assert_members_resume(11, ("partition.assignment.strategy", "cooperative-sticky"), SOON);
}

/// The server decides, and how often it hears of a member as well.
#[test]
fn real_kafka_server_assigned_members_resume() {
    assert_members_resume(13, ("group.protocol", "consumer"), "");
}

#[test]
fn real_kafka_static_members_have_names_in_their_group() {
    assert_static_members_have_names(
        17,
        "client = \"librdkafka\", kafka = { static_members = true, assignment = \"group\" }",
    );
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_native_static_members_have_names_in_their_group() {
    let keys = "kafka = { static_members = true, assignment = \"group\", session_timeout = \"6s\" }";
    assert_static_members_have_names(37, &format!("client = \"native\", {keys}"));
}

/// A group gives the name of a member to the client that comes last with it.
fn assert_static_members_have_names(partitions: usize, client: &str) {
    let address = kafka::address();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", address = \"{address}\", {client} }}
        topology.partitions = {partitions}
        producers.keys = {{ kind = \"random\", distinct = 1000 }}
        load.rate = \"200/s\"
        consumers.members = 2
        [run]
        duration = \"10min\"
        catch_up_deadline = \"1s\""
    ));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let id = run_with(&address, partitions);
    // For longer than members need to hear of it: half of the messages come to the guest, 100 in each second.
    drop(visit(&address, &format!("{id}-0-0"), &format!("{id}-0"), ("group.instance.id", "member-1"), 500));
    run.signal(libc::SIGINT);
    let record = run.finish(PATIENCE).expect(130).record();
    let fenced = record.receive_errors.iter().filter(|error| error.class == FailureClass::Fenced);
    assert_eq!(fenced.count(), 1, "{:?}", record.receive_errors);
    assert!(record.conditions.iter().any(|one| one.kind == ConditionKind::Fenced), "{:?}", record.conditions);
}

/// The server lets every fetch wait for far more than is there.
#[test]
fn real_kafka_unfetched_messages_are_unread_not_lost() {
    let record = record_of(&format!(
        "broker = {{ kind = \"kafka\", client = \"librdkafka\", address = \"{}\" }}
        topology.partitions = 3
        load.rate = \"1k/s\"
        [consumers.properties]
        \"fetch.min.bytes\" = 100000000
        \"fetch.wait.max.ms\" = 30000
        [run]
        messages = 2000
        catch_up_deadline = \"1s\"",
        kafka::address()
    ));
    assert_acknowledged(&record, 2000);
    let found = sums(&record);
    assert_eq!((found.received + found.unread, found.lost), (2000, 0), "{found:?}");
    assert!(found.unread > 1000, "{found:?}");
    assert!(reasons(&record).contains(&ReasonKind::Unread) && !reasons(&record).contains(&ReasonKind::Losses));
}
