//! Parse, dispatch, exit code; nothing else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    brokermark::cli::execute(brokermark::cli::Arguments::parse())
}
