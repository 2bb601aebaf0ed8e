//! The conformance suite: one list of expectations, run for every broker of a table.
//!
//! To add a broker, add it to the table. `scripts/test` starts its servers and exports their addresses; without a server the
//! tests fail. The prefix `real_` marks brokers that need one.

mod carrying;
mod consuming;
mod delivery;
mod ending;
mod schedules;

use crate::harness::Bench;
use brokermark::broker::registry::descriptors;
use brokermark::scenario::{Capabilities, Descriptor};

/// A broker as a scenario names it.
struct Broker {
    /// The keys that every scenario begins with.
    keys: String,
    /// `[consumers.properties]`, for scenarios that consume.
    consumer_properties: &'static str,
}

impl Broker {
    fn null() -> Self {
        Broker { keys: "broker.kind = \"null\"".to_owned(), consumer_properties: "" }
    }

    #[cfg(feature = "kafka")]
    fn embedded_kafka() -> Self {
        Broker {
            keys: "broker.kind = \"kafka\"\nbroker.client = \"librdkafka\"\nbroker.address = \"embedded\"".to_owned(),
            // It answers a fetch only when this time is over.
            consumer_properties: "[consumers.properties]\n\"fetch.wait.max.ms\" = 5\n",
        }
    }

    #[cfg(feature = "kafka")]
    fn real_kafka() -> Self {
        let address = crate::harness::kafka::address();
        // Without idempotence, librdkafka sends what a new topic's leader has refused for now after what it had sent since.
        let own = "broker.kafka.idempotence = true";
        let keys =
            format!("broker.kind = \"kafka\"\nbroker.client = \"librdkafka\"\nbroker.address = \"{address}\"\n{own}");
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "kafka-native")]
    fn real_kafka_native() -> Self {
        let address = crate::harness::kafka::address();
        let keys = format!("broker.kind = \"kafka\"\nbroker.client = \"native\"\nbroker.address = \"{address}\"");
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "kafka-native")]
    fn real_kafka_share_group() -> Self {
        let native = Broker::real_kafka_native();
        Broker { keys: format!("{}\nbroker.kafka.share_group.acknowledge = \"explicit\"", native.keys), ..native }
    }

    #[cfg(feature = "mqtt")]
    fn real_mqtt() -> Self {
        let keys = format!(
            "broker.kind = \"mqtt\"\nbroker.address = \"{}\"",
            crate::harness::server::variable("BROKERMARK_MQTT")
        );
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "mqtt")]
    fn real_mqtt_exactly_once() -> Self {
        let once = Broker::real_mqtt();
        Broker { keys: format!("{}\nbroker.mqtt.qos = 2", once.keys), ..once }
    }

    /// Without shared subscriptions, each group has one member.
    #[cfg(feature = "mqtt")]
    fn real_mqtt_of_rabbitmq() -> Self {
        let keys = format!("{}broker.mqtt.shared = false", crate::harness::rabbitmq::mqtt());
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "nats")]
    fn real_nats() -> Self {
        let keys = format!("broker.kind = \"nats\"\nbroker.address = \"{}\"", crate::harness::nats::address());
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "nats")]
    fn real_nats_pushed() -> Self {
        let pull = Broker::real_nats();
        Broker { keys: format!("{}\nbroker.nats.consumer = \"push\"", pull.keys), ..pull }
    }

    #[cfg(feature = "nsq")]
    fn real_nsq() -> Self {
        let (addresses, http) = (crate::harness::nsq::addresses(), crate::harness::nsq::http_addresses());
        let keys = format!(
            "broker.kind = \"nsq\"\nbroker.addresses = {addresses:?}\nbroker.nsq.http_addresses = {http:?}\nbroker.connections = 3"
        );
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "pulsar")]
    fn real_pulsar() -> Self {
        let (address, admin) = (crate::harness::pulsar::address(), crate::harness::pulsar::admin());
        let keys =
            format!("broker.kind = \"pulsar\"\nbroker.address = \"{address}\"\nbroker.pulsar.admin = \"{admin}\"");
        Broker { keys, consumer_properties: "" }
    }

    /// The crate `pulsar`, as the other client.
    #[cfg(feature = "pulsar-rs")]
    fn real_pulsar_rs() -> Self {
        let native = Broker::real_pulsar();
        Broker { keys: format!("{}\nbroker.client = \"pulsar-rs\"", native.keys), ..native }
    }

    #[cfg(feature = "sls-emulator")]
    fn embedded_sls() -> Self {
        // One request at a time keeps the order of all batches, and a short linger keeps windows of one message moving.
        let own = "broker.sls = { io_threads = 1, linger = \"2ms\", pull_interval = \"5ms\" }";
        Broker { keys: format!("broker.kind = \"sls\"\nbroker.address = \"embedded\"\n{own}"), consumer_properties: "" }
    }

    #[cfg(feature = "rabbitmq")]
    fn real_rabbitmq_quorum() -> Self {
        let keys = format!("broker.kind = \"rabbitmq\"\nbroker.address = \"{}\"", crate::harness::rabbitmq::amqp());
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "rabbitmq")]
    fn real_rabbitmq_classic() -> Self {
        let quorum = Broker::real_rabbitmq_quorum();
        Broker { keys: format!("{}\nbroker.rabbitmq.queue = \"classic\"", quorum.keys), ..quorum }
    }

    #[cfg(feature = "rabbitmq-stream")]
    fn real_rabbitmq_stream() -> Self {
        let address = crate::harness::rabbitmq::address();
        let keys = format!("broker.kind = \"rabbitmq-stream\"\nbroker.address = \"{address}\"");
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "redis")]
    fn real_redis() -> Self {
        let keys = format!("broker.kind = \"redis\"\nbroker.address = \"{}\"", crate::harness::databases::redis());
        Broker { keys, consumer_properties: "" }
    }

    #[cfg(feature = "redis")]
    fn real_redis_resp3() -> Self {
        let resp2 = Broker::real_redis();
        Broker { keys: format!("{}\nbroker.redis.resp = 3", resp2.keys), ..resp2 }
    }

    /// The capabilities of the broker. It must refuse the others.
    fn can(&self) -> Capabilities {
        let table: toml::Table = self.keys.parse().unwrap();
        let broker = &table["broker"];
        let kind = broker["kind"].as_str().unwrap();
        let client = broker.get("client").and_then(toml::Value::as_str);
        let is_meant = |one: &&Descriptor| one.kind == kind && (client.is_none() || one.client == client);
        descriptors().iter().find(is_meant).unwrap().capabilities
    }

    /// Whether its client knows the partition of an acknowledged message.
    fn tells_partitions(&self) -> bool {
        self.can().partitions && !self.keys.contains("\"sls\"")
    }

    /// Whether the members of a group share its messages.
    fn shares_groups(&self) -> bool {
        !self.keys.contains("shared = false")
    }

    /// `tables`, a scenario without its broker, for this broker; with one partition where it has no more.
    fn scenario(&self, tables: &str) -> String {
        let can = self.can();
        let partitions =
            |line: &str| ["partitions = ", "topology.partitions = "].iter().any(|key| line.starts_with(key));
        let lines: Vec<&str> =
            tables.lines().map(str::trim_start).filter(|line| can.partitions || !partitions(line)).collect();
        let properties = if tables.contains("[consumers]") { self.consumer_properties } else { "" };
        format!("{}\n{}\n{properties}", self.keys, lines.join("\n"))
    }

    /// Asserts that `tables` are refused, with `words`, before anything connects.
    fn refuses(&self, tables: &str, words: &str) {
        Bench::new(&self.scenario(tables)).run(&[]).expect(2).complains_of(&[words]);
    }
}

/// Makes a test of each expectation for one broker.
macro_rules! expect {
    ($broker:ident: $($theme:ident::$expectation:ident),* $(,)?) => {
        mod $broker {
            $(
                #[test]
                fn $expectation() {
                    super::$theme::$expectation(&super::Broker::$broker());
                }
            )*
        }
    };
}

/// The table: one line a broker, below the expectations that all of them are held to.
macro_rules! conformance {
    ($($(#[$condition:meta])* $broker:ident,)*) => {
        $(
            $(#[$condition])*
            expect! {
                $broker:
                delivery::what_is_acknowledged_arrives_once_and_in_order,
                delivery::topics_partitions_placements_and_connections,
                delivery::every_group_receives_everything_whatever_its_members,
                delivery::windows_of_messages_and_of_batches,
                consuming::a_backlog_is_kept_for_every_group,
                consuming::groups_work_and_begin_late,
                consuming::a_limited_group_takes_what_is_due,
                carrying::keys_of_every_kind,
                carrying::payloads_of_every_kind,
                carrying::sizes_of_every_distribution,
                carrying::headers_beside_every_message,
                carrying::headers_of_their_own,
                carrying::messages_without_a_payload,
                carrying::a_partition_that_the_producer_chooses,
                ending::after_exactly_the_messages_asked_for,
                ending::after_exactly_the_payload_bytes_asked_for,
                ending::after_the_duration_asked_for,
                ending::after_whole_rounds,
                ending::at_the_first_signal_with_what_was_measured,
                ending::topics_are_removed_by_their_run_alone,
                schedules::without_chance_are_kept_to_the_message,
                schedules::with_chance_are_kept,
                schedules::warm_up_is_not_measured,
            }
        )*
    };
}

conformance! {
    null,
    #[cfg(feature = "kafka")]
    embedded_kafka,
    #[cfg(feature = "kafka")]
    real_kafka,
    #[cfg(feature = "kafka-native")]
    real_kafka_native,
    #[cfg(feature = "kafka-native")]
    real_kafka_share_group,
    #[cfg(feature = "mqtt")]
    real_mqtt,
    #[cfg(feature = "mqtt")]
    real_mqtt_exactly_once,
    #[cfg(feature = "mqtt")]
    real_mqtt_of_rabbitmq,
    #[cfg(feature = "nats")]
    real_nats,
    #[cfg(feature = "nats")]
    real_nats_pushed,
    #[cfg(feature = "nsq")]
    real_nsq,
    #[cfg(feature = "pulsar")]
    real_pulsar,
    #[cfg(feature = "pulsar-rs")]
    real_pulsar_rs,
    #[cfg(feature = "sls-emulator")]
    embedded_sls,
    #[cfg(feature = "rabbitmq")]
    real_rabbitmq_quorum,
    #[cfg(feature = "rabbitmq")]
    real_rabbitmq_classic,
    #[cfg(feature = "rabbitmq-stream")]
    real_rabbitmq_stream,
    #[cfg(feature = "redis")]
    real_redis,
    #[cfg(feature = "redis")]
    real_redis_resp3,
}
