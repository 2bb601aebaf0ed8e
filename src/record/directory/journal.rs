//! Writes a trial to disk while it runs: its seconds, its interval log and its checkpoints.
//!
//! A thread of its own writes, so that a slow disk delays neither the load nor its sampling. Every second is written when
//! it comes, and synchronised every [`SYNCHRONISE_EVERY`] and at the trial's end: a killed process loses the second it was
//! in, a power cut what had not been synchronised.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Appender, CHECKPOINT_FILE, DirectoryError, HLOG_FILE, replace, synchronise_directory};
use crate::record::hlog::{self, HlogLines};
use crate::record::{Record, SeriesRow};

/// Seconds that may wait for a slow disk: a quarter of an hour, about 14 MB with an interval log.
const MAX_WAITING: usize = 1000;

/// How much of a trial a power cut may cost.
const SYNCHRONISE_EVERY: Duration = Duration::from_secs(10);

/// The name under which a checkpoint is written before it takes the place of the one before.
const UNFINISHED_CHECKPOINT: &str = "checkpoint.json.part";

/// Takes what is to be written, without waiting for the disk.
#[derive(Debug)]
pub struct Journal {
    series: PathBuf,
    /// `None` once the thread is to end.
    entries: Option<SyncSender<Entry>>,
    notices: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    /// Seconds of the trial that were dropped because the queue was full.
    skipped: u64,
}

enum Entry {
    Second {
        row: String,
        intervals: HlogLines,
    },
    Checkpoint(String),
    /// Bring everything to disk, and tell what went wrong since the last such entry.
    Settle(Sender<Option<DirectoryError>>),
}

impl Journal {
    /// Begins to write into `directory`, whose series is `series`.
    pub(super) fn begin(directory: &Path, series: Appender) -> Result<Self, DirectoryError> {
        let (entries, received) = sync_channel(MAX_WAITING);
        let (notify, notices) = channel();
        let path = series.path.clone();
        let writer = Writer {
            directory: directory.to_owned(),
            series,
            hlog: None,
            synchronised: Instant::now(),
            failure: None,
            notify,
        };
        let thread = thread::Builder::new()
            .name("brokermark-journal".into())
            .spawn(move || writer.work(&received))
            .map_err(|error| DirectoryError::io("start the thread that writes", directory, error))?;
        Ok(Journal { series: path, entries: Some(entries), notices, thread: Some(thread), skipped: 0 })
    }

    /// Hands over a second of the trial, and its lines of the interval log.
    pub fn second(&mut self, row: &SeriesRow, intervals: HlogLines) {
        let entry = Entry::Second { row: row.to_line(), intervals };
        if let Some(Err(TrySendError::Full(_))) = self.entries.as_ref().map(|entries| entries.try_send(entry)) {
            self.skipped += 1;
        }
    }

    /// Hands over the record of the trial so far. It is dropped if the queue is full: the next one replaces it anyway.
    pub fn checkpoint(&mut self, record: &Record) {
        if let Some(entries) = &self.entries {
            let _ = entries.try_send(Entry::Checkpoint(record.to_line()));
        }
    }

    /// The first write error of each trial, to be printed at once while the trial goes on.
    pub fn notice(&mut self) -> Option<String> {
        self.notices.try_recv().ok()
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    /// With the first thing that went wrong since the last call.
    pub(super) fn settle(&mut self) -> Result<(), DirectoryError> {
        let (reply, answer) = channel();
        if let Some(entries) = &self.entries {
            // The thread ends only when the entries do.
            let _ = entries.send(Entry::Settle(reply));
        }
        let failure = answer.recv().ok().flatten();
        let skipped = std::mem::take(&mut self.skipped);
        match failure {
            Some(failure) => Err(failure),
            None if skipped > 0 => Err(DirectoryError::TooSlow { path: self.series.clone(), seconds: skipped }),
            None => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.entries.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Writer {
    directory: PathBuf,
    series: Appender,
    /// Made with the first line for it.
    hlog: Option<Appender>,
    synchronised: Instant,
    /// The first failure of this trial.
    failure: Option<DirectoryError>,
    notify: Sender<String>,
}

impl Writer {
    fn work(mut self, entries: &Receiver<Entry>) {
        while let Ok(entry) = entries.recv() {
            match entry {
                Entry::Second { row, intervals } => {
                    let written = self.second(&row, &intervals);
                    self.keep(written);
                }
                Entry::Checkpoint(record) => {
                    let [path, unfinished] =
                        [CHECKPOINT_FILE, UNFINISHED_CHECKPOINT].map(|name| self.directory.join(name));
                    let written = replace(&path, &unfinished, record.as_bytes());
                    self.keep(written);
                    drop(record);
                    return_free_memory();
                }
                Entry::Settle(reply) => {
                    let synchronised = self.synchronise();
                    self.keep(synchronised);
                    // The journal waits for the answer, unless it is being dropped.
                    let _ = reply.send(self.failure.take());
                }
            }
        }
        let _ = self.synchronise();
    }

    fn keep(&mut self, result: Result<(), DirectoryError>) {
        if let (Err(error), None) = (result, &self.failure) {
            // A journal that is being dropped has no reader any more.
            let _ = self.notify.send(error.to_string());
            self.failure = Some(error);
        }
    }

    fn second(&mut self, row: &str, intervals: &HlogLines) -> Result<(), DirectoryError> {
        // One that fails does not keep the other from being written.
        let written = self.series.write(row.as_bytes()).and(self.intervals(intervals));
        if self.synchronised.elapsed() >= SYNCHRONISE_EVERY { written.and(self.synchronise()) } else { written }
    }

    fn intervals(&mut self, lines: &HlogLines) -> Result<(), DirectoryError> {
        let Some(started) = lines.started() else { return Ok(()) };
        let log = match &mut self.hlog {
            Some(log) => log,
            None => {
                let log = self.hlog.insert(Appender::open(self.directory.join(HLOG_FILE))?);
                synchronise_directory(&self.directory)?;
                log
            }
        };
        if log.is_empty()? {
            log.write(hlog::header(started).as_bytes())?;
        }
        log.write(lines.text())
    }

    fn synchronise(&mut self) -> Result<(), DirectoryError> {
        self.synchronised = Instant::now();
        let series = self.series.synchronise();
        series.and(self.hlog.as_mut().map_or(Ok(()), Appender::synchronise))
    }
}

/// Gives free memory back to the system. Each checkpoint allocates and frees megabytes; glibc would keep them, and the process would grow.
fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, on any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Removes the checkpoint of a trial whose record is there.
///
/// # Errors
/// When it is there and cannot be removed.
pub(super) fn remove_checkpoint(directory: &Path) -> Result<(), DirectoryError> {
    for name in [CHECKPOINT_FILE, UNFINISHED_CHECKPOINT] {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(DirectoryError::io("remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../../tests/unit/record/directory/journal.rs"]
mod tests;
