//! What is secret in a scenario or on a command line, and how it is kept out of records, files, output and errors.
//!
//! - `names`: the one list of names whose values are secret.
//! - `text`: secrets within a text that is not parsed: lines of a broken scenario, comments, URLs.
//! - `document`: secrets of a parsed scenario.
//! - `arguments`: secrets of a command line.
//! - [`Secret`]: a value that is read when it is needed.

mod arguments;
mod document;
mod names;
mod secret;
mod text;

pub use arguments::{mask_arguments, mask_override, masked_command_line};
pub use document::{mask_document, mask_tree};
pub use names::is_secret_name;
pub use secret::Secret;
pub use text::{MaskedText, mask_text, mask_url};

/// Replaces a secret.
const MASK: &str = "***";
