//! Delivery to every receiver without loss, repetition, reordering or damage, for every shape of load.

use brokermark::record::Record;

use super::Broker;
use crate::harness::{assert_delivered, record_of, records_of};

pub fn what_is_acknowledged_arrives_once_and_in_order(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "topology.partitions = 3
        [producers]
        count = 4
        [payload]
        kind = \"random\"
        size = \"200B\"
        [consumers]
        [run]
        messages = 3000",
    ));
    assert_delivered(&record, 3000, 1);
    assert_eq!(record.counts.payload_bytes_acknowledged, 3000 * 200);
    let end_to_end = record.latency.end_to_end.as_ref().unwrap();
    assert_eq!(end_to_end.count, 3000);
    // A consumer cannot receive a message before it was sent.
    assert!(end_to_end.min_ns > 0);
}

pub fn topics_partitions_placements_and_connections(broker: &Broker) {
    let records = records_of(&broker.scenario(
        "[topology]
        topics = 3
        partitions = 2
        [producers]
        count = 6
        batch = 5
        [consumers]
        [run]
        messages = 1200
        [sweep.over]
        \"producers.placement\" = [\"blocks\", \"round-robin\"]
        \"broker.connections\" = [1, 3]",
    ));
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_delivered(record, 1200, 1);
        assert_partitions_add_up(broker, record, 1200);
    }
}

/// Of three topics with two partitions each; where the client does not know a message's partition, of the topics. A producer may have sent
/// nothing, for the others were faster.
fn assert_partitions_add_up(broker: &Broker, record: &Record, messages: u64) {
    let partitions = record.partitions.as_ref().expect("there is more than one");
    let named = partitions.listed.iter().filter(|of| of.partition.is_some()).count();
    let (most, expected) = if broker.tells_partitions() { (6, partitions.listed.len()) } else { (3, 0) };
    assert_eq!((partitions.partitions as usize, named), (partitions.listed.len(), expected), "{partitions:?}");
    assert!((2..=most).contains(&partitions.listed.len()), "{partitions:?}");
    let acknowledged: u64 = partitions.listed.iter().map(|of| of.acknowledged).sum();
    assert_eq!((acknowledged, partitions.unknown), (messages, 0), "{partitions:?}");
    assert!(partitions.listed.iter().all(|of| of.p50_ns.is_some() == (of.acknowledged > 0)), "{partitions:?}");
}

pub fn every_group_receives_everything_whatever_its_members(broker: &Broker) {
    let members = if broker.shares_groups() { [1, 3, 2] } else { [1; 3] };
    let records = records_of(&broker.scenario(&format!(
        "topology.partitions = 4
        producers.count = 2
        [consumers]
        [run]
        messages = 800
        [sweep]
        combine = \"zipped\"
        [sweep.over]
        \"consumers.groups\" = [2, 1, 3]
        \"consumers.members\" = {members:?}",
    )));
    assert_eq!(records.len(), 3);
    for (record, groups) in records.iter().zip([2, 1, 3]) {
        assert_delivered(record, 800, groups);
    }
}

pub fn windows_of_messages_and_of_batches(broker: &Broker) {
    let records = records_of(&broker.scenario(
        "[producers]
        count = 2
        [consumers]
        [run]
        messages = 505
        [sweep]
        combine = \"zipped\"
        [sweep.over]
        \"producers.in_flight\" = [1, 25, 25, 1000]
        \"producers.batch\" = [1, 10, 10, 100]
        \"producers.confirm\" = [\"message\", \"message\", \"batch\", \"batch\"]",
    ));
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_delivered(record, 505, 1);
    }
}
