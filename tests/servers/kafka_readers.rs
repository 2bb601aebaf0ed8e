//! What `client = "native"` writes to a real Kafka is read by Kafka's own consumer, by librdkafka, kafka-python and franz-go, compression
//! by compression; and what kafka-python and franz-go write is read.

#![cfg(feature = "kafka")]

use std::path::Path;
use std::process::Command;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::harness::kafka::{address, make_topic, remove_topic};
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
        command.args(["--formatter-property", &format!("print.{printed}=true")]);
    }
    command.args(["--formatter-property", "null.literal=(null)"]);
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

/// Reads or writes so many messages by kafka-python, and returns the lines that it prints.
fn by_kafka_python(what: &str, topic: &str, messages: usize) -> Vec<String> {
    let mut command = Command::new(variable("BROKERMARK_KAFKA_PYTHON"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/kafka_python.py"));
    command.args([what, &address(), topic, &messages.to_string()]);
    let done = Running::start(&mut command).finish(PATIENCE).expect(0);
    done.stdout.lines().map(str::to_owned).collect()
}

/// The same by franz-go.
fn by_franz_go(what: &str, topic: &str, messages: usize) -> Vec<String> {
    let mut command = Command::new(Path::new(&variable("BROKERMARK_FRANZ_GO")).join("bin/franz-go"));
    command.args([what, &address(), topic, &messages.to_string()]);
    let done = Running::start(&mut command).finish(PATIENCE).expect(0);
    done.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn real_kafka_native_reads_kafka_python_all_compressions() {
    assert_read("kafka-python", by_kafka_python);
}

#[test]
fn real_kafka_native_reads_franz_go_all_compressions() {
    assert_read("franz-go", by_franz_go);
}

/// A pipeline reads what another client has written.
fn assert_read(client: &str, by_client: fn(&str, &str, usize) -> Vec<String>) {
    let topic = format!("{client}-{}", std::process::id());
    make_topic(&address(), &topic, 2);
    by_client("write", &topic, 200);
    let record = Bench::new(&format!(
        r#"
        broker = {{ kind = "kafka", client = "native", address = "{}" }}
        topology.name = "{topic}"
        [pipeline]
        parse = "json"
        group = "{topic}"
        producer_mode = "none"
        [run]
        duration = "60s"
        "#,
        address()
    ))
    .run(&[])
    .expect(0)
    .record();
    remove_topic(&address(), &topic);
    let pipeline = record.pipeline.as_ref().unwrap();
    // Of five compressions; what cannot be read is an error, and what is not JSON is counted.
    assert_eq!((pipeline.consumed, pipeline.consumer_lag_at_end), (1000, Some(0)), "{pipeline:#?}");
    assert_eq!((record.receive_errors.len(), pipeline.unparsable.len()), (0, 0), "{pipeline:#?}");
}

#[test]
fn real_kafka_native_is_read_by_others_all_compressions() {
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
    let mut ours = by_librdkafka(&topic, 2, messages);
    ours.sort();
    let others = [
        by_kafkas_own_consumer(&topic, messages),
        by_kafka_python("read", &topic, messages),
        by_franz_go("read", &topic, messages),
    ];
    for mut theirs in others {
        theirs.sort();
        assert_eq!(theirs, ours);
    }
    remove_topic(&address(), &topic);
    let tombstones = ours.iter().filter(|line| line.ends_with("\t(null)")).count();
    assert!((messages / 20..messages / 5).contains(&tombstones), "{tombstones}");
    for line in &ours {
        let time: i64 = line["CreateTime:".len()..].split('\t').next().unwrap().parse().unwrap();
        assert!((before_ms..=jiff::Timestamp::now().as_millisecond()).contains(&time), "{line}");
        assert!(line.contains("\ttenant:a,empty:\t"), "{line}");
        assert!(line.ends_with("\t(null)") || line.contains("\trow-000"), "{line}");
    }
}
