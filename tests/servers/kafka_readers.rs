//! What `client = "native"` writes to a real Kafka is read by Kafka's own consumer and by librdkafka, compression by compression.

#![cfg(feature = "kafka")]

use std::path::Path;
use std::process::Command;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::harness::kafka::{address, remove_topic};
use crate::harness::server::variable;
use crate::harness::{Bench, PATIENCE, Running};

/// Of each compression.
const MESSAGES: u64 = 200;

/// The time, place, headers, key and value of each message, as Kafka's console consumer prints them.
fn by_kafkas_own_consumer(topic: &str, messages: usize) -> Vec<String> {
    let libraries = Path::new(&variable("BROKERMARK_KAFKA_LIBS")).join("*");
    let mut command = Command::new("java");
    command.arg("-cp").arg(libraries).arg("org.apache.kafka.tools.consumer.ConsoleConsumer");
    command.args(["--bootstrap-server", &address(), "--topic", topic, "--from-beginning"]);
    command.args(["--max-messages", &messages.to_string(), "--timeout-ms", "60000"]);
    for printed in ["timestamp", "partition", "offset", "headers", "key"] {
        command.args(["--property", &format!("print.{printed}=true")]);
    }
    command.args(["--property", "null.literal=(null)"]);
    let read = Running::start(&mut command).finish(PATIENCE);
    read.stdout.lines().map(str::to_owned).collect()
}

/// The same by librdkafka, which checks the checksums.
fn by_librdkafka(topic: &str, partitions: i32, messages: usize) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address()).set("group.id", "reader").set("check.crcs", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or(b"(null)").to_vec()).unwrap();
    let read = |_| {
        let message = consumer.poll(PATIENCE).unwrap().unwrap();
        let headers = message.headers().unwrap().iter().map(|header| format!("{}:{}", header.key, text(header.value)));
        let (time, headers) = (message.timestamp().to_millis().unwrap(), headers.collect::<Vec<_>>().join(","));
        let place = format!("Partition:{}\tOffset:{}", message.partition(), message.offset());
        format!("CreateTime:{time}\t{place}\t{headers}\t{}\t{}", text(message.key()), text(message.payload()))
    };
    (0..messages).map(read).collect()
}

#[test]
fn real_kafka_native_messages_are_read_by_kafkas_own_consumer_and_by_librdkafka_however_compressed() {
    let topic = format!("readers-{}", std::process::id());
    let before_ms = jiff::Timestamp::now().as_millisecond();
    let records = Bench::new(&format!(
        r#"
        broker = {{ kind = "kafka", client = "native", address = "{}" }}
        [topology]
        name = "{topic}"
        partitions = 2
        keep = true
        [producers]
        batch = 7
        keys = {{ kind = "random", distinct = 50 }}
        headers = {{ tenant = "a", empty = "" }}
        [payload]
        kind = "template"
        text = "row-${{counter:6}}-of-a-text-that-can-be-compressed"
        tombstones = 0.1
        [run]
        messages = {MESSAGES}
        warm_up = "0s"
        [sweep.over]
        "broker.kafka.compression" = ["none", "gzip", "snappy", "lz4", "zstd"]
        "#,
        address()
    ))
    .run(&[])
    .expect(0)
    .records();
    assert!(records.iter().all(|record| record.counts.acknowledged == MESSAGES), "{records:?}");
    let messages = 5 * MESSAGES as usize;
    let (mut ours, mut theirs) = (by_librdkafka(&topic, 2, messages), by_kafkas_own_consumer(&topic, messages));
    remove_topic(&address(), &topic);
    ours.sort();
    theirs.sort();
    assert_eq!(theirs, ours);
    let tombstones = ours.iter().filter(|line| line.ends_with("\t(null)")).count();
    assert!((messages / 20..messages / 5).contains(&tombstones), "{tombstones}");
    for line in &ours {
        let time: i64 = line["CreateTime:".len()..].split('\t').next().unwrap().parse().unwrap();
        assert!((before_ms..=jiff::Timestamp::now().as_millisecond()).contains(&time), "{line}");
        assert!(line.contains("\ttenant:a,empty:\t"), "{line}");
        assert!(line.ends_with("\t(null)") || line.contains("\trow-000"), "{line}");
    }
}
