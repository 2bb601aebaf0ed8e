//! `brokermark list`: a line for each run in a directory, the newest last. It only reads.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;

use super::show::page::Page;
use super::show::{ShowError, View, print};
use crate::present::sweep::judged;
use crate::present::{Align, Column, Table, Tone};
use crate::record::readable::{duration, rate};
use crate::record::{Record, Status, begun_at, current_records, is_being_written, read_records, run_name, runs_by_age};
use crate::scenario::DEFAULT_OUTPUT_DIRECTORY;
use crate::statistics::median;

#[derive(Debug, Args)]
pub struct ListArguments {
    /// The directory of the runs
    #[arg(value_hint = ValueHint::DirPath, default_value = DEFAULT_OUTPUT_DIRECTORY)]
    pub directory: PathBuf,
    /// Print a line of JSON for each run
    #[arg(long)]
    pub json: bool,
}

/// Prints the runs of a directory.
///
/// # Errors
/// When the directory holds no run or cannot be read, or `out` cannot be written. A run that cannot be read is listed as such.
pub fn list(arguments: &ListArguments, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let runs: Vec<Listed> = runs_by_age(&arguments.directory)?.iter().map(|run| Listed::read(run)).collect();
    let text = if arguments.json { runs.iter().map(Listed::as_json).collect() } else { as_table(&runs, view) };
    print(&text, out)
}

/// What a line says of a run.
struct Listed {
    path: PathBuf,
    begun: Option<jiff::Timestamp>,
    /// The record that stands for each trial, or why none can be read.
    records: Result<Vec<Record>, String>,
    is_running: bool,
}

/// The lowest and the highest of several points' figures, each the median of the point's valid trials; without any, of all that did not fail.
type Range = Option<(f64, f64)>;

impl Listed {
    fn read(path: &Path) -> Self {
        let standing = |records: &[Record]| current_records(records).into_iter().cloned().collect();
        let records = read_records(path).map(|read| standing(&read.records)).map_err(|error| error.to_string());
        Listed { path: path.to_owned(), begun: begun_at(path), records, is_running: is_being_written(path) }
    }

    fn records(&self) -> &[Record] {
        self.records.as_deref().unwrap_or_default()
    }

    fn scenario(&self) -> String {
        self.records().first().map_or_else(|| "–".to_owned(), |record| record.scenario_name.clone())
    }

    /// The broker's kind, with the client where the scenario names one.
    fn kind(&self) -> String {
        let Some(record) = self.records().first() else { return "–".to_owned() };
        let kind = record.broker_kind().unwrap_or("–");
        let client = record.broker_asked_for().and_then(|(_, client, _)| client);
        client.map_or_else(|| kind.to_owned(), |client| format!("{kind} ({client})"))
    }

    fn points(&self) -> usize {
        self.by_point().count()
    }

    fn trials(&self) -> usize {
        self.by_point().map(<[Record]>::len).max().unwrap_or(0)
    }

    fn by_point(&self) -> impl Iterator<Item = &[Record]> {
        self.records().chunk_by(|one, next| one.point_index == next.point_index)
    }

    fn range(&self, figure: &dyn Fn(&Record) -> Option<f64>) -> Range {
        let of_point = |point: &[Record]| {
            let any_valid = point.iter().any(|record| record.verdict.valid);
            let is_counted = |record: &&Record| record.status != Status::Failed && (!any_valid || record.verdict.valid);
            median(&point.iter().filter(is_counted).map(figure).collect::<Option<Vec<f64>>>()?)
        };
        let figures: Vec<f64> = self.by_point().filter_map(of_point).collect();
        let lowest = figures.iter().copied().reduce(f64::min)?;
        Some((lowest, figures.into_iter().fold(lowest, f64::max)))
    }

    fn rate(&self) -> Range {
        self.range(&|record| Some(record.throughput.messages_per_second))
    }

    fn p99_ns(&self) -> Range {
        self.range(&|record| record.headline_latency()?.p99_ns.map(|value_ns| value_ns as f64))
    }

    fn valid(&self) -> usize {
        self.records().iter().filter(|record| record.verdict.valid).count()
    }

    fn verdict(&self) -> (Tone, String) {
        let records = self.records();
        let missed = records.iter().any(Record::missed_a_threshold);
        match (&self.records, self.valid()) {
            (Err(_), _) => (Tone::Bad, "unreadable".to_owned()),
            _ if self.is_running => (Tone::Doubtful, "runs".to_owned()),
            (Ok(_), _) if records.is_empty() => (Tone::Bad, "no trial has finished".to_owned()),
            (Ok(_), _) if records.len() == 1 => judged(&records[0]),
            (Ok(_), valid) if valid == records.len() && missed => (Tone::Doubtful, "threshold missed".to_owned()),
            (Ok(_), valid) if valid == records.len() => (Tone::Good, "valid".to_owned()),
            _ if records.iter().all(Record::is_demonstration) => (Tone::Doubtful, "demonstration".to_owned()),
            (Ok(_), valid) => (Tone::Bad, format!("{valid} of {} valid", records.len())),
        }
    }

    fn as_json(&self) -> String {
        let ends = |range: Range| range.map(|(lowest, highest)| json!([lowest, highest]));
        let line = json!({
            "path": self.path.display().to_string(),
            "begun": self.begun.map(|begun| begun.to_string()),
            "scenario": self.scenario(),
            "kind": self.kind(),
            "points": self.points(),
            "trials": self.trials(),
            "messages_per_second": ends(self.rate()),
            "p99_ns": ends(self.p99_ns()),
            "records": self.records().len(),
            "valid": self.valid(),
            "is_running": self.is_running,
            "error": self.records.as_ref().err(),
        });
        format!("{line}\n")
    }
}

fn as_table(runs: &[Listed], view: View) -> String {
    let column = |title: &str, align, rank, cell: &dyn Fn(&Listed) -> String| {
        Column::new(title, align, rank, runs.iter().map(cell))
    };
    let begun =
        |run: &Listed| run.begun.map_or("–".to_owned(), |begun| begun.strftime("%Y-%m-%d %H:%M:%S").to_string());
    let columns = vec![
        column("begun (UTC)", Align::Left, 5, &begun),
        column("scenario", Align::Left, 7, &Listed::scenario),
        column("broker", Align::Left, 6, &Listed::kind),
        column("trials", Align::Right, 4, &|run| format!("{} × {}", run.points(), run.trials())),
        column("messages/s", Align::Right, 9, &|run| shown(run.rate(), rate)),
        column("p99", Align::Right, 8, &|run| shown(run.p99_ns(), duration)),
        Column::toned("verdict", Align::Left, Column::KEEP, runs.iter().map(Listed::verdict)),
        column("directory", Align::Left, 1, &|run| run_name(&run.path)),
    ];
    Page::write(view, |page| {
        page.table(&Table { columns, ..Table::default() });
        for reason in runs.iter().filter_map(|run| run.records.as_ref().err()) {
            page.led("✗ unreadable  ", Tone::Bad, reason);
        }
    })
}

fn shown(range: Range, text: fn(f64) -> String) -> String {
    match range {
        None => "–".to_owned(),
        Some((lowest, highest)) if text(lowest) == text(highest) => text(lowest),
        Some((lowest, highest)) => format!("{} … {}", text(lowest), text(highest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    const VIEW: View = View { width: 120, colour: false, charts: false, details: false };

    fn run(base: &Path, name: &str, records: &[Record]) {
        std::fs::create_dir(base.join(name)).unwrap();
        let lines: String = records.iter().map(Record::to_line).collect();
        std::fs::write(base.join(name).join("records.jsonl"), lines).unwrap();
    }

    fn listed(directory: &Path, json: bool) -> String {
        let mut out = Vec::new();
        list(&ListArguments { directory: directory.to_owned(), json }, VIEW, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_for_each_run_with_the_newest_last() {
        let base = tempfile::tempdir().unwrap();
        let mut failed = Record { status: Status::Failed, ..sample::record() };
        failed.verdict.valid = false;
        let faster = |point_index, factor: f64| {
            let mut record = Record { point_index, ..sample::record() };
            record.throughput.messages_per_second *= factor;
            record
        };
        let mut doubtful = faster(1, 2.0);
        (doubtful.trial, doubtful.verdict.valid) = (2, false);
        doubtful.throughput.messages_per_second = 1.0;
        run(base.path(), "sweep-20260303T120000Z", &[faster(0, 1.0), faster(1, 2.0), doubtful]);
        run(base.path(), "orders-20260301T120000Z", &[sample::record()]);
        run(base.path(), "orders-20260302T120000Z", &[failed]);
        run(base.path(), "begun-20260304T120000Z", &[]);
        run(base.path(), "damaged-20260305T120000Z", &[]);
        std::fs::write(base.path().join("damaged-20260305T120000Z/records.jsonl"), "{}\n").unwrap();
        let shown = listed(base.path(), false).replace(&base.path().display().to_string(), "DIR");
        insta::assert_snapshot!(shown);
        let json = listed(base.path(), true);
        let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(&lines[2]["points"], &json!(2));
        assert_eq!(&lines[2]["trials"], &json!(2));
        assert_eq!((&lines[2]["records"], &lines[2]["valid"]), (&json!(3), &json!(2)));
    }
}
