//! Other clients read exactly the acknowledged messages.

use std::collections::BTreeSet;

use super::real;
use crate::harness::rabbitmq::{Read, Stranger, read_by_java, read_by_rbfly};
use crate::harness::{assert_acknowledged, record_of};

const MESSAGES: u64 = 1000;

/// Publishes to a stream of that name. Each message's payload is its number.
fn publish(name: &str, options: &str, producers: &str) {
    let scenario = format!(
        "{}[topology]\nname = \"{name}\"\nkeep = true\n[producers]\nbatch = 50\nin_flight = 200\n{producers}\n\
         [payload]\nkind = \"template\"\ntext = '${{counter:10}}'\n[run]\nmessages = {MESSAGES}\n",
        real(options)
    );
    assert_acknowledged(&record_of(&scenario), MESSAGES);
}

/// Asserts that a stream holds what was published to it, in order, and nothing else.
fn assert_read(read: &[Read], stream: &str) {
    let read: Vec<&Read> = read.iter().filter(|message| message.stream == stream).collect();
    for (number, message) in read.iter().enumerate() {
        assert_eq!(message.offset, number as u64, "{stream}");
        assert_eq!(String::from_utf8_lossy(&message.body), format!("{number:010}"), "{stream}");
    }
    assert_eq!(read.len() as u64, MESSAGES, "{stream}");
}

#[test]
fn real_java_client_and_rbfly_read_what_was_acknowledged() {
    let name = |what: &str| format!("read-{what}-{}", std::process::id());
    let compressions = ["none", "gzip", "snappy", "lz4", "zstd"];
    let sub_entries = compressions.map(|compression| {
        let stream = name(compression);
        publish(&stream, &format!("sub_entry = 20\ncompression = \"{compression}\""), "");
        stream
    });
    let (plain, binary) = (name("plain"), name("binary"));
    publish(&plain, "", "headers = { trace = \"abc\" }\nkeys = { kind = \"round-robin\", distinct = 9 }");
    publish(&binary, "body = \"binary\"", "");

    let all: Vec<&str> = sub_entries.iter().map(String::as_str).chain([plain.as_str()]).collect();
    let by_java = read_by_java("amqp", &all);
    all.iter().for_each(|stream| assert_read(&by_java, stream));
    assert_read(&read_by_java("binary", &[&binary]), &binary);
    let of_plain: Vec<&Read> = by_java.iter().filter(|message| message.stream == plain).collect();
    let keys: BTreeSet<_> = of_plain.iter().map(|message| message.id.clone().unwrap()).collect();
    assert_eq!(keys.len(), 9, "{keys:?}");
    assert!(of_plain.iter().all(|message| message.properties == ["trace=abc"]), "{:?}", of_plain[0]);

    // It knows no compression but none.
    let by_rbfly = read_by_rbfly("amqp", &[&plain]);
    assert_read(&by_rbfly, &plain);
    assert!(by_rbfly.iter().all(|message| message.properties == ["trace=abc"]), "{:?}", by_rbfly[0]);
    assert_read(&read_by_rbfly("binary", &[&binary]), &binary);

    let mut stranger = Stranger::arrive();
    all.iter().chain([&binary.as_str()]).for_each(|stream| stranger.delete_stream(stream));
}
