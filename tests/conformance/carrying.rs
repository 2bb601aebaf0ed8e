//! What messages carry: keys, payloads and headers, with the engine's own envelope in the payload or beside it.

use crate::Broker;
use crate::harness::{Bench, assert_delivered, records_of};

pub fn keys_of_every_kind(broker: &Broker) {
    let records = records_of(&broker.scenario(
        "topology.partitions = 3
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
        ]",
    ));
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_delivered(record, 600, 1);
    }
}

pub fn payloads_of_every_kind(broker: &Broker) {
    let bench = Bench::new(&broker.scenario(
        "producers.count = 2
        [consumers]
        [run]
        messages = 400
        [sweep.over]
        payload = [
            { kind = \"zeros\", size = \"64B\" },
            { kind = \"zeros\", size = \"31B\" },
            { kind = \"zeros\", size = 1 },
            { kind = \"random\", size = \"10KiB\", compressibility = 0.5 },
            { kind = \"lines\", file = \"lines.txt\" },
            { kind = \"template\", text = '{\"id\":${counter:10},\"at\":${timestamp},\"value\":${random:0..100}}' },
            { kind = \"template\", text = \"${choice:a|b}\" },
            { kind = \"vector\", dimension = 16 },
            { kind = \"log\" },
        ]",
    ));
    bench.write("lines.txt", "first\n\nsecond line\nthird\n");
    let records = bench.run(&[]).expect(0).records();
    assert_eq!(records.len(), 9);
    for record in &records {
        assert_delivered(record, 400, 1);
    }
    let bytes: Vec<u64> = records.iter().map(|record| record.counts.payload_bytes_acknowledged).collect();
    assert_eq!(bytes[..4], [64 * 400, 31 * 400, 400, 10 * 1024 * 400]);
    // The lines in turn, each producer from its own beginning.
    assert!((5 * 400..11 * 400).contains(&bytes[4]), "{}", bytes[4]);
    assert_eq!(bytes[6..8], [400, 16 * 4 * 400]);
}

pub fn sizes_of_every_distribution(broker: &Broker) {
    let records = records_of(&broker.scenario(
        "producers.count = 2
        [payload]
        kind = \"random\"
        [consumers]
        [run]
        messages = 500
        [sweep.over]
        \"payload.size\" = [
            { uniform = [\"1B\", \"100B\"] },
            { uniform = [\"40B\", \"1KiB\"] },
            { normal = { mean = \"500B\", deviation = \"100B\", max = \"700B\" } },
            { choices = [[\"50B\", 9], [\"5KiB\", 1]] },
        ]",
    ));
    assert_eq!(records.len(), 4);
    let means = [1..=100, 40..=1024, 400..=600, 50..=5120];
    for (record, means) in records.iter().zip(means) {
        assert_delivered(record, 500, 1);
        let mean = record.counts.payload_bytes_acknowledged / 500;
        assert!(means.contains(&mean) && mean != *means.start() && mean != *means.end(), "{:?}: {mean}", record.point);
    }
}

pub fn headers_beside_every_message(broker: &Broker) {
    let records = records_of(&broker.scenario(
        "[producers]
        headers = { trace = \"abc\", empty = \"\" }
        [payload]
        kind = \"zeros\"
        [consumers]
        [run]
        messages = 300
        [sweep.over]
        \"payload.size\" = [\"100B\", \"8B\"]",
    ));
    for record in &records {
        assert_delivered(record, 300, 1);
    }
}
