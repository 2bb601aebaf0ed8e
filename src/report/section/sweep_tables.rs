//! The points of a sweep as tables.

use super::measure::Measure;
use super::points::{Axes, Point};

use super::texts;
use crate::record::{Latency, Record};
use crate::report::figure::Table;
use crate::report::svg::dots::Spot;
use crate::report::svg::unit::Unit;
use crate::statistics::median;

/// Rows of a table.
const MAX_ROWS: usize = 200;

/// The points of a chart.
pub fn of_spots(spots: &[Spot], measure: &Measure) -> Table {
    let row = |spot: &Spot| {
        let interval = spot.interval.map_or("–".to_owned(), |(low, high)| {
            format!("{} … {}", measure.unit.exact(low), measure.unit.exact(high))
        });
        vec![
            spot.name.clone(),
            spot.trials.len().to_string(),
            spot.middle.map_or("–".to_owned(), |middle| measure.unit.exact(middle)),
            interval,
        ]
    };
    let heads = texts(&["point", "trials", "median", "95 % interval of the middle"]);
    Table { note: cut(spots.len()), heads, rows: spots.iter().take(MAX_ROWS).map(row).collect() }
}

/// The trials of a chart, where there is a single point.
pub fn of_trials(points: &[Point<'_>], measure: &Measure) -> Table {
    let records = points.iter().flat_map(|point| &point.records);
    let row = |record: &&Record| {
        let value = (measure.of)(record).map_or("–".to_owned(), |value| measure.unit.exact(value));
        vec![record.trial.to_string(), value, if record.verdict.valid { "valid" } else { "not valid" }.to_owned()]
    };
    Table {
        heads: texts(&["trial", &measure.name, "verdict"]),
        rows: records.take(MAX_ROWS).map(row).collect(),
        ..Table::default()
    }
}

fn cut(all: usize) -> String {
    if all <= MAX_ROWS {
        return String::new();
    }
    format!("The first {MAX_ROWS} of {all} points; `brokermark show --format csv` has them all.")
}

/// Every point with its medians.
pub fn table(points: &[Point<'_>], axes: &Axes) -> Table {
    let mut names = axes.keys();
    if names.is_empty() || matches!(axes, Axes::Many(_) | Axes::Two(..)) {
        // Also those that change together with another.
        names = points.iter().flat_map(|point| point.values.keys().cloned()).collect();
        names.sort();
        names.dedup();
    }
    let first = points.first().and_then(|point| point.records.first());
    let headline = first.map_or_else(String::new, |record| record.headline.to_string());
    let p50 = format!("{headline} p50");
    let fixed =
        texts(&["valid trials", "messages/s", "payload/s", &p50, "p99", "p99.9", "client CPU a message", "limited by"]);
    let heads = std::iter::once("point".to_owned()).chain(names.iter().cloned()).chain(fixed).collect();
    let note = "Medians over the valid trials; where none is valid, over those that were completed.";
    let rows = points.iter().enumerate().take(MAX_ROWS).map(|(index, point)| row(index, point, &names)).collect();
    Table { note: format!("{note} {}", cut(points.len())), heads, rows }
}

fn row(index: usize, point: &Point<'_>, names: &[String]) -> Vec<String> {
    let counted = point.counted();
    let middle = |figure: &dyn Fn(&Record) -> Option<f64>, unit: Unit| {
        let values: Vec<f64> = counted.iter().filter_map(|record| figure(record)).collect();
        median(&values).map_or("–".to_owned(), |value| unit.exact(value))
    };
    let latency = |pick: fn(&Latency) -> Option<u64>| {
        middle(&|record| record.headline_latency().and_then(pick).map(|ns| ns as f64), Unit::Nanoseconds)
    };
    let valid = match point.valid() {
        valid if valid == point.records.len() => format!("✓ {valid}"),
        valid => format!("✗ {valid} of {}", point.records.len()),
    };
    let values = names.iter().map(|key| point.values.get(key).map(super::plain).unwrap_or_default());
    let figures = [
        valid,
        middle(&|record| Some(record.throughput.messages_per_second), Unit::Count),
        middle(&|record| Some(record.throughput.payload_bytes_per_second), Unit::Bytes),
        latency(|latency| Some(latency.p50_ns)),
        latency(|latency| latency.p99_ns),
        latency(|latency| latency.p99_9_ns),
        middle(&|record| record.client.cpu_ns_per_message, Unit::Nanoseconds),
        limited(&counted),
    ];
    std::iter::once(index.to_string()).chain(values).chain(figures).collect()
}

fn limited(records: &[&Record]) -> String {
    let mut found: Vec<String> = records.iter().map(|record| record.verdict.limited_by.limiter.to_string()).collect();
    found.sort();
    found.dedup();
    found.join(", ")
}
