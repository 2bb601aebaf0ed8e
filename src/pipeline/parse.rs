//! Reads named fields of JSON objects without building a tree; text stays where it is.
//!
//! The whole payload is still checked to be JSON. A message that cannot be read, or lacks a field that a sink needs, is
//! unparsable: it is counted by its class and not written.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::batch::{Batch, Row, Text, Value};

/// Why a message is unparsable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unparsable {
    NotJson,
    NotAnObject,
    /// A field that a sink needs is not there.
    FieldMissing,
    /// It is there, but is a list or an object.
    FieldNested,
}

impl Unparsable {
    pub const ALL: [Unparsable; 4] =
        [Unparsable::NotJson, Unparsable::NotAnObject, Unparsable::FieldMissing, Unparsable::FieldNested];

    /// As in a record: `not-json`.
    pub fn name(self) -> &'static str {
        match self {
            Unparsable::NotJson => "not-json",
            Unparsable::NotAnObject => "not-an-object",
            Unparsable::FieldMissing => "field-missing",
            Unparsable::FieldNested => "field-nested",
        }
    }
}

/// Reads the fields of some names.
#[derive(Debug, Clone)]
pub struct Parser {
    /// What sinks need, in the order of a batch's columns; behind them, the timestamp, if they do not need it.
    names: Vec<String>,
    needed: usize,
    timestamp: Option<usize>,
    scratch: Vec<Value>,
}

impl Parser {
    /// Of the fields `needed`, each once, and of one with seconds since 1970.
    pub fn new(needed: Vec<String>, timestamp: Option<String>) -> Self {
        let columns = needed.len();
        let mut names = needed;
        let timestamp = timestamp.map(|name| {
            let column = names.iter().position(|known| *known == name).unwrap_or(columns);
            if column == columns {
                names.push(name);
            }
            column
        });
        Parser { scratch: vec![Value::Absent; names.len()], names, needed: columns, timestamp }
    }

    /// Parses every row, removes those that are unparsable, and calls `each` for them. Where the intended time is not known,
    /// it is the timestamp, less the trial's epoch in nanoseconds since 1970.
    pub fn parse(&mut self, batch: &mut Batch, epoch_unix_ns: u64, mut each: impl FnMut(&Row, Unparsable)) {
        let Batch { rows, bytes, unescaped, values, columns, .. } = batch;
        *columns = self.needed;
        values.clear();
        rows.retain_mut(|row| {
            let begin = Batch::begin(row);
            let payload = &bytes[begin as usize..row.end()];
            // The timestamp comes last: a row with an intended time does not need it.
            let wanted = if row.intended_ns.is_some() { self.needed } else { self.names.len() };
            let (names, scratch) = (&self.names[..wanted], &mut self.scratch[..wanted]);
            scratch.fill(Value::Absent);
            if let Err(unparsable) = fields(payload, begin, names, scratch, unescaped).and_then(|()| {
                if scratch[..self.needed].contains(&Value::Absent) { Err(Unparsable::FieldMissing) } else { Ok(()) }
            }) {
                each(row, unparsable);
                return false;
            }
            if row.intended_ns.is_none()
                && let Some(seconds) = self.timestamp.and_then(|column| seconds(scratch.get(column)?))
            {
                row.intended_ns = Some(((seconds * 1e9) as i64).saturating_sub(epoch_unix_ns as i64));
            }
            values.extend(scratch[..self.needed].iter_mut().map(std::mem::take));
            true
        });
    }
}

fn seconds(value: &Value) -> Option<f64> {
    match value {
        Value::Float(seconds) => Some(*seconds),
        Value::Integer(seconds) => Some(*seconds as f64),
        _ => None,
    }
}

/// Reads the fields `names` of one object into `values`. `base` is where the payload begins among its batch's bytes.
fn fields(
    payload: &[u8],
    base: u32,
    names: &[String],
    values: &mut [Value],
    unescaped: &mut Vec<u8>,
) -> Result<(), Unparsable> {
    let mut nested = false;
    let origin = Origin { begin: payload.as_ptr() as usize, base };
    let object = Object { names, values, origin, unescaped, nested: &mut nested };
    let mut deserializer = serde_json::Deserializer::from_slice(payload);
    let read = object.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match read {
        Ok(()) if nested => Err(Unparsable::FieldNested),
        Ok(()) => Ok(()),
        Err(error) if error.classify() == Category::Data => Err(Unparsable::NotAnObject),
        Err(_) => Err(Unparsable::NotJson),
    }
}

/// Where the payload's bytes are in memory and in their batch.
#[derive(Clone, Copy)]
struct Origin {
    begin: usize,
    base: u32,
}

struct Object<'o> {
    names: &'o [String],
    values: &'o mut [Value],
    origin: Origin,
    unescaped: &'o mut Vec<u8>,
    nested: &'o mut bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(column) = map.next_key_seed(Column(self.names))? {
            match column {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(column) => {
                    let scalar = Scalar { origin: self.origin, unescaped: self.unescaped };
                    match map.next_value_seed(scalar)? {
                        Some(value) => self.values[column] = value,
                        None => *self.nested = true,
                    }
                }
            }
        }
        Ok(())
    }
}

/// A key: which of the names it is.
struct Column<'o>(&'o [String]);

impl<'de> DeserializeSeed<'de> for Column<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Column<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|name| name == key))
    }
}

/// A value that is neither a list nor an object; `None` if it is.
struct Scalar<'o> {
    origin: Origin,
    unescaped: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Scalar<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar<'_> {
    type Value = Option<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Value>, E> {
        Ok(Some(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(Some(Value::Boolean(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(Some(Value::Integer(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(Some(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(Some(Value::Float(value)))
    }

    /// It lies in the payload as it is.
    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Option<Value>, E> {
        let begin = (value.as_ptr() as usize - self.origin.begin) as u32 + self.origin.base;
        Ok(Some(Value::Text(Text::Plain(begin..begin + value.len() as u32))))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Option<Value>, E> {
        let begin = self.unescaped.len() as u32;
        self.unescaped.extend_from_slice(value.as_bytes());
        Ok(Some(Value::Text(Text::Unescaped(begin..self.unescaped.len() as u32))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<Value>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Field;
    use super::*;
    use proptest::prelude::*;

    fn parsed(payloads: &[&[u8]], needed: &[&str], timestamp: Option<&str>) -> (Batch, Vec<(u64, Unparsable)>) {
        let mut batch = Batch::default();
        for (offset, payload) in payloads.iter().enumerate() {
            batch.push(payload, |range| Row::new(0, offset as u64, range, None, true, 0));
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
        batch.push(br#"{"t": 5}"#, |range| Row::new(0, 0, range, Some(7), true, 0));
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
}
