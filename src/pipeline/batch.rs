//! A batch: messages copied side by side, with the fields parsed from them.
//!
//! Named fields of JSON objects are read without building a tree; text stays where it is. The whole payload is still checked to be JSON. A
//! message that cannot be read, or lacks a field that a sink needs, is unparsable: it is counted by its class and not written.

use std::fmt;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

/// A message in a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub partition: u32,
    pub offset: u64,
    payload: Range<u32>,
    /// When it was intended, in nanoseconds since the trial's epoch, which may lie before it; `None`: unknown.
    pub intended_ns: Option<i64>,
    /// Whether its times count: not in the warm-up.
    pub measured: bool,
    /// Whether this trial has sent it.
    pub own: bool,
    pub received_ns: u64,
}

/// How many messages there are, and how many of them this trial has not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Messages {
    pub all: u64,
    pub foreign: u64,
}

impl AddAssign for Messages {
    fn add_assign(&mut self, other: Messages) {
        self.all += other.all;
        self.foreign += other.foreign;
    }
}

impl Row {
    pub fn new(
        partition: u32,
        offset: u64,
        payload: Range<u32>,
        intended_ns: Option<i64>,
        (measured, own): (bool, bool),
        received_ns: u64,
    ) -> Self {
        Row { partition, offset, payload, intended_ns, measured, own, received_ns }
    }

    /// The time from intended until `at_ns`, both since the trial's epoch.
    pub fn latency_ns(&self, at_ns: u64) -> Option<u64> {
        self.intended_ns.map(|intended_ns| (at_ns as i64).saturating_sub(intended_ns).max(0) as u64)
    }

    fn end(&self) -> usize {
        self.payload.end as usize
    }
}

/// What a field holds. Text lies in the batch.
#[derive(Debug, Clone, PartialEq, Default)]
enum FieldValue {
    #[default]
    Absent,
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
}

/// Where a text's bytes are: in the payload, or, if they are escaped there, beside it.
#[derive(Debug, Clone, PartialEq)]
enum Text {
    Plain(Range<u32>),
    Unescaped(Range<u32>),
}

/// A value with its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
}

/// Messages on their way to the sinks.
#[derive(Debug, Default)]
pub struct Batch {
    pub number: u64,
    /// Generation of the instance when the batch began to fill: outdated once the instance has revoked its partitions.
    pub generation: u64,
    pub rows: Vec<Row>,
    /// Time spent waiting for its messages and taking them, and the moment it was closed.
    pub fetch_ns: u64,
    pub closed_ns: u64,
    bytes: Vec<u8>,
    unescaped: Vec<u8>,
    /// `columns` for each row, in the order of the rows.
    values: Vec<FieldValue>,
    columns: usize,
}

impl Batch {
    pub fn push(&mut self, payload: &[u8], row: impl FnOnce(Range<u32>) -> Row) {
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(payload);
        self.rows.push(row(begin..self.bytes.len() as u32));
    }

    /// Whether more bytes might be too many for the ranges.
    pub fn is_full_of_bytes(&self) -> bool {
        self.bytes.len() > (1 << 30)
    }

    /// What is in it.
    pub fn messages(&self) -> Messages {
        let foreign = self.rows.iter().filter(|row| !row.own).count();
        Messages { all: self.rows.len() as u64, foreign: foreign as u64 }
    }

    pub fn payload(&self, row: &Row) -> &[u8] {
        &self.bytes[row.payload.start as usize..row.payload.end as usize]
    }

    /// Where the row's payload begins.
    fn begin(row: &Row) -> u32 {
        row.payload.start
    }

    /// The field in a column of a row; `None`: the message has none of that name.
    pub fn field(&self, row: usize, column: usize) -> Option<Field<'_>> {
        Some(match self.values.get(row * self.columns + column)? {
            FieldValue::Absent => return None,
            FieldValue::Null => Field::Null,
            FieldValue::Boolean(value) => Field::Boolean(*value),
            FieldValue::Integer(value) => Field::Integer(*value),
            FieldValue::Float(value) => Field::Float(*value),
            FieldValue::Text(text) => Field::Text(self.text(text)),
        })
    }

    fn text(&self, text: &Text) -> &str {
        let (bytes, range) = match text {
            Text::Plain(range) => (&self.bytes, range),
            Text::Unescaped(range) => (&self.unescaped, range),
        };
        // It came out of a parser of JSON, which is UTF-8.
        std::str::from_utf8(&bytes[range.start as usize..range.end as usize]).unwrap_or_default()
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
        self.unescaped.clear();
        self.values.clear();
        self.fetch_ns = 0;
    }
}

/// The generation of an instance's partitions: a writer sees whether its batch is outdated.
#[derive(Debug, Clone, Default)]
pub struct Generation(Arc<AtomicU64>);

impl Generation {
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

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
    scratch: Vec<FieldValue>,
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
        Parser { scratch: vec![FieldValue::Absent; names.len()], names, needed: columns, timestamp }
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
            scratch.fill(FieldValue::Absent);
            if let Err(unparsable) = fields(payload, begin, names, scratch, unescaped).and_then(|()| {
                if scratch[..self.needed].contains(&FieldValue::Absent) {
                    Err(Unparsable::FieldMissing)
                } else {
                    Ok(())
                }
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

fn seconds(value: &FieldValue) -> Option<f64> {
    match value {
        FieldValue::Float(seconds) => Some(*seconds),
        FieldValue::Integer(seconds) => Some(*seconds as f64),
        _ => None,
    }
}

/// Reads the fields `names` of one object into `values`. `base` is where the payload begins among its batch's bytes.
fn fields(
    payload: &[u8],
    base: u32,
    names: &[String],
    values: &mut [FieldValue],
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
    values: &'o mut [FieldValue],
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
    type Value = Option<FieldValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<FieldValue>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar<'_> {
    type Value = Option<FieldValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Boolean(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Integer(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<FieldValue>, E> {
        Ok(Some(i64::try_from(value).map_or(FieldValue::Float(value as f64), FieldValue::Integer)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Float(value)))
    }

    /// It lies in the payload as it is.
    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Option<FieldValue>, E> {
        let begin = (value.as_ptr() as usize - self.origin.begin) as u32 + self.origin.base;
        Ok(Some(FieldValue::Text(Text::Plain(begin..begin + value.len() as u32))))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Option<FieldValue>, E> {
        let begin = self.unescaped.len() as u32;
        self.unescaped.extend_from_slice(value.as_bytes());
        Ok(Some(FieldValue::Text(Text::Unescaped(begin..self.unescaped.len() as u32))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<FieldValue>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<FieldValue>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
impl Batch {
    /// A batch of these payloads, at offsets from 0 of partition 0, parsed for `columns`.
    pub fn from_payloads(payloads: &[&str], columns: &[&str]) -> Self {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut batch = Batch::default();
        for (offset, payload) in payloads.iter().enumerate() {
            batch.push(payload.as_bytes(), |range| Row::new(0, offset as u64, range, Some(0), (true, true), 1_000));
        }
        Parser::new(columns, None).parse(&mut batch, 0, |_, unparsable| panic!("{unparsable:?}"));
        batch
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pipeline/batch.rs"]
mod tests;
