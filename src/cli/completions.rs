//! `brokermark completions` and `brokermark man`: generated from the definition of the command line.

use std::io::{self, Write};

use clap::CommandFactory;

use super::Arguments;

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
