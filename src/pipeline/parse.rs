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
#[path = "../../tests/unit/pipeline/parse.rs"]
mod tests;
