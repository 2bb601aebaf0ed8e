//! The cost of recording per message: the send tag, the outcome, the trace header, the verification.
//!
//! All of it runs once per message on the threads that carry the load, so the sum is brokermark's own part of the
//! processor time per message in a record.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use brokermark::broker::{NoDetails, Received};
use brokermark::measure::{
    Acks, Arrivals, Budget, Clock, Distribution, Interval, PARTITION_BYTES, PartitionNames, Partitions, SendTag,
    SubscriptionIndex, TRACE_HEADER_BYTES, TraceHeader, Verification, Window,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Outcomes that become known together: about what one produce request of small messages carries.
const BATCH: u64 = 1000;

fn send_tags(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("send_tag");
    group.bench_function("clock, now", |bencher| {
        let clock = Clock::start();
        bencher.iter(|| black_box(clock.now_ns()))
    });
    for (name, delay_ns) in [("encode, delay 50 µs", 50_000), ("encode, delay 50 ms", 50_000_000)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                black_box(SendTag::new(black_box(3), black_box(9), black_box(7_000_000_000), black_box(delay_ns), true))
            })
        });
    }
    let tag = SendTag::new(3, 9, 7_000_000_000, 50_000_000, true);
    group.bench_function("decode, all fields", |bencher| {
        bencher.iter(|| {
            let tag = SendTag::from_word(black_box(tag.to_word()), 9, 7_100_000_000);
            black_box((tag.producer_index(), tag.measured(), tag.schedule_delay_ns(), tag.service_ns(7_100_000_000)))
        })
    });
    group.finish();
}

fn outcomes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("outcome, of batches of 1000");
    group.throughput(Throughput::Elements(BATCH));
    for (name, open_loop, measured, producers) in [
        ("closed loop, one producer", false, true, 1),
        ("closed loop, 16 producers in turn", false, true, 16),
        ("open loop, one producer", true, true, 1),
        ("warm-up", true, false, 1),
    ] {
        let clock = Clock::start();
        let acks = Acks::new(clock, producers, open_loop);
        let recorder = acks.recorder();
        let sent_ns = clock.now_ns();
        let tags: Vec<SendTag> = (0..BATCH)
            .map(|index| SendTag::new(index as usize % producers, index, sent_ns + index * 1000, index * 500, measured))
            .collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut batch = recorder.batch();
                for tag in &tags {
                    batch.acknowledged(black_box(*tag), 100);
                }
            })
        });
    }
    for (name, together) in
        [("one producer, 8 partitions, 100 messages of each", 100), ("one producer, 8 partitions in turn", 1)]
    {
        let clock = Clock::start();
        let names = PartitionNames::new(std::iter::once(Arc::from("orders")));
        let recorder = Acks::verified(clock, 1, false, None, Some(names)).recorder();
        let partitions: Vec<_> = (0..8).map(|partition| recorder.partition("orders", Some(partition))).collect();
        let sent_ns = clock.now_ns();
        let tags: Vec<SendTag> =
            (0..BATCH).map(|index| SendTag::new(0, index, sent_ns + index * 1000, 0, true)).collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut batch = recorder.batch();
                for (index, tag) in tags.iter().enumerate() {
                    batch.to_partition(partitions[index / together % partitions.len()]);
                    batch.acknowledged(black_box(*tag), 100);
                }
            })
        });
    }
    for (name, producers) in [("verified, one producer", 1), ("verified, 16 producers in turn", 16)] {
        let clock = Clock::start();
        let verification = Arc::new(Verification::new(producers, 1));
        let recorder = Acks::verified(clock, producers, false, Some(verification), None).recorder();
        let sent_ns = clock.now_ns();
        let mut first = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut batch = recorder.batch();
                for index in 0..BATCH {
                    let (producer_index, sequence) = (index as usize % producers, first + index / producers as u64);
                    batch.acknowledged(black_box(SendTag::new(producer_index, sequence, sent_ns, 0, true)), 100);
                }
                first += BATCH / producers as u64;
            })
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("outcomes of a second");
    group.bench_function("collect 8 recorders", |bencher| {
        let clock = Clock::start();
        let acks = Acks::new(clock, 8, true);
        let recorders: Vec<_> = (0..8).map(|_| acks.recorder()).collect();
        let (mut interval, mut spare) = (Interval::default(), Interval::default());
        bencher.iter(|| {
            for (producer_index, recorder) in recorders.iter().enumerate() {
                recorder.batch().acknowledged(SendTag::new(producer_index, 0, clock.now_ns(), 1000, true), 100);
            }
            acks.collect(&mut interval, &mut spare);
            interval.clear();
        })
    });
    group.finish();
}

fn histograms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("histogram");
    let mut distribution = Distribution::new();
    let mut value = 1_000_000u64;
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            distribution.record(black_box(value >> 36));
        })
    });
    group.finish();
}

fn windows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window");
    let window = Window::default();
    group.bench_function("submit and resolve, without a waiter", |bencher| {
        bencher.iter(|| {
            window.submit(black_box(1));
            window.resolve(black_box(1));
        })
    });
    group.finish();
}

fn trace_headers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace_header");
    let header = TraceHeader { run_tag: 1, producer: 3, measured: true, sequence: 123_456, intended_ns: 7_000_000_000 };
    for size in [100, 1024] {
        let mut message = vec![7; size];
        // The checksum of a pooled payload is made once, before the load begins.
        let checksum = crc32fast::hash(&message[TRACE_HEADER_BYTES..]);
        group.bench_function(format!("seal, {size} B"), |bencher| {
            bencher.iter(|| header.seal(black_box(&mut message), black_box(checksum)))
        });
        group.bench_function(format!("open, {size} B"), |bencher| {
            bencher.iter(|| {
                black_box(TraceHeader::open(black_box(&message), black_box(&message[TRACE_HEADER_BYTES..]), 1))
            })
        });
    }
    group.finish();
}

fn arrivals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verification");
    let verification = Verification::new(16, 1);
    let mut sequence = 0;
    group.bench_function("mark, in order", |bencher| {
        bencher.iter(|| {
            black_box(verification.arrive(0, black_box(3), sequence));
            sequence += 1;
        })
    });
    let verification = Verification::new(16, 1);
    let mut index = 0u64;
    group.bench_function("mark, 8 partitions of 500 in turn", |bencher| {
        bencher.iter(|| {
            // Within each stretch of 4000 the partitions' batches arrive one after the other, each with every 8th message.
            let (stretch, within) = (index / 4000, index % 4000);
            black_box(verification.arrive(0, 3, stretch * 4000 + within % 500 * 8 + within / 500));
            index += 1;
        })
    });
    let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
    let mut next = 0;
    group.bench_function("order of a partition", |bencher| {
        bencher.iter(|| {
            next += 1;
            black_box(partitions.arrived(black_box(5), next, black_box(3), next))
        })
    });
    group.finish();

    let mut group = criterion.benchmark_group("arrival, of batches of 1000");
    group.throughput(Throughput::Elements(BATCH));
    let clock = Clock::start();
    for (name, verify) in [("100 B, end to end", false), ("100 B, end to end and verified", true)] {
        let verification = verify.then(|| Arc::new(Verification::new(1, 1)));
        let mut recorder =
            Arrivals::new(clock, 1, 1, verification).recorder(SubscriptionIndex { group: 0, topic: 0 }, 0);
        let mut message = vec![7; 100];
        let checksum = crc32fast::hash(&message[TRACE_HEADER_BYTES..]);
        let mut sequence = 0;
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|batches| {
                let mut spent = Duration::ZERO;
                for _ in 0..batches {
                    let messages: Vec<Vec<u8>> = (0..BATCH)
                        .map(|_| {
                            sequence += 1;
                            TraceHeader { run_tag: 1, producer: 0, measured: true, sequence, intended_ns: 0 }
                                .seal(&mut message, checksum);
                            message.clone()
                        })
                        .collect();
                    let begin = std::time::Instant::now();
                    let mut batch = recorder.batch();
                    for payload in &messages {
                        batch.received(Received {
                            payload,
                            trace_header: None,
                            partition: 0,
                            offset: 0,
                            redelivered: false,
                            details: &NoDetails,
                        });
                    }
                    drop(batch);
                    spent += begin.elapsed();
                }
                spent
            })
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = send_tags, outcomes, histograms, windows, trace_headers, arrivals
}
criterion_main!(benches);
