//! `[output]`: the directory and the formats of results.

use std::path::PathBuf;

use crate::scenario::fields::Fields;
use crate::scenario::{Output, OutputFormat};

/// Where runs are kept unless the scenario or the command line says otherwise.
pub const DEFAULT_OUTPUT_DIRECTORY: &str = "results";

const FORMATS: [(&str, OutputFormat); 2] = [("hlog", OutputFormat::Hlog), ("open-metrics", OutputFormat::OpenMetrics)];

pub(super) const KEYS: &[&str] = &["directory", "formats"];

pub(super) fn read(root: &Fields<'_>) -> Output {
    let mut output = Output { directory: PathBuf::from(DEFAULT_OUTPUT_DIRECTORY), formats: vec![OutputFormat::Hlog] };
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
        output.formats = elements.iter().filter_map(|element| element.one_of(&FORMATS)).collect();
        output.formats.sort_unstable();
        output.formats.dedup();
    }
    output
}
