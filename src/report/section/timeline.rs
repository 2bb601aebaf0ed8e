//! The time axis of a trial: its seconds, what happened in them, and a chart of lines over it.

use crate::measure::FailureClass;
use crate::present::thin::{Fold, Point, folded};
use crate::present::{Table, or_dash};
use crate::record::readable::{SLEEPER, count, duration};
use crate::record::{ErrorCount, Fault, Outage, Phase, Record, SeriesRow};
use crate::report::figure::{Figure, PHONE, Values, WIDE};
use crate::report::svg::lines::{Event, Line, Segment, TimeChart};
use crate::report::svg::unit::{Unit, moment};
use crate::scenario::on_one_line;

/// Rows of a table, and values under the pointer.
const TABLE_ROWS: usize = 60;
const VALUES: usize = 240;

/// More events than this are not flagged one by one.
const MAX_EVENTS: usize = 12;
const MAX_OUTAGES: usize = 8;

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
    pub fn new(record: &'a Record, series: &'a [SeriesRow]) -> Option<Self> {
        let (mut rows, mut now) = (Vec::with_capacity(series.len()), 0.0f64);
        let usual = series.iter().find(|row| row.full).map_or(0.0, SeriesRow::seconds);
        // The wait for the last answers, where it is a moment only, is not counted as a second of its own.
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
        let measured = || rows.iter().filter(|(_, row)| row.phase == Phase::Measure);
        // A trial that ended during its warm-up has no measurement.
        let first = rows.iter().find(|(_, row)| row.phase != Phase::WarmUp).map_or(now, |(begin, _)| *begin);
        let last = measured().next_back().map_or(first, |(begin, row)| begin + row.seconds());
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

    fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        if self.measured.0 > 0.0 {
            segments.push(Segment { begin: 0.0, end: self.measured.0, name: "warm-up" });
        }
        if self.until > self.measured.1 {
            segments.push(Segment { begin: self.measured.1, end: self.until, name: "drain" });
        }
        segments
    }

    /// A line of such figures.
    pub fn line(&self, name: &str, style: usize, figure: impl Fn(&SeriesRow) -> Option<f64>) -> Line {
        Line { name: name.to_owned(), style, points: self.points(figure) }
    }
}

/// What happened, in its order, as far as it is flagged; and how much happened.
pub(super) fn events(timeline: &Timeline<'_>) -> (Vec<Event>, usize) {
    let begin = timeline.measured.0;
    let at = |ns: u64| begin + ns as f64 / 1e9;
    // Of many outages, the longest.
    let mut longest: Vec<&Outage> = timeline.record.outages.iter().collect();
    longest.sort_by_key(|outage| std::cmp::Reverse(outage.longest_gap_ns));
    let outages = longest.into_iter().take(MAX_OUTAGES).map(|outage| Event {
        at: at(outage.begin_ns),
        until: Some(outage.recovered_ns.map_or(timeline.measured.1, |recovered| at(outage.begin_ns + recovered))),
        text: outage_text(outage),
    });
    let error = |what: &str, error: &ErrorCount| Event {
        at: at(error.first_at_ns),
        until: None,
        text: format!("first of {} {what}: {}", count(error.count), error.first_message),
    };
    let failed = timeline.record.errors.iter().map(|found| error("messages that failed", found));
    // When consumers crashed is not known.
    let received = timeline.record.receive_errors.iter().filter(|found| found.class != FailureClass::Crashed);
    let received = received.map(|found| error("errors while receiving", found));
    let conditions = timeline.record.conditions.iter().map(|found| Event {
        at: found.begin_ns as f64 / 1e9,
        until: Some(found.end_ns.map_or(timeline.until, |end| end as f64 / 1e9)),
        text: found.told_in_full(),
    });
    let mut events: Vec<Event> = outages.chain(conditions).chain(failed).chain(received).collect();
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    let faults = timeline.record.faults.iter().flat_map(Fault::commands);
    let faults = faults.filter_map(|(what, command)| Some((what, command, command.begin_ns?)));
    let mut faults: Vec<Event> = faults
        .map(|(what, command, begin_ns)| Event {
            at: at(begin_ns),
            until: None,
            text: format!("fault, {what}: {}", on_one_line(&command.command)),
        })
        .collect();
    let all = events.len() + timeline.record.outages.len().saturating_sub(MAX_OUTAGES) + faults.len();
    faults.truncate(MAX_EVENTS);
    // What was done is told before what came of it.
    events.truncate(MAX_EVENTS.saturating_sub(faults.len()));
    events.extend(faults);
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    (events, all)
}

fn outage_text(outage: &Outage) -> String {
    let gap = duration(outage.longest_gap_ns as f64);
    let paused = match outage.client_paused_ns {
        0 => String::new(),
        paused_ns => format!(" ({SLEEPER} for {} of it)", duration(paused_ns as f64)),
    };
    match outage.recovered_ns {
        Some(recovered_ns) => {
            let after = duration(recovered_ns as f64);
            format!("no acknowledgement for {gap}{paused}; the rate was held again after {after}")
        }
        None => format!("no acknowledgement for {gap}{paused}; the rate was not held again"),
    }
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
    let chart = TimeChart {
        name: name.to_owned(),
        unit,
        lines,
        until: timeline.until,
        segments: timeline.segments(),
        events: events(timeline).0,
    };
    let mut figure = Figure::draw(id, title, sentence, (WIDE, PHONE), |shape| chart.draw(shape));
    figure.table = table(&chart, unit);
    figure.values = Some(values(&chart, unit));
    figure
}

/// Of a duration, the largest of a column; of all else, the mean.
fn fold(unit: Unit) -> Fold {
    if unit == Unit::Nanoseconds { Fold::Largest } else { Fold::Mean }
}

fn columns(chart: &TimeChart, unit: Unit, most: usize) -> Vec<Vec<Point>> {
    chart.lines.iter().map(|line| folded(&line.points, chart.until, most, fold(unit))).collect()
}

fn table(chart: &TimeChart, unit: Unit) -> Table {
    let columns = columns(chart, unit, TABLE_ROWS);
    let Some(first) = columns.first() else { return Table::default() };
    let row = |index: usize, at: f64| {
        let cell =
            |column: &Vec<Point>| or_dash(column.get(index).and_then(|point| point.1).map(|value| unit.exact(value)));
        std::iter::once(moment(at)).chain(columns.iter().map(cell)).collect()
    };
    let rows = first.iter().enumerate().map(|(index, point)| row(index, point.0)).collect();
    let heads = std::iter::once("time".to_owned()).chain(chart.lines.iter().map(|line| line.name.clone()));
    let all = chart.lines.first().map_or(0, |line| line.points.len());
    let what = if fold(unit) == Fold::Largest { "the largest value" } else { "the mean" };
    let note = if all > TABLE_ROWS {
        format!("Each row is {what} of {}.", moment(chart.until / TABLE_ROWS as f64))
    } else {
        String::new()
    };
    Table::from_rows(heads, rows).with_note(note)
}

fn values(chart: &TimeChart, unit: Unit) -> Values {
    let columns = columns(chart, unit, VALUES);
    let at = columns.first().map(|column| column.iter().map(|point| point.0).collect()).unwrap_or_default();
    let series = chart.lines.iter().zip(&columns);
    let series =
        series.map(|(line, column)| (line.name.clone(), column.iter().map(|point| point.1).collect())).collect();
    Values { axis: "time", until: chart.until, unit: unit.code(), at, series }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn consumers_that_crashed_are_at_no_moment() {
        let (mut record, series) = (sample::record(), sample::series());
        let error =
            |class, message: &str| ErrorCount { class, count: 1, first_message: message.to_owned(), first_at_ns: 0 };
        record.receive_errors = vec![error(FailureClass::Crashed, "index"), error(FailureClass::Refused, "denied")];
        let told: Vec<String> =
            events(&Timeline::new(&record, &series).unwrap()).0.into_iter().map(|event| event.text).collect();
        assert!(told.iter().any(|text| text.contains("denied")), "{told:?}");
        assert!(!told.iter().any(|text| text.contains("index")), "{told:?}");
    }

    #[test]
    fn a_trial_that_ended_during_its_warm_up_has_no_drain() {
        let (record, series) = (sample::record(), sample::series());
        let warm_up: Vec<SeriesRow> = series.into_iter().filter(|row| row.phase == Phase::WarmUp).collect();
        let timeline = Timeline::new(&record, &warm_up).unwrap();
        assert_eq!(timeline.segments(), [Segment { begin: 0.0, end: 2.0, name: "warm-up" }]);
    }

    #[test]
    fn a_measurement_of_one_row_is_not_the_drain() {
        let (record, series) = (sample::record(), sample::series());
        let first = series.iter().position(|row| row.phase == Phase::Measure).unwrap();
        let timeline = Timeline::new(&record, &series[..=first]).unwrap();
        assert_eq!(timeline.measured_rows().count(), 1);
        assert!(timeline.segments().iter().all(|segment| segment.name == "warm-up"), "{:?}", timeline.segments());
    }
}
