//! The directory of one run: made once, appended to, never overwritten but for the checkpoint.
//!
//! A trial's series and interval log are appended by its [`Journal`] while it runs; its record comes last and is what makes
//! it count. The record is on disk, and all that belongs to it (files and directory synchronised), when
//! [`RunDirectory::append_record`] returns. A failed append takes back what it had written, so that the files stay readable;
//! the record is still the caller's, who prints [`Record::to_line`] instead of losing it.

mod journal;
mod read;
mod resume;
mod runs;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use journal::Journal;
pub use read::{
    ReadRecords, current_records, current_series, is_being_written, read_checkpoint, read_records, read_search,
    read_series, run_ids,
};
pub use resume::{CompletedTrial, InputFile, Resumed};
pub use runs::{begun_at, directory_of, newest_run, probe, run_name, runs_at, runs_by_age};

use super::{HlogLines, Record, SearchRecord, SeriesRow};
use crate::measure::MessageSets;

/// The scenario as run.
pub const SCENARIO_FILE: &str = "scenario.toml";
/// One record a line, one line a trial.
pub const RECORDS_FILE: &str = "records.jsonl";
/// One row a line, one line a second.
pub const SERIES_FILE: &str = "series.jsonl";
/// The latencies as an HdrHistogram interval log.
pub const HLOG_FILE: &str = "latency.hlog";
/// What was in the files that payloads are made from, one file a line; only where there are any.
pub const INPUTS_FILE: &str = "inputs.jsonl";
/// Which messages were acknowledged and which arrived, by number; only of a share whose messages are verified.
pub const MESSAGES_FILE: &str = "messages.json";
/// The records of the shares that a merged record was made from.
pub const SHARES_FILE: &str = "shares.jsonl";
/// The figures of all trials for Prometheus, written at the run's end; only where they are asked for.
pub const METRICS_FILE: &str = "metrics.txt";
/// The record, so far, of the trial that is running or was when the run was killed.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// The answer of a search, whose probes are the trials.
pub const SEARCH_FILE: &str = "search.json";

/// Directories of one name and second that are tried before giving up.
const MAX_OF_ONE_SECOND: u32 = 1000;

/// A run's directory, open for appending.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    records: Appender,
    journal: Journal,
}

impl RunDirectory {
    /// Makes `<base>/<name>-<yyyymmddThhmmssZ>/`, with `-2`, `-3`, … appended while that exists already, and writes the
    /// scenario into it. `base` is made if it is not there.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be made or written.
    pub fn create(base: &Path, name: &str, started: Timestamp, scenario_text: &str) -> Result<Self, DirectoryError> {
        fs::create_dir_all(base).map_err(|error| DirectoryError::io("make", base, error))?;
        let path = make_new(base, &format!("{name}-{}", started.strftime("%Y%m%dT%H%M%SZ")))?;
        write_new(&path.join(SCENARIO_FILE), scenario_text.as_bytes())?;
        let directory = RunDirectory::open(path)?;
        synchronise_directory(base)?;
        Ok(directory)
    }

    fn open(path: PathBuf) -> Result<Self, DirectoryError> {
        let records = Appender::open(path.join(RECORDS_FILE))?;
        records.lock()?;
        let series = Appender::open(path.join(SERIES_FILE))?;
        synchronise_directory(&path)?;
        let journal = Journal::begin(&path, series)?;
        Ok(RunDirectory { path, records, journal })
    }

    /// Makes the directory `path`, which must not be there yet, and writes the scenario into it.
    ///
    /// # Errors
    /// When it is there, or cannot be made or written.
    pub fn create_at(path: &Path, scenario_text: &str) -> Result<Self, DirectoryError> {
        let base = path.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(base).map_err(|error| DirectoryError::io("make", base, error))?;
        fs::create_dir(path).map_err(|error| DirectoryError::io("make", path, error))?;
        write_new(&path.join(SCENARIO_FILE), scenario_text.as_bytes())?;
        let directory = RunDirectory::open(path.to_owned())?;
        synchronise_directory(base)?;
        Ok(directory)
    }

    /// Writes another file of the run, which must not be there yet.
    ///
    /// # Errors
    /// When it is there, or cannot be written.
    pub fn keep(&self, name: &str, contents: &[u8]) -> Result<(), DirectoryError> {
        write_new(&self.path.join(name), contents)?;
        synchronise_directory(&self.path)
    }

    /// Appends whole lines to another file of the run.
    ///
    /// # Errors
    /// When they cannot be brought to disk.
    pub fn append_to(&self, name: &str, lines: &[u8]) -> Result<(), DirectoryError> {
        Appender::open(self.path.join(name))?.append(lines)?;
        synchronise_directory(&self.path)
    }

    /// Where the run is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a trial's seconds while it runs.
    pub fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Waits until the trial's seconds are on disk and appends its record, which takes the place of its checkpoint. The
    /// trial counts as finished when the record is there, even where something else went wrong: a record with a gap in its
    /// series is worth more than none.
    ///
    /// # Errors
    /// When the seconds or the record could not be brought to disk, or the checkpoint not be removed. A record that could
    /// not be brought there is not in the file.
    pub fn append_record(&mut self, record: &Record) -> Result<(), DirectoryError> {
        let settled = self.journal.settle();
        self.records.append(record.to_line().as_bytes())?;
        settled.and(journal::remove_checkpoint(&self.path))
    }

    /// Keeps a record that was put together from those of shares, with all that belongs to it. `shares`: their records, a line each.
    ///
    /// # Errors
    /// When they cannot be brought to disk.
    pub fn append_merged(
        &mut self,
        record: &Record,
        series: &[SeriesRow],
        interval_log: &str,
        shares: &str,
    ) -> Result<(), DirectoryError> {
        self.append_to(SHARES_FILE, shares.as_bytes())?;
        self.append_to(HLOG_FILE, interval_log.as_bytes())?;
        for row in series {
            self.journal.second(row, HlogLines::default());
        }
        self.append_record(record)
    }

    /// Keeps the figures of all trials for Prometheus, in place of those that an earlier session kept.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn keep_metrics(&self, text: &str) -> Result<(), DirectoryError> {
        let path = self.path.join(METRICS_FILE);
        fs::write(&path, text).map_err(|error| DirectoryError::io("write", &path, error))
    }

    /// Keeps what a search has found.
    ///
    /// # Errors
    /// When it cannot be brought to disk.
    pub fn keep_search(&self, search: &SearchRecord) -> Result<(), DirectoryError> {
        self.append_to(SEARCH_FILE, search.to_line().as_bytes())
    }

    /// Keeps the messages of a share.
    ///
    /// # Errors
    /// When they cannot be brought to disk.
    pub fn keep_messages(&self, messages: &MessageSets) -> Result<(), DirectoryError> {
        let path = self.path.join(MESSAGES_FILE);
        let text = serde_json::to_vec(messages).map_err(|error| DirectoryError::io("write", &path, error.into()))?;
        self.keep(MESSAGES_FILE, &text)
    }
}

fn make_new(base: &Path, stem: &str) -> Result<PathBuf, DirectoryError> {
    for attempt in 1..=MAX_OF_ONE_SECOND {
        let path = match attempt {
            1 => base.join(stem),
            _ => base.join(format!("{stem}-{attempt}")),
        };
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(DirectoryError::io("make", &path, error)),
        }
    }
    Err(DirectoryError::Taken { path: base.join(stem), attempts: MAX_OF_ONE_SECOND })
}

/// Writes a file that must not be there yet, and brings it to disk.
fn write_new(path: &Path, contents: &[u8]) -> Result<(), DirectoryError> {
    let failed = |error| DirectoryError::io("write", path, error);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(contents).and_then(|()| file.sync_all()).map_err(|error| {
        // Half a file would be taken for a damaged one.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

/// Replaces a file as a whole, by one that is written beside it first: whatever happens, one of the two is there.
fn replace(path: &Path, unfinished: &Path, contents: &[u8]) -> Result<(), DirectoryError> {
    let write = || {
        let mut file = File::create(unfinished)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(unfinished);
        DirectoryError::io("write", unfinished, error)
    })?;
    synchronise_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Brings the directory's own entries to disk: without it a synchronised file may be nameless after a crash.
fn synchronise_directory(path: &Path) -> Result<(), DirectoryError> {
    if cfg!(unix) {
        File::open(path)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| DirectoryError::io("synchronise", path, error))?;
    }
    Ok(())
}

/// A file that only grows, by whole lines.
#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    file: File,
}

impl Appender {
    pub(in crate::record) fn open(path: PathBuf) -> Result<Self, DirectoryError> {
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(file) => Ok(Appender { path, file }),
            Err(error) => Err(DirectoryError::io("open", &path, error)),
        }
    }

    /// Holds off every other process that would append, until this one closes the file or ends.
    fn lock(&self) -> Result<(), DirectoryError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse { path: self.path.clone() }),
            Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(()),
            Err(TryLockError::Error(error)) => Err(DirectoryError::io("lock", &self.path, error)),
        }
    }

    fn is_empty(&self) -> Result<bool, DirectoryError> {
        let metadata = self.file.metadata().map_err(|error| DirectoryError::io("read", &self.path, error))?;
        Ok(metadata.len() == 0)
    }

    /// Writes whole lines and synchronises them.
    pub(in crate::record) fn append(&mut self, lines: &[u8]) -> Result<(), DirectoryError> {
        self.try_write(lines, File::sync_all).map_err(|error| DirectoryError::io("write", &self.path, error))
    }

    /// Writes whole lines.
    fn write(&mut self, lines: &[u8]) -> Result<(), DirectoryError> {
        self.try_write(lines, |_| Ok(())).map_err(|error| DirectoryError::io("write", &self.path, error))
    }

    /// Brings what was written to disk.
    fn synchronise(&mut self) -> Result<(), DirectoryError> {
        self.file.sync_data().map_err(|error| DirectoryError::io("synchronise", &self.path, error))
    }

    fn try_write(&mut self, lines: &[u8], synchronise: fn(&File) -> io::Result<()>) -> io::Result<()> {
        let before = self.file.seek(SeekFrom::End(0))?;
        let written = self.file.write_all(lines).and_then(|()| synchronise(&self.file));
        if written.is_err() {
            // Half a line would make the file unreadable. Should this fail too, reading tolerates a cut-off last line.
            let _ = self.file.set_len(before);
        }
        written
    }
}

/// Closing the file is not enough: a process that this one starts has a copy of its handle, and with it the lock, until it runs its program.
impl Drop for Appender {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Whether the file system has no locks: a run does not need one that has. NFS without its lock daemon answers ENOLCK.
fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(libc::ENOLCK)
}

/// A run directory cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{}: the disk is full: free some space or set `output.directory` to another disk, then continue with --resume", path.display())]
    Full { path: PathBuf, source: io::Error },
    #[error("{} cannot be written ({source}): change its permissions, or set `output.directory` to a directory of your own", path.display())]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("{} does not exist: `brokermark run` prints where it keeps a run", path.display())]
    Missing { path: PathBuf },
    #[error("{} contains no {missing}, so it is not a run directory of brokermark", path.display())]
    NotARun { path: PathBuf, missing: &'static str },
    #[error(
        "{} was run with another scenario (first difference in line {line}): resume with the scenario and overrides that it was started with, or start a new run",
        path.display()
    )]
    ScenarioDiffers { path: PathBuf, line: usize },
    #[error(
        "{} was started with other contents of {file}: restore the file, start a new run, or use --resume-anyway to send both",
        path.display()
    )]
    InputDiffers { path: PathBuf, file: String },
    #[error(
        "{} was started with {kept}, and this is {now}: the run would mix figures of both. Resume with the build that it was started with, start a new run, or use --resume-anyway to mix them",
        path.display()
    )]
    BuildDiffers { path: PathBuf, kept: String, now: String },
    #[error("{} is being written by another brokermark: wait until that run has ended, or stop it", path.display())]
    InUse { path: PathBuf },
    #[error("{}, line {line}: {reason}", path.display())]
    Damaged { path: PathBuf, line: usize, reason: String },
    #[error("{}, line {line} has the format '{found}', which this version cannot read (it reads '{known}'): use the version of brokermark that wrote it, or a newer one", path.display())]
    UnknownSchema { path: PathBuf, line: usize, found: String, known: &'static str },
    #[error("{} and {attempts} directories numbered after it exist already: remove some, or choose another `output.directory`", path.display())]
    Taken { path: PathBuf, attempts: u32 },
    #[error("{} took so long to write that {seconds} seconds of the series are missing: set `output.directory` to a faster disk", path.display())]
    TooSlow { path: PathBuf, seconds: u64 },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl DirectoryError {
    /// Whether the command line or the scenario differs from that of the run to be resumed.
    pub fn is_another_run(&self) -> bool {
        use DirectoryError::{BuildDiffers, InputDiffers, ScenarioDiffers};
        matches!(self, ScenarioDiffers { .. } | InputDiffers { .. } | BuildDiffers { .. })
    }

    pub(in crate::record) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DirectoryError::Full { path, source },
            io::ErrorKind::NotFound if action == "read" => DirectoryError::Missing { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound => {
                DirectoryError::NotWritable { path, source }
            }
            _ => DirectoryError::Io { action, path, source },
        }
    }
}

/// The messages of a share; `None` where nothing was verified.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read_messages(directory: &Path) -> Result<Option<MessageSets>, DirectoryError> {
    let path = directory.join(MESSAGES_FILE);
    let messages = read_if_there(&path)?.map(|text| serde_json::from_slice(&text)).transpose();
    messages.map_err(|error| DirectoryError::Damaged { path, line: error.line(), reason: error.to_string() })
}

/// A file of a run directory; `None` where there is none.
///
/// # Errors
/// When it is there and cannot be read.
pub fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>, DirectoryError> {
    match fs::read(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DirectoryError::io("read", file, error)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_system_without_locks_is_told_from_other_errors() {
        let is = |code| has_no_locks(&io::Error::from_raw_os_error(code));
        assert_eq!([libc::ENOLCK, libc::EOPNOTSUPP, libc::EIO].map(is), [true, true, false]);
    }

    use super::*;
    use crate::record::sample;

    fn started() -> Timestamp {
        "2026-03-01T12:00:00.25Z".parse().unwrap()
    }

    #[test]
    fn a_second_run_of_the_same_second_gets_its_own_directory() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("not/there/yet");
        let names: Vec<String> = (0..3)
            .map(|_| {
                let directory = RunDirectory::create(&base, "load", started(), "name = 'load'\n").unwrap();
                directory.path().file_name().unwrap().to_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(names, ["load-20260301T120000Z", "load-20260301T120000Z-2", "load-20260301T120000Z-3"]);
        assert_eq!(fs::read_to_string(base.join(&names[0]).join(SCENARIO_FILE)).unwrap(), "name = 'load'\n");
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let base = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::create(base.path(), "load", started(), "").unwrap();
        let (record, rows) = (sample::record(), sample::series());
        for row in &rows {
            directory.journal().second(row, HlogLines::default());
        }
        directory.append_record(&record).unwrap();
        directory.append_record(&record).unwrap();
        let read = read_records(directory.path()).unwrap();
        assert_eq!(read.records, [record.clone(), record]);
        assert!(!read.cut_off);
        assert_eq!(read_series(directory.path()).unwrap(), rows);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_named_with_advice() {
        let mut full = Appender::open("/dev/full".into()).unwrap();
        let error = full.append(b"{}\n").unwrap_err();
        assert!(matches!(error, DirectoryError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("/dev/full") && error.to_string().contains("free some space"), "{error}");
    }
}
