//! The exit codes of the program.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The meaning of each exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Ran, and every threshold held.
    Success = 0,
    /// Could not run, or failed.
    Failure = 1,
    /// The command line or the scenario is wrong.
    Usage = 2,
    /// A threshold was missed, or its record is not valid; or a comparison found a regression.
    ThresholdMissed = 3,
    /// Interrupted; results are kept.
    Interrupted = 130,
}

impl Exit {
    /// Prints a failure to standard error. A reader that closed the pipe is not a failure.
    pub fn from_result<E: Display + IsBrokenPipe>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Exit::Success,
            Err(error) if error.is_broken_pipe() => Exit::Success,
            Err(error) => {
                eprintln!("error: {error}");
                Exit::Failure
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Whether an error only means that the reader closed the pipe.
pub trait IsBrokenPipe {
    fn is_broken_pipe(&self) -> bool {
        false
    }
}

impl IsBrokenPipe for io::Error {
    fn is_broken_pipe(&self) -> bool {
        self.kind() == io::ErrorKind::BrokenPipe
    }
}

impl IsBrokenPipe for super::show::ShowError {}

impl IsBrokenPipe for String {}
