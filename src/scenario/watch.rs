//! Where the CPU and memory of the broker's processes are read.

use std::fmt;
use std::path::PathBuf;

/// What is watched of the broker; nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watch {
    /// Processes on this machine, each with its descendants.
    pub processes: Vec<WatchedProcess>,
    /// URLs of Prometheus endpoints, with `http`.
    pub metrics: Vec<String>,
}

/// A process on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedProcess {
    Id(u32),
    /// The file's first word is the id.
    File(PathBuf),
}

impl fmt::Display for WatchedProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchedProcess::Id(id) => write!(formatter, "process {id}"),
            WatchedProcess::File(path) => write!(formatter, "the process in {}", path.display()),
        }
    }
}
