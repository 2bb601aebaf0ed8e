//! One trial over time: rate, latency, messages in flight, CPU and memory, all on one time axis.

use super::{Part, Section, resources};
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{ErrorCount, Outage, Phase, Record, SeriesRow};
use crate::report::figure::{Figure, PHONE, Table, Values, WIDE};
use crate::report::svg::lines::{Course, Event, Line, Stretch};
use crate::report::svg::unit::{Unit, moment};
use crate::report::thin::{Fold, Point, folded};

/// Rows of a table, and values under the pointer.
const TABLE_ROWS: usize = 60;
const VALUES: usize = 240;

/// More events than this are not flagged one by one.
const MOST_EVENTS: usize = 12;
const MOST_OUTAGES: usize = 8;

/// The seconds of a trial, with when each began.
pub struct Timeline<'a> {
    pub record: &'a Record,
    pub rows: Vec<(f64, &'a SeriesRow)>,
    pub until: f64,
    /// When the measurement began and ended.
    pub measured: (f64, f64),
}

impl<'a> Timeline<'a> {
    /// `None` with fewer than two rows.
    pub fn of(record: &'a Record, series: &'a [SeriesRow]) -> Option<Self> {
        let (mut rows, mut now) = (Vec::with_capacity(series.len()), 0.0f64);
        let usual = series.iter().find(|row| row.full).map_or(0.0, SeriesRow::seconds);
        // The wait for the last answers, where it is a moment only, is no second of its own.
        let long_drain = series.iter().any(|row| row.phase == Phase::Drain && row.full);
        for row in series.iter().filter(|row| long_drain || row.phase != Phase::Drain) {
            // Rows follow each other; after some that are missing, the time goes on where the next one says.
            if row.second as f64 > now + 1.0 {
                now = row.second as f64;
            }
            // A remainder of milliseconds between two phases has no rate that means anything.
            if row.full || row.seconds() > usual / 4.0 {
                rows.push((now, row));
            }
            now += row.seconds();
        }
        let mut measured = rows.iter().filter(|(_, row)| row.phase == Phase::Measure);
        let first = measured.next().map_or(0.0, |(begin, _)| *begin);
        let last = measured.next_back().map_or(first, |(begin, row)| begin + row.seconds());
        (rows.len() > 1).then_some(Timeline { record, rows, until: now, measured: (first, last.max(first)) })
    }

    /// A figure of each row, in its middle.
    fn points(&self, figure: impl Fn(&SeriesRow) -> Option<f64>) -> Vec<Point> {
        self.rows.iter().map(|(begin, row)| (begin + row.seconds() / 2.0, figure(row))).collect()
    }

    /// The full rows of the measurement.
    pub fn measured_rows(&self) -> impl Iterator<Item = (f64, &'a SeriesRow)> {
        self.rows.iter().copied().filter(|(_, row)| row.phase == Phase::Measure && row.full)
    }

    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        if self.measured.0 > 0.0 {
            stretches.push(Stretch { begin: 0.0, end: self.measured.0, name: "warm-up" });
        }
        if self.until > self.measured.1 {
            stretches.push(Stretch { begin: self.measured.1, end: self.until, name: "drain" });
        }
        stretches
    }

    /// A line of such figures.
    pub fn line(&self, name: &str, style: usize, figure: impl Fn(&SeriesRow) -> Option<f64>) -> Line {
        Line { name: name.to_owned(), style, points: self.points(figure) }
    }
}

/// All charts over time.
pub fn section(record: &Record, series: &[SeriesRow], heat: Option<Figure>) -> Option<Section> {
    let timeline = Timeline::of(record, series)?;
    let events = events(&timeline);
    let charts = [
        Some(rates(&timeline)),
        latencies(&timeline),
        heat,
        Some(in_flight(&timeline)),
        Some(resources::cpu(&timeline)),
        resources::memory(&timeline),
    ];
    let mut parts: Vec<Part> = charts.into_iter().flatten().map(Part::figure).collect();
    if let Some(Part::Figure(first)) = parts.first_mut() {
        first.events = events.iter().map(|event| format!("{}: {}", moment(event.at), event.text)).collect();
        let outages = record.outages.len();
        if outages > MOST_OUTAGES {
            first.sentence += &format!(" Flagged are the {MOST_OUTAGES} longest of {outages} outages.");
        }
    }
    Section::of("course", "Over time", parts)
}

/// What happened, in its order.
fn events(timeline: &Timeline<'_>) -> Vec<Event> {
    let begin = timeline.measured.0;
    let at = |ns: u64| begin + ns as f64 / 1e9;
    // Of many outages, the longest.
    let mut longest: Vec<&Outage> = timeline.record.outages.iter().collect();
    longest.sort_by_key(|outage| std::cmp::Reverse(outage.longest_gap_ns));
    let outages = longest.into_iter().take(MOST_OUTAGES).map(|outage| Event {
        at: at(outage.begin_ns),
        until: Some(outage.recovered_ns.map_or(timeline.measured.1, |recovered| at(outage.begin_ns + recovered))),
        text: match outage.recovered_ns {
            Some(recovered) => format!(
                "no acknowledgement for {}; the rate was held again after {}",
                duration(outage.longest_gap_ns as f64),
                duration(recovered as f64)
            ),
            None => format!(
                "no acknowledgement for {}; the rate was not held again",
                duration(outage.longest_gap_ns as f64)
            ),
        },
    });
    let error = |what: &str, error: &ErrorCount| Event {
        at: at(error.first_at_ns),
        until: None,
        text: format!("first of {} {what}: {}", count(error.count), error.first_message),
    };
    let failed = timeline.record.errors.iter().map(|found| error("messages that failed", found));
    let received = timeline.record.receive_errors.iter().map(|found| error("errors while receiving", found));
    let mut events: Vec<Event> = outages.chain(failed).chain(received).collect();
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    events.truncate(MOST_EVENTS);
    events
}

/// A chart of lines with its table and its values.
pub fn figure(
    id: &str,
    title: &str,
    sentence: String,
    timeline: &Timeline<'_>,
    name: &str,
    unit: Unit,
    lines: Vec<Line>,
) -> Figure {
    let course = Course {
        name: name.to_owned(),
        unit,
        lines,
        until: timeline.until,
        stretches: timeline.stretches(),
        events: events(timeline),
    };
    let mut figure = Figure::draw(id, title, sentence, (WIDE, PHONE), |shape| course.draw(shape));
    figure.table = table(&course, unit);
    figure.values = Some(values(&course, unit));
    figure
}

/// Of a duration, the largest of a column; of all else, the mean.
fn fold(unit: Unit) -> Fold {
    if unit == Unit::Nanoseconds { Fold::Largest } else { Fold::Mean }
}

fn columns(course: &Course, unit: Unit, most: usize) -> Vec<Vec<Point>> {
    course.lines.iter().map(|line| folded(&line.points, course.until, most, fold(unit))).collect()
}

fn table(course: &Course, unit: Unit) -> Table {
    let columns = columns(course, unit, TABLE_ROWS);
    let Some(first) = columns.first() else { return Table::default() };
    let row = |index: usize, at: f64| {
        let cell = |column: &Vec<Point>| {
            column.get(index).and_then(|point| point.1).map_or("–".to_owned(), |value| unit.exact(value))
        };
        std::iter::once(moment(at)).chain(columns.iter().map(cell)).collect()
    };
    let rows = first.iter().enumerate().map(|(index, point)| row(index, point.0)).collect();
    let heads = std::iter::once("time".to_owned()).chain(course.lines.iter().map(|line| line.name.clone())).collect();
    let all = course.lines.first().map_or(0, |line| line.points.len());
    let what = if fold(unit) == Fold::Largest { "the largest value" } else { "the mean" };
    let note = if all > TABLE_ROWS {
        format!("Each row is {what} of {}.", moment(course.until / TABLE_ROWS as f64))
    } else {
        String::new()
    };
    Table { note, heads, rows }
}

fn values(course: &Course, unit: Unit) -> Values {
    let columns = columns(course, unit, VALUES);
    let at = columns.first().map(|column| column.iter().map(|point| point.0).collect()).unwrap_or_default();
    let series = course.lines.iter().zip(&columns);
    let series =
        series.map(|(line, column)| (line.name.clone(), column.iter().map(|point| point.1).collect())).collect();
    Values { axis: "time", until: course.until, unit: unit.code(), at, series }
}

fn rates(timeline: &Timeline<'_>) -> Figure {
    let per_second = |number: u64, row: &SeriesRow| number as f64 / row.seconds();
    let any = |figure: fn(&SeriesRow) -> bool| timeline.rows.iter().any(|(_, row)| figure(row));
    let mut lines = Vec::new();
    if any(|row| row.due.is_some()) {
        lines
            .push(timeline.line("wanted", 6, |row| {
                row.due.map(|due| per_second(due, row)).filter(|_| row.phase != Phase::Drain)
            }));
    }
    lines.push(timeline.line("achieved", 1, |row| Some(row.acknowledged_per_second())));
    if any(|row| row.consumed.is_some()) {
        lines.push(timeline.line("received", 3, |row| row.consumed.map(|consumed| per_second(consumed, row))));
    }
    if any(|row| row.failed > 0) {
        lines.push(timeline.line("failed", 2, |row| Some(per_second(row.failed, row))));
    }
    figure("rate", "Rate", rate_sentence(timeline), timeline, "messages/s", Unit::PerSecond, lines)
}

fn rate_sentence(timeline: &Timeline<'_>) -> String {
    let rows: Vec<(f64, &SeriesRow)> = timeline.measured_rows().collect();
    let due = |row: &SeriesRow| row.due.filter(|due| *due > 0).map(|due| due as f64);
    let shares: Vec<(f64, f64, &SeriesRow)> =
        rows.iter().filter_map(|(begin, row)| Some((*begin, row.acknowledged as f64 / due(row)?, *row))).collect();
    let lowest = shares.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((at, share, row)) = lowest else { return closed_sentence(&rows) };
    let far = shares.iter().map(|share| (share.1 - 1.0).abs()).fold(0.0, f64::max);
    if far <= 0.05 {
        return format!(
            "In each of the {} measured seconds, the achieved rate was within {} of the wanted one.",
            shares.len(),
            percent(far)
        );
    }
    let below = shares.iter().filter(|share| share.1 < 0.95).count();
    if below == 0 {
        return "The achieved rate was never more than 5 % below the wanted one; above it, messages that had waited caught up.".to_owned();
    }
    format!(
        "The achieved rate was lowest at {}: {} messages in that second, {} of what was wanted. {} of {} measured seconds had less than 95 % of it.",
        moment(*at),
        count(row.acknowledged),
        percent(*share),
        below,
        shares.len()
    )
}

fn closed_sentence(rows: &[(f64, &SeriesRow)]) -> String {
    let by_rate = |one: &&(f64, &SeriesRow), other: &&(f64, &SeriesRow)| {
        one.1.acknowledged_per_second().total_cmp(&other.1.acknowledged_per_second())
    };
    let (Some((low_at, low)), Some((high_at, high))) = (rows.iter().min_by(by_rate), rows.iter().max_by(by_rate))
    else {
        return "The measurement has no full second.".to_owned();
    };
    let (low, high) = (low.acknowledged_per_second(), high.acknowledged_per_second());
    format!(
        "The slowest measured second carried {} messages/s (at {}), the fastest {} (at {}): {} apart.",
        rate(low),
        moment(*low_at),
        rate(high),
        moment(*high_at),
        percent(if high > 0.0 { (high - low) / high } else { 0.0 })
    )
}

fn latencies(timeline: &Timeline<'_>) -> Option<Figure> {
    let value = |ns: Option<u64>| ns.map(|ns| ns as f64);
    timeline.rows.iter().find_map(|(_, row)| row.p50_ns)?;
    let lines =
        vec![timeline.line("p99", 2, |row| value(row.p99_ns)), timeline.line("median", 1, |row| value(row.p50_ns))];
    let name = timeline.record.headline;
    let title = if name == crate::record::Headline::Response { "Response time" } else { "Service time" };
    Some(figure(
        "latency-over-time",
        &format!("{title} of each second"),
        latency_sentence(timeline),
        timeline,
        &format!("{name} time"),
        Unit::Nanoseconds,
        lines,
    ))
}

fn latency_sentence(timeline: &Timeline<'_>) -> String {
    let mut slow: Vec<(f64, f64)> =
        timeline.measured_rows().filter_map(|(begin, row)| Some((begin, row.p99_ns? as f64))).collect();
    slow.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (Some(highest), Some(middle)) = (slow.last(), slow.get(slow.len() / 2)) else {
        return "No measured second has a 99th percentile.".to_owned();
    };
    let times = highest.1 / middle.1.max(1.0);
    let steady = if times < 2.0 { "no second stands out" } else { "that second stands out" };
    format!(
        "The p99 of a typical second was {}; of the slowest, at {}, {} ({:.1} times as long: {steady}).",
        duration(middle.1),
        moment(highest.0),
        duration(highest.1),
        times
    )
}

fn in_flight(timeline: &Timeline<'_>) -> Figure {
    let mut lines = vec![timeline.line("in flight", 1, |row| Some(row.in_flight as f64))];
    if timeline.rows.iter().any(|(_, row)| row.queue_messages.is_some_and(|queued| queued > 0)) {
        lines.push(timeline.line("queued", 4, |row| row.queue_messages.map(|queued| queued as f64)));
    }
    let flights: Vec<f64> = timeline.measured_rows().map(|(_, row)| row.in_flight as f64).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let third = flights.len() / 3;
    let (first, last) = (mean(&flights[..third]), mean(&flights[flights.len() - third..]));
    let course = match third {
        0 => String::new(),
        _ if last > 2.0 * first + 100.0 => {
            format!(
                " They grew from {} in the first third to {} in the last: messages came in faster than they were acknowledged.",
                rate(first),
                rate(last)
            )
        }
        _ => " They did not pile up.".to_owned(),
    };
    let sentence = format!(
        "At the end of a second, {} messages on average had no answer yet, at most {}.{course}",
        rate(mean(&flights)),
        count(flights.iter().copied().fold(0.0, f64::max) as u64)
    );
    figure("in-flight", "Messages in flight", sentence, timeline, "messages without an answer", Unit::Count, lines)
}
