//! The exit codes of the program.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::notices::notice;

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
    /// Prints why a command could not run, or failed.
    pub fn failure(reason: impl Display) -> Self {
        notice!("error: {reason}");
        Exit::Failure
    }

    /// Prints what is wrong with the command line or the scenario. The errors of scenarios have heads of their own.
    pub fn usage(reason: impl Display) -> Self {
        notice!("{reason}");
        Exit::Usage
    }

    /// Prints what a command answers.
    pub fn print(text: &str, out: &mut dyn Write) -> Self {
        Exit::from_result(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// Prints a failure to standard error. A reader that closed the pipe is not a failure.
    pub fn from_result<E: Display + IsBrokenPipe>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Exit::Success,
            Err(error) if error.is_broken_pipe() => Exit::Success,
            Err(error) => Exit::failure(error),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Standard output. It remembers that something could not be written, so that no command that wrote half of its answer ends with success.
pub struct Output<W> {
    inner: W,
    /// The first error. A reader that closed the pipe does not count as an error.
    failure: Option<io::Error>,
}

impl<W: Write> Output<W> {
    pub fn new(inner: W) -> Self {
        Output { inner, failure: None }
    }

    /// Brings the rest to its reader. The exit code of the command: one that would be a success is a failure where something could not be
    /// written.
    pub fn finish(mut self, exit: Exit) -> Exit {
        let _ = self.flush();
        match self.failure {
            // The command has said so, or another reason.
            Some(_) if exit == Exit::Failure => exit,
            Some(error) => {
                notice!("error: standard output cannot be written: {error}");
                if exit == Exit::Interrupted { exit } else { Exit::Failure }
            }
            None => exit,
        }
    }

    fn remember<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &written
            && !error.is_broken_pipe()
            && error.kind() != io::ErrorKind::Interrupted
        {
            let error = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            self.failure.get_or_insert(error);
        }
        written
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.remember(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.remember(flushed)
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

impl IsBrokenPipe for super::show::ShowError {
    fn is_broken_pipe(&self) -> bool {
        matches!(self, super::show::ShowError::Print(error) if error.is_broken_pipe())
    }
}

impl IsBrokenPipe for String {}
