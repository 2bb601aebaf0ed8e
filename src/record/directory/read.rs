//! Reads a run directory, for `show` and for resuming.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{CHECKPOINT_FILE, DirectoryError, RECORDS_FILE, SCENARIO_FILE, SEARCH_FILE, SERIES_FILE};
use crate::notices::notice;
use crate::record::{Phase, Record, SCHEMA, SearchRecord, SeriesRow};

/// A full row that lasted so long was a whole second, as samples come a little early or late.
const MIN_WHOLE_SECONDS: f64 = 0.9;

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
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
            return Err(DirectoryError::NotARun { path: path.to_owned(), missing: RECORDS_FILE });
        }
        Err(error) => return Err(DirectoryError::io("read", &file, error)),
    };
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
        let mut values = serde_json::Deserializer::from_str(&line[begin..]).into_iter::<Record>();
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
    match fs::read(&file) {
        Ok(text) => Ok(read_lines(&file, &text)?.values),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(DirectoryError::io("read", &file, error)),
    }
}

/// The last checkpoint of a trial that has no record: it is still running, or was when the run was killed. One that
/// `records` know more of is left out.
///
/// # Errors
/// When the file is there and cannot be read, or is not a record that this version reads.
pub fn read_checkpoint(directory: &Path, records: &[Record]) -> Result<Option<Record>, DirectoryError> {
    let file = directory.join(CHECKPOINT_FILE);
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DirectoryError::io("read", &file, error)),
    };
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
    match fs::read(&file) {
        Ok(text) => Ok(read_lines(&file, &text)?.values.pop()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DirectoryError::io("read", &file, error)),
    }
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

/// The runs that the records are of, in the order of the file. A file that somebody put together may have several.
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

/// Whether `row` is the first of another execution than `last`: time goes back, or a phase that had passed, or a whole
/// second begins twice.
fn begins_anew(last: &SeriesRow, row: &SeriesRow) -> bool {
    let order = |phase| match phase {
        Phase::WarmUp => 0,
        Phase::Measure => 1,
        Phase::Drain => 2,
    };
    let (before, now) = (order(last.phase), order(row.phase));
    // Of a short window, several rows begin in one second.
    let was_whole = last.full && last.seconds() >= MIN_WHOLE_SECONDS;
    row.second < last.second || row.second == last.second && (now < before || now == before && now < 2 && was_whole)
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
    let named = serde_json::Deserializer::from_str(text).into_iter::<Named>().next()?;
    named.ok().map(|named| named.schema)
}

fn unknown_schema(file: &Path, line: usize, found: &str) -> DirectoryError {
    DirectoryError::UnknownSchema { path: file.to_owned(), line, found: found.to_owned(), known: SCHEMA }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Status, sample};

    #[test]
    fn a_single_record_may_be_laid_out_over_many_lines() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("one.json");
        fs::write(&file, serde_json::to_string_pretty(&sample::record()).unwrap()).unwrap();
        assert_eq!(read_records(&file).unwrap().records, [sample::record()]);
    }

    #[test]
    fn cut_off_last_line_is_reported_and_damage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(RECORDS_FILE);
        let line = sample::record().to_line();
        let half = &line[..line.len() / 2];
        fs::write(&file, format!("{line}{half}")).unwrap();
        let read = read_records(directory.path()).unwrap();
        assert_eq!((read.records.len(), read.cut_off), (1, true));
        fs::write(&file, format!("{half}\n{line}")).unwrap();
        let error = read_records(directory.path()).unwrap_err();
        assert!(matches!(error, DirectoryError::Damaged { line: 1, .. }), "{error}");
    }

    #[test]
    fn a_log_is_read_for_the_records_among_its_lines() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("all.txt");
        let line = sample::record().to_line();
        let cut = &line[line.len() / 2..];
        let log =
            format!("{cut}warming up 3s\n\n2026-11-25T12:00:00.1Z {line}[pod/a] {}  ✓\nerror: no\n", line.trim_end());
        fs::write(&file, &log).unwrap();
        let read = read_records(&file).unwrap();
        assert_eq!((read.records, read.passed_over), (vec![sample::record(); 2], 3));
        fs::write(&file, format!("{log}{}", line.replace("record/1", "record/9"))).unwrap();
        assert!(matches!(read_records(&file), Err(DirectoryError::UnknownSchema { line: 7, .. })));
        fs::write(&file, "no record\n").unwrap();
        assert!(matches!(read_records(&file), Err(DirectoryError::Damaged { line: 1, .. })));
    }

    #[test]
    fn a_log_beside_a_scenario_is_no_run() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(SCENARIO_FILE), "").unwrap();
        let text = format!("warming up\n{}", sample::record().to_line());
        let log = directory.path().join("run.log");
        fs::write(&log, &text).unwrap();
        let read = read_records(&log).unwrap();
        assert_eq!((read.records, read.passed_over), (vec![sample::record()], 1));
        // Of a run, a line that is not a record is damage.
        let records = directory.path().join(RECORDS_FILE);
        fs::write(&records, &text).unwrap();
        for path in [records.as_path(), directory.path()] {
            assert!(matches!(read_records(path), Err(DirectoryError::Damaged { line: 1, .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_record_of_another_version_is_named_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(RECORDS_FILE);
        let line = sample::record().to_line();
        for text in [line.replace("brokermark.record/1", "brokermark.record/9"), "{\"schema\":\"other/1\"}\n".into()] {
            fs::write(&file, format!("{line}{text}")).unwrap();
            let error = read_records(directory.path()).unwrap_err();
            assert!(matches!(error, DirectoryError::UnknownSchema { line: 2, .. }), "{error}");
        }
    }

    #[test]
    fn the_last_record_of_a_trial_stands() {
        let interrupted = Record { status: Status::Interrupted, ..sample::record() };
        let records = [interrupted, sample::record()];
        assert_eq!(current_records(&records), [&sample::record()]);
    }

    #[test]
    fn trials_of_two_runs_stand_beside_each_other() {
        let other = Record { run_id: "another".to_owned(), ..sample::record() };
        let records = [sample::record(), other.clone(), sample::record()];
        assert_eq!(run_ids(&records), [sample::record().run_id.as_str(), "another"]);
        assert_eq!(current_records(&records), [&sample::record(), &other]);
    }

    #[test]
    fn the_seconds_since_the_last_begin_stand() {
        let first = sample::series()[..5].to_vec();
        let again = sample::series();
        let other = SeriesRow { trial: 2, ..again[0].clone() };
        let rows = [first, vec![other], again.clone()].concat();
        assert_eq!(current_series(&rows, 0, 1), again);
        assert_eq!(current_series(&rows, 0, 2).len(), 1);
    }

    #[test]
    fn series_of_a_repeated_trial_has_the_later_seconds() {
        let again = sample::series();
        for killed_after in 1..=again.len() {
            let rows = [&again[..killed_after], &again[..]].concat();
            assert_eq!(current_series(&rows, 0, 1), again, "killed after {killed_after} rows");
        }
        let measured: Vec<SeriesRow> =
            (0..3).map(|second| SeriesRow { second, phase: Phase::Measure, ..again[0].clone() }).collect();
        assert_eq!(current_series(&[&measured[..1], &measured[..]].concat(), 0, 1), measured);
    }

    #[test]
    fn the_tenths_of_a_short_window_are_one_trial() {
        let tenth = |number: u64| SeriesRow {
            second: number / 10,
            length_ns: 100_000_000,
            phase: Phase::Measure,
            ..sample::series()[5].clone()
        };
        let rows: Vec<SeriesRow> = (0..20).map(tenth).collect();
        assert!(rows.iter().all(|row| row.full));
        assert_eq!(current_series(&rows, 0, 1), rows);
    }

    #[test]
    fn a_checkpoint_stands_until_its_trial_has_a_later_record() {
        let directory = tempfile::tempdir().unwrap();
        let read = |records: &[Record]| read_checkpoint(directory.path(), records).unwrap();
        assert_eq!(read(&[]), None);
        let running = Record { status: Status::Running, ..sample::record() };
        fs::write(directory.path().join(CHECKPOINT_FILE), running.to_line()).unwrap();
        let other = Record { trial: 2, ..sample::record() };
        let before = Record { started_at: jiff::Timestamp::UNIX_EPOCH, ..sample::record() };
        assert_eq!(read(&[other, before]).as_ref(), Some(&running));
        assert_eq!(read(&[sample::record()]), None);
    }
}
