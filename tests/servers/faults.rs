//! Brokers that are down, die, come back or refuse: the run ends in time, and the ledger balances.
#![cfg(feature = "kafka")]

use std::time::Duration;

use crate::harness::kafka;
use crate::harness::server::variable;
use crate::harness::{Bench, assert_balanced, sums};
use crate::load::Load;
use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::{Condition, Record, Status};

/// What a client needs to notice within seconds that an answer does not come.
fn impatient(client: &str) -> &'static str {
    match client {
        "native" => "delivery_timeout = \"4s\"\nrequest_timeout = \"2s\"",
        _ => {
            "[broker.properties]
            \"message.timeout.ms\" = 4000
            \"socket.timeout.ms\" = 2000
            \"reconnect.backoff.max.ms\" = 500
            \"topic.metadata.refresh.interval.ms\" = 1000"
        }
    }
}

/// An open loop of an impatient client on the server at `address`.
fn scenario(client: &str, address: &str, more: &str) -> String {
    format!(
        r#"
        [broker]
        kind = "kafka"
        client = "{client}"
        addresses = ["{address}"]
        [broker.kafka]
        acks = "all"
        {}
        [topology]
        partitions = 2
        [producers]
        count = 4
        batch = 10
        [load]
        rate = "5k/s"
        [payload]
        kind = "random"
        size = "100B"
        {more}
        "#,
        impatient(client)
    )
}

/// A name that no other run of the tests uses.
fn named(client: &str, what: &str) -> String {
    format!("faults-{what}-{client}-{}", std::process::id())
}

for_each_kafka_client! {
    closed_port_is_reported_at_once_with_address,
    a_name_that_does_not_resolve_is_named,
    real_server_that_dies_ends_the_run_with_a_balanced_ledger,
    real_returned_server_loses_nothing_acknowledged,
    real_messages_too_large_fail_one_by_one,
    real_topic_of_another_shape_is_refused_and_left_alone,
    real_replication_beyond_the_cluster_is_refused_with_advice,
    real_wrong_protocol_on_a_port_ends_with_the_address,
    real_server_whose_authority_is_unknown_is_not_trusted,
    real_topic_deleted_in_the_middle_fails_what_follows_by_class,
}

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

fn closed_port_is_reported_at_once_with_address(client: &str) {
    let bench = Bench::new(&scenario(client, "127.0.0.1:1", "[run]\nduration = \"60s\""));
    let ended = bench.run(&[]).expect(1);
    ended.complains_of(&["127.0.0.1:1", "cannot be reached", "Connection refused"]);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    let record = ended.record();
    assert_eq!(record.status, Status::Failed, "that it could not run is recorded as well");
    assert!(record.error.unwrap().contains("Connection refused"));
}

fn a_name_that_does_not_resolve_is_named(client: &str) {
    let bench = Bench::new(&scenario(client, "no-such-host.invalid:9092", "[run]\nduration = \"60s\""));
    bench.run(&[]).expect(1).complains_of(&["no-such-host.invalid:9092", "resolve"]);
}

#[test]
fn a_property_that_the_client_does_not_know_is_named() {
    let text = scenario("librdkafka", "127.0.0.1:1", "[run]\nmessages = 1\n")
        .replace("\"socket.timeout.ms\"", "\"no.such.property\"");
    Bench::new(&text).run(&[]).expect(2).complains_of(&["librdkafka does not accept", "no.such.property"]);
}

fn real_server_that_dies_ends_the_run_with_a_balanced_ledger(client: &str) {
    let port = if client == "native" { 19792 } else { 19392 };
    let server = kafka::server(&format!("dies-{client}"), port);
    // A new server takes its time for the first messages, for which an impatient client does not wait.
    let patient = scenario(client, &server.address(), "[run]\nmessages = 1000\n").replace(impatient(client), "");
    Bench::new(&patient).run(&[]).expect(0);
    let more = "[run]\nduration = \"8s\"\ndrain_deadline = \"10s\"\n[sweep]\ntrials = 2";
    let bench = Bench::new(&scenario(client, &server.address(), more));
    let mut running = bench.start(&[]);
    // A line with percentiles: messages have been acknowledged.
    running.await_stderr(" p99 ");
    server.kill();
    running.await_stderr("connecting");
    // The rest of the load, the drain, and what closing and the second trial may take without a server.
    let ended = running.finish(Duration::from_secs(75)).expect(1);
    let record = &crate::harness::assert_survived(&ended, &server.address());
    let counts = &record.counts;
    assert_eq!(failed(record, FailureClass::Timeout), counts.failed, "{:?}", record.errors);
    let is_told = |one: &Condition| one.kind == ConditionKind::Connecting && one.names == [server.address()];
    assert!(record.conditions.iter().any(is_told), "{:?}", record.conditions);
    let words = if client == "native" { "not acknowledged within 4s" } else { "timed out" };
    assert!(record.errors[0].first_message.contains(words), "{:?}", record.errors);
}

fn real_returned_server_loses_nothing_acknowledged(client: &str) {
    let port = if client == "native" { 19692 } else { 19492 };
    let server = kafka::server(&format!("returns-{client}"), port);
    // Long enough for the server to come back, so that nothing fails for good.
    let keys = match client {
        "native" => "request_timeout = \"2s\"".to_owned(),
        _ => impatient(client).replace("\"message.timeout.ms\" = 4000", "\"message.timeout.ms\" = 120000"),
    };
    let broker = format!(
        r#"
        [broker]
        kind = "kafka"
        client = "{client}"
        addresses = ["{}"]
        [broker.kafka]
        acks = "all"
        idempotence = true
        {keys}
        [topology]
        name = "returns"
        partitions = 2
        keep = true
        "#,
        server.address()
    );
    let load = Load::begin(&format!("returns-{client}"), &broker, 200_000);
    server.kill();
    server.restart();
    let record = load.end();
    assert_eq!(sums(&record).duplicated, 0, "a member that joins anew reads nothing twice");
    assert_eq!(record.counts.attempted, record.counts.acknowledged, "{:?}", record.errors);
    // The server is asked, not our consumer: librdkafka's may take longer than the drain to find its partitions again.
    let (stored, found) = (kafka::messages(&server.address(), "returns"), sums(&record));
    let shown = format!("{stored} stored, {:?} {found:?} {:?}", record.counts, record.conditions);
    assert_eq!(stored, record.counts.acknowledged, "{shown}");
    // The outage is in the response time: it counts from when a message was due.
    assert!(record.latency.response.as_ref().unwrap().max_ns > 1_000_000_000);
}

fn real_messages_too_large_fail_one_by_one(client: &str) {
    let text =
        scenario(client, &kafka::address(), "[run]\nmessages = 100\n").replace("size = \"100B\"", "size = \"2MiB\"");
    let record = Bench::new(&text.replace("[load]\n        rate = \"5k/s\"", "")).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!((record.counts.attempted, record.counts.failed), (100, 100));
    assert_eq!(failed(&record, FailureClass::TooLarge), 100, "{:?}", record.errors);
}

#[test]
fn real_messages_beyond_client_limit_fail_alone() {
    let sizes = "size = { choices = [[\"100B\", 1], [\"5KiB\", 1]] }";
    let text = scenario("librdkafka", &kafka::address(), "[run]\nmessages = 400\n").replace("size = \"100B\"", sizes);
    let text = text.replace("[topology]", "\"message.max.bytes\" = 2000\n[topology]");
    let record = Bench::new(&text).run(&[]).expect(0).record();
    assert_balanced(&record);
    let counts = &record.counts;
    assert_eq!((counts.attempted, counts.unresolved), (400, 0));
    assert!(counts.failed > 100 && counts.acknowledged > 100, "{counts:?}");
    assert_eq!(failed(&record, FailureClass::TooLarge), counts.failed, "{:?}", record.errors);
    assert_eq!(counts.payload_bytes_acknowledged, counts.acknowledged * 100, "only the small ones");
}

fn real_topic_of_another_shape_is_refused_and_left_alone(client: &str) {
    let topic = named(client, "shape");
    kafka::make_topic(&kafka::address(), &topic, 3);
    let more = "[run]\nmessages = 100\n";
    let text = scenario(client, &kafka::address(), more)
        .replace("partitions = 2", &format!("partitions = 2\nname = \"{topic}\""));
    Bench::new(&text).run(&[]).expect(1).complains_of(&[&topic, "3 partition(s)", "2 partition(s)"]);
    assert!(kafka::topics(&kafka::address()).contains(&topic));
    kafka::remove_topic(&kafka::address(), &topic);
}

fn real_replication_beyond_the_cluster_is_refused_with_advice(client: &str) {
    let text = scenario(client, &kafka::address(), "[run]\nmessages = 1\n");
    let text = text.replace("partitions = 2", "partitions = 2\nreplication = 3");
    Bench::new(&text).run(&[]).expect(1).complains_of(&["cannot be created", "topology.replication"]);
}

fn real_wrong_protocol_on_a_port_ends_with_the_address(client: &str) {
    let address = variable("BROKERMARK_KAFKA_TLS");
    let ended = Bench::new(&scenario(client, &address, "[run]\nmessages = 1\n")).run(&[]).expect(1);
    ended.complains_of(&[&address, "cannot be reached"]);
    let address = kafka::address();
    let tls = format!("[broker.security.tls]\nca = \"{}\"\n", variable("BROKERMARK_KAFKA_CA"));
    let ended = Bench::new(&scenario(client, &address, &format!("{tls}[run]\nmessages = 1\n"))).run(&[]).expect(1);
    ended.complains_of(&[&address, "TLS"]);
}

fn real_server_whose_authority_is_unknown_is_not_trusted(client: &str) {
    let address = variable("BROKERMARK_KAFKA_TLS");
    // Without `ca` the system's authorities are asked, and they have never heard of this one.
    let ended = Bench::new(&scenario(client, &address, "[broker.security]\ntls = true\n[run]\nmessages = 1\n"))
        .run(&[])
        .expect(1);
    ended.complains_of(&[&address, "certificate"]);
}

fn real_topic_deleted_in_the_middle_fails_what_follows_by_class(client: &str) {
    let topic = named(client, "deleted");
    let text = scenario(client, &kafka::address(), "[run]\nduration = \"15s\"\ndrain_deadline = \"10s\"\n");
    let text = text.replace("partitions = 2", &format!("partitions = 2\nname = \"{topic}\"\nkeep = true"));
    let bench = Bench::new(&text);
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    kafka::remove_topic(&kafka::address(), &topic);
    let ended = running.finish(Duration::from_secs(90));
    let record = ended.record();
    assert_balanced(&record);
    assert!(record.counts.failed > 0, "{:?}", record.counts);
    let by_class = failed(&record, FailureClass::UnknownTopic) + failed(&record, FailureClass::Timeout);
    assert_eq!(by_class, record.counts.failed, "{:?}", record.errors);
}
