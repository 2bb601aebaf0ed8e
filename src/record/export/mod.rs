//! Records in the formats of other tools, so that their tables compare. Only what a record says is used.

pub mod nsq;

use clap::ValueEnum;

use super::schema::Record;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The lines of NSQ's bench_writer, bench_reader and bench.py
    Bench,
}

impl Format {
    /// The records as the other tool would have printed them.
    pub fn text(self, records: &[Record]) -> String {
        match self {
            Format::Bench => nsq::bench_lines(records),
        }
    }
}
