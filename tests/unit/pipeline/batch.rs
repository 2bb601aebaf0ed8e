use super::*;
use proptest::prelude::*;

fn parsed(payloads: &[&[u8]], needed: &[&str], timestamp: Option<&str>) -> (Batch, Vec<(u64, Unparsable)>) {
    let mut batch = Batch::default();
    for (offset, payload) in payloads.iter().enumerate() {
        batch.push(payload, |range| Row::new(0, offset as u64, range, None, (true, true), 0));
    }
    let needed = needed.iter().map(|name| (*name).to_owned()).collect();
    let mut unparsable = Vec::new();
    Parser::new(needed, timestamp.map(str::to_owned))
        .parse(&mut batch, 1_000, |row, class| unparsable.push((row.offset, class)));
    (batch, unparsable)
}

#[test]
fn fields_are_found_wherever_they_stand_and_text_is_not_copied() {
    let payload = br#"{"x": [1, {"device_id": 2}], "timestamp": 1.5, "device_id": "dev-7", "value": 3.25}"#;
    let (batch, unparsable) = parsed(&[payload, payload], &["value", "device_id"], Some("timestamp"));
    assert!(unparsable.is_empty());
    for row in 0..2 {
        assert_eq!(batch.field(row, 0), Some(Field::Float(3.25)));
        assert_eq!(batch.field(row, 1), Some(Field::Text("dev-7")));
        assert_eq!(batch.rows[row].intended_ns, Some(1_499_999_000));
    }
    assert!(batch.unescaped.is_empty());
}

#[test]
fn a_sink_may_need_the_timestamp_too() {
    let (batch, _) = parsed(&[br#"{"t": 2, "a": 1}"#], &["t", "a"], Some("t"));
    assert_eq!((batch.field(0, 0), batch.rows[0].intended_ns), (Some(Field::Integer(2)), Some(1_999_999_000)));
}

#[test]
fn a_time_that_is_known_is_not_read_again() {
    let mut batch = Batch::default();
    batch.push(br#"{"t": 5}"#, |range| Row::new(0, 0, range, Some(7), (true, true), 0));
    Parser::new(Vec::new(), Some("t".to_owned())).parse(&mut batch, 0, |_, unparsable| panic!("{unparsable:?}"));
    assert_eq!(batch.rows[0].intended_ns, Some(7));
}

#[test]
fn unparsable_messages_are_classified_and_removed() {
    let (batch, unparsable) = parsed(
        &[
            b"{\"a\": \"\\u00e9\"}",
            b"not json",
            b"[1]",
            b"{\"b\": 1}",
            b"{\"a\": {}}",
            b"{\"a\": 1} x",
            b"{\"a\": \"\xff\"}",
            b"",
            b"{\"a\": 18446744073709551615}",
        ],
        &["a"],
        None,
    );
    use Unparsable::*;
    let found = [(1, NotJson), (2, NotAnObject), (3, FieldMissing), (4, FieldNested), (5, NotJson), (6, NotJson)];
    assert_eq!(unparsable, [&found[..], &[(7, NotJson)]].concat());
    assert_eq!(batch.rows.iter().map(|row| row.offset).collect::<Vec<_>>(), [0, 8]);
    assert_eq!(batch.field(0, 0), Some(Field::Text("é")));
    assert_eq!(batch.field(1, 0), Some(Field::Float(u64::MAX as f64)));
}

proptest! {
    /// The same as a parser that builds a tree, whatever the object.
    #[test]
    fn finds_what_a_tree_has(keys in proptest::collection::vec("[a-d]{1,2}", 0..6), texts in proptest::collection::vec(any::<String>(), 6), number: i64, junk: Vec<u8>) {
        let mut object = serde_json::Map::new();
        for (index, key) in keys.iter().enumerate() {
            let value = match index % 4 {
                0 => texts[index].clone().into(),
                1 => number.into(),
                2 => serde_json::Value::Null,
                _ => (index > 3).into(),
            };
            object.insert(key.clone(), value);
        }
        let text = serde_json::to_string(&object).unwrap();
        let (batch, unparsable) = parsed(&[text.as_bytes(), &junk], &["a", "b"], Some("c"));
        if !(object.contains_key("a") && object.contains_key("b")) {
            prop_assert_eq!(unparsable[0], (0, Unparsable::FieldMissing));
        } else {
            for (column, name) in ["a", "b"].iter().enumerate() {
                let expected = match &object[*name] {
                    serde_json::Value::String(text) => Field::Text(text),
                    serde_json::Value::Number(number) => Field::Integer(number.as_i64().unwrap()),
                    serde_json::Value::Bool(value) => Field::Boolean(*value),
                    _ => Field::Null,
                };
                prop_assert_eq!(batch.field(0, column), Some(expected));
            }
        }
    }
}
