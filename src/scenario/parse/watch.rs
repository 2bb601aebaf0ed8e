//! `[broker.watch]`: where the CPU and memory of the broker's processes are read.

use std::path::PathBuf;

use toml::Value;

use crate::scenario::fields::{Field, Fields};
use crate::scenario::{Watch, WatchedProcess};

pub(super) const KEYS: &[&str] = &["processes", "metrics"];

const PROCESSES: &str = "write `processes = [1234]`, or the file that has the id: `processes = [\"/run/server.pid\"]`";
const METRICS: &str = "write `metrics = [\"http://host:port/metrics\"]`";

pub(super) fn read(root: &Fields<'_>) -> Watch {
    // What is wrong with the rest of `[broker]` is told where it is read.
    let fields = root.get("broker").filter(|field| field.value.is_table()).and_then(|field| {
        let table = field.value.get("watch")?;
        let watch = Field { value: table, path: field.path.key("watch"), problems: field.problems };
        watch.fields(KEYS)
    });
    let Some(fields) = fields else { return Watch::default() };
    let elements = |key: &str, advice| fields.get(key).and_then(|field| field.elements(advice)).unwrap_or_default();
    Watch {
        processes: elements("processes", PROCESSES).iter().filter_map(process).collect(),
        metrics: elements("metrics", METRICS).iter().filter_map(url).collect(),
    }
}

fn process(field: &Field<'_>) -> Option<WatchedProcess> {
    match field.value {
        Value::String(path) if !path.is_empty() => Some(WatchedProcess::File(PathBuf::from(path))),
        Value::Integer(id) => match u32::try_from(*id) {
            Ok(id) if id > 0 => Some(WatchedProcess::Id(id)),
            _ => {
                field.refuse(format!("`{}`: no process has the id {id}", field.path), PROCESSES);
                None
            }
        },
        _ => {
            field.refuse(format!("`{}` should be the id of a process", field.path), PROCESSES);
            None
        }
    }
}

fn url(field: &Field<'_>) -> Option<String> {
    let text = field.string()?;
    let host = text.strip_prefix("http://").unwrap_or_default();
    if host.is_empty() || host.starts_with('/') || text.contains(char::is_whitespace) {
        field.refuse(format!("`{}` should be a URL with http://", field.path), METRICS);
        return None;
    }
    Some(text.to_owned())
}
