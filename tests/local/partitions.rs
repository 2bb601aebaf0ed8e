//! Figures of single partitions.

use brokermark::record::{PartitionFigures, Partitions};

use crate::harness::record_of;

fn acknowledged(partitions: &Partitions) -> Vec<(Option<u32>, u64)> {
    partitions.listed.iter().map(|of| (of.partition, of.acknowledged)).collect()
}

/// A producer of the null broker without keys writes to the partition of its own number.
#[test]
fn record_shows_uneven_and_empty_partitions() {
    let tables = "broker.kind = \"null\"\nload.rate = \"2k/s\"\nproducers.count = 3\nrun.messages = 3_000\n";
    let record = record_of(&format!("{tables}topology.partitions = 2"));
    let found = record.partitions.as_ref().unwrap();
    assert_eq!((acknowledged(found), found.unknown), (vec![(Some(0), 2_000), (Some(1), 1_000)], 0));
    assert!(found.differ());
    let is_known = |of: &PartitionFigures| of.p50_ns.is_some() && of.topic == record.topics[0];
    assert!(found.listed.iter().all(is_known), "{found:?}");
    let record = record_of(&format!("{tables}topology.partitions = 4"));
    let found = record.partitions.unwrap();
    assert_eq!((found.partitions, acknowledged(&found)[3]), (4, (Some(3), 0)));
    let in_turn = format!("{tables}topology.partitions = 2\nproducers.partitioning = \"round-robin\"");
    let found = record_of(&in_turn).partitions.unwrap();
    assert_eq!(acknowledged(&found), [(Some(0), 1_500), (Some(1), 1_500)], "messages have partitions of their own");
    assert_eq!(record_of(tables).partitions, None, "there is one partition only");
}

#[test]
fn partition_latency_excludes_the_warm_up() {
    let record = record_of(
        "broker.kind = \"null\"
        broker.null.service_time = \"50ms\"
        load.rate = \"500/s\"
        topology.partitions = 2
        producers.count = 2
        [run]
        warm_up = \"300ms\"
        duration = \"1s\"",
    );
    let found = record.partitions.unwrap();
    assert_eq!(acknowledged(&found), [(Some(0), 250), (Some(1), 250)]);
    assert!(found.listed.iter().all(|of| of.p50_ns.unwrap() >= 49_000_000 && of.p99_ns.is_none()), "{found:?}");
}

#[test]
#[cfg(feature = "kafka")]
fn librdkafka_tells_the_partition_of_each_message() {
    let record = record_of(
        "broker = { kind = \"kafka\", address = \"embedded\" }
        topology.partitions = 4
        [producers]
        count = 3
        keys = { kind = \"round-robin\", distinct = 50 }
        [run]
        messages = 900",
    );
    let found = record.partitions.unwrap();
    let numbers: Vec<Option<u32>> = found.listed.iter().map(|of| of.partition).collect();
    assert_eq!(numbers, [0, 1, 2, 3].map(Some));
    let sum: u64 = found.listed.iter().map(|of| of.acknowledged).sum();
    assert_eq!((sum, found.unknown), (900, 0));
    assert!(found.acknowledged.smallest > 0, "fifty keys go to four partitions: {found:?}");
}
