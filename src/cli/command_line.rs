//! The command line: parsed, with a hint where a blank has split a value from its unit; and its completions and manual page.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser};

use super::Arguments;

/// Parses it. A mistake is printed and ends the process, as do `--help` and `--version`.
pub fn parse() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| with_hint(error, &words).exit())
}

/// `--rate 5 k/s` is three words, the last of which nothing takes.
fn with_hint(mut error: Error, words: &[OsString]) -> Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_split = |three: &&[OsString]| {
        let [option, number, unit] = [0, 1, 2].map(|index| three[index].to_string_lossy());
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        option.starts_with("--") && is_number && unit == unknown.as_str() && unit.starts_with(char::is_alphabetic)
    };
    let Some([option, number, unit]) = words.windows(3).find(is_split) else { return error };
    let [option, number, unit] = [option, number, unit].map(|word| word.to_string_lossy());
    let hint = format!("write the value as one word: '{option} {number}{unit}'");
    if error.kind() == ErrorKind::UnknownArgument {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
    }
    error
}

/// Prints a completion script.
///
/// # Errors
/// When `out` cannot be written.
pub fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "brokermark", &mut script);
    out.write_all(&script)
}

/// Prints the manual page in roff, the verbs' pages after it.
///
/// # Errors
/// When `out` cannot be written.
pub fn manual_page(mut out: &mut dyn Write) -> io::Result<()> {
    let command = Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    for verb in command.get_subcommands() {
        clap_mangen::Man::new(verb.clone()).title(format!("brokermark-{}", verb.get_name())).render(&mut out)?;
    }
    Ok(())
}
