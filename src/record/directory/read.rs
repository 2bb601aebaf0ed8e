//! Reads a run directory, for `show` and for resuming.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{CHECKPOINT_FILE, DirectoryError, RECORDS_FILE, SCENARIO_FILE, SEARCH_FILE, SERIES_FILE, read_if_there};
use crate::notices::notice;
use crate::record::{Phase, Record, SCHEMA, SearchRecord, SeriesRow};

/// How a record of any version begins, and the name of its schema without the version.
const RECORD_BEGIN: &str = "{\"schema\":\"brokermark.record/";
const SCHEMA_NAME: &str = "brokermark.record/";

/// What a file of records holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadRecords {
    /// Records in the order of the file.
    pub records: Vec<Record>,
    /// A crash cut the last line off; it is not among the records.
    pub cut_off: bool,
    /// Lines of a log that are not records.
    pub passed_over: usize,
}

impl ReadRecords {
    /// Says on standard error where lines of the file at `path` were passed over.
    pub fn tell_passed_over(&self, path: &Path) {
        if self.passed_over > 0 {
            let (lines, are) = if self.passed_over == 1 {
                ("line", "is not a record and was")
            } else {
                ("lines", "are not records and were")
            };
            notice!("note: {} {lines} of {} {are} passed over", self.passed_over, path.display());
        }
    }
}

/// The records of a run directory, of a `records.jsonl`, of a log that has records among its lines, or of a file with a single record
/// however it is laid out.
///
/// # Errors
/// When the file does not exist, has no record, or has one that this version cannot read; of a run directory also when a line other
/// than a cut-off last one is not a record.
pub fn read_records(path: &Path) -> Result<ReadRecords, DirectoryError> {
    let file = if path.is_dir() { path.join(RECORDS_FILE) } else { path.to_owned() };
    if path.is_dir() && !file.exists() {
        return Err(DirectoryError::NotARun { path: path.to_owned(), missing: RECORDS_FILE });
    }
    let text = fs::read(&file).map_err(|error| DirectoryError::io("read", &file, error))?;
    if let Ok(record) = serde_json::from_slice::<Record>(&text)
        && record.schema == SCHEMA
    {
        return Ok(ReadRecords { records: vec![record], ..ReadRecords::default() });
    }
    // A log may lie beside a file of this name.
    let is_records_file = file.file_name().is_some_and(|name| name == RECORDS_FILE);
    let is_of_run =
        is_records_file && (path.is_dir() || path.parent().is_some_and(|parent| parent.join(SCENARIO_FILE).exists()));
    if !is_of_run {
        let logged = read_log(&file, &text)?;
        // Without a record, the first line says what the file is.
        if !logged.records.is_empty() {
            return Ok(logged);
        }
    }
    let lines = read_lines::<Record>(&file, &text)?;
    for (index, record) in lines.values.iter().enumerate() {
        if record.schema != SCHEMA {
            return Err(unknown_schema(&file, index + 1, &record.schema));
        }
    }
    Ok(ReadRecords { records: lines.values, cut_off: lines.cut_off.is_some(), passed_over: 0 })
}

/// The records among the lines of a log, which may have a time or a name before each line, as `kubectl logs --timestamps` writes them.
fn read_log(file: &Path, text: &[u8]) -> Result<ReadRecords, DirectoryError> {
    let mut read = ReadRecords::default();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() {
            continue;
        }
        let begin = line.find(RECORD_BEGIN).unwrap_or(0);
        // What follows a record on its line is of the log as well.
        let mut values = serde_json::Deserializer::from_slice(&line.as_bytes()[begin..]).into_iter::<Record>();
        match values.next() {
            Some(Ok(record)) if record.schema == SCHEMA => read.records.push(record),
            _ => match schema_of(&line[begin..]) {
                Some(schema) if schema != SCHEMA && schema.starts_with(SCHEMA_NAME) => {
                    return Err(unknown_schema(file, index + 1, &schema));
                }
                _ => read.passed_over += 1,
            },
        }
    }
    Ok(read)
}

/// The seconds of a run directory; empty when it has none. A cut-off last line is left out.
///
/// # Errors
/// When the file is there and a line other than a cut-off last one is not a row.
pub fn read_series(directory: &Path) -> Result<Vec<SeriesRow>, DirectoryError> {
    let file = directory.join(SERIES_FILE);
    let text = read_if_there(&file)?.unwrap_or_default();
    Ok(read_lines(&file, &text)?.values)
}

/// The last checkpoint of a trial that has no record: it is still running, or was when the run was killed. One that
/// `records` know more of is left out.
///
/// # Errors
/// When the file is there and cannot be read, or is not a record that this version reads.
pub fn read_checkpoint(directory: &Path, records: &[Record]) -> Result<Option<Record>, DirectoryError> {
    let file = directory.join(CHECKPOINT_FILE);
    let Some(text) = read_if_there(&file)? else { return Ok(None) };
    let checkpoint: Record = serde_json::from_slice(&text).map_err(|error| damaged(&file, 1, &text, &error))?;
    if checkpoint.schema != SCHEMA {
        return Err(unknown_schema(&file, 1, &checkpoint.schema));
    }
    let superseded = records.iter().any(|record| {
        (record.point_index, record.trial) == (checkpoint.point_index, checkpoint.trial)
            && record.started_at >= checkpoint.started_at
    });
    Ok((!superseded).then_some(checkpoint))
}

/// What a search has found whose run is in `directory`; `None` where the run was not one of a search.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read_search(directory: &Path) -> Result<Option<SearchRecord>, DirectoryError> {
    let file = directory.join(SEARCH_FILE);
    let text = read_if_there(&file)?.unwrap_or_default();
    Ok(read_lines(&file, &text)?.values.pop())
}

/// Whether a run still goes on in `directory`: its process holds a lock. False where that cannot be known.
pub fn is_being_written(directory: &Path) -> bool {
    let locked = |file: fs::File| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
    fs::File::open(directory.join(RECORDS_FILE)).is_ok_and(locked)
}

/// The record that stands for each trial, in the order of runs, points and trials: of a trial that was run anew after an
/// interruption or a failure, the last.
pub fn current_records(records: &[Record]) -> Vec<&Record> {
    let runs = run_ids(records);
    let run = |record: &Record| runs.iter().position(|id| *id == record.run_id);
    let current: BTreeMap<(Option<usize>, usize, u32), &Record> =
        records.iter().map(|record| ((run(record), record.point_index, record.trial), record)).collect();
    current.into_values().collect()
}

/// The runs that the records are of, in the order of the file. A file that a user put together may have several.
pub fn run_ids(records: &[Record]) -> Vec<&str> {
    let mut runs: Vec<&str> = Vec::new();
    for record in records {
        if !runs.contains(&record.run_id.as_str()) {
            runs.push(&record.run_id);
        }
    }
    runs
}

/// The seconds that belong to a trial's current record: of a trial that was run anew, those since its seconds began anew.
pub fn current_series(rows: &[SeriesRow], point_index: usize, trial: u32) -> Vec<SeriesRow> {
    let mut current: Vec<SeriesRow> = Vec::new();
    for row in rows.iter().filter(|row| row.point_index == point_index && row.trial == trial) {
        if current.last().is_some_and(|last| begins_anew(last, row)) {
            current.clear();
        }
        current.push(row.clone());
    }
    current
}

/// Whether `row` is the first of another execution than `last`: time goes back, or a phase that had passed.
fn begins_anew(last: &SeriesRow, row: &SeriesRow) -> bool {
    let order = |phase| match phase {
        Phase::WarmUp => 0,
        Phase::Measure => 1,
        Phase::Drain => 2,
    };
    // Of a window below 10 s, several rows begin in one second.
    let began_again = row.begin_ns.zip(last.begin_ns).is_some_and(|(now, before)| now <= before);
    began_again || row.second < last.second || row.second == last.second && order(row.phase) < order(last.phase)
}

/// The lines of a file, and where its last line begins if that was cut off.
pub(super) struct Lines<T> {
    pub(super) values: Vec<T>,
    pub(super) cut_off: Option<usize>,
}

pub(super) fn read_lines<T: DeserializeOwned>(file: &Path, text: &[u8]) -> Result<Lines<T>, DirectoryError> {
    let mut lines = Lines { values: Vec::new(), cut_off: None };
    let mut begin = 0;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = begin + line.len();
        if !line.trim_ascii().is_empty() {
            match serde_json::from_slice(line) {
                Ok(value) => lines.values.push(value),
                // Only a crash leaves a line without its end, and only as the last one.
                Err(_) if !line.ends_with(b"\n") => lines.cut_off = Some(begin),
                Err(error) => return Err(damaged(file, index + 1, line, &error)),
            }
        }
        begin = end;
    }
    Ok(lines)
}

/// A line may be unreadable because it is of another version.
fn damaged(file: &Path, line: usize, text: &[u8], error: &serde_json::Error) -> DirectoryError {
    match schema_of(&String::from_utf8_lossy(text)) {
        Some(schema) if schema != SCHEMA => unknown_schema(file, line, &schema),
        _ => DirectoryError::Damaged { path: file.to_owned(), line, reason: error.to_string() },
    }
}

/// The schema that the document at the begin of a text names.
fn schema_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    let named = serde_json::Deserializer::from_slice(text.as_bytes()).into_iter::<Named>().next()?;
    named.ok().map(|named| named.schema)
}

fn unknown_schema(file: &Path, line: usize, found: &str) -> DirectoryError {
    DirectoryError::UnknownSchema { path: file.to_owned(), line, found: found.to_owned(), known: SCHEMA }
}

#[cfg(test)]
#[path = "../../../tests/unit/record/directory/read.rs"]
mod tests;
