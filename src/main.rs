//! Parse, dispatch, exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    brokermark::cli::execute(brokermark::cli::parse())
}
