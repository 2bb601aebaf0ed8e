//! What an acknowledgement meant, read from real servers.

use brokermark::record::{Durability, DurabilityLevel};

use crate::harness::record_of;

/// Of ten messages with these tables.
fn durability(tables: &str) -> Durability {
    record_of(&format!("{tables}\n[run]\nmessages = 10\n")).durability
}

#[cfg(feature = "kafka")]
#[test]
fn real_kafka_tells_how_its_topics_keep_messages() {
    assert_kafka_tells_how_its_topics_keep_messages("librdkafka");
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_kafka_tells_topic_durability_to_native_client() {
    assert_kafka_tells_how_its_topics_keep_messages("native");
}

#[cfg(any(feature = "kafka", feature = "kafka-native"))]
fn assert_kafka_tells_how_its_topics_keep_messages(client: &str) {
    let with = |acks: &str, config: &str| {
        let address = crate::harness::kafka::address();
        durability(&format!(
            "[broker]\nkind = \"kafka\"\nclient = \"{client}\"\naddress = \"{address}\"\nkafka.acks = \"{acks}\"\n\
             [topology]\nconfig = {{ {config} }}"
        ))
    };
    let cached = with("all", "flush.ms = 1000");
    assert_eq!((cached.level, cached.copies), (DurabilityLevel::PageCache, Some(1)));
    assert_eq!((cached.settings["flush.ms"].as_str(), cached.settings["flush.messages"].as_str()), ("1000", "never"));
    let synchronised = with("1", "flush.messages = 1");
    assert_eq!((synchronised.level, synchronised.copies), (DurabilityLevel::Disk, Some(1)));
    assert_eq!(with("0", "flush.messages = 1").level, DurabilityLevel::Nowhere);
}

#[cfg(feature = "nsq")]
#[test]
fn real_nsqd_tells_whether_its_queue_is_in_memory() {
    let with = |options: &[&str]| durability(&crate::harness::nsq::Nsqd::start(options).broker());
    assert_eq!(with(&[]).level, DurabilityLevel::Memory);
    let synchronised = with(&["-mem-queue-size=0", "-sync-every=1"]);
    assert_eq!((synchronised.level, synchronised.settings["sync_every"].as_str()), (DurabilityLevel::Disk, "1"));
}

#[cfg(feature = "pulsar")]
#[test]
fn real_pulsar_tells_its_quorums() {
    use crate::harness::pulsar::{address, admin};
    let with = |persistent: bool| {
        let (address, admin) = (address(), admin());
        durability(&format!(
            "[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\n[broker.pulsar]\nadmin = \"{admin}\"\npersistent = {persistent}"
        ))
    };
    let kept = with(true);
    assert_eq!((kept.level, kept.copies), (DurabilityLevel::Unknown, Some(1)));
    assert_eq!(kept.settings["ack-quorum"], "1");
    assert_eq!(with(false).level, DurabilityLevel::Nowhere);
}

#[cfg(feature = "rabbitmq-stream")]
#[test]
fn real_rabbitmq_tells_the_members_of_a_stream() {
    let address = crate::harness::rabbitmq::address();
    let found = durability(&format!("[broker]\nkind = \"rabbitmq-stream\"\naddress = \"{address}\""));
    assert_eq!((found.level, found.copies), (DurabilityLevel::PageCache, Some(1)));
}
