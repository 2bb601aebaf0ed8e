//! Which of librdkafka's properties only producers have.

/// In the order of librdkafka's table of its properties (`CONFIGURATION.md`, column C/P).
const PRODUCER_ONLY: [&str; 32] = [
    "transactional.id",
    "transaction.timeout.ms",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.ms",
    "linger.ms",
    "message.send.max.retries",
    "retries",
    "queue.buffering.backpressure.threshold",
    "compression.codec",
    "compression.type",
    "batch.num.messages",
    "batch.size",
    "delivery.report.only.error",
    "dr_cb",
    "dr_msg_cb",
    "sticky.partitioning.linger.ms",
    "request.required.acks",
    "acks",
    "request.timeout.ms",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "queuing.strategy",
    "produce.offset.report",
    "partitioner",
    "partitioner_cb",
    "msg_order_cmp",
    "compression.codec",
    "compression.type",
    "compression.level",
];

/// Whether librdkafka's other clients ignore the property.
pub fn is_producer_only(key: &str) -> bool {
    PRODUCER_ONLY.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::native::property_table;

    #[test]
    fn the_list_is_that_of_the_linked_librdkafka() {
        let table = property_table();
        let of_producers = table.lines().filter_map(|line| {
            let mut columns = line.split('|').map(str::trim);
            let (key, side) = (columns.next()?, columns.next()?);
            (side == "P").then_some(key)
        });
        assert_eq!(of_producers.collect::<Vec<_>>(), PRODUCER_ONLY);
        assert!(table.lines().any(|line| line.starts_with("fetch.min.bytes")), "{table}");
    }
}
