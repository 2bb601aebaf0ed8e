//! Records as tables for spreadsheets (CSV) and for texts (Markdown), a row for each completed trial; and in the formats of other tools, so that
//! their tables compare. Only figures of the record are used.

mod omb;
pub mod open_metrics;
mod other_tools;

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::ValueEnum;

use super::readable::{bytes, count, duration, plain, rate};
use super::schema::{Latency, Record, SeriesRow, Status};

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
            Format::Csv => Ok(csv(&completed(records)?)),
            Format::Markdown => Ok(markdown(&completed(records)?)),
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

/// One figure of a latency, in nanoseconds.
type FigureOf = fn(&Latency) -> Option<u64>;

/// A column: its title, and a trial's cell; empty where the figure is not known.
struct Column {
    title: String,
    cell: Box<dyn Fn(&Record) -> String>,
}

fn column(title: &str, cell: impl Fn(&Record) -> String + 'static) -> Column {
    Column { title: title.to_owned(), cell: Box::new(cell) }
}

/// Plain numbers in base units, titles as in the record. As RFC 4180 has it, but for the ends of lines.
fn csv(records: &[&Record]) -> String {
    let mut columns = run_column("run_id", records);
    columns.extend([
        column("point_index", |record| record.point_index.to_string()),
        column("trial", |record| record.trial.to_string()),
    ]);
    columns.extend(swept(records));
    columns.extend([
        column("started_at", |record| record.started_at.to_string()),
        column("valid", |record| record.verdict.valid.to_string()),
        column("reasons", |record| {
            record.verdict.reasons.iter().map(|reason| reason.kind.to_string()).collect::<Vec<_>>().join(" ")
        }),
        column("notes", |record| {
            record.verdict.notes.iter().map(|note| note.kind.to_string()).collect::<Vec<_>>().join(" ")
        }),
        column("load_model", |record| plain(&serde_json::to_value(record.load_model).unwrap_or_default())),
        column("headline", |record| record.headline.to_string()),
        column("attempted", |record| record.counts.attempted.to_string()),
        column("acknowledged", |record| record.counts.acknowledged.to_string()),
        column("failed", |record| record.counts.failed.to_string()),
        column("unresolved", |record| record.counts.unresolved.to_string()),
        column("unsent", |record| record.counts.unsent.to_string()),
        column("window_ns", |record| record.throughput.window_ns.to_string()),
        column("messages_per_second", |record| record.throughput.messages_per_second.to_string()),
        column("payload_bytes_per_second", |record| record.throughput.payload_bytes_per_second.to_string()),
        column("target_per_second", |record| known(record.throughput.target_per_second)),
        column("consumed_per_second", |record| known(record.throughput.consumed_per_second)),
        column("cpu_ns_per_message", |record| known(record.client.cpu_ns_per_message)),
    ]);
    for name in ["response", "service", "schedule_delay", "end_to_end"] {
        // The column of all stays where groups have columns of their own: its title does not depend on what was run.
        let groups = records.iter().flat_map(|record| record.latency.apart(name)).map(|(group, _)| group);
        for group in groups.chain([None]).collect::<BTreeSet<_>>() {
            let title = group.map_or(name.to_owned(), |group| format!("{name}_of_{group}"));
            let group = group.map(str::to_owned);
            columns.extend(latency(&title, move |record| {
                record.latency.apart(name).into_iter().find(|(found, _)| *found == group.as_deref())?.1
            }));
        }
    }
    write(&columns, records, |cells| cells.into_iter().map(|cell| quoted(&cell)).collect::<Vec<_>>().join(","))
}

/// The columns of one latency, whose titles begin with `name`.
fn latency(name: &str, of: impl Fn(&Record) -> Option<&Latency> + Clone + 'static) -> impl Iterator<Item = Column> {
    let figures: [(&str, FigureOf); 7] = [
        ("p50", |latency| stated(latency, 0.5, latency.p50_ns)),
        ("p90", |latency| stated(latency, 0.9, latency.p90_ns)),
        ("p95", |latency| stated(latency, 0.95, latency.p95_ns)),
        ("p99", |latency| latency.p99_ns),
        ("p99_9", |latency| latency.p99_9_ns),
        ("p99_99", |latency| latency.p99_99_ns),
        ("max", |latency| Some(latency.max_ns)),
    ];
    figures.into_iter().map(move |(figure, value)| {
        let of = of.clone();
        column(&format!("{name}_{figure}_ns"), move |record| known(of(record).and_then(value)))
    })
}

/// Readable figures, few enough for a page.
fn markdown(records: &[&Record]) -> String {
    let time = |of: fn(&Latency) -> Option<u64>| {
        move |record: &Record| {
            record.headline_latency().and_then(of).map_or("–".to_owned(), |value_ns| duration(value_ns as f64))
        }
    };
    let mut columns = run_column("run", records);
    columns.extend(swept(records));
    columns.extend([
        column("trial", |record| record.trial.to_string()),
        column("messages/s", |record| rate(record.throughput.messages_per_second)),
        column("payload/s", |record| bytes(record.throughput.payload_bytes_per_second)),
    ]);
    // Rows of an open and a closed loop do not have the same latency.
    let headlines: BTreeSet<String> = records.iter().map(|record| record.headline.to_string()).collect();
    let is_one = headlines.len() == 1;
    if !is_one {
        columns.push(column("latency", |record| record.headline.to_string()));
    }
    let headline = headlines.into_iter().find(|_| is_one).map_or_else(String::new, |headline| headline + " ");
    columns.extend([
        column(&format!("{headline}p50"), time(|latency| stated(latency, 0.5, latency.p50_ns))),
        column("p99", time(|latency| latency.p99_ns)),
        column("p99.9", time(|latency| latency.p99_9_ns)),
        column("max", time(|latency| Some(latency.max_ns))),
        column("failed", |record| count(record.without_acknowledgement())),
        column("verdict", |record| if record.verdict.valid { "valid".to_owned() } else { "not valid".to_owned() }),
    ]);
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | ").replace('\n', " "));
    let text = write(&columns, records, |cells| row(cells.iter().map(|cell| cell.replace('|', "\\|")).collect()));
    let rule = row(columns.iter().map(|_| "---".to_owned()).collect());
    match text.split_once('\n') {
        Some((titles, rows)) => format!("{titles}\n{rule}\n{rows}"),
        None => text,
    }
}

/// A percentile, as far as it is stated: `show` prints no other one.
fn stated(latency: &Latency, quantile: f64, value_ns: u64) -> Option<u64> {
    latency.supports(quantile).then_some(value_ns)
}

/// The column that tells of which run a row is, where there are several.
fn run_column(title: &str, records: &[&Record]) -> Vec<Column> {
    let is_of_several = records.windows(2).any(|pair| pair[0].run_id != pair[1].run_id);
    is_of_several.then(|| column(title, |record| record.run_id.clone())).into_iter().collect()
}

/// One column for each swept key.
fn swept(records: &[&Record]) -> Vec<Column> {
    let keys: BTreeSet<&String> = records.iter().flat_map(|record| record.point.keys()).collect();
    let of = |key: String| {
        column(&key.clone(), move |record: &Record| record.point.get(&key).map(plain).unwrap_or_default())
    };
    keys.into_iter().cloned().map(of).collect()
}

fn write(columns: &[Column], records: &[&Record], line: impl Fn(Vec<String>) -> String) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", line(columns.iter().map(|column| column.title.clone()).collect()));
    for record in records {
        let _ = writeln!(text, "{}", line(columns.iter().map(|column| (column.cell)(record)).collect()));
    }
    text
}

fn known(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FailureClass;
    use crate::record::sample;
    use crate::record::schema::{GroupLatency, Headline};

    fn swept_record() -> Record {
        let mut record = sample::record();
        record.point.insert("payload.size".to_owned(), "100B, \"small\"|".into());
        record.latency.end_to_end = None;
        record
    }

    #[test]
    fn cells_with_commas_are_quoted_and_unknown_ones_are_empty() {
        let record = swept_record();
        let text = csv(&[&record, &record]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("point_index,trial,payload.size,started_at,valid,reasons,"), "{}", lines[0]);
        assert!(lines[0].ends_with("end_to_end_p99_99_ns,end_to_end_max_ns"), "{}", lines[0]);
        assert!(lines[1].starts_with("0,1,\"100B, \"\"small\"\"|\",2026-03-01T12:00:00.25Z,"), "{}", lines[1]);
        assert!(lines[1].ends_with(",,,,,,,"), "{}", lines[1]);
        assert!(lines[1].contains(",49994,") && lines[1].contains(",3063807,"), "{}", lines[1]);
    }

    #[test]
    fn percentiles_that_rest_on_too_few_messages_are_empty() {
        let mut record = sample::record();
        record.latency.response.as_mut().unwrap().independent = Some(100);
        let text = csv(&[&record]);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (titles, cells) = (lines.next().unwrap(), lines.next().unwrap());
        let cell = |title: &str| cells[titles.iter().position(|of| *of == title).unwrap()];
        assert!(!cell("response_p90_ns").is_empty() && !cell("response_max_ns").is_empty());
        assert_eq!((cell("response_p95_ns"), cell("service_p95_ns").is_empty()), ("", false));
    }

    #[test]
    fn groups_have_columns_of_their_own_and_are_not_mixed() {
        let mut record = sample::record();
        record.latency.end_to_end = record.latency.service.clone();
        let group = |name: &str, end_to_end| GroupLatency { group: name.to_owned(), end_to_end };
        record.latency.end_to_end_by_group =
            vec![group("quick", record.latency.service.clone()), group("slow", record.latency.response.clone())];
        let text = csv(&[&record]);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (titles, cells) = (lines.next().unwrap(), lines.next().unwrap());
        let cell = |title: &str| cells[titles.iter().position(|of| *of == title).unwrap()];
        assert_eq!(cell("end_to_end_p99_ns"), "");
        assert_eq!(cell("end_to_end_of_quick_p99_ns"), cell("service_p99_ns"));
        assert_eq!(cell("end_to_end_of_slow_p99_ns"), cell("response_p99_ns"));
        let text = open_metrics::text(&[&record]);
        let counts: Vec<&str> =
            text.lines().filter(|line| line.starts_with("brokermark_end_to_end_seconds_count")).collect();
        assert!(counts.len() == 2 && counts[1].contains("group=\"slow\""), "{counts:?}");
    }

    #[test]
    fn a_page_has_a_table() {
        insta::assert_snapshot!(markdown(&[&swept_record()]), @r#"
        | payload.size | trial | messages/s | payload/s | response p50 | p99 | p99.9 | max | failed | verdict |
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
        | 100B, "small"\| | 1 | 49,994 | 4.8 MiB | 1.29 ms | 3.06 ms | 4.82 ms | 26.5 ms | 4 | valid |
        "#);
    }

    #[test]
    fn messages_that_were_aborted_on_purpose_did_not_fail() {
        let mut record = sample::record();
        record.errors[0].class = FailureClass::Aborted;
        let text = markdown(&[&record]);
        assert!(text.ends_with("| 26.5 ms | 1 | valid |\n"), "{text}");
    }

    #[test]
    fn rows_of_several_runs_name_their_run_and_their_latency() {
        let open = Record { run_id: "open-1".to_owned(), ..sample::record() };
        let mut closed = Record { run_id: "closed-1".to_owned(), headline: Headline::Service, ..sample::record() };
        closed.latency.service = closed.latency.response.clone();
        insta::assert_snapshot!(markdown(&[&open, &closed]), @r"
        | run | trial | messages/s | payload/s | latency | p50 | p99 | p99.9 | max | failed | verdict |
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
        | open-1 | 1 | 49,994 | 4.8 MiB | response | 1.29 ms | 3.06 ms | 4.82 ms | 26.5 ms | 4 | valid |
        | closed-1 | 1 | 49,994 | 4.8 MiB | service | 1.29 ms | 3.06 ms | 4.82 ms | 26.5 ms | 4 | valid |
        ");
        let text = csv(&[&open, &closed]);
        let begins: Vec<&str> = text.lines().map(|line| line.split(",2026").next().unwrap()).collect();
        assert!(begins[0].starts_with("run_id,point_index,trial,started_at,"), "{text}");
        assert_eq!(begins[1..], ["open-1,0,1", "closed-1,0,1"]);
    }
}
