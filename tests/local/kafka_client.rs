//! Kafka's client on the embedded cluster: what needs no server of its own.

use crate::harness::{Bench, assert_acknowledged, record_of};

/// The queue has room again only when librdkafka has destroyed a delivery report: a producer that was woken before would find it
/// full once more, and nothing would wake it again.
#[test]
fn a_queue_of_one_message_never_leaves_a_producer_asleep() {
    let record = record_of(
        "[broker]
        kind = \"kafka\"
        address = \"embedded\"
        properties = { \"queue.buffering.max.messages\" = \"1\", \"linger.ms\" = \"0\" }
        [producers]
        count = 2
        in_flight = 1000
        batch = 100
        [payload]
        size = \"100B\"
        [run]
        messages = 300
        stall_deadline = \"10s\"",
    );
    assert_acknowledged(&record, 300);
}

#[test]
fn properties_that_brokermark_decides_are_refused_with_the_key_to_use() {
    let with = |table: &str, key: &str| {
        let scenario = format!(
            "[broker]\nkind = \"kafka\"\naddress = \"embedded\"\n[consumers]\n[run]\nmessages = 1\n[{table}]\n\"{key}\" = \"own\""
        );
        Bench::new(&scenario).run(&[]).expect(1)
    };
    with("broker.properties", "transactional.id").complains_of(&["'transactional.id'", "idempotence = true"]);
    with("broker.properties", "group.id").complains_of(&["'group.id'", "pipeline.group"]);
    with("consumers.properties", "group.id").complains_of(&["'group.id'", "pipeline.group"]);
}

#[test]
fn what_would_have_no_effect_is_refused() {
    let refused = |tables: &str| {
        let scenario = format!(
            "broker.kind = \"kafka\"
            broker.address = \"embedded\"
            payload = {{ kind = \"template\", text = '{{\"a\": 1}}' }}
            run.messages = 1\n{tables}"
        );
        Bench::new(&scenario).run(&[]).expect(1)
    };
    refused("topology.config.retention = 1").complains_of(&["embedded cluster", "topology.config"]);
    refused("pipeline.instances = 1\nbroker.kafka.static_members = true").complains_of(&["pipeline", "static_members"]);
    refused("pipeline.instances = 1\nconsumers.properties = { \"enable.auto.commit\" = true }")
        .complains_of(&["enable.auto.commit", "members that commit"]);
}
