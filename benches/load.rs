//! The cost of the load per message: a payload, its live fields, a key, an intended time.
//!
//! The sum of what a scenario uses bounds the rate one producer task can reach before its client costs anything.

use std::hint::black_box;
use std::time::Duration;

use brokermark::load::{KeySource, PayloadPool, SendSchedule};
use brokermark::scenario::template::Template;
use brokermark::scenario::{Content, Keys, Payload, Schedule, Size};
use criterion::{Criterion, criterion_group, criterion_main};

fn pool(content: Content, pool: usize) -> PayloadPool {
    PayloadPool::build(&Payload { content, pool, seed: 1, tombstones: 0.0 }, 32)
        .expect("the benchmark's payloads are well-formed")
}

fn payloads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("payload");
    for (name, count) in [("get, 1024 in the pool", 1024), ("get, 1000 in the pool", 1000)] {
        let content = Content::Random { size: Size::Fixed(100), compressibility: 0.0 };
        let pool = pool(content, count);
        let mut index = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                index += 1;
                black_box(pool.get(black_box(index)));
            })
        });
    }

    let text = r#"{"timestamp": ${timestamp}, "device_id": "dev-${random:1..11}", "value": ${random:0.0..100.0}}"#;
    let texts = [("render, timestamp", text), ("render, counter of 10 digits", "${counter:10}")];
    for (name, text) in texts {
        let template = Template::parse(text).expect("the benchmark's templates are well-formed");
        let pool = pool(Content::Template { template }, 1024);
        let mut scratch = Vec::new();
        let mut index = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                index += 1;
                scratch.clear();
                let live = pool.live(black_box(index)).expect("the template has live fields");
                black_box(live.render(&mut scratch, index, 1_700_000_000_123_456_789 + index));
            })
        });
    }
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("key");
    let distinct = 100_000;
    for (name, keys) in [
        ("round robin", Keys::RoundRobin { distinct }),
        ("random", Keys::Random { distinct }),
        ("zipf, exponent 1", Keys::Zipf { distinct, exponent: 1.0 }),
        ("zipf, exponent 1.2", Keys::Zipf { distinct, exponent: 1.2 }),
    ] {
        let mut source = KeySource::new(keys, 3, 8, 1);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                black_box(source.next_key());
            })
        });
    }
    group.finish();
}

fn times(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("send_schedule");
    let second = Duration::from_secs(1);
    for (name, schedule) in [
        ("constant", Schedule::Constant { rate: 1e6 }),
        ("ramp", Schedule::Ramp { from: 1e3, to: 1e6, over: 3600 * second }),
        ("steps, 16", Schedule::Steps((1..=16).map(|step| (1e5 * f64::from(step), second)).collect())),
        ("bursts", Schedule::Bursts { base: 1e5, burst: 1e6, every: 10 * second, length: second }),
        ("poisson", Schedule::Poisson { rate: 1e6, seed: 1 }),
    ] {
        let mut send_schedule = SendSchedule::new(&schedule, 3, 8);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                send_schedule.advance();
                black_box(send_schedule.peek());
            })
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = payloads, keys, times
}
criterion_main!(benches);
