//! What is told to people on standard error.
//!
//! A notice never ends the program: a full disk, a closed terminal or a pipe without a reader only loses the notice. The macro of the standard library panics
//! there, so clippy's `print_stderr` forbids it in this crate.

use std::fmt;
use std::io::{self, Write, stderr};

use crate::printable::printable_paint;

/// Standard error. What cannot be written there is lost, without an error: libraries that draw on it print their errors where it panics.
pub(crate) struct LossyStderr;

impl Write for LossyStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = stderr().flush();
        Ok(())
    }
}

/// Prints text to standard error in one piece, if it can be written, without characters of others that a terminal obeys.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    let _ = LossyStderr.write(printable_paint(&text.to_string()).as_bytes());
}

/// Prints a line to standard error, formatted as `format!` does. Where it cannot be written, it is lost.
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::notices::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use notice;
