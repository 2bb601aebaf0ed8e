//! Resumes a run that was stopped by a signal, a crash or a full disk. Checksums of the files that payloads are made from show that it sends
//! the same payloads.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::read::{read_checkpoint, read_lines};
use super::{
    DirectoryError, HLOG_FILE, INPUTS_FILE, RECORDS_FILE, RunDirectory, SCENARIO_FILE, SERIES_FILE,
    synchronise_directory,
};
use crate::record::{Environment, Record, SeriesRow, Status};

/// Names a trial of a plan: its point's index and its repetition.
pub type CompletedTrial = (usize, u32);

/// A directory to go on with.
#[derive(Debug)]
pub struct Resumed {
    pub directory: RunDirectory,
    /// Records of completed trials, which need not be run again. Interrupted and failed ones are not among them; their
    /// records stay, and the later record of the same trial stands.
    pub complete: BTreeMap<CompletedTrial, Record>,
    /// The run's id, so that its trials keep sharing one; `None` when it has neither a record nor a checkpoint yet.
    pub run_id: Option<String>,
    /// What was repaired, one sentence each, for the user to read.
    pub repairs: Vec<String>,
}

impl RunDirectory {
    /// Opens the run at `path` to append the trials that are missing.
    ///
    /// A last line that a crash cut off is truncated away, and `repairs` reports it. Rows of a trial that has no record
    /// stay: where a trial's seconds begin anew, it was run anew.
    ///
    /// # Errors
    /// When it is not a run directory, another process is writing it, its scenario is not `scenario_text`, or a line other
    /// than the last is damaged.
    pub fn open_for_resume(path: &Path, scenario_text: &str) -> Result<Resumed, DirectoryError> {
        require_same_scenario(path, scenario_text)?;
        // Before anything is mended: it holds off a run that is still going on.
        let directory = RunDirectory::open(path.to_owned())?;
        let mut repairs = Vec::new();
        let records: Vec<Record> = mend(&path.join(RECORDS_FILE), &mut repairs)?;
        let _: Vec<SeriesRow> = mend(&path.join(SERIES_FILE), &mut repairs)?;
        mend_text(&path.join(HLOG_FILE), &mut repairs)?;
        let checkpoint = read_checkpoint(path, &records)?;
        let run_id = records.last().or(checkpoint.as_ref()).map(|record| record.run_id.clone());
        Ok(Resumed {
            directory,
            complete: records
                .into_iter()
                .filter(|record| record.status == Status::Completed)
                .map(|record| ((record.point_index, record.trial), record))
                .collect(),
            run_id,
            repairs,
        })
    }
}

impl Resumed {
    /// Refuses to put figures into the run that were measured by another build than `now`, or with other contents of the
    /// payloads' files than `files`.
    ///
    /// # Errors
    /// When they would be.
    pub fn require_same_program(&self, now: &Environment, files: &[InputFile]) -> Result<(), DirectoryError> {
        let path = || self.directory.path().to_owned();
        if let Some(changed) = changed(self.directory.path(), files)? {
            return Err(DirectoryError::InputDiffers { path: path(), file: changed.file.clone() });
        }
        let now = now.build();
        match self.complete.values().map(|record| record.environment.build()).find(|kept| *kept != now) {
            Some(kept) => Err(DirectoryError::BuildDiffers { path: path(), kept, now }),
            None => Ok(()),
        }
    }
}

fn require_same_scenario(path: &Path, wanted: &str) -> Result<(), DirectoryError> {
    let file = path.join(SCENARIO_FILE);
    let kept = match fs::read_to_string(&file) {
        Ok(kept) => kept,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
            return Err(DirectoryError::NotARun { path: path.to_owned(), missing: SCENARIO_FILE });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DirectoryError::Missing { path: path.to_owned() });
        }
        Err(error) => return Err(DirectoryError::io("read", &file, error)),
    };
    if kept == wanted {
        return Ok(());
    }
    let same = kept.lines().zip(wanted.lines()).take_while(|(kept, wanted)| kept == wanted).count();
    Err(DirectoryError::ScenarioDiffers { path: path.to_owned(), line: same + 1 })
}

/// Reads a file of lines and truncates a cut-off last one away.
fn mend<T: DeserializeOwned>(file: &Path, repairs: &mut Vec<String>) -> Result<Vec<T>, DirectoryError> {
    let Some(text) = read_if_there(file)? else { return Ok(Vec::new()) };
    let lines = read_lines(file, &text)?;
    match lines.cut_off {
        Some(begin) => truncate(file, begin, text.len(), repairs)?,
        None if !text.is_empty() && !text.ends_with(b"\n") => end_line(file)?,
        None => {}
    }
    Ok(lines.values)
}

/// The same for a file whose lines are not JSON: a line without its end is cut off.
fn mend_text(file: &Path, repairs: &mut Vec<String>) -> Result<(), DirectoryError> {
    let Some(text) = read_if_there(file)? else { return Ok(()) };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() { truncate(file, whole, text.len(), repairs) } else { Ok(()) }
}

fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>, DirectoryError> {
    match fs::read(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DirectoryError::io("read", file, error)),
    }
}

fn truncate(file: &Path, to: usize, from: usize, repairs: &mut Vec<String>) -> Result<(), DirectoryError> {
    OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|opened| opened.set_len(to as u64).and_then(|()| opened.sync_all()))
        .map_err(|error| DirectoryError::io("mend", file, error))?;
    repairs.push(format!("{}: removed the last {} bytes, a line that was cut off", name(file).display(), from - to));
    Ok(())
}

/// The last line is whole and lacks only its end.
fn end_line(file: &Path) -> Result<(), DirectoryError> {
    OpenOptions::new()
        .append(true)
        .open(file)
        .and_then(|mut opened| Write::write_all(&mut opened, b"\n"))
        .map_err(|error| DirectoryError::io("mend", file, error))
}

fn name(file: &Path) -> PathBuf {
    file.file_name().map_or_else(|| file.to_owned(), PathBuf::from)
}

/// Length and checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path, as the scenario has it.
    pub file: String,
    pub bytes: u64,
    /// Of its contents, in hexadecimal digits.
    pub crc32: String,
}

impl InputFile {
    /// Reads the files at these paths, which are named as the scenario names them.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read_all(files: &BTreeMap<String, PathBuf>) -> Result<Vec<Self>, DirectoryError> {
        let read = |(file, path): (&String, &PathBuf)| {
            let contents = fs::read(path).map_err(|error| DirectoryError::io("read", path, error))?;
            let crc32 = format!("{:08x}", crc32fast::hash(&contents));
            Ok(InputFile { file: file.clone(), bytes: contents.len() as u64, crc32 })
        };
        files.iter().map(read).collect()
    }
}

impl RunDirectory {
    /// Keeps what is in the files of a run that begins, or of one that was killed before all of them were listed.
    ///
    /// # Errors
    /// When that cannot be brought to disk.
    pub fn keep_inputs(&self, files: &[InputFile]) -> Result<(), DirectoryError> {
        let mut listed = kept(&self.path)?;
        let before = listed.len();
        for file in files {
            if !listed.iter().any(|listed| listed.file == file.file) {
                listed.push(file.clone());
            }
        }
        if listed.len() == before {
            return Ok(());
        }
        let (path, new) = (self.path.join(INPUTS_FILE), self.path.join(format!("{INPUTS_FILE}.new")));
        let lines: String = listed.iter().map(line_of).collect();
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(lines.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| DirectoryError::io("write", &path, error))?;
        synchronise_directory(&self.path)
    }
}

/// With its line end. Such a document can always be serialised.
fn line_of(file: &InputFile) -> String {
    serde_json::to_string(file).unwrap_or_default() + "\n"
}

/// The first of `files` whose contents are not those that the run in `directory` was begun with. A run that kept none is
/// taken to have had the same.
///
/// # Errors
/// When what was kept cannot be read.
pub(super) fn changed<'a>(directory: &Path, files: &'a [InputFile]) -> Result<Option<&'a InputFile>, DirectoryError> {
    let kept = kept(directory)?;
    Ok(files.iter().find(|file| kept.iter().any(|kept| kept.file == file.file && kept != *file)))
}

/// What the run in `directory` listed. A line that a crash cut off is left out.
fn kept(directory: &Path) -> Result<Vec<InputFile>, DirectoryError> {
    let path = directory.join(INPUTS_FILE);
    match fs::read(&path) {
        Ok(text) => Ok(read_lines(&path, &text)?.values),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(DirectoryError::io("read", &path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HlogLines, sample};

    const SCENARIO: &str = "name = 'load'\n[load]\nmodel = 'closed'\n";

    fn run(records: &[Record], tail: &str) -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::create(base.path(), "load", sample::record().started_at, SCENARIO).unwrap();
        for row in sample::series() {
            directory.journal().second(&row, HlogLines::default());
        }
        for record in records {
            directory.append_record(record).unwrap();
        }
        let path = directory.path().to_owned();
        for file in [RECORDS_FILE, SERIES_FILE, HLOG_FILE] {
            let mut opened = OpenOptions::new().create(true).append(true).open(path.join(file)).unwrap();
            Write::write_all(&mut opened, tail.as_bytes()).unwrap();
        }
        (base, path)
    }

    #[test]
    fn resume_knows_completed_trials_and_removes_cut_off_lines() {
        let second = Record { trial: 2, ..sample::record() };
        let interrupted = Record { trial: 3, status: Status::Interrupted, ..sample::record() };
        let (_base, path) = run(&[sample::record(), second.clone(), interrupted], "{\"schema\":\"broker");
        let mut resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
        assert_eq!(resumed.complete.keys().collect::<Vec<_>>(), [&(0, 1), &(0, 2)]);
        assert_eq!(resumed.repairs.len(), 3, "{:?}", resumed.repairs);
        assert_eq!(resumed.run_id, Some(second.run_id));
        resumed.directory.append_record(&Record { trial: 3, ..sample::record() }).unwrap();
        let read = super::super::read_records(&path).unwrap();
        assert_eq!((read.records.len(), read.cut_off), (4, false));
        drop(resumed);
        assert!(RunDirectory::open_for_resume(&path, SCENARIO).unwrap().repairs.is_empty());
    }

    #[test]
    fn a_run_is_resumed_by_one_process_at_a_time() {
        let (_base, path) = run(&[sample::record()], "");
        let first = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
        let second = RunDirectory::open_for_resume(&path, SCENARIO).unwrap_err();
        assert!(matches!(second, DirectoryError::InUse { .. }), "{second}");
        drop(first);
        RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    }

    #[test]
    fn a_crash_cut_at_any_byte_can_be_resumed() {
        let line = sample::record().to_line();
        let (_base, path) = run(&[], "");
        for cut in (0..line.len()).step_by(97).chain([line.len() - 1]) {
            fs::write(path.join(RECORDS_FILE), format!("{line}{}", &line[..cut])).unwrap();
            let resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
            assert_eq!(resumed.complete.len(), 1, "cut at {cut}");
            let text = fs::read_to_string(path.join(RECORDS_FILE)).unwrap();
            assert!(text.ends_with('\n'), "cut at {cut}");
        }
    }

    #[test]
    fn another_scenario_is_refused_with_the_line_that_differs() {
        let (_base, path) = run(&[], "");
        let error = RunDirectory::open_for_resume(&path, &SCENARIO.replace("closed", "open")).unwrap_err();
        assert!(matches!(error, DirectoryError::ScenarioDiffers { line: 3, .. }), "{error}");
    }

    #[test]
    fn another_build_is_refused_while_its_records_would_stay() {
        let (_base, path) = run(&[sample::record()], "");
        let resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
        let now = sample::record().environment;
        resumed.require_same_program(&now, &[]).unwrap();
        let other = Environment { brokermark_commit: Some("0ther".to_owned()), ..now };
        let error = resumed.require_same_program(&other, &[]).unwrap_err();
        assert!(error.is_another_run() && error.to_string().contains("(0ther, "), "{error}");
        drop(resumed);
        let (_base, path) = run(&[Record { status: Status::Interrupted, ..sample::record() }], "");
        RunDirectory::open_for_resume(&path, SCENARIO).unwrap().require_same_program(&other, &[]).unwrap();
    }

    #[test]
    fn other_directories_than_runs_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let error = RunDirectory::open_for_resume(base.path(), SCENARIO).unwrap_err();
        assert!(matches!(error, DirectoryError::NotARun { .. }), "{error}");
        let error = RunDirectory::open_for_resume(&base.path().join("none"), SCENARIO).unwrap_err();
        assert!(matches!(error, DirectoryError::Missing { .. }), "{error}");
    }

    /// A run that is killed while it begins may have listed a part of them.
    #[test]
    fn files_that_were_not_listed_are_listed_when_a_run_resumes() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDirectory::create_at(&base.path().join("run"), "").unwrap();
        let file = |name: &str, bytes| InputFile { file: name.to_owned(), bytes, crc32: "0".to_owned() };
        let (a, b) = (file("a", 1), file("b", 1));
        fs::write(run.path().join(INPUTS_FILE), format!("{}{{\"file\":\"b", line_of(&a))).unwrap();
        assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), None);
        run.keep_inputs(&[a.clone(), b.clone()]).unwrap();
        assert_eq!(kept(run.path()).unwrap(), [a, b]);
        assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), Some(&file("b", 2)));
    }
}
