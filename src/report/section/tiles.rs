//! The largest figures of a page, below its verdict.

use crate::record::readable::{self, bytes, count, duration, percent, rate};
use crate::record::{Latency, Pipeline, Record};
use crate::report::svg::escape;

/// Figures with their units of so many characters or more are set in a smaller size, to have place in their tiles.
const LONG_FIGURE: usize = 8;
const LONGER_FIGURE: usize = 10;

/// A large figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    pub label: String,
    pub figure: String,
    pub unit: String,
    pub note: String,
}

/// A tile; a unit stands smaller than its number.
pub fn tile(label: &str, figure: String, note: String) -> Tile {
    let (figure, unit) = match figure.split_once(' ') {
        Some((number, unit)) if !unit.contains(' ') => (number.to_owned(), unit.to_owned()),
        _ => (figure, String::new()),
    };
    Tile { label: label.to_owned(), figure, unit, note }
}

/// Those of one trial.
pub fn tiles(record: &Record) -> Vec<Tile> {
    let throughput = &record.throughput;
    let asked = match throughput.target_per_second {
        Some(wanted) => format!("wanted {}", rate(wanted)),
        None => "no rate was set".to_owned(),
    };
    let payload = format!("{asked}; {}/s of payload", bytes(throughput.payload_bytes_per_second));
    let mut tiles: Vec<Tile> = record.pipeline.iter().filter(|pipeline| pipeline.consumed > 0).flat_map(rows).collect();
    let label = if tiles.is_empty() { "messages per second" } else { "messages/s of producers" };
    if tiles.is_empty() || record.counts.attempted > 0 {
        tiles.push(tile(label, rate(throughput.messages_per_second), payload));
    }
    if let Some(latency) = record.headline_latency() {
        tiles.extend(latencies(latency, &record.headline.to_string()));
    }
    tiles.push(losses(record));
    let client = &record.client;
    let busy = client.cpu_ns_per_message.map(|cpu| format!("{} a message", duration(cpu)));
    let cores = format!("of {} cores", readable::cores(client.cores_available));
    tiles.push(tile(
        "client CPU",
        format!("{:.2}", client.cores_used),
        [Some(cores), busy].into_iter().flatten().collect::<Vec<_>>().join("; "),
    ));
    tiles.extend(broker_cpu(record));
    tiles
}

/// What a pipeline wrote: one tile for all of its sinks where they got the same.
fn rows(pipeline: &Pipeline) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    for sink in &pipeline.sinks {
        let figure = rate(sink.written_per_second);
        match tiles.iter_mut().find(|tile| tile.figure == figure) {
            Some(tile) => tile.note += &format!(", {}", sink.name),
            None => tiles.push(tile("rows per second", figure, format!("written to {}", sink.name))),
        }
    }
    if tiles.is_empty() {
        tiles.push(tile(
            "consumed per second",
            rate(pipeline.consumed_per_second),
            "messages, by the pipeline".to_owned(),
        ));
    }
    tiles
}

fn broker_cpu(record: &Record) -> Option<Tile> {
    let usage = record.broker_usage.as_ref()?;
    let cores = match usage.cores_of_machine {
        Some(cores) => format!("of {cores} cores"),
        None => "cores".to_owned(),
    };
    let memory = usage.memory_bytes_max.map(|most| format!("{} of memory", bytes(most as f64)));
    let note = [Some(cores), memory].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Some(tile("broker CPU", format!("{:.2}", usage.cores_used?), note))
}

fn latencies(latency: &Latency, name: &str) -> Vec<Tile> {
    let meaning = if name == "response" {
        "intended → acknowledged by the broker"
    } else {
        "sent → acknowledged by the broker"
    };
    let mut tiles = vec![tile(&format!("median {name} time"), duration(latency.p50_ns as f64), meaning.to_owned())];
    let tail = [
        (0.99, latency.p99_ns, "p99", "1 of 100 took longer"),
        (0.999, latency.p99_9_ns, "p99.9", "1 of 1,000 took longer"),
    ];
    for (quantile, value, label, note) in tail {
        if let Some(value) = value {
            let few = if latency.is_of_few_events(quantile) { "; few events made it" } else { "" };
            tiles.push(tile(label, duration(value as f64), note.to_owned() + few));
        }
    }
    tiles
}

fn losses(record: &Record) -> Tile {
    let counts = &record.counts;
    match &record.verification {
        Some(verified) => {
            tile("lost", count(verified.lost), format!("of {} acknowledged and verified", count(counts.acknowledged)))
        }
        None => {
            let share = counts.without_acknowledgement() as f64 / (counts.attempted + counts.unsent).max(1) as f64;
            let note =
                format!("{} of {}; arrival was not verified", percent(share), count(counts.attempted + counts.unsent));
            tile("not acknowledged", count(counts.without_acknowledgement()), note)
        }
    }
}

impl Tile {
    pub fn html(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&self.unit)) };
        let length = self.figure.chars().count() + self.unit.chars().count();
        format!(
            "<div><dt>{}</dt><dd><b{}>{}{unit}</b><span>{}</span></dd></div>",
            escape(&self.label),
            match length {
                LONGER_FIGURE.. => " class=\"longer\"",
                LONG_FIGURE.. => " class=\"long\"",
                _ => "",
            },
            escape(&self.figure),
            escape(&self.note)
        )
    }
}
