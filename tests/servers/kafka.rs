//! A real Kafka: its topics' settings, topics that exist, and whom its clients trust.

#![cfg(feature = "kafka")]

use brokermark::record::{FoundTopic, ReasonKind};

use crate::harness::kafka::{address, make_topic, remove_topic, topic_setting, topics};
use crate::harness::{Bench, assert_delivered, finding, record_of};

/// A thousand messages that are verified, with these tables besides.
fn scenario(tables: &str) -> String {
    format!("{tables}\n[payload]\nkind = \"zeros\"\nsize = \"64B\"\n[consumers]\n[run]\nmessages = 1000\n")
}

fn on_topic(client: &str, topology: &str) -> String {
    scenario(&format!("{}[topology]\n{topology}", broker(client)))
}

fn broker(client: &str) -> String {
    format!("[broker]\nkind = \"kafka\"\nclient = \"{client}\"\naddress = \"{}\"\n", address())
}

/// A name that no other run of the tests uses.
fn named(client: &str, what: &str) -> String {
    format!("{client}-{what}-{}", std::process::id())
}

for_each_kafka_client! {
    real_kafka_topics_are_created_with_their_settings,
    real_kafka_refuses_settings_in_its_own_words,
    real_kafka_topic_that_exists_is_taken_as_it_is,
    real_kafka_prior_contents_and_compression_are_told,
    real_kafka_partitions_are_read_without_a_group,
}

fn real_kafka_topics_are_created_with_their_settings(client: &str) {
    let topic = named(client, "settings");
    let topology = format!(
        "name = \"{topic}\"\nkeep = true\n[topology.config]\nretention.ms = 3600000\n\
         \"message.timestamp.type\" = \"LogAppendTime\"\nflush.messages = 500"
    );
    assert_delivered(&record_of(&on_topic(client, &topology)), 1000, 1);
    let setting = |key: &str| topic_setting(&address(), &topic, key);
    let found = ["retention.ms", "message.timestamp.type", "flush.messages"].map(setting);
    remove_topic(&address(), &topic);
    assert_eq!(found, ["3600000", "LogAppendTime", "500"]);
}

fn real_kafka_refuses_settings_in_its_own_words(client: &str) {
    let refused = |setting: &str| {
        let topic = named(client, "refused");
        let ended =
            Bench::new(&on_topic(client, &format!("name = \"{topic}\"\nconfig = {{ {setting} }}"))).run(&[]).expect(1);
        assert!(!topics(&address()).contains(&topic));
        ended
    };
    // The crate `rdkafka` passes on the code of a refusal, not the broker's sentence: the error says who has it.
    let words =
        |own: [&'static str; 2]| if client == "native" { own } else { ["Configuration is invalid", "\"native\""] };
    refused("\"no.such.setting\" = 1").complains_of(&words(["no.such.setting", "topology.config"]));
    refused("\"retention.ms\" = \"long\"").complains_of(&words(["retention.ms", "long"]));
}

fn real_kafka_topic_that_exists_is_taken_as_it_is(client: &str) {
    let topic = named(client, "existing");
    let existing = on_topic(client, &format!("name = \"{topic}\"\nexisting = true"));
    Bench::new(&existing).run(&[]).expect(1).complains_of(&[&topic, "does not exist", "create it first"]);
    make_topic(&address(), &topic, 3);
    let record = record_of(&existing.replace("[consumers]", "[consumers]\nmembers = 3"));
    let is_left = topics(&address()).contains(&topic);
    remove_topic(&address(), &topic);
    assert_delivered(&record, 1000, 1);
    assert_eq!(record.found_topics, [FoundTopic { name: topic, partitions: 3, replication: 1 }]);
    assert!(is_left, "brokermark deletes only what it has made");
}

fn real_kafka_prior_contents_and_compression_are_told(client: &str) {
    let topic = named(client, "before");
    let address = address();
    // librdkafka tells what it sent once a second.
    let scenario = format!(
        "{}kafka.compression = \"zstd\"\n\
         [topology]\nname = \"{topic}\"\nkeep = true\n[payload]\nkind = \"zeros\"\nsize = \"1KiB\"\n\
         [load]\nrate = \"1k/s\"\n[run]\nduration = \"3s\"\n",
        broker(client)
    );
    let first = Bench::new(&scenario).run(&[]).expect(0).record();
    let again = Bench::new(&scenario).run(&[]).expect(0);
    remove_topic(&address, &topic);
    assert_eq!(first.messages_before, None, "it was made for the trial");
    again.complains_of(&["warning: the topics exist", "written to before"]);
    let again = again.record();
    assert_eq!(again.messages_before, Some(first.counts.acknowledged));
    let found = finding(&again, ReasonKind::TopicNotEmpty).unwrap();
    assert!(found.advice.contains("leave `topology.name` out"), "{found:?}");
    let unnamed = scenario.replace(&format!("name = \"{topic}\"\nkeep = true\n"), "");
    assert_eq!(finding(&record_of(&unnamed), ReasonKind::TopicNotEmpty), None);
    let wire = first.wire.expect("clients tell");
    assert!(wire.raw_bytes > 0 && wire.requests > 0 && wire.compression_ratio.unwrap() > 2.0, "{wire:?}");
}

fn real_kafka_partitions_are_read_without_a_group(client: &str) {
    let assigned = "kafka.assignment = \"manual\"\n[topology]\npartitions = 5";
    let tables = scenario(&format!("{}{assigned}", broker(client)));
    for from in ["earliest", "latest"] {
        let consumers = format!("[consumers]\ngroups = 2\nmembers = 2\nfrom = \"{from}\"");
        assert_delivered(&record_of(&tables.replace("[consumers]", &consumers)), 1000, 2);
    }
}

#[cfg(feature = "kafka-tls")]
mod authorities {
    use std::process::Command;

    use super::*;
    use crate::harness::server::variable;
    use crate::harness::{PATIENCE, Running};

    fn bench(client: &str) -> Bench {
        let address = variable("BROKERMARK_KAFKA_TLS");
        let broker =
            format!("[broker]\nkind = \"kafka\"\nclient = \"{client}\"\naddress = \"{address}\"\nsecurity.tls = true");
        Bench::new(&scenario(&broker))
    }

    for_each_kafka_client! {
        real_kafka_is_trusted_by_the_environments_authority,
        real_kafka_is_trusted_by_an_authority_of_the_system,
    }

    fn real_kafka_is_trusted_by_the_environments_authority(client: &str) {
        let bench = bench(client);
        let mut command = bench.command();
        command.arg("--quiet").env("SSL_CERT_FILE", variable("BROKERMARK_KAFKA_CA"));
        assert_delivered(&Running::start(&mut command).finish(PATIENCE).expect(0).record(), 1000, 1);
    }

    /// In a namespace of its own, in which the test's authority is the system's, and the folder of the system's OpenSSL is empty:
    /// as is that of an OpenSSL that was compiled in.
    fn real_kafka_is_trusted_by_an_authority_of_the_system(client: &str) {
        let bench = bench(client);
        let program = bench.command();
        let script = "mount --bind \"$0\" /etc/ssl/certs/ca-certificates.crt\n\
                      [ ! -d /usr/lib/ssl ] || mount -t tmpfs none /usr/lib/ssl\n\
                      exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec", script, &variable("BROKERMARK_KAFKA_CA")]);
        command.arg(program.get_program()).args(program.get_args()).arg("--quiet");
        for (name, value) in program.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            command.env(name, value);
        }
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        assert_delivered(&Running::start(&mut command).finish(PATIENCE).expect(0).record(), 1000, 1);
    }
}
