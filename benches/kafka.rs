//! The cost of Kafka's record batches: of each record that is written into one, of compressing it, and of sealing it.

use std::hint::black_box;

use brokermark::broker::kafka_native::codec::batch::{Author, Batch, HEADER_BYTES, Headers, Memory, Record};
use brokermark::broker::kafka_native::codec::compression::{Compression, Compressor, PayloadChecksums};
use brokermark::load::{PayloadPlace, PayloadPool};
use brokermark::scenario::{Content, Payload, Size};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

/// Records of a full batch of 128 KiB with values of 100 bytes.
const RECORDS: u64 = 1_200;

/// Memory of a batch that had its outcome, as it is used again.
fn memory() -> Memory {
    let mut batch = Batch::in_memory_of(Memory::default());
    write(&mut batch, None, &[0; 100], None, &Headers::new(&[]));
    batch.into_memory()
}

/// Payloads of one size, all of them zeros.
fn payloads(size: usize) -> PayloadPool {
    let content = Content::Zeros { size: Size::Fixed(size) };
    PayloadPool::build(&Payload { content, pool: 1, seed: 1, tombstones: 0.0 }, 0).expect("they are small")
}

fn write(batch: &mut Batch, key: Option<&[u8]>, value: &[u8], shared: Option<PayloadPlace>, headers: &Headers) {
    for number in 0..RECORDS {
        let timestamp_ms = 1_790_000_000_000 + number as i64 / 240;
        batch.push(&Record { key, value: Some(value), shared, headers, trace_header: None, timestamp_ms });
    }
}

/// A name, the key, the bytes of the value, whether the batch refers to it, and the headers.
type Case<'a> = (&'a str, Option<&'a [u8]>, usize, bool, &'a Headers);

/// A batch of records that were sent within 5 milliseconds.
fn records(criterion: &mut Criterion) {
    let tenant = [("tenant".to_owned(), "orders".to_owned())];
    let (alone, with_header) = (Headers::new(&[]), Headers::new(&tenant));
    let cases: [Case<'_>; 6] = [
        ("value of 100 B", None, 100, false, &alone),
        ("value of 12 B", None, 12, false, &alone),
        ("value of 1 KiB", None, 1024, false, &alone),
        ("value of 1 KiB, referred to", None, 1024, true, &alone),
        ("key of 8 B, value of 100 B", Some(&[7; 8]), 100, false, &alone),
        ("value of 100 B, one header", None, 100, false, &with_header),
    ];
    let mut group = criterion.benchmark_group("kafka, record into its batch");
    group.throughput(Throughput::Elements(RECORDS));
    for (name, key, size, is_shared, headers) in cases {
        let payloads = payloads(size);
        let value = payloads.get(0);
        let shared = payloads.place(value).filter(|_| is_shared);
        let mut kept = Some(memory());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut batch = Batch::in_memory_of(kept.take().unwrap_or_default());
                write(&mut batch, black_box(key), black_box(value), shared, headers);
                kept = Some(batch.into_memory());
            })
        });
    }
    group.finish();
}

/// What the libraries need for the records of a batch.
fn compressing(criterion: &mut Criterion) {
    let mut batch = Batch::in_memory_of(memory());
    write(&mut batch, None, &[0; 100], None, &Headers::new(&[]));
    let mut group = criterion.benchmark_group("kafka, 1,200 records of 100 B are compressed");
    group.throughput(Throughput::Elements(RECORDS));
    for compression in [Compression::Lz4, Compression::Snappy, Compression::Zstd] {
        let mut compressor = Compressor::new(compression).expect("there is memory");
        let mut packed = Vec::new();
        group.bench_function(format!("{compression:?}").to_lowercase(), |bencher| {
            bencher.iter(|| {
                packed.clear();
                compressor.compress(black_box(&batch.own_bytes()[HEADER_BYTES..]), &mut packed)
            })
        });
    }
    group.finish();
}

fn sealing(criterion: &mut Criterion) {
    let headers = Headers::new(&[]);
    let mut group = criterion.benchmark_group("kafka, a batch is sealed");
    group.throughput(Throughput::Elements(RECORDS));
    for (name, size, is_shared) in [
        ("1,200 records of 100 B", 100, false),
        ("1,200 records of 1 KiB", 1024, false),
        ("1,200 records of 1 KiB, referred to", 1024, true),
    ] {
        let payloads = payloads(size);
        let checksums = PayloadChecksums::new(&payloads, 512);
        let value = payloads.get(0);
        let shared = payloads.place(value).filter(|_| is_shared);
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || {
                    let mut batch = Batch::in_memory_of(memory());
                    write(&mut batch, None, value, shared, &headers);
                    batch
                },
                |batch| {
                    batch.seal(0, Author::UNNAMED, &payloads, &checksums);
                    batch.len() - HEADER_BYTES
                },
                BatchSize::PerIteration,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, records, compressing, sealing);
criterion_main!(benches);
