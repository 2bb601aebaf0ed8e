//! Resumes a run that was stopped by a signal, a crash or a full disk. Checksums of the files that payloads are made from show that it sends
//! the same payloads.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::read::{read_checkpoint, read_lines};
use super::{
    DirectoryError, HLOG_FILE, INPUTS_FILE, RECORDS_FILE, RunDirectory, SCENARIO_FILE, SERIES_FILE, read_if_there,
    replace,
};
use crate::record::schema::line;
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
    if !path.exists() {
        return Err(DirectoryError::Missing { path: path.to_owned() });
    }
    if path.is_dir() && !file.exists() {
        return Err(DirectoryError::NotARun { path: path.to_owned(), missing: SCENARIO_FILE });
    }
    let kept = fs::read_to_string(&file).map_err(|error| DirectoryError::io("read", &file, error))?;
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
        replace(&path, &new, listed.iter().map(line).collect::<String>().as_bytes())
    }
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
    let text = read_if_there(&path)?.unwrap_or_default();
    Ok(read_lines(&path, &text)?.values)
}

#[cfg(test)]
#[path = "../../../tests/unit/record/directory/resume.rs"]
mod tests;
