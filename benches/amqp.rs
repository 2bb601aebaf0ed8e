//! The cost of AMQP 1.0: the dictionary of RbFly's performance report beside another Rust codec, and the body of a stream
//! message.

use std::hint::black_box;

use brokermark::broker::rabbitmq_stream::codec::amqp::{Value, decode, encode};
use brokermark::broker::rabbitmq_stream::{Body, body};
use criterion::{Criterion, criterion_group, criterion_main};
use serde::Serialize;
use serde_amqp::Value as PeerValue;
use serde_amqp::primitives::OrderedMap;

/// `{'large-int': 2 ** 31 - 1, 'small-list': [1, 2, 3], 'bin-string': b'abc'}`
fn dictionary() -> Value<'static> {
    Value::Map(vec![
        (Value::String("large-int"), Value::Int(i32::MAX)),
        (Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
        (Value::String("bin-string"), Value::Binary(b"abc")),
    ])
}

fn peers_dictionary() -> PeerValue {
    let text = |text: &str| PeerValue::String(text.to_owned());
    let mut map = OrderedMap::new();
    map.insert(text("large-int"), PeerValue::Int(i32::MAX));
    map.insert(text("small-list"), PeerValue::List([1, 2, 3].map(PeerValue::Int).to_vec()));
    map.insert(text("bin-string"), PeerValue::Binary(b"abc".to_vec().into()));
    PeerValue::Map(map)
}

/// Both write into a buffer that is kept, and both read a value of whatever type the bytes have.
fn dictionaries(criterion: &mut Criterion) {
    let (ours, theirs) = (dictionary(), peers_dictionary());
    let mut bytes = Vec::new();
    let mut out = Vec::new();
    // What one writes, the other reads: they are at the same work.
    encode(&ours, &mut bytes).expect("it is small");
    assert!(serde_amqp::from_slice(&bytes).ok() == Some(theirs.clone()), "the codecs do not agree: {bytes:?}");
    let mut group = criterion.benchmark_group("amqp, dictionary");
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            encode(black_box(&ours), &mut out).map(|()| out.len())
        })
    });
    group.bench_function("encode, serde_amqp", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(&theirs).serialize(&mut serde_amqp::ser::Serializer::new(&mut out)).map(|()| out.len())
        })
    });
    group.bench_function("encode, made anew each time", |bencher| {
        bencher.iter(|| {
            out.clear();
            encode(&black_box(dictionary()), &mut out).map(|()| out.len())
        })
    });
    group.bench_function("encode, made anew each time, serde_amqp", |bencher| {
        bencher.iter(|| {
            out.clear();
            let made = black_box(peers_dictionary());
            made.serialize(&mut serde_amqp::ser::Serializer::new(&mut out)).map(|()| out.len())
        })
    });
    group.bench_function("decode", |bencher| bencher.iter(|| decode(black_box(&bytes)).is_ok()));
    group.bench_function("decode, serde_amqp", |bencher| {
        bencher.iter(|| serde_amqp::from_slice::<PeerValue>(black_box(&bytes)).is_ok())
    });
    group.finish();
}

fn messages(criterion: &mut Criterion) {
    let message = b"\0Su\xa0\x0a0000001357";
    criterion.bench_function("amqp, message/find 10 bytes of data", |bencher| {
        bencher.iter(|| body::open(Body::Amqp, black_box(message)).payload.len())
    });
}

criterion_group!(benches, dictionaries, messages);
criterion_main!(benches);
