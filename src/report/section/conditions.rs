//! What is needed to repeat the run and to compare it: broker, durability, load, versions, machine; and the scenario itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Part, Section, plain};
use crate::record::readable::{bytes, duration, percent};
use crate::record::{LoadModel, Record};
use crate::report::svg::escape;

/// A name with what is known.
type Known = (&'static str, String);

/// Where trials differ, all of their texts.
pub fn section(records: &[&Record]) -> Option<Section> {
    let of = |text: &dyn Fn(&Record) -> Option<String>| -> Option<String> {
        let found: BTreeSet<String> =
            records.iter().filter_map(|record| text(record)).filter(|text| !text.is_empty()).collect();
        (!found.is_empty()).then(|| found.into_iter().take(4).collect::<Vec<_>>().join("; "))
    };
    let rows: [(&'static str, Option<String>); 12] = [
        ("broker", of(&broker)),
        (
            "an acknowledgement meant",
            of(&|record| record.durability.source.as_ref().map(|_| record.durability.to_string())),
        ),
        ("databases", of(&databases)),
        ("client library", of(&|record| record.environment.client_library.clone())),
        ("load", of(&load)),
        ("payload", of(&payload)),
        ("brokermark", of(&|record| Some(record.environment.build()))),
        ("machine", of(&machine)),
        ("its load", if records.len() == 1 { of(&host_load) } else { None }),
        ("begun", of_first(records, &|record| record.started_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())),
        ("run", of_first(records, &|record| record.run_id.clone())),
        ("command", of_first(records, &|record| record.environment.command_line.join(" "))),
    ];
    let known: Vec<Known> = rows.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    let items: String = known.iter().map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>", escape(text))).collect();
    Section::of("conditions", "Conditions", vec![Part::Html(format!("<dl class=\"facts\">{items}</dl>"))])
}

fn of_first(records: &[&Record], text: &dyn Fn(&Record) -> String) -> Option<String> {
    records.first().map(|record| text(record)).filter(|text| !text.is_empty())
}

fn broker(record: &Record) -> Option<String> {
    let broker = &record.scenario["broker"];
    let addresses = match &broker["addresses"] {
        Value::Array(addresses) => addresses.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        address => plain(address),
    };
    let name = record.environment.broker.clone().or_else(|| broker["kind"].as_str().map(str::to_owned))?;
    let embedded = if record.environment.embedded { ", inside brokermark" } else { "" };
    Some(if addresses.is_empty() { format!("{name}{embedded}") } else { format!("{name} at {addresses}{embedded}") })
}

fn databases(record: &Record) -> Option<String> {
    let sinks = &record.pipeline.as_ref()?.sinks;
    let of = |sink: &crate::record::SinkRecord| {
        let settings: Vec<String> = sink.durability.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{}: {}", sink.name, if settings.is_empty() { "unknown".to_owned() } else { settings.join(", ") })
    };
    Some(sinks.iter().map(of).collect::<Vec<_>>().join("; "))
}

fn load(record: &Record) -> Option<String> {
    let model = match record.load_model {
        LoadModel::Open => "open loop: a schedule decides when to send",
        LoadModel::Closed => "closed loop: acknowledgements decide when to send",
    };
    let producers = record.tables().producers;
    let window = producers.in_flight.map(|window| window.0);
    let shape = match (Some(producers.count.0), window) {
        (Some(producers), Some(window)) => {
            format!(", {}, {window} in flight each", super::several(producers as usize, "producer"))
        }
        (Some(producers), None) => format!(", {}", super::several(producers as usize, "producer")),
        _ => String::new(),
    };
    Some(format!("{model}{shape}; measured for {}", duration(record.throughput.window_ns as f64)))
}

fn payload(record: &Record) -> Option<String> {
    let acknowledged = record.counts.acknowledged;
    (acknowledged > 0).then(|| {
        let mean = record.counts.payload_bytes_acknowledged as f64 / acknowledged as f64;
        let kind = record.scenario["payload"]["kind"].as_str().map(|kind| format!(", {kind}")).unwrap_or_default();
        format!("{} a message on average{kind}", bytes(mean))
    })
}

fn machine(record: &Record) -> Option<String> {
    let environment = &record.environment;
    let cores = match &environment.cpu_model {
        Some(model) => format!("{} × {model}", environment.cores),
        None => super::several(environment.cores, "core"),
    };
    let parts = [
        environment.hostname.clone(),
        Some(cores),
        environment.memory_bytes.map(|memory| bytes(memory as f64)),
        Some(environment.operating_system.clone()),
        environment.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
    ];
    Some(parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "))
}

fn host_load(record: &Record) -> Option<String> {
    let load = record.host_load?;
    let busy = format!("{} busy, {} withheld by the hypervisor", percent(load.system_cpu_busy), percent(load.steal));
    let pauses = record.client.pauses.map(|pauses| {
        format!(
            "; 1 in 100 wake-ups {} late or later, none over {}",
            duration(pauses.p99_ns as f64),
            duration(pauses.max_ns as f64)
        )
    });
    Some(busy + &pauses.unwrap_or_default())
}

/// The scenario as it was run, to copy.
pub fn scenario(text: Option<&str>, record: &Record) -> Option<Section> {
    let json = || serde_json::to_string_pretty(&record.scenario).unwrap_or_default();
    let text = text.map_or_else(json, str::to_owned);
    let html = format!("<pre id=\"scenario-text\" tabindex=\"0\"><code>{}</code></pre>", escape(text.trim_end()));
    Section::of("scenario", "The scenario", vec![Part::Html(html)])
}
