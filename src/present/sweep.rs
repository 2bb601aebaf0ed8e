//! Several trials: their headline, a row for each, and the median and the spread of each point over its trials.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::points::{self, Axes, Point, Spread, by_point};
use super::setup::ran;
use super::trial::begun;
use super::{Align, Column, Finding, Summary, Table, Tone, or_dash, several, stated, verdict};
use crate::record::readable::{bytes, count, duration, percent, plain, rate, settings};
use crate::record::{Latency, Record, Status};

/// A throughput that spreads less is that of a rate that was wanted and held.
const SHOWN_SPREAD: f64 = 0.01;

/// Trials of a point from which on its quartiles are shown.
const MIN_FOR_QUARTILES: usize = 5;

pub fn summary(records: &[&Record]) -> Summary {
    let first = records.first();
    let points = several(by_point(records).len(), "point");
    let context = [Some(points), first.map(|first| begun(first))];
    Summary {
        name: first.map_or_else(String::new, |first| first.scenario_name.clone()),
        context: context.into_iter().flatten().collect(),
        ran: ran(records),
        sentence: sentence(records),
        answers: vec![
            verdict::trust_of_all(records, |record| {
                short(record.point.iter().map(|(key, value)| (key.as_str(), value)))
            }),
            verdict::limit_of_all(records),
        ],
    }
}

/// The sweep in one sentence: of the points that have a valid trial, where any has.
fn sentence(records: &[&Record]) -> String {
    let all = by_point(records);
    let axes = points::axes(&all);
    let names = axes.names();
    let any_valid = all.iter().any(|point| point.valid() > 0);
    let (trusted, left_out): (Vec<&Point<'_>>, Vec<&Point<'_>>) =
        all.iter().partition(|point| !any_valid || point.valid() > 0);
    let throughput = |point: &&Point<'_>| {
        let spread = point.spread(&|record| Some(record.throughput.messages_per_second))?;
        Some(spread.quartiles.median)
    };
    let mut known: Vec<(&Point<'_>, f64)> =
        trusted.into_iter().filter_map(|point| Some((point, throughput(&point)?))).collect();
    known.sort_by(|one, other| one.1.total_cmp(&other.1));
    match (known.first(), known.last()) {
        (Some((point, median)), _) if axes == Axes::None => {
            // What is not valid is in no median.
            let counted = several(point.counted().len(), "trial");
            format!("Carried {} messages/s: the median of {counted}.", rate(*median))
        }
        (Some(low), Some(high)) => {
            let left_out = match left_out.as_slice() {
                [] => String::new(),
                [point] => format!(" ({} has no valid trial)", value(&names, point)),
                points => format!(" ({} points have no valid trial)", points.len()),
            };
            let (most, fewest, place) = (rate(high.1), rate(low.1), named(&names, high.0));
            if known.len() == 1 {
                return format!("{most} messages/s at {place}{left_out}.");
            }
            // The key's name is long, and was just told.
            let low = value(&names, low.0);
            format!("Most: {most} messages/s at {place}; fewest: {fewest} at {low}{left_out}.")
        }
        _ => format!("No trial of {} was completed.", several(all.len(), "point")),
    }
}

/// The values of a point, each with the last part of its key.
fn value(keys: &[String], point: &Point<'_>) -> String {
    short(keys.iter().filter_map(|key| Some((key.as_str(), point.values.get(key)?))))
}

fn short<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let last = |key: &'a str| key.rsplit('.').next().unwrap_or(key);
    settings(values.map(|(key, value)| (last(key), plain(value))))
}

/// The values of a point: of one key with its whole name, of two with the last part of each one's.
fn named(keys: &[String], point: &Point<'_>) -> String {
    match keys {
        [key] => point.values.get(key).map_or_else(String::new, |value| format!("{key} = {}", plain(value))),
        [_, _] => value(keys, point),
        _ => point.name(keys),
    }
}

/// What speaks against the trials: first, that they were not measured alike.
pub fn findings(records: &[&Record]) -> Vec<Finding> {
    let mut found: Vec<Finding> = mixtures(records).collect();
    found.extend(verdict::findings(records));
    found
}

/// Says so where not all trials were measured by the same program on the same broker. Brokers and clients that the scenario itself compares
/// are not a mixture.
fn mixtures(records: &[&Record]) -> impl Iterator<Item = Finding> {
    type Asked = Option<(String, Option<String>, Vec<String>)>;
    let different = |subject: &str, name: fn(&Record) -> Option<String>, asked: fn(&Record) -> Asked| {
        let mut found: BTreeMap<Asked, BTreeSet<String>> = BTreeMap::new();
        for record in records {
            found.entry(asked(record)).or_default().extend(name(record));
        }
        let is_mixed = found.values().any(|names| names.len() > 1);
        let names: Vec<String> = found.into_values().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        is_mixed.then(|| format!("The trials are of different {subject}: {}.", names.join("; ")))
    };
    let mixtures = [
        different("builds of brokermark", |record| Some(record.environment.build()), |_| None),
        different("client libraries", |record| record.environment.client_library.clone(), Record::broker_asked_for),
        different("brokers", |record| record.environment.broker.clone(), Record::broker_asked_for),
    ];
    mixtures.into_iter().flatten().map(|evidence| Finding {
        tone: Tone::Bad,
        title: "mixed".to_owned(),
        evidence,
        ..Finding::default()
    })
}

/// One column for each swept key.
fn key_columns(records: &[&Record]) -> Vec<Column> {
    let keys: BTreeSet<&String> = records.iter().flat_map(|record| record.point.keys()).collect();
    let column = |key: &String| {
        let cells = records.iter().map(|record| record.point.get(key).map(plain).unwrap_or_default());
        Column::new(key, Align::Right, Column::KEEP, cells)
    };
    keys.into_iter().map(column).collect()
}

/// The latency that leads in these records; "response/service" where some are of an open loop and some of a closed one.
pub fn headlines(records: &[&Record]) -> String {
    let names: BTreeSet<String> = records.iter().map(|record| record.headline.to_string()).collect();
    names.into_iter().collect::<Vec<_>>().join("/")
}

/// A row for each trial.
pub fn trials_table(records: &[&Record]) -> Table {
    let headline = headlines(records);
    let column = |title: &str, rank, figure: &dyn Fn(&Record) -> String| {
        Column::new(title, Align::Right, rank, records.iter().map(|record| figure(record)))
    };
    let latency = |title: &str, rank, statistic: fn(&Latency) -> String| {
        column(title, rank, &|record| or_dash(record.headline_latency().map(statistic)))
    };
    let mut columns = Vec::new();
    if by_point(records).len() > 1 {
        columns.push(column("point", 7, &|record| record.point_index.to_string()));
    }
    columns.extend(key_columns(records));
    columns.extend([
        column("trial", Column::KEEP, &|record| record.trial.to_string()),
        column("messages/s", Column::KEEP, &|record| rate(record.throughput.messages_per_second)),
        column("payload/s", 1, &|record| bytes(record.throughput.payload_bytes_per_second)),
        latency(&format!("{headline} p50"), 6, |latency| stated(latency, 0.5, latency.p50_ns)),
        latency("p99", 8, |latency| stated(latency, 0.99, latency.p99_ns)),
        latency("max", 4, |latency| duration(latency.max_ns as f64)),
        column("failed", 2, &|record| count(record.without_acknowledgement())),
        column("CPU/msg", 5, &|record| or_dash(record.client.cpu_ns_per_message.map(duration))),
        Column::toned("verdict", Align::Left, Column::KEEP, records.iter().map(|record| judged(record))),
    ]);
    Table { columns, ..Table::default() }
}

/// The verdict of a trial in a word or two.
pub fn judged(record: &Record) -> (Tone, String) {
    match (record.status, record.verdict.valid) {
        (Status::Failed, _) => (Tone::Bad, "failed".to_owned()),
        (_, true) if record.missed_a_threshold() => (Tone::Doubtful, "threshold missed".to_owned()),
        (_, true) => (Tone::Good, "valid".to_owned()),
        (_, false) if verdict::is_demonstration(record) => (Tone::Doubtful, "demonstration".to_owned()),
        (_, false) => {
            let first = record.verdict.reasons.first();
            (Tone::Bad, first.map_or_else(|| "not valid".to_owned(), |reason| reason.kind.to_string()))
        }
    }
}

/// Median and spread of each point over the trials that count, for the first `most` points.
pub fn points_table(records: &[&Record], most: usize) -> Table {
    let points = by_point(records);
    let all = points.len();
    let points = &points[..all.min(most)];
    let firsts: Vec<&Record> = points.iter().filter_map(|point| point.records.first().copied()).collect();
    let headline = headlines(&firsts);
    let spreads = |figure: &dyn Fn(&Record) -> Option<f64>| -> Vec<Option<Spread>> {
        points.iter().map(|point| point.spread(figure)).collect()
    };
    let latency = |pick: fn(&Latency) -> Option<u64>| {
        spreads(&|record| record.headline_latency().and_then(pick).map(|value_ns| value_ns as f64))
    };
    let column = |title: &str, rank, spreads: &[Option<Spread>], text: &dyn Fn(&Spread) -> String| {
        // A figure that is not to be trusted has a cross.
        let cell = |(point, spread): (&Point<'_>, &Option<Spread>)| match spread {
            None => (Tone::Plain, "–".to_owned()),
            Some(spread) if point.valid() == 0 => (Tone::Bad, format!("✗ {}", text(spread))),
            Some(spread) => (Tone::Plain, text(spread)),
        };
        Column::toned(title, Align::Right, rank, points.iter().zip(spreads).map(cell))
    };
    let median = |text: fn(f64) -> String| move |spread: &Spread| text(spread.quartiles.median);
    let ends =
        |text: fn(f64) -> String| move |spread: &Spread| format!("{} … {}", text(spread.lowest), text(spread.highest));
    let share = |spread: &Spread| percent(spread.share());
    let throughput = spreads(&|record| Some(record.throughput.messages_per_second));
    let payload = spreads(&|record| Some(record.throughput.payload_bytes_per_second));
    let middle = latency(|latency| latency.supports(0.5).then_some(latency.p50_ns));
    let slowest = latency(|latency| latency.p99_ns.filter(|_| latency.supports(0.99)));
    let numbers = points.iter().map(|point| point.records[0].point_index.to_string());
    let mut columns = vec![Column::new("point", Align::Right, 0, numbers)];
    columns.extend(key_columns(&firsts));
    columns.push(Column::toned("trials", Align::Right, Column::KEEP, points.iter().map(trials_of)));
    columns.push(column("median messages/s", Column::KEEP, &throughput, &median(rate)));
    // Of fewer, they are the lowest and the highest, or nearly.
    if points.iter().any(|point| point.counted().len() >= MIN_FOR_QUARTILES) {
        columns.push(column("quartiles", 8, &throughput, &|spread| {
            format!("{} … {}", rate(spread.quartiles.lower), rate(spread.quartiles.upper))
        }));
    }
    // Where a rate was wanted and held, all trials carried the same.
    if throughput.iter().flatten().any(|spread| spread.share() > SHOWN_SPREAD) {
        columns.push(column("lowest … highest", 4, &throughput, &ends(rate)));
        columns.push(column("spread", 6, &throughput, &share));
    }
    columns.extend([
        column("payload/s", 0, &payload, &median(bytes)),
        column(&format!("{headline} p50"), 0, &middle, &median(duration)),
        column(&format!("{headline} p99"), 8, &slowest, &median(duration)),
        column("lowest … highest", 1, &slowest, &ends(duration)),
        column("spread", 6, &slowest, &share),
        column("p99.9", 0, &latency(|latency| latency.p99_9_ns), &median(duration)),
        column("CPU/msg", 5, &spreads(&|record| record.client.cpu_ns_per_message), &median(duration)),
        Column::new("limited by", Align::Left, 0, points.iter().map(limited)),
    ]);
    let mut note =
        "Medians of each point's valid trials; spread: from the lowest to the highest, as a share of the median."
            .to_owned();
    if points.iter().any(|point| point.valid() == 0 && !point.counted().is_empty()) {
        note += " ✗ No trial of this point is valid: its figures are not to be trusted.";
    }
    if all > most {
        note += &format!(" The first {most} of {all} points; `brokermark show --format csv` has them all.");
    }
    Table { note, columns, ..Table::default() }
}

fn trials_of(point: &Point<'_>) -> (Tone, String) {
    let all = point.records.len();
    match all - point.valid() {
        0 => (Tone::Plain, all.to_string()),
        not_valid => (Tone::Bad, format!("{not_valid} of {all} not valid")),
    }
}

fn limited(point: &Point<'_>) -> String {
    let all = point.counted().into_iter().map(|record| record.verdict.limited_by.limiter.to_string());
    all.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FailureClass;
    use crate::record::{Headline, sample};

    #[test]
    fn messages_that_were_aborted_on_purpose_did_not_fail() {
        let mut record = sample::record();
        record.errors[0].class = FailureClass::Aborted;
        let table = trials_table(&[&record]);
        let failed = table.columns.iter().find(|column| column.title == "failed").unwrap();
        assert_eq!(failed.cells[0].1, "1");
    }

    #[test]
    fn a_median_that_cannot_be_stated_is_a_dash() {
        let mut record = sample::record();
        for (independent, shown) in [(19, "–"), (20, "1.29 ms")] {
            record.latency.response.as_mut().unwrap().independent = Some(independent);
            let table = points_table(&[&record], 1);
            let p50 = table.columns.iter().find(|column| column.title == "response p50").unwrap();
            assert_eq!(p50.cells[0].1, shown);
        }
    }

    #[test]
    fn latencies_of_an_open_and_a_closed_loop_are_not_called_the_same() {
        let open = sample::record();
        let closed = Record { point_index: 1, headline: Headline::Service, ..sample::record() };
        for (records, title) in [(vec![&closed], "service p50"), (vec![&open, &closed], "response/service p50")] {
            for table in [trials_table(&records), points_table(&records, 2)] {
                assert!(table.columns.iter().any(|column| column.title == title), "{title}");
            }
        }
    }
}
