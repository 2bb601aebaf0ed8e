//! What AMQP 1.0 costs: the dictionary of RbFly's performance report, and the body of a stream message.

use std::hint::black_box;

use brokermark::broker::rabbitmq_stream::amqp::{Body, Message, SectionKind, Sections, Value};
use criterion::{Criterion, criterion_group, criterion_main};

/// `{'large-int': 2 ** 31 - 1, 'small-list': [1, 2, 3], 'bin-string': b'abc'}`
fn dictionary() -> Message<'static> {
    Message::new(Body::Value(Value::Map(vec![
        (Value::String("large-int"), Value::Int(i32::MAX)),
        (Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
        (Value::String("bin-string"), Value::Binary(b"abc")),
    ])))
}

fn codec(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("amqp, dictionary");
    let mut out = Vec::new();
    group.bench_function("encode, made anew each time", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(dictionary()).encode(&mut out).map(|()| out.len())
        })
    });
    let message = dictionary();
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(&message).encode(&mut out).map(|()| out.len())
        })
    });
    let mut bytes = Vec::new();
    if message.encode(&mut bytes).is_err() {
        return;
    }
    group.bench_function("decode", |bencher| bencher.iter(|| Message::decode(black_box(&bytes)).is_ok()));
    group.finish();

    let mut group = criterion.benchmark_group("amqp, body of 10 bytes");
    let body = b"\0Su\xa0\x0a0000001357";
    group.bench_function("find the data section", |bencher| {
        bencher.iter(|| {
            let mut sections = Sections::new(black_box(body)).flatten();
            let data = sections.find(|section| section.kind == SectionKind::Data);
            data.and_then(|data| data.binary().ok()).map(<[u8]>::len)
        })
    });
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
