//! `[output]`: the directory and the formats of results.

use std::path::PathBuf;

use crate::scenario::fields::Fields;
use crate::scenario::{Output, OutputFormat};

pub(super) const KEYS: &[&str] = &["directory", "formats"];

pub(super) fn read(root: &Fields<'_>) -> Output {
    let mut output = Output { directory: PathBuf::from("results"), formats: vec![OutputFormat::Hlog] };
    let Some(fields) = root.get("output").and_then(|field| field.fields(KEYS)) else { return output };
    if let Some(field) = fields.get("directory")
        && let Some(text) = field.string()
    {
        if text.is_empty() {
            field.refuse("`output.directory` is empty", "write \".\" for the working directory");
        }
        output.directory = PathBuf::from(text);
    }
    if let Some(field) = fields.get("formats") {
        let empty = field.value.as_array().is_some_and(Vec::is_empty);
        let elements =
            if empty { Vec::new() } else { field.elements("write `formats = [\"hlog\"]`").unwrap_or_default() };
        output.formats =
            elements.iter().filter_map(|element| element.one_of(&[("hlog", OutputFormat::Hlog)])).collect();
        output.formats.sort_unstable();
        output.formats.dedup();
    }
    output
}
