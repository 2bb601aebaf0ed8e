//! Records as tables, and in the formats of other tools, so that their tables compare. Only figures of the record are used.

mod omb;
pub mod open_metrics;
pub mod other_tools;
mod table;

use clap::ValueEnum;

use super::schema::{Record, SeriesRow, Status};

/// A table, or a format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for spreadsheets: a line per trial, plain numbers in base units
    Csv,
    /// A table for texts: a row per trial, readable figures
    Markdown,
    /// The last line of Kafka's kafka-producer-perf-test
    KafkaPerf,
    /// The lines of NSQ's bench_writer, bench_reader and bench.py
    NsqBench,
    /// The text format of Prometheus and OpenMetrics, with histograms of the latencies
    OpenMetrics,
    /// The result file of OpenMessaging Benchmark, a line per trial
    Omb,
    /// One JSON line per trial, as the Pulsar throughput test in `configs/published/` was first published
    PulsarSweep,
    /// The same, but one line per point: the mean of its trials, and those with the highest and the lowest rate
    PulsarSweepSummary,
}

/// Records cannot be put into a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("no trial has been completed: there is nothing to export")]
    Empty,
    #[error("the trial {trial} of point {point} has no {what}, which this format needs: {advice}")]
    Lacks { point: usize, trial: u32, what: &'static str, advice: &'static str },
}

impl Format {
    /// The records as the other tool would have printed them. `series` and `hlog` are the run's, as far as it kept them.
    ///
    /// # Errors
    /// When a record lacks a figure that the format needs, or no trial was completed.
    pub fn text(self, records: &[Record], series: &[SeriesRow], hlog: &[u8]) -> Result<String, ExportError> {
        match self {
            Format::Csv => Ok(table::csv(&completed(records)?)),
            Format::Markdown => Ok(table::markdown(&completed(records)?)),
            Format::KafkaPerf => other_tools::kafka_perf_lines(&completed(records)?),
            Format::OpenMetrics => Ok(open_metrics::text(&completed(records)?)),
            Format::NsqBench => Ok(other_tools::nsq_bench_lines(records)),
            Format::Omb => omb::lines(&completed(records)?, series, hlog),
            Format::PulsarSweep => other_tools::pulsar_sweep_lines(&completed(records)?),
            Format::PulsarSweepSummary => other_tools::pulsar_sweep_summary(&completed(records)?),
        }
    }
}

/// Those of trials that were completed.
fn completed(records: &[Record]) -> Result<Vec<&Record>, ExportError> {
    let completed: Vec<&Record> = records.iter().filter(|record| record.status == Status::Completed).collect();
    if completed.is_empty() { Err(ExportError::Empty) } else { Ok(completed) }
}
