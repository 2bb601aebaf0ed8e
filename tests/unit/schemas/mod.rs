//! The bytes of other implementations were made with fastavro 1.13.1 and, for Protobuf, protoc and protobuf 7.36.2 for Python.

use std::path::PathBuf;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::json;

use super::*;
use crate::load::PayloadPool;
use crate::scenario::{Content, Payload, SchemaContent, SchemaId};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/schemas").join(name)
}

fn avro() -> Codec {
    Codec::open(SchemaType::Avro, &file("order.avsc"), None).unwrap()
}

fn json_schema() -> Codec {
    Codec::open(SchemaType::Json, &file("order.json"), None).unwrap()
}

fn protobuf(message: &str) -> Codec {
    Codec::open(SchemaType::Protobuf, &file("order.proto"), Some(message)).unwrap()
}

/// A schema that a test writes.
fn written(schema_type: SchemaType, text: &str) -> Result<Codec, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.proto");
    std::fs::write(&path, text).unwrap();
    Codec::open(schema_type, &path, None)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A random stream that is the same each time.
fn seeded(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

const AVRO: &str = "0902085a6fc3ab020004fb2e000000000000f83ff6a1abfef962f0a8024835353065383430302d653239622d343164342d613731362d343436\
                    363535343430303030007f80ff02026102620002000278040202d80402000000";

fn order() -> Value {
    json!({
        "id": -5,
        "customer": {"string": "Zoë"},
        "state": "PAID",
        "total": "\u{fb}\u{2e}",
        "weight": 1.5,
        "at": 1_700_000_000_123_i64,
        "day": 19_000,
        "key": "550e8400-e29b-41d4-a716-446655440000",
        "hash": "\0\u{7f}\u{80}\u{ff}",
        "tags": {"a": "b"},
        "lines": [{"article": "x", "count": 2, "parts": [{"article": 300}]}],
    })
}

#[test]
fn avro_records_are_as_another_implementation_writes_them() {
    assert_eq!(hex(&avro().encode(&order()).unwrap()), AVRO);
    let mut plain = order();
    plain["customer"] = "Zoë".into();
    plain["lines"][0]["article"] = json!({"string": "x"});
    assert_eq!(hex(&avro().encode(&plain).unwrap()), AVRO, "types of unions may be named or not");
}

#[test]
fn an_avro_record_that_does_not_fit_is_refused_by_its_field() {
    let refused = |key: &str, value: Value| {
        let mut record = order();
        record[key] = value;
        avro().encode(&record).unwrap_err()
    };
    assert_eq!(refused("id", "5".into()), "`id`: \"5\" is not long");
    assert_eq!(refused("id", 1.5.into()), "`id`: 1.5 is not long");
    assert_eq!(refused("day", 3_000_000_000_i64.into()), "`day`: 3000000000 is not int");
    assert_eq!(refused("hash", "\0".into()), "`hash`: \"\\u0000\" is not shop.Hash");
    assert_eq!(refused("total", "€".into()), "`total`: \"€\" is not bytes");
    assert!(refused("state", "LOST".into()).contains("not one of the symbols NEW, PAID, SENT"));
    assert!(refused("customer", 5.into()).contains("no type of the union fits"));
    assert_eq!(refused("colour", 5.into()), "`shop.Order` has no field `colour`");
    let refused = avro().encode(&json!({})).unwrap_err();
    assert_eq!(refused, "`id` of `shop.Order` is missing");
}

#[test]
fn protobuf_records_are_as_another_implementation_writes_them() {
    let record = json!({
        "id": "-5", "customer": {"name": "Zoë"}, "state": "PAID", "at": "2023-11-14T22:13:20.123Z", "note": "n",
        "stock": {"a": -3}, "lines": [{"article": "x", "count": 2, "parts": [{"article": "y"}]}],
        "weights": [1.5, -2], "hash": "AH+A/w==", "account": "77", "priority": 0,
    });
    let expected = "08fbffffffffffffffff0112060a045a6fc3ab1801220b0880e2cfaa0610c0a9d33a2a030a016e32050a016110053a0a0a017810021a030a01\
                    794210000000000000f83f00000000000000c04a04007f80ff594d000000000000006000";
    // The second message of the file: one index, which is 1.
    assert_eq!(hex(&protobuf("shop.Order").encode(&record).unwrap()), format!("0202{expected}"));
    let line = protobuf("shop.Order.Line").encode(&json!({"article": "x", "count": 2})).unwrap();
    assert_eq!(hex(&line), "0402000a01781002", "two indexes, 1 and 0");
    let first = protobuf("shop.Customer").encode(&json!({"name": "x"})).unwrap();
    assert_eq!(hex(&first), "000a0178", "the first message has no list of indexes");
    let by_default = Codec::open(SchemaType::Protobuf, &file("order.proto"), None).unwrap();
    assert_eq!(by_default.encode(&json!({"name": "x"})).unwrap(), first);
    assert!(protobuf("shop.Customer").encode(&json!({"colour": 1})).unwrap_err().contains("colour"));
}

#[test]
fn json_records_are_checked_and_sent_as_they_are() {
    let record = json!({"state": "NEW", "id": 1});
    assert_eq!(json_schema().encode(&record).unwrap(), br#"{"state":"NEW","id":1}"#);
    let refused = json_schema().encode(&json!({"state": "NEW", "id": 0})).unwrap_err();
    assert!(refused.starts_with("/id: "), "{refused}");
    assert!(json_schema().encode(&json!({"state": "NEW"})).unwrap_err().contains("id"));
}

#[test]
fn generated_records_fit_the_schema_and_follow_from_the_seed() {
    for codec in [avro(), json_schema(), protobuf("shop.Order")] {
        let all = |seed: u64| {
            let mut random = seeded(seed);
            (0..200).map(|_| codec.generate(&mut random).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1), "{:?}", codec.schema_type);
        let (mut found, count) = (all(1), 200);
        assert_ne!(found, all(2));
        found.sort();
        found.dedup();
        assert_eq!(found.len(), count, "all differ");
    }
}

#[test]
fn a_json_schema_without_values_to_generate_is_refused_by_its_keyword() {
    let refused = |text: &str| written(SchemaType::Json, text).unwrap().generate(&mut seeded(1)).unwrap_err();
    assert!(refused(r#"{"type": "string", "pattern": "^a"}"#).contains("`pattern`"));
    assert!(
        refused(r#"{"properties": {"a": {"allOf": [{}]}}}"#)
            .contains("`a`: no values are generated for the keyword `allOf`")
    );
    assert!(refused(r##"{"$ref": "#"}"##).contains("without end"));
    assert!(refused(r#"{"type": "integer", "minimum": 2, "maximum": 1}"#).contains("between 2 and 1"));
    // What generating does not know, checking does.
    let odd = r#"{"type": "object", "properties": {}, "minProperties": 1}"#;
    assert!(!refused(odd).is_empty());
}

#[test]
fn an_avro_type_without_values_is_refused() {
    let empty = r#"{"type": "enum", "name": "Color", "symbols": []}"#;
    for (schema, reason) in [(empty, "the enum `Color` has no symbols"), ("[]", "a union has no types")] {
        assert_eq!(written(SchemaType::Avro, schema).unwrap().generate(&mut seeded(1)).unwrap_err(), reason);
    }
}

#[test]
fn a_schema_that_contains_itself_ends_where_it_may() {
    let endless = r#"{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}"#;
    assert!(written(SchemaType::Avro, endless).unwrap().generate(&mut seeded(1)).unwrap_err().contains("without end"));
    let list = r#"{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["A", "null"]}]}"#;
    let codec = written(SchemaType::Avro, list).unwrap();
    let mut random = seeded(1);
    let longest = (0..100).map(|_| codec.generate(&mut random).unwrap().len()).max();
    assert_eq!(longest, Some(values::DEPTH), "each level is one index of the union");
    let proto = "syntax = \"proto3\"; message A { A a = 1; int32 b = 2; }";
    assert!(written(SchemaType::Protobuf, proto).unwrap().generate(&mut seeded(1)).unwrap().len() > 4);
}

#[test]
fn a_file_that_is_no_schema_is_refused_with_its_name() {
    for (schema_type, text) in [
        (SchemaType::Avro, "{\"type\": \"recrd\"}"),
        (SchemaType::Json, "{\"type\": 5}"),
        (SchemaType::Protobuf, "syntax = \"proto3\"; message A { Other b = 1; }"),
    ] {
        let refused = written(schema_type, text).unwrap_err();
        assert!(refused.contains("schema.proto cannot be used as a schema: "), "{refused}");
    }
    let refused = written(SchemaType::Protobuf, "syntax = \"proto3\"; message A { Other b = 1; }").unwrap_err();
    assert!(refused.contains("Other"), "{refused}");
    let refused = Codec::open(SchemaType::Protobuf, &file("order.proto"), Some("Order")).unwrap_err();
    assert!(refused.contains("no message `Order`: write its whole name"), "{refused}");
    assert!(Codec::open(SchemaType::Avro, &file("missing"), None).unwrap_err().contains("cannot be read"));
}

#[test]
fn payloads_begin_with_the_id_of_their_schema() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("orders.jsonl");
    std::fs::write(&records, format!("{}\n\n{}\n", order(), order())).unwrap();
    let content = |records| SchemaContent { codec: avro().into(), records, id: SchemaId::Known(0x0102_0304) };
    let build = |content: SchemaContent, pool: usize| {
        let payload = Payload { content: Content::Schema(content), pool, seed: 1, tombstones: 0.0 };
        PayloadPool::build(&payload, 0)
    };
    let pool = build(content(Some(records.clone())), 10).unwrap();
    assert_eq!(pool.len(), 2);
    assert_eq!(hex(pool.get(1)), format!("0001020304{AVRO}"));
    assert_eq!(build(content(Some(records.clone())), 1).unwrap().len(), 1);
    let pool = build(content(None), 10).unwrap();
    assert!(pool.len() == 10 && (0..10).all(|index| pool.get(index).starts_with(&[0, 1, 2, 3, 4])));
    std::fs::write(&records, format!("{}\n{{\"id\": 5}}\n", order())).unwrap();
    let refused = build(content(Some(records.clone())), 10).unwrap_err().to_string();
    assert!(refused.contains("orders.jsonl, line 2: `state` of `shop.Order` is missing"), "{refused}");
    std::fs::write(&records, "\n").unwrap();
    assert!(build(content(Some(records)), 10).unwrap_err().to_string().contains("has no records"));
}
