//! `--junit` and `--markdown`: files for a build server, with the checks of a run or a comparison.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Exit;
use crate::report::checks::{Check, junit, markdown};

#[derive(Debug, Default, Args)]
pub struct CheckFileArguments {
    /// Write thresholds and compared figures to this file as JUnit XML, which build servers show as tests
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Write the same to this file as a summary in Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub markdown: Option<PathBuf>,
}

impl CheckFileArguments {
    pub fn are_wanted(&self) -> bool {
        self.junit.is_some() || self.markdown.is_some()
    }

    /// Writes what is wanted. `exit` is that of the command; a file that cannot be written makes it a failure.
    pub fn write(&self, checks: &[Check], exit: Exit) -> Exit {
        let files = [(&self.junit, junit as fn(&[Check]) -> String), (&self.markdown, markdown)];
        for (file, text) in files {
            if let Some(path) = file
                && let Err(error) = fs::write(path, text(checks))
            {
                return Exit::failure(format!("cannot write {}: {error}", path.display()));
            }
        }
        exit
    }
}
