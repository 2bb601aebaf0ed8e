//! The latencies of one trial by percentile, and of several points beside each other.

use hdrhistogram::Histogram;

use super::{Part, Section, texts};
use crate::record::readable::{count, duration, percent};
use crate::record::{Headline, Latency, Record};
use crate::report::figure::{Figure, PHONE, Table, Values, WIDE};
use crate::report::svg::Shape;
use crate::report::svg::tail::{Curve, Tail};

/// Which messages the curves are about.
const POPULATION: &str = "Only messages that were acknowledged (end to end: received) are in a curve; a threshold counts the missing ones as slower.";

/// Places at which the script may tell values, for each nine.
const PER_NINE: usize = 24;

const SHAPES: (Shape, Shape) = (Shape { height: 330.0, ..WIDE }, Shape { height: 270.0, ..PHONE });

/// Of one trial: every latency that it has.
pub fn section(record: &Record) -> Option<Section> {
    let latencies = named(record);
    let curves: Vec<Curve> =
        latencies.iter().filter_map(|(name, style, latency)| curve(name, *style, latency)).collect();
    let mut parts = Vec::new();
    if !curves.is_empty() {
        let figure = figure("latency-by-percentile", "Latency by percentile", sentence(record), curves);
        parts.push(Part::figure(figure));
    }
    let table = table(&latencies);
    if !table.rows.is_empty() {
        parts.push(Part::Html(table.html()));
    }
    Section::of("latency", "How long messages took", parts)
}

fn named(record: &Record) -> Vec<(&'static str, usize, &Latency)> {
    let all = [
        ("response", 1, &record.latency.response),
        ("service", 3, &record.latency.service),
        ("delay", 6, &record.latency.schedule_delay),
        ("end to end", 2, &record.latency.end_to_end),
    ];
    let commit = record.transactions.as_ref().and_then(|transactions| transactions.commit.as_ref());
    let found = all.into_iter().filter_map(|(name, style, latency)| Some((name, style, latency.as_ref()?)));
    found.chain(commit.map(|commit| ("commit", 4, commit))).collect()
}

/// A latency as a curve; `None` where it has no value, or its histogram cannot be read, or lag grew, so that it has no percentiles.
pub fn curve(name: &str, style: usize, latency: &Latency) -> Option<Curve> {
    let histogram = latency.decode_histogram().ok().filter(|histogram| !histogram.is_empty() && !latency.lag_grew)?;
    Some(Curve { name: name.to_owned(), style, histogram, independent: latency.independent_values() })
}

/// The headline's latency over several trials.
pub fn merged(name: &str, style: usize, records: &[&Record]) -> Option<Curve> {
    let mut all: Option<(Histogram<u64>, u64)> = None;
    for latency in records.iter().filter_map(|record| record.headline_latency()) {
        let Ok(histogram) = latency.decode_histogram() else { continue };
        match &mut all {
            None => all = Some((histogram, latency.independent_values())),
            // Of unequal bounds, what does not fit is left out: an old record, whose own figures still stand.
            Some((sum, independent)) => {
                if sum.add(&histogram).is_ok() {
                    *independent = independent.saturating_add(latency.independent_values());
                }
            }
        }
    }
    let (histogram, independent) = all.filter(|(histogram, _)| !histogram.is_empty())?;
    Some(Curve { name: name.to_owned(), style, histogram, independent })
}

/// The chart of curves with its table.
pub fn figure(id: &str, title: &str, sentence: String, curves: Vec<Curve>) -> Figure {
    let tail = Tail { curves };
    let sentence = sentence + " " + POPULATION;
    let mut figure = Figure::draw(id, title, sentence, SHAPES, |shape| tail.draw(shape));
    figure.table = percentiles(&tail.curves);
    figure.values = Some(values(&tail));
    figure
}

fn percentiles(curves: &[Curve]) -> Table {
    let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
    let row = |quantile: f64| {
        let cell = |curve: &Curve| {
            let is_known = curve.independent >= crate::record::independent_values_needed(quantile);
            if is_known { duration(curve.at(quantile)) } else { "–".to_owned() }
        };
        let name = format!("{} %", crate::report::svg::unit::plain(quantile * 100.0));
        std::iter::once(name).chain(curves.iter().map(cell)).collect()
    };
    let longest =
        std::iter::once("all".to_owned()).chain(curves.iter().map(|curve| duration(curve.histogram.max() as f64)));
    let mut rows: Vec<Vec<String>> = quantiles.into_iter().map(row).collect();
    rows.push(longest.collect());
    let heads =
        std::iter::once("of messages took at most".to_owned()).chain(curves.iter().map(|curve| curve.name.clone()));
    Table { note: "A dash: fewer than ten independent values lie beyond it.".to_owned(), heads: heads.collect(), rows }
}

fn values(tail: &Tail) -> Values {
    let places = (tail.nines() * PER_NINE as f64) as usize;
    let at: Vec<f64> = (0..=places).map(|place| place as f64 / PER_NINE as f64).collect();
    let of = |curve: &Curve| at.iter().map(|nines| Some(curve.at(1.0 - 10f64.powf(-nines)))).collect();
    let series = tail.curves.iter().map(|curve| (curve.name.clone(), of(curve))).collect();
    Values { axis: "tail", until: tail.nines(), unit: "ns", at, series }
}

fn sentence(record: &Record) -> String {
    let Some(latency) = record.headline_latency() else {
        return "No measured message was acknowledged; only what consumers received has a latency.".to_owned();
    };
    let name = match record.headline {
        Headline::Response => "from the intended time to the acknowledgement",
        Headline::Service => "from sending to the acknowledgement",
    };
    let tail = match latency.p99_ns {
        Some(p99) => format!("99 of 100 at most {}", duration(p99 as f64)),
        None => format!("9 of 10 at most {}", duration(latency.p90_ns as f64)),
    };
    let slowest = format!("the slowest {}", duration(latency.max_ns as f64));
    let half = duration(latency.p50_ns as f64);
    format!("Half of the messages took {half} or less {name}, {tail}, {slowest}.{}", delay(record))
}

/// Whose the tail is: of the broker, or of what held messages back before it.
fn delay(record: &Record) -> String {
    let p99 = |latency: &Option<Latency>| latency.as_ref().and_then(|latency| latency.p99_ns).map(|ns| ns as f64);
    let (Some(delay), Some(response)) = (p99(&record.latency.schedule_delay), p99(&record.latency.response)) else {
        return String::new();
    };
    let share = delay / response.max(1.0);
    if share < 0.2 {
        return format!(" Hardly any of it was waiting to be sent: the delay's p99 is {}.", duration(delay));
    }
    format!(
        " Waiting to be sent is a good part of the tail: the delay's p99 is {}, {} of the response time's.",
        duration(delay),
        percent(share)
    )
}

fn table(latencies: &[(&str, usize, &Latency)]) -> Table {
    let row = |(name, _, latency): &(&str, usize, &Latency)| {
        let known = |value: Option<u64>| value.map_or("–".to_owned(), |ns| duration(ns as f64));
        let (meaning, stated) = (meaning(name), |quantile: f64, ns: u64| latency.supports(quantile).then_some(ns));
        vec![
            format!("{name}: {meaning}"),
            count(latency.count),
            known(stated(0.5, latency.p50_ns)),
            known(stated(0.9, latency.p90_ns)),
            known(latency.p99_ns),
            known(latency.p99_9_ns),
            known(latency.p99_99_ns),
            known(Some(latency.max_ns)),
            duration(latency.mean_ns),
        ]
    };
    let heads = texts(&["latency", "messages", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"]);
    Table { rows: latencies.iter().map(row).collect(), heads, ..Table::default() }
}

fn meaning(name: &str) -> &'static str {
    match name {
        "response" => "intended → acknowledged",
        "service" => "sent → acknowledged",
        "delay" => "intended → sent",
        "end to end" => "intended → received",
        _ => "call → confirmed",
    }
}
