//! A trial whose partitions and consumers differ.

use serde_json::{Value, json};

/// As many as a record lists at most.
const LISTED: u64 = 32;

/// `record` with many partitions and consumers, these of two groups, on several topics.
pub fn record(mut record: Value) -> Value {
    let consumer = |number: u64| {
        let slow = if number == 5 { 20 } else { 1 };
        json!({
            "group": number % 2, "topic": format!("orders-of-the-eastern-region-{}", number / 8), "member": number % 8 / 2,
            "consumed": 10_000 + number * 700, "consumed_per_second": 1_000 + number * 70,
            "end_to_end_p50_ns": (1_000_000 + number * 9_000) * slow,
            // One had too few messages for it.
            "end_to_end_p99_ns": (number != 8).then_some((4_000_000 + number * 30_000) * slow),
        })
    };
    let group = |group: u64| {
        json!({
            "group": group, "consumers": 40, "consumed": {"smallest": 10_000, "largest": 31_700},
            "end_to_end_p50_ns": {"smallest": 1_000_000, "largest": 20_900_000}, "end_to_end_p99_ns": null,
        })
    };
    let partition = |number: u64| {
        let slow = if number / 4 == 3 { 9 } else { 1 };
        json!({
            "topic": format!("orders-of-the-eastern-region-{}", number / 8), "partition": number % 8,
            // Nothing was written to one.
            "acknowledged": if number == 9 { 0 } else { 40_000 - number * 1_100 },
            "p50_ns": (number != 9).then_some((700_000 + number * 3_000) * slow),
            "p99_ns": (number != 9).then_some((2_000_000 + number * 11_000) * slow),
        })
    };
    record["partitions"] = json!({
        "partitions": 96, "unknown": 17, "acknowledged": {"smallest": 0, "largest": 40_000},
        "p50_ns": {"smallest": 700_000, "largest": 6_600_000}, "p99_ns": {"smallest": 2_000_000, "largest": 19_500_000},
        "listed": (0..LISTED).map(partition).collect::<Vec<_>>(),
    });
    record["consumers"] = json!({
        "groups": [group(0), group(1)],
        "listed": (0..LISTED).map(consumer).collect::<Vec<_>>(),
    });
    record
}
