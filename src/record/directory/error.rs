//! Why a run could not be kept or read, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

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
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                DirectoryError::NotWritable { path, source }
            }
            io::ErrorKind::NotFound => DirectoryError::Missing { path },
            _ => DirectoryError::Io { action, path, source },
        }
    }
}
