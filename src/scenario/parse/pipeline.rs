//! `[pipeline]`: consumers that parse what they receive and write it to databases.

use toml::Value;

use super::broker::own_table;
use super::{Reader, path};
use crate::scenario::check::is_name;
use crate::scenario::suggestion::{closest, list};
use crate::scenario::tables::PipelineTable;
use crate::scenario::{Parse, Pipeline, Sink};

pub(super) fn read(reader: &Reader<'_>, table: &PipelineTable) -> Pipeline {
    if table.timestamp.is_some() && table.parse == Parse::None {
        let advice = "remove it, or set `pipeline.parse = \"json\"`";
        reader.refuse("pipeline.timestamp", "`pipeline.parse = \"none\"` reads no fields", advice);
    }
    if table.broker_timestamp && table.timestamp.is_some() {
        let message = "`pipeline.timestamp` already names the field with the time";
        reader.refuse("pipeline.broker_timestamp", message, "remove one of them");
    }
    if let Some(name) = table.group.as_ref().filter(|name| !is_name(name)) {
        let advice = "use letters, digits, dots, hyphens, underscores";
        reader.refuse("pipeline.group", format!("\"{name}\" cannot name a group"), advice);
    }
    let sinks = table.sinks.iter().enumerate();
    Pipeline {
        parse: table.parse,
        timestamp: table.timestamp.clone(),
        broker_timestamp: table.broker_timestamp,
        batch: table.batch.amount(),
        linger: table.linger.0,
        writers: table.writers.amount(),
        instances: table.instances.amount(),
        group: table.group.clone(),
        sinks_run: table.sinks_run,
        commit: table.commit,
        producer_mode: table.producer_mode,
        wait_for_sinks: table.wait_for_sinks,
        remove_rows: table.remove_rows,
        // No sinks are a way to measure what reading and parsing cost.
        sinks: sinks.filter_map(|(index, value)| sink(reader, index, value, table.parse)).collect(),
    }
}

fn sink(reader: &Reader<'_>, index: usize, value: &Value, parse: Parse) -> Option<Sink> {
    let place = path("pipeline.sinks").index(index);
    let sinks = reader.context.kinds.sinks;
    let known = || list(sinks.iter().map(|descriptor| descriptor.kind));
    let refuse = |message: String, advice: &str| reader.problems.value(place.clone(), message, advice);
    let Value::Table(table) = value else {
        refuse(format!("`{place}` should be a table"), "write `[[pipeline.sinks]]` with a `kind`");
        return None;
    };
    let Some(kind) = table.get("kind") else {
        refuse(format!("`kind` is missing in `{place}`"), &format!("this build knows {}", known()));
        return None;
    };
    let written = kind.as_str().unwrap_or_default();
    let Some(descriptor) = reader.context.kinds.sink(written) else {
        let advice = match closest(written, sinks.iter().map(|descriptor| descriptor.kind)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if sinks.is_empty() => "this build has no sinks".to_owned(),
            None => format!("this build knows {}", known()),
        };
        let message = format!(
            "unknown kind of sink {}",
            if written.is_empty() { kind.to_string() } else { format!("\"{written}\"") }
        );
        reader.problems.value(place.key("kind"), message, advice);
        return None;
    };
    let mut own = table.clone();
    own.remove("kind");
    let mut own = Value::Table(own);
    let schema = reader.context.own_schema(format!("sinks/{written}"), descriptor.options_schema);
    own_table(&mut own, &place, &schema, reader, &|table| (descriptor.check_options)(table).map(drop));
    let options = own.as_table().cloned().unwrap_or_default();
    let needs = (descriptor.check_options)(options.clone()).unwrap_or_default();
    if parse == Parse::None && !needs.fields.is_empty() {
        let fields = list(needs.fields.iter().map(String::as_str));
        let message = format!("a sink of kind `{written}` needs {fields} of every message");
        refuse(message, "let `pipeline.parse` be \"json\"");
    }
    Some(Sink { kind: written.to_owned(), options, needs })
}
