//! Keys, payloads and headers, with the trace header in the payload or beside it.

use std::ops::RangeInclusive;

use super::Broker;
use crate::harness::{Bench, assert_delivered, record_of, records_of};

pub fn keys_of_every_kind(broker: &Broker) {
    let tables = "topology.partitions = 3
        producers.count = 2
        [consumers]
        [run]
        messages = 600
        [sweep.over]
        \"producers.keys\" = [
            \"none\",
            { kind = \"round-robin\", distinct = 10 },
            { kind = \"random\", distinct = 10 },
            { kind = \"zipf\", distinct = 10, exponent = 1.1 },
        ]";
    if !broker.can().keys {
        return broker.refuses(tables, "its messages have no keys");
    }
    let records = records_of(&broker.scenario(tables));
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_delivered(record, 600, 1);
    }
}

pub fn payloads_of_every_kind(broker: &Broker) {
    let exactly = |bytes: u64| 400 * bytes..=400 * bytes;
    let within = |least: u64, most: u64| 400 * least..=400 * most;
    carries(
        broker,
        "payload",
        400,
        &[
            (true, "{ kind = \"zeros\", size = \"64B\" }", exactly(64)),
            (false, "{ kind = \"zeros\", size = \"31B\" }", exactly(31)),
            (false, "{ kind = \"zeros\", size = 1 }", exactly(1)),
            (true, "{ kind = \"random\", size = \"10KiB\", compressibility = 0.5 }", exactly(10 * 1024)),
            // The lines in turn, each producer from its own beginning.
            (false, "{ kind = \"lines\", file = \"lines.txt\" }", within(5, 10)),
            (
                false,
                "{ kind = \"template\", text = '{\"id\":${counter:10},\"at\":${timestamp},\"value\":${random:0..100}}' }",
                within(40, 70),
            ),
            (false, "{ kind = \"template\", text = \"${choice:a|b}\" }", exactly(1)),
            (true, "{ kind = \"vector\", dimension = 16 }", exactly(16 * 4)),
            (false, "{ kind = \"log\" }", within(20, 1000)),
        ],
    );
}

pub fn sizes_of_every_distribution(broker: &Broker) {
    // Every one is drawn from its whole range, so that no mean is at its edge.
    let means = |least: u64, most: u64| 500 * (least + 1)..=500 * most - 1;
    carries(
        broker,
        "payload.size",
        500,
        &[
            (false, "{ uniform = [\"1B\", \"100B\"] }", means(1, 100)),
            (true, "{ uniform = [\"40B\", \"1KiB\"] }", means(40, 1024)),
            (
                // Cut off at 1 byte only.
                false,
                "{ normal = { mean = \"500B\", deviation = \"100B\", max = \"700B\" } }",
                means(400, 600),
            ),
            (true, "{ choices = [[\"50B\", 9], [\"5KiB\", 1]] }", means(50, 5120)),
        ],
    );
}

/// Asserts that `messages` with each value of `key` arrive, and that together they had so many bytes. The values that leave
/// no space for the trace header (the first of each is false) are refused by a broker whose messages have no headers.
fn carries(broker: &Broker, key: &str, messages: u64, values: &[(bool, &str, RangeInclusive<u64>)]) {
    let tables = |values: &[&str]| {
        let kind = if key == "payload.size" { "payload.kind = \"random\"\n" } else { "" };
        let values = values.join(", ");
        format!(
            "producers.count = 2\n{kind}[consumers]\n[run]\nmessages = {messages}\n[sweep.over]\n\"{key}\" = [{values}]"
        )
    };
    let headers = broker.can().headers;
    let (carried, refused): (Vec<_>, Vec<_>) = values.iter().partition(|(fits, ..)| headers || *fits);
    for (_, value, _) in refused {
        let bench = Bench::new(&broker.scenario(&tables(&[value])));
        bench.write("lines.txt", LINES);
        bench.run(&[]).expect(2).complains_of(&["has no headers"]);
    }
    let texts: Vec<&str> = carried.iter().map(|(_, value, _)| *value).collect();
    let bench = Bench::new(&broker.scenario(&tables(&texts)));
    bench.write("lines.txt", LINES);
    let records = bench.run(&[]).expect(0).records();
    assert_eq!(records.len(), carried.len());
    for (record, (_, value, bytes)) in records.iter().zip(carried) {
        assert_delivered(record, messages, 1);
        let found = record.counts.payload_bytes_acknowledged;
        assert!(bytes.contains(&found), "{value}: {found} is not within {bytes:?}");
    }
}

const LINES: &str = "first\n\nsecond line\nthird\n";

pub fn headers_beside_every_message(broker: &Broker) {
    let tables = "[producers]
        headers = { trace = \"abc\", empty = \"\" }
        [payload]
        kind = \"zeros\"
        [consumers]
        [run]
        messages = 300
        [sweep.over]
        \"payload.size\" = [\"100B\", \"8B\"]";
    if !broker.can().headers {
        return broker.refuses(tables, "its messages have no headers");
    }
    for record in &records_of(&broker.scenario(tables)) {
        assert_delivered(record, 300, 1);
    }
}

pub fn headers_of_their_own(broker: &Broker) {
    let tables = "[producers]
        count = 2
        headers = { trace = \"abc\", tenant = [\"a\", \"b\", \"c\"], region = [1, 2] }
        [payload]
        kind = \"zeros\"
        [consumers]
        [run]
        messages = 300";
    match (broker.can().headers, broker.can().own_headers) {
        (false, _) => broker.refuses(tables, "its messages have no headers"),
        (true, false) => broker.refuses(tables, "the same headers"),
        (true, true) => assert_delivered(&record_of(&broker.scenario(tables)), 300, 1),
    }
}

/// The verifier finds each of them by the header beside it.
pub fn messages_without_a_payload(broker: &Broker) {
    let tables = "producers.keys = { kind = \"random\", distinct = 100 }
        [payload]
        kind = \"random\"
        tombstones = 0.2
        [consumers]
        [run]
        messages = 1000
        [sweep.over]
        \"payload.size\" = [\"100B\", \"8B\"]";
    if !broker.can().null_payloads {
        return broker.refuses(tables, "its messages have no null payload");
    }
    for (record, size) in records_of(&broker.scenario(tables)).iter().zip([100, 8]) {
        assert_delivered(record, 1000, 1);
        // The same seed draws the same ones.
        let with_payload = record.counts.payload_bytes_acknowledged / size;
        assert!((740..=860).contains(&with_payload), "{with_payload}");
    }
}

pub fn a_partition_that_the_producer_chooses(broker: &Broker) {
    let tables = "topology.partitions = 3
        [producers]
        count = 2
        keys = { kind = \"random\", distinct = 100 }
        [consumers]
        [run]
        messages = 300
        [sweep.over]
        \"producers.partitioning\" = [\"own\", \"round-robin\"]";
    if !broker.can().own_partition {
        let tables = tables.replace("[consumers]\n", "").replace("keys = {", "# {");
        return broker.refuses(&tables, "brokermark cannot choose the partition of a message");
    }
    for record in &records_of(&broker.scenario(tables)) {
        assert_delivered(record, 300, 1);
    }
}
