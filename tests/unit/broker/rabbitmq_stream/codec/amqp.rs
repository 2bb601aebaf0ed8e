use proptest::prelude::*;

use super::*;
use crate::broker::rabbitmq_stream::Body;
use crate::broker::rabbitmq_stream::body::open;

#[test]
fn values_are_encoded_in_their_smallest_form() {
    for (value, expected) in [
        (Value::Null, &[0x40][..]),
        (Value::Int(-128), &[0x54, 0x80]),
        (Value::Int(128), &[0x71, 0, 0, 0, 128]),
        (Value::String("a"), &[0xa1, 1, b'a']),
        (Value::List(Vec::new()), &[0x45]),
        (Value::List(vec![Value::Null]), &[0xc0, 2, 1, 0x40]),
        (Value::Map(Vec::new()), &[0xc1, 1, 0]),
    ] {
        let mut out = Vec::new();
        encode(&value, &mut out).unwrap();
        assert_eq!(out, expected);
    }
}

/// RbFly 0.10 writes the dictionary of its benchmark so, with wide sizes and numbers.
#[test]
fn dictionary_of_rbfly_is_read() {
    let theirs =
        b"\xd1\0\0\0\x49\0\0\0\x06\xa1\x09large-int\x71\x7f\xff\xff\xff\xa1\x0asmall-list\xd0\0\0\0\x13\0\0\0\x03\
                       \x71\0\0\0\x01\x71\0\0\0\x02\x71\0\0\0\x03\xa1\x0abin-string\xa0\x03abc";
    let dictionary = Value::Map(vec![
        (Value::String("large-int"), Value::Int(i32::MAX)),
        (Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
        (Value::String("bin-string"), Value::Binary(b"abc")),
    ]);
    assert_eq!(decode(theirs), Ok(dictionary));
}

#[test]
fn elements_that_bytes_cannot_contain_are_refused() {
    assert_eq!(decode(&[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]), Err(DecodeError::TooManyElements));
    // Each list claims as many elements as there are bytes: memory would grow with the depth.
    let mut lists = vec![format::NULL; 1000];
    for _ in 0..60 {
        let head = [(lists.len() as u32 + 4).to_be_bytes(), (lists.len() as u32).to_be_bytes()].concat();
        lists.splice(0..0, [&[format::LIST_32], &head[..]].concat());
    }
    assert_eq!(decode(&lists), Err(DecodeError::TooManyElements));
}

#[test]
fn values_nested_too_deeply_are_refused() {
    let mut lists = vec![format::NULL];
    for _ in 0..=MAX_DEPTH {
        lists.splice(
            0..0,
            [[format::LIST_32].as_slice(), &(lists.len() as u32 + 4).to_be_bytes(), &[0, 0, 0, 1]].concat(),
        );
    }
    assert_eq!(decode(&lists), Err(DecodeError::TooDeep));
}

/// The inputs of the fuzz target of the same name, and what it asserts of them. A published package comes without them.
#[test]
fn fuzzing_corpus_is_stable() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/amqp");
    for file in std::fs::read_dir(corpus).into_iter().flatten() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        open(Body::Amqp, &bytes);
        let mut again = Vec::new();
        if let Ok(value) = decode(&bytes) {
            encode(&value, &mut again).unwrap();
            assert_eq!(decode(&again), Ok(value));
        }
    }
}

fn value() -> impl Strategy<Value = Value<'static>> {
    // Texts outlive the test, so that values can borrow from them.
    let scalar = prop_oneof![
        Just(Value::Null),
        prop_oneof![-150..150i32, any::<i32>()].prop_map(Value::Int),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.leak())),
        ".{0,300}".prop_map(|text: String| Value::String(text.leak())),
    ];
    scalar.prop_recursive(4, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn encoded_value_is_decoded_and_skipped_whole(value in value()) {
        let mut out = vec![1, 2, 3];
        encode(&value, &mut out).unwrap();
        let bytes = &out[3..];
        prop_assert_eq!(decode(bytes), Ok(value));
        prop_assert_eq!(Decoder::new(bytes).skip(), Ok(bytes));
        for end in (0..bytes.len()).step_by(1 + bytes.len() / 50) {
            prop_assert!(decode(&bytes[..end]).is_err());
        }
    }
}
