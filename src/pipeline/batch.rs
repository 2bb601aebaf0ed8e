//! A batch: messages copied side by side, with the fields parsed from them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub received_ns: u64,
}

impl Row {
    pub fn new(
        partition: u32,
        offset: u64,
        payload: Range<u32>,
        intended_ns: Option<i64>,
        measured: bool,
        received_ns: u64,
    ) -> Self {
        Row { partition, offset, payload, intended_ns, measured, received_ns }
    }

    /// The time from intended until `at_ns`, both since the trial's epoch.
    pub fn latency_ns(&self, at_ns: u64) -> Option<u64> {
        self.intended_ns.map(|intended_ns| (at_ns as i64).saturating_sub(intended_ns).max(0) as u64)
    }

    pub(super) fn end(&self) -> usize {
        self.payload.end as usize
    }
}

/// What a field holds. Text lies in the batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
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
pub enum Text {
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
    pub(super) bytes: Vec<u8>,
    pub(super) unescaped: Vec<u8>,
    /// `columns` for each row, in the order of the rows.
    pub(super) values: Vec<Value>,
    pub(super) columns: usize,
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

    pub fn payload(&self, row: &Row) -> &[u8] {
        &self.bytes[row.payload.start as usize..row.payload.end as usize]
    }

    /// Where the row's payload begins.
    pub(super) fn begin(row: &Row) -> u32 {
        row.payload.start
    }

    /// The field in a column of a row; `None`: the message has none of that name.
    pub fn field(&self, row: usize, column: usize) -> Option<Field<'_>> {
        Some(match self.values.get(row * self.columns + column)? {
            Value::Absent => return None,
            Value::Null => Field::Null,
            Value::Boolean(value) => Field::Boolean(*value),
            Value::Integer(value) => Field::Integer(*value),
            Value::Float(value) => Field::Float(*value),
            Value::Text(text) => Field::Text(self.text(text)),
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

#[cfg(test)]
impl Batch {
    /// A batch of these payloads, at offsets from 0 of partition 0, parsed for `columns`.
    pub fn from_payloads(payloads: &[&str], columns: &[&str]) -> Self {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut batch = Batch::default();
        for (offset, payload) in payloads.iter().enumerate() {
            batch.push(payload.as_bytes(), |range| Row::new(0, offset as u64, range, Some(0), true, 1_000));
        }
        super::parse::Parser::new(columns, None).parse(&mut batch, 0, |_, unparsable| panic!("{unparsable:?}"));
        batch
    }
}
