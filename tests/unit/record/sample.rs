//! A made-up record and its seconds, for tests: the same document that `tests/local/schema.rs` validates.

use super::{GroupRow, Phase, Record, SeriesRow};

/// A valid, completed trial of an open loop at 50,000 messages per second.
pub fn record() -> Record {
    serde_json::from_str(include_str!("../../data/record.json")).expect("the made-up record is one")
}

/// Its seconds: two of warm-up, ten measured, one of draining.
pub fn series() -> Vec<SeriesRow> {
    let wave = [0u64, 120, 60, 20, 80, 10, 150, 30, 90, 40];
    (0..13)
        .map(|second| {
            let (phase, full) = match second {
                0 | 1 => (Phase::WarmUp, true),
                12 => (Phase::Drain, false),
                _ => (Phase::Measure, true),
            };
            let acknowledged = if second == 12 { 400 } else { 50_000 - wave[second as usize % 10] };
            SeriesRow {
                point_index: 0,
                trial: 1,
                second,
                begin_ns: Some(second * 1_000_000_000),
                length_ns: 1_000_000_000,
                due: (second < 12).then_some(50_000),
                phase,
                full,
                attempted: if second == 12 { 0 } else { 50_000 },
                acknowledged,
                failed: 0,
                payload_bytes: acknowledged * 100,
                consumed: Some(acknowledged),
                groups: vec![GroupRow {
                    group: 0,
                    consumed: acknowledged,
                    consumer_lag: Some(40 + wave[(second as usize + 3) % 10] as i64),
                    end_to_end_p50_ns: Some(1_400_000),
                    end_to_end_p99_ns: Some(3_200_000),
                }],
                finished: None,
                consumer_lag: None,
                in_flight: 60,
                p50_ns: Some(1_250_000 + wave[second as usize % 10] * 1_000),
                p99_ns: Some(2_900_000 + wave[second as usize % 10] * 4_000),
                queue_messages: Some(40),
                cpu_cores: 0.31,
                memory_bytes: Some(20 << 20),
                broker_cpu_cores: None,
                broker_memory_bytes: None,
                faults: Vec::new(),
            }
        })
        .collect()
}
