//! Kafka's client on the embedded cluster: what needs no server of its own.

use crate::harness::{Bench, assert_acknowledged, assert_delivered, execute, record_of, records_of};

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
fn properties_with_an_own_key_are_refused_and_name_it() {
    let with = |table: &str, key: &str| {
        let scenario = format!(
            "[broker]\nkind = \"kafka\"\naddress = \"embedded\"\n[consumers]\n[run]\nmessages = 1\n[{table}]\n\"{key}\" = \"own\""
        );
        Bench::new(&scenario).run(&[]).expect(1)
    };
    with("broker.properties", "transactional.id").complains_of(&["'transactional.id'", "[broker.kafka.transactions]"]);
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
    refused("pipeline.group = \"kept\"\nconsumers.from = \"latest\"")
        .complains_of(&["`pipeline.group`", "`consumers.from`"]);
    refused("consumers.from = \"latest\"\nbroker.kafka = { static_members = true, assignment = \"group\" }")
        .complains_of(&["`static_members`", "`consumers.from`"]);
    let manual = "consumers = {}\nbroker.kafka.assignment = \"manual\"";
    refused(&format!("{manual}\nbroker.kafka.static_members = true")).complains_of(&["manual", "`static_members`"]);
    refused("broker.kafka.assignment = \"manual\"\nconsumers.properties = { \"group.protocol\" = \"consumer\" }")
        .complains_of(&["manual", "'group.protocol'"]);
}

/// What `check` says is what helps.
#[test]
fn topics_that_would_take_no_message_are_refused_with_a_remedy() {
    let check = |tables: &str| {
        let scenario =
            format!("broker = {{ kind = \"kafka\", address = \"127.0.0.1:1\" }}\nrun.messages = 1\n{tables}");
        execute(&["check", Bench::new(&scenario).scenario().to_str().unwrap()])
    };
    let compacted = "topology.config = { \"cleanup.policy\" = \"compact,delete\" }";
    check(compacted).expect(2).complains_of(&["topology.config", "without a key", "`producers.keys`"]);
    check(&format!("{compacted}\nproducers.keys = {{ kind = \"random\", distinct = 10 }}")).expect(0);
    let limited = |limit: &str| format!("payload.size = \"2kB\"\ntopology.config.max.message.bytes = {limit}");
    check(&limited("1000")).expect(2).complains_of(&["2000 bytes", "`max.message.bytes`", "1000"]);
    check(&limited("3000")).expect(0);
}

#[test]
fn transactions_that_could_not_be_are_refused() {
    let refused = |tables: &str| {
        let scenario = format!(
            "broker.kind = \"kafka\"
            broker.address = \"embedded\"
            run.messages = 1\n{tables}"
        );
        Bench::new(&scenario).run(&[]).expect(1)
    };
    refused("producers.count = 2\nbroker.kafka.transactions.messages = 10")
        .complains_of(&["2 producers", "broker.connections = 2"]);
    refused("producers.in_flight = 9\nbroker.kafka.transactions.messages = 10")
        .complains_of(&["a transaction of 10 messages", "producers.in_flight"]);
    refused("broker.kafka.transactions.abort_share = 0.5").complains_of(&["embedded", "abort_share"]);
    refused("broker.kafka = { transactions = {}, idempotence = false }").complains_of(&["enable.idempotence"]);
}

/// The last transaction is ended by the load's end: its interval is longer than the test may take.
#[test]
fn committed_transaction_is_acknowledged_and_arrives() {
    let record = record_of(
        "[broker]
        kind = \"kafka\"
        address = \"embedded\"
        connections = 2
        kafka.transactions = { messages = 10, interval = \"30s\" }
        [producers]
        count = 2
        in_flight = 25
        batch = 4
        [consumers.properties]
        \"fetch.wait.max.ms\" = 5
        [run]
        messages = 204",
    );
    assert_delivered(&record, 204, 1);
    let transactions = record.transactions.unwrap();
    assert!((21..=22).contains(&transactions.committed), "{transactions:?}");
    assert_eq!((transactions.aborted, transactions.commit.unwrap().count), (0, transactions.committed));
}

#[test]
fn members_take_partitions_without_a_group() {
    let records = records_of(
        "[broker]
        kind = \"kafka\"
        address = \"embedded\"
        kafka.assignment = \"manual\"
        [topology]
        partitions = 5
        [consumers]
        groups = 2
        members = 2
        properties = { \"fetch.wait.max.ms\" = 5 }
        [run]
        messages = 300
        [sweep.over]
        \"consumers.from\" = [\"earliest\", \"latest\"]",
    );
    for record in &records {
        assert_delivered(record, 300, 2);
    }
}

/// Whatever else the scenario says, a client that it names is the one that is measured.
#[cfg(feature = "kafka-native")]
#[test]
fn client_is_librdkafka_where_only_it_can_do_it() {
    use std::path::Path;

    use brokermark::{engine, scenario};

    let client = |broker: &str, tables: &str| {
        let text = format!("broker = {{ kind = \"kafka\", {broker} }}\nrun.messages = 1\n{tables}");
        let plan = scenario::parse_for(engine::kinds(), &text, "try.toml", &[], Path::new("."));
        plan.unwrap_or_else(|error| panic!("{error}")).trials[0].scenario.broker.client.unwrap()
    };
    let address = "address = \"a:1\"";
    assert_eq!(client(address, ""), "native");
    assert_eq!(client(&format!("{address}, security.tls = true"), ""), "native");
    assert_eq!(client("address = \"embedded\"", ""), "librdkafka");
    assert_eq!(client("addresses = [\"embedded\"]", ""), "librdkafka");
    assert_eq!(client(&format!("{address}, properties.linger.ms = 5"), ""), "librdkafka");
    assert_eq!(client(&format!("{address}, client = \"librdkafka\""), ""), "librdkafka");
    let of_group = |key: &str| {
        let group = format!("[[consumers.group]]\nproperties.\"{key}\" = \"consumer\"");
        [format!("[consumers]\nproperties.\"{key}\" = \"consumer\""), group].map(|tables| client(address, &tables))
    };
    assert_eq!(of_group("group.protocol"), ["native"; 2], "both clients have it");
    assert_eq!(of_group("client.rack"), ["librdkafka"; 2]);
}

/// Groups are described in one language for both clients; what only librdkafka has is refused before anything connects.
#[cfg(feature = "kafka-native")]
#[test]
fn native_client_takes_group_properties_and_no_others() {
    let check = |key: &str, value: &str| {
        let bench = Bench::new(&format!(
            "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"127.0.0.1:1\"\nkafka.assignment = \"group\"\n\
             [consumers.properties]\n\"{key}\" = \"{value}\"\n[run]\nmessages = 1"
        ));
        execute(&["check", bench.scenario().to_str().unwrap()])
    };
    check("group.protocol", "consumer").expect(0);
    check("partition.assignment.strategy", "cooperative-sticky").expect(0);
    check("fetch.min.bytes", "1").expect(2).complains_of(&[
        "fetch.min.bytes",
        "\"group.protocol\"",
        "client = \"librdkafka\"",
    ]);
}
