//! Several trials: a row for each, then each point's median and spread over its trials.

use std::collections::{BTreeMap, BTreeSet};

use super::latency::stated;
use super::page::{Page, Tone};
use super::sparkline::{Fold, sparkline};
use super::table::{self, Align, Column};
use crate::record::readable::{bytes, count, duration, percent, plain, rate};
use crate::record::{Latency, Phase, Reason, Record, SeriesRow, Status, current_series};
use crate::statistics::{Quartiles, quartiles};

/// Columns of a sparkline in a row.
const SPARKLINE_WIDTH: usize = 16;

/// A throughput that spreads less is that of a rate that was wanted and held.
const SHOWN_SPREAD: f64 = 0.01;

/// Trials of a point from which on its quartiles are shown.
const MIN_FOR_QUARTILES: usize = 5;

pub(super) fn table(page: &mut Page, records: &[&Record], series: &[SeriesRow]) {
    heading(page, records);
    mixed(page, records);
    page.blank();
    trials(page, records, series);
    points(page, records);
    doubts(page, records);
    missed(page, records);
}

fn heading(page: &mut Page, records: &[&Record]) {
    let Some(first) = records.first() else { return };
    let valid = records.iter().filter(|record| record.verdict.valid).count();
    let points = by_point(records).len();
    let name = page.paint(Tone::Strong, &first.scenario_name);
    let verdict = match records.iter().all(|record| record.is_demonstration()) {
        true => page.paint(Tone::Doubtful, &format!("demonstration of {} trials", records.len())),
        false => {
            let tone = if valid == records.len() { Tone::Good } else { Tone::Bad };
            page.paint(tone, &format!("{valid} of {} trials valid", records.len()))
        }
    };
    let of_points = if points == 1 { "1 point".to_owned() } else { format!("{points} points") };
    let begun = first.started_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    page.line(&format!("{name}  {verdict} · {of_points} · begun {begun}"));
}

/// Says so where not all trials were measured by the same program on the same broker. Clients that the scenario itself
/// compares are no mixture.
fn mixed(page: &mut Page, records: &[&Record]) {
    let of = |subject: &str, named: &dyn Fn(&Record) -> Option<String>| {
        let found: BTreeSet<String> = records.iter().filter_map(|record| named(record)).collect();
        let found: Vec<String> = found.into_iter().collect();
        (found.len() > 1).then(|| format!("The trials are of different {subject}: {}.", found.join("; ")))
    };
    let clients: BTreeSet<_> = records.iter().map(|record| record.client_asked_for()).collect();
    let libraries = |asked: &Option<String>| {
        let of_client = records.iter().filter(|record| record.client_asked_for() == *asked);
        of_client.filter_map(|record| record.environment.client_library.as_ref()).collect::<BTreeSet<_>>().len()
    };
    let compared = clients.iter().all(|asked| libraries(asked) < 2);
    let mixtures = [
        of("builds of brokermark", &|record| Some(record.environment.build())),
        of("client libraries", &|record| record.environment.client_library.clone().filter(|_| !compared)),
        of("brokers", &|record| record.environment.broker.clone()),
    ];
    for mixture in mixtures.into_iter().flatten() {
        page.led("✗ mixed  ", Tone::Bad, &mixture);
    }
}

fn by_point<'a>(records: &[&'a Record]) -> BTreeMap<usize, Vec<&'a Record>> {
    let mut points: BTreeMap<usize, Vec<&Record>> = BTreeMap::new();
    for record in records {
        points.entry(record.point_index).or_default().push(record);
    }
    points
}

/// One column for each swept key.
fn point_columns(records: &[&Record]) -> Vec<Column> {
    let mut keys: Vec<&String> = records.iter().flat_map(|record| record.point.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.iter()
        .map(|key| {
            let cells = records.iter().map(|record| record.point.get(*key).map(plain).unwrap_or_default());
            Column::new(key, Align::Right, Column::KEEP, cells)
        })
        .collect()
}

fn trials(page: &mut Page, records: &[&Record], series: &[SeriesRow]) {
    let headline = records.first().map_or_else(String::new, |record| record.headline.to_string());
    let at = |statistic: fn(&Latency) -> String| {
        records.iter().map(move |record| record.headline_latency().map_or("–".to_owned(), statistic))
    };
    let column = |title: &str, rank, cells: Vec<String>| Column::new(title, Align::Right, rank, cells.into_iter());
    let each = |figure: &dyn Fn(&Record) -> String| records.iter().map(|record| figure(record)).collect::<Vec<_>>();
    let mut columns = Vec::new();
    if by_point(records).len() > 1 {
        columns.push(column("point", 7, each(&|record| record.point_index.to_string())));
    }
    columns.extend(point_columns(records));
    columns.push(column("trial", Column::KEEP, each(&|record| record.trial.to_string())));
    columns.push(column("messages/s", Column::KEEP, each(&|record| rate(record.throughput.messages_per_second))));
    columns.push(column("payload/s", 1, each(&|record| bytes(record.throughput.payload_bytes_per_second))));
    columns.push(column(&format!("{headline} p50"), 6, at(|latency| stated(latency, 0.5, latency.p50_ns)).collect()));
    columns.push(column("p99", 8, at(|latency| stated(latency, 0.99, latency.p99_ns)).collect()));
    columns.push(column("max", 4, at(|latency| duration(latency.max_ns as f64)).collect()));
    columns.push(column("failed", 2, each(&|record| count(record.counts.without_acknowledgement()))));
    columns.push(column(
        "CPU/msg",
        5,
        each(&|record| record.client.cpu_ns_per_message.map_or("–".to_owned(), duration)),
    ));
    columns.push(Column {
        title: "verdict".to_owned(),
        cells: records.iter().map(|record| verdict(record)).collect(),
        align: Align::Left,
        rank: Column::KEEP,
    });
    let courses: Vec<String> = records.iter().map(|record| course(record, series)).collect();
    if page.has_charts() && courses.iter().any(|course| !course.is_empty()) {
        columns.push(Column::new("each second", Align::Left, 3, courses.into_iter()));
    }
    table::print(page, columns);
}

fn verdict(record: &Record) -> (Tone, String) {
    match (record.status, record.verdict.valid) {
        (Status::Failed, _) => (Tone::Bad, "failed".to_owned()),
        (_, true) if record.missed_a_threshold() => (Tone::Doubtful, "threshold missed".to_owned()),
        (_, true) => (Tone::Good, "valid".to_owned()),
        (_, false) if record.is_demonstration() => (Tone::Doubtful, "demonstration".to_owned()),
        (_, false) => (
            Tone::Bad,
            record.verdict.reasons.first().map_or_else(|| "not valid".to_owned(), |reason| reason.kind.to_string()),
        ),
    }
}

fn course(record: &Record, series: &[SeriesRow]) -> String {
    let figures: Vec<Option<f64>> = current_series(series, record.point_index, record.trial)
        .iter()
        .filter(|row| row.phase == Phase::Measure && row.full)
        .map(|row| Some(row.acknowledged as f64))
        .collect();
    sparkline(&figures, SPARKLINE_WIDTH, Fold::Mean)
}

/// A point's trials: those that its median and spread are made from, and how many others there are.
struct Summed<'a> {
    /// The valid ones and demonstrations; without any, all that were measured to their end.
    trials: Vec<&'a Record>,
    all: usize,
    valid: usize,
}

impl<'a> Summed<'a> {
    fn of(all: &[&'a Record]) -> Self {
        let of_those = |counts: fn(&Record) -> bool| all.iter().filter(|record| counts(record)).copied().collect();
        let valid: Vec<&Record> = of_those(|record| record.verdict.valid || record.is_demonstration());
        let (all, number) = (all.len(), valid.len());
        let trials = if valid.is_empty() { of_those(|record| record.status == Status::Completed) } else { valid };
        Summed { trials, all, valid: number }
    }

    fn count(&self) -> (Tone, String) {
        match self.all - self.valid {
            0 => (Tone::Plain, self.all.to_string()),
            not_valid => (Tone::Bad, format!("{not_valid} of {} not valid", self.all)),
        }
    }

    /// A figure over the trials, marked where it is not to be trusted.
    fn cell(&self, spread: Option<&Spread>, text: &dyn Fn(&Spread) -> String) -> (Tone, String) {
        match spread {
            None => (Tone::Plain, "–".to_owned()),
            Some(spread) if self.valid == 0 => (Tone::Bad, format!("✗ {}", text(spread))),
            Some(spread) => (Tone::Plain, text(spread)),
        }
    }
}

/// Median and spread of each point over its valid trials, where points have several trials.
fn points(page: &mut Page, records: &[&Record]) {
    let points = by_point(records);
    if points.values().all(|trials| trials.len() < 2) {
        return;
    }
    let firsts: Vec<&Record> = points.values().filter_map(|trials| trials.first().copied()).collect();
    let points: Vec<Summed<'_>> = points.values().map(|trials| Summed::of(trials)).collect();
    let headline = firsts.first().map_or_else(String::new, |record| record.headline.to_string());
    let spreads = |figure: &dyn Fn(&Record) -> Option<f64>| -> Vec<Option<Spread>> {
        points
            .iter()
            .map(|point| Spread::of(point.trials.iter().filter_map(|record| figure(record)).collect()))
            .collect()
    };
    let column = |title: &str, rank, spreads: &[Option<Spread>], text: &dyn Fn(&Spread) -> String| Column {
        title: title.to_owned(),
        cells: points.iter().zip(spreads).map(|(point, spread)| point.cell(spread.as_ref(), text)).collect(),
        align: Align::Right,
        rank,
    };
    let throughput = spreads(&|record| Some(record.throughput.messages_per_second));
    let slowest = spreads(&|record| stated_p99(record));
    let mut columns = point_columns(&firsts);
    let counts = points.iter().map(Summed::count).collect();
    columns.push(Column { title: "trials".to_owned(), cells: counts, align: Align::Right, rank: Column::KEEP });
    columns.push(column("median messages/s", Column::KEEP, &throughput, &|spread| rate(spread.median)));
    // Of fewer, they are the lowest and the highest, or nearly.
    if points.iter().any(|point| point.trials.len() >= MIN_FOR_QUARTILES) {
        columns.push(column("quartiles", 8, &throughput, &|spread| {
            format!("{} … {}", rate(spread.lower_quartile), rate(spread.upper_quartile))
        }));
    }
    // Where a rate was wanted and held, all trials carried the same.
    if throughput.iter().flatten().any(|spread| spread.share() > SHOWN_SPREAD) {
        columns.push(column("lowest … highest", 4, &throughput, &|spread| {
            format!("{} … {}", rate(spread.lowest), rate(spread.highest))
        }));
        columns.push(column("spread", 6, &throughput, &|spread| percent(spread.share())));
    }
    columns.push(column(&format!("{headline} p99"), 8, &slowest, &|spread| duration(spread.median)));
    columns.push(column("lowest … highest", 1, &slowest, &|spread| {
        format!("{} … {}", duration(spread.lowest), duration(spread.highest))
    }));
    columns.push(column("spread", 6, &slowest, &|spread| percent(spread.share())));
    let cpu = spreads(&|record| record.client.cpu_ns_per_message);
    columns.push(column("CPU/msg", 5, &cpu, &|spread| duration(spread.median)));
    page.blank();
    page.faint(
        "Medians of each point's valid trials; spread: from the lowest to the highest, as a share of the median.",
    );
    table::print(page, columns);
    if points.iter().any(|point| point.valid == 0 && !point.trials.is_empty()) {
        page.led("✗ ", Tone::Bad, "No trial of this point is valid: its figures are not to be trusted.");
    }
}

/// The headline's 99th percentile, where enough values lie beyond it to state it.
fn stated_p99(record: &Record) -> Option<f64> {
    let latency = record.headline_latency().filter(|latency| latency.supports(0.99))?;
    latency.p99_ns.map(|value_ns| value_ns as f64)
}

/// The middle, the middle half and the ends of one figure over several trials.
struct Spread {
    lowest: f64,
    lower_quartile: f64,
    median: f64,
    upper_quartile: f64,
    highest: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (lowest, highest) = (*figures.first()?, *figures.last()?);
        let Quartiles { lower, median, upper } = quartiles(&figures)?;
        Some(Spread { lowest, lower_quartile: lower, median, upper_quartile: upper, highest })
    }

    /// Highest minus lowest, as a share of the median.
    fn share(&self) -> f64 {
        if self.median > 0.0 { (self.highest - self.lowest) / self.median } else { 0.0 }
    }
}

/// Every reason and every note once, with how many trials it concerns and one of them in words.
fn doubts(page: &mut Page, records: &[&Record]) {
    let (tone, mark) = match records.iter().all(|record| record.is_demonstration()) {
        true => (Tone::Doubtful, "!"),
        false => (Tone::Bad, "✗"),
    };
    findings(page, records, tone, mark, |record| &record.verdict.reasons);
    findings(page, records, Tone::Doubtful, "!", |record| &record.verdict.notes);
}

fn findings(page: &mut Page, records: &[&Record], tone: Tone, mark: &str, of: fn(&Record) -> &[Reason]) {
    let mut found = BTreeMap::new();
    for record in records {
        for reason in of(record) {
            found.entry(reason.kind).or_insert_with(|| (0usize, reason)).0 += 1;
        }
    }
    if !found.is_empty() {
        page.blank();
    }
    for (kind, (trials, reason)) in found {
        let trials = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
        page.led(&format!("{mark} {kind} ({trials})  "), tone, &reason.evidence);
        page.led("  → ", Tone::Faint, &reason.advice);
    }
}

fn missed(page: &mut Page, records: &[&Record]) {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in records.iter().flat_map(|record| &record.thresholds).filter(|outcome| !outcome.held) {
        *found.entry(&outcome.text).or_default() += 1;
    }
    if found.is_empty() {
        return;
    }
    page.blank();
    for (text, trials) in found {
        page.led("✗ ", Tone::Bad, &format!("{text}: missed by {trials} of {} trials", records.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_nearest_two() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.lowest, spread.median, spread.highest), (1.0, 2.5, 4.0));
        // As numpy.percentile and R's quantile have it.
        assert_eq!((spread.lower_quartile, spread.upper_quartile), (1.75, 3.25));
        let spread = Spread::of((1..=5).map(f64::from).collect()).unwrap();
        assert_eq!((spread.lower_quartile, spread.median, spread.upper_quartile), (2.0, 3.0, 4.0));
        assert_eq!(Spread::of(vec![7.0]).unwrap().share(), 0.0);
        assert!(Spread::of(Vec::new()).is_none());
    }
}
