//! Kafka's client on the embedded cluster: what needs no server of its own.

use crate::harness::{assert_acknowledged, record_of};

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
