//! The cost of a pipeline per message: the copy into a batch, and the parsing of its fields.

use std::hint::black_box;
use std::time::Duration;

use brokermark::pipeline::{Batch, Parser, Row};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const MESSAGES: u64 = 3000;

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(MESSAGES));
    let payloads: Vec<String> = (0..MESSAGES)
        .map(|index| {
            let value = index as f64 / 30.1;
            format!(r#"{{"timestamp": 1700000000.123456, "device_id": "dev-{}", "value": {value}}}"#, index % 10)
        })
        .collect();
    let cases: [(&str, &[&str], Option<i64>); 3] = [
        ("nothing but the check", &[], Some(0)),
        ("timestamp", &[], None),
        ("timestamp, device_id, value", &["device_id", "value"], None),
    ];
    for (name, needed, intended_ns) in cases {
        let needed = needed.iter().map(|name| (*name).to_owned()).collect();
        let mut parser = Parser::new(needed, Some("timestamp".to_owned()));
        let mut batch = Batch::default();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                batch.clear();
                for (offset, payload) in payloads.iter().enumerate() {
                    batch.push(payload.as_bytes(), |range| {
                        Row::new(0, offset as u64, range, intended_ns, (true, true), 0)
                    });
                }
                parser.parse(&mut batch, 0, |_, _| {});
                black_box(batch.rows.len());
            })
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = parse
}
criterion_main!(benches);
