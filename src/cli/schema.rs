//! `brokermark schema`: the JSON Schema of a record, generated from the types of the record and their documentation.

use std::io::{self, Write};

use crate::record::{Record, SeriesRow};

/// Prints the schema of a line of `records.jsonl`.
///
/// # Errors
/// When `out` cannot be written.
pub fn schema(out: &mut dyn Write) -> io::Result<()> {
    print(&schemars::schema_for!(Record), out)
}

/// Prints the schema of a line of `series.jsonl`.
///
/// # Errors
/// When `out` cannot be written.
pub fn series_schema(out: &mut dyn Write) -> io::Result<()> {
    print(&schemars::schema_for!(SeriesRow), out)
}

fn print(schema: &schemars::Schema, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, schema)?;
    writeln!(out)
}
