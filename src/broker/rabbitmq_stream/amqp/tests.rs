//! Against bytes of other implementations, and against everything that can be made up.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn message<'a>(body: Body<'a>, properties: &[(&'a str, Value<'a>)]) -> Message<'a> {
    let mut message = Message::new(body);
    if !properties.is_empty() {
        let pairs = properties.iter().map(|(key, value)| (Value::String(key), value.clone()));
        message.application_properties = Some(pairs.collect());
    }
    message
}

/// What RbFly 0.10 writes.
#[test]
fn messages_of_rbfly_are_read() {
    let seed = Value::Map(vec![
        (Value::String("large-int"), Value::Int(i32::MAX)),
        (Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
        (Value::String("bin-string"), Value::Binary(b"abc")),
    ]);
    let numbers = [0, 1, -1, 127, 128, -129, i32::MAX, i32::MIN].map(Value::Int);
    let rest = [Value::Double(1.5), Value::Boolean(true), Value::Boolean(false), Value::Null];
    let numbers = Value::List(numbers.into_iter().chain(rest).collect());
    let mut id = [0; 16];
    id[15] = 5;
    let inner = Value::Map(vec![(Value::String("b"), Value::List(Vec::new()))]);
    let others = Value::List(vec![
        Value::Uuid(id),
        Value::Timestamp(1_767_323_045_000),
        Value::Symbol("sym"),
        Value::List(Vec::new()),
        Value::Map(Vec::new()),
        Value::Map(vec![(Value::String("a"), inner)]),
    ]);
    let data = Body::Data(vec![b"0000001357"]);
    let properties = [("trace", Value::String("abc")), ("n", Value::Int(5))];
    for (hex, expected) in [
        ("005375a00a30303030303031333537", message(data, &[])),
        ("005377a10668c3a96c6c6f", message(Body::Value(Value::String("héllo")), &[])),
        (
            "005377d10000004900000006a1096c617267652d696e74717fffffffa10a736d616c6c2d6c697374d00000001300000003710000000171\
             000000027100000003a10a62696e2d737472696e67a003616263",
            message(Body::Value(seed), &[]),
        ),
        (
            "005377d0000000380000000c7100000000710000000171ffffffff710000007f710000008071ffffff7f717fffffff7180000000823ff8\
             000000000000414240",
            message(Body::Value(numbers), &[]),
        ),
        (
            "005377d000000056000000069800000000000000000000000000000005830000019b7ca98c88a30373796dd00000000400000000d10000\
             000400000000d10000001c00000002a10161d10000001000000002a10162d00000000400000000",
            message(Body::Value(others), &[]),
        ),
        (
            "005374d10000001800000004a1057472616365a103616263a1016e7100000005005375a003616263",
            message(Body::Data(vec![b"abc"]), &properties),
        ),
        ("00537780ffffffffffffffff", message(Body::Value(Value::Ulong(u64::MAX)), &[])),
        ("005377818000000000000000", message(Body::Value(Value::Long(i64::MIN)), &[])),
    ] {
        let bytes = bytes(hex);
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&expected), "{hex}");
        let mut ours = Vec::new();
        expected.encode(&mut ours).unwrap();
        assert_eq!(Message::decode(&ours).as_ref(), Ok(&expected), "{hex}");
        assert!(ours.len() <= bytes.len(), "{hex}");
    }
}

/// What rstream 1.1 writes, whose encoder is that of Microsoft's `uamqp`.
#[test]
fn a_message_of_rstream_is_read_and_written_alike() {
    let theirs = bytes(
        "005373c0280da1036d2d314040a101734040a30a746578742f706c61696e40408300000000695735a540520940005374c10802a1026964a101\
         37005375a00568656c6c6f",
    );
    let mut expected = message(Body::Data(vec![b"hello"]), &[("id", Value::String("7"))]);
    expected.properties = Some(Properties {
        message_id: Some(Value::String("m-1")),
        subject: Some("s"),
        content_type: Some("text/plain"),
        creation_time: Some(1_767_323_045),
        group_sequence: Some(9),
        ..Properties::default()
    });
    assert_eq!(Message::decode(&theirs).as_ref(), Ok(&expected));
    let mut ours = Vec::new();
    expected.encode(&mut ours).unwrap();
    assert_eq!(Message::decode(&ours).as_ref(), Ok(&expected));
    // Theirs ends its list with a property that is not set; ours leaves it out.
    assert_eq!(ours.len() + 1, theirs.len());
}

#[test]
fn examples_of_the_specification() {
    // Part 1, figures 1.2 and 1.3: a described string.
    let described = Value::Described(Box::new((Value::Symbol("URL"), Value::String("http://example.org/hello-world"))));
    let mut out = Vec::new();
    encode(&described, &mut out).unwrap();
    assert_eq!(out[..6], [0x00, 0xa3, 0x03, b'U', b'R', b'L']);
    assert_eq!(decode(&out), Ok(described));
    // Section 1.6: small forms.
    for (value, expected) in [
        (Value::Uint(0), &[0x43][..]),
        (Value::Uint(255), &[0x52, 255]),
        (Value::Ulong(0), &[0x44]),
        (Value::Long(-1), &[0x55, 0xff]),
        (Value::List(Vec::new()), &[0x45]),
        (Value::Boolean(true), &[0x41]),
        (Value::Array(vec![Value::Ubyte(1), Value::Ubyte(2)]), &[0xe0, 4, 2, 0x50, 1, 2]),
    ] {
        let mut out = Vec::new();
        encode(&value, &mut out).unwrap();
        assert_eq!(out, expected);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut out = Vec::new();
    let mixed = Value::Array(vec![Value::Int(1), Value::Long(1)]);
    assert_eq!(encode(&mixed, &mut out), Err(EncodeError::MixedArray));
    assert_eq!(encode(&Value::Symbol("ä"), &mut out), Err(EncodeError::Symbol));
    // A list, an array and an array of nothing, each of four thousand million elements.
    for claim in [
        &[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff][..],
        &[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x71],
        &[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40],
    ] {
        assert_eq!(decode(claim), Err(DecodeError::TooManyElements));
    }
    let deep = [[0xc0, 0xff, 1]; 10_000].concat();
    assert!(decode(&deep).is_err());
    let described = [0x00; 100_000];
    assert_eq!(decode(&described), Err(DecodeError::TooDeep));
    assert!(Sections::new(&described).all(|section| section.is_err()));
}

/// A value or message is the same after it was written and read again; compared by its text, for a NaN is not equal to
/// itself.
fn assert_stable(bytes: &[u8]) {
    for section in Sections::new(bytes).flatten() {
        let _ = section.find("brokermark");
        let _ = section.binary();
    }
    let mut again = Vec::new();
    if let Ok(value) = decode(bytes)
        && encode(&value, &mut again).is_ok()
    {
        assert_eq!(format!("{:?}", decode(&again)), format!("{:?}", Ok::<_, DecodeError>(value)));
    }
    again.clear();
    if let Ok(message) = Message::decode(bytes)
        && message.encode(&mut again).is_ok()
    {
        assert_eq!(format!("{:?}", Message::decode(&again)), format!("{:?}", Ok::<_, DecodeError>(message)));
    }
}

/// The inputs of the fuzz target of the same name.
#[test]
fn the_fuzzing_corpus_holds() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/amqp");
    // A published package comes without it.
    for file in std::fs::read_dir(corpus).into_iter().flatten() {
        assert_stable(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

/// Strings outlive the test, so that values of them can be made up.
fn text(pattern: &'static str) -> impl Strategy<Value = &'static str> {
    pattern.prop_map(|text: String| &*text.leak())
}

fn scalar() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        prop_oneof![0..300u32, any::<u32>()].prop_map(Value::Uint),
        prop_oneof![0..300u64, any::<u64>()].prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        prop_oneof![-150..150i32, any::<i32>()].prop_map(Value::Int),
        prop_oneof![-150..150i64, any::<i64>()].prop_map(Value::Long),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.leak())),
        text(".{0,300}").prop_map(Value::String),
        text("[ -~]{0,20}").prop_map(Value::Symbol),
    ]
}

fn value() -> impl Strategy<Value = Value<'static>> {
    scalar().prop_recursive(4, 60, 6, |inner| {
        let ints = proptest::collection::vec(any::<i32>().prop_map(Value::Int), 0..5);
        let texts = proptest::collection::vec(text(".{0,30}").prop_map(Value::String), 0..5);
        let lists =
            proptest::collection::vec(proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List), 0..4);
        let described = proptest::collection::vec(any::<u64>().prop_map(Value::Ulong), 0..4).prop_map(|values| {
            let describe = |value| Value::Described(Box::new((Value::Symbol("d"), value)));
            values.into_iter().map(describe).collect::<Vec<_>>()
        });
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Map),
            prop_oneof![ints, texts, lists, described].prop_map(Value::Array),
            (inner.clone(), inner).prop_map(|pair| Value::Described(Box::new(pair))),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(value in value()) {
        let mut out = vec![1, 2, 3];
        encode(&value, &mut out).unwrap();
        prop_assert_eq!(decode(&out[3..]), Ok(value.clone()));
        // Passed over, it is as long as it is.
        let mut message = vec![0x00, 0x53, 0x77];
        message.extend(&out[3..]);
        let sections: Vec<_> = Sections::new(&message).collect();
        prop_assert_eq!(&sections, &[Ok(Section { kind: SectionKind::Value, value: &out[3..] })]);
        // Cut off anywhere, it is not one.
        for end in (3..out.len()).step_by(1 + out.len() / 50) {
            prop_assert!(decode(&out[3..end]).is_err());
        }
    }

    #[test]
    fn messages_come_back(
        sections in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..3),
        application_properties in proptest::option::of(proptest::collection::vec((text("[a-z]{1,9}").prop_map(Value::String), scalar()), 0..5)),
        header in proptest::option::of(value()), footer in proptest::option::of(value()),
        message_id in proptest::option::of(any::<u64>().prop_map(Value::Ulong)),
        subject in proptest::option::of(text(".{0,20}")), group_sequence: Option<u32>,
    ) {
        let mut message = Message::new(Body::Data(sections.iter().map(Vec::as_slice).collect()));
        message.application_properties = application_properties;
        (message.header, message.footer) = (header, footer);
        message.properties = Some(Properties { message_id, subject, group_sequence, ..Properties::default() });
        let mut out = Vec::new();
        message.encode(&mut out).unwrap();
        prop_assert_eq!(Message::decode(&out), Ok(message));
    }

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(
        prop_oneof![Just(0u8), 0x40..0x46u8, 0x50..0x57u8, 0xa0..0xa4u8, 0xc0..0xc2u8, 0xe0..0xe1u8, any::<u8>()], 0..60,
    )) {
        assert_stable(&bytes);
    }
}
