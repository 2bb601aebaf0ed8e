//! `brokermark schema`: the JSON Schema of a record and of a scenario, generated from their types and the types' documentation.

use std::io::{self, Write};

use serde::Serialize;

use crate::engine;
use crate::record::{Record, SeriesRow};
use crate::scenario;

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

/// Prints the schema of a scenario, with the tables of the brokers and sinks of this build.
///
/// # Errors
/// When `out` cannot be written.
pub fn scenario_schema(out: &mut dyn Write) -> io::Result<()> {
    print(&scenario::scenario_schema(engine::kinds()), out)
}

fn print(schema: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, schema)?;
    writeln!(out)
}
