//! A sweep: the charts of its points, then the percentiles of some, then every point as a row.

use super::{Block, Section, latency};
use crate::present::points::{self, Axes, Point, Spot, by_point};
use crate::present::sweep::{headlines, points_table};
use crate::present::{Table, capital, or_dash, several};
use crate::record::Record;
use crate::record::readable::{duration, percent, plain};
use crate::report::figure::{Figure, HALF, PHONE};
use crate::report::html;
use crate::report::svg::Shape;
use crate::report::svg::bars::{Bar, Bars};
use crate::report::svg::dots::{Dots, Group, evenly};
use crate::report::svg::heat::{Grid, level};
use crate::report::svg::unit::Unit;
use crate::statistics::extent;

/// Bars of a chart; more points become dots in their order.
const MAX_BARS: usize = 24;
/// Curves of percentiles.
const MAX_CURVES: usize = 5;
const MAX_ROWS: usize = 200;

const PHONE_HALF: Shape = Shape { height: 280.0, ..PHONE };

/// A figure of a record, and how it is written.
struct Measure {
    id: &'static str,
    title: String,
    name: String,
    unit: Unit,
    value: fn(&Record) -> Option<f64>,
}

/// Throughput, and the 99th percentile of the latency that leads.
fn measures(records: &[&Record]) -> [Measure; 2] {
    let headline = headlines(records);
    [
        Measure {
            id: "throughput",
            title: "Throughput".to_owned(),
            name: "messages/s".to_owned(),
            unit: Unit::PerSecond,
            value: |record| Some(record.throughput.messages_per_second),
        },
        Measure {
            id: "latency",
            title: format!("{} time, p99", capital(&headline)),
            name: format!("{headline} time, p99"),
            unit: Unit::Nanoseconds,
            value: |record| record.headline_latency()?.p99_ns.map(|ns| ns as f64),
        },
    ]
}

/// The curves of the sweep, and its table.
pub fn sections(records: &[&Record]) -> Vec<Section> {
    let points = by_point(records);
    let axes = points::axes(&points);
    let mut curves =
        vec![Block::Pair(measures(records).iter().map(|measure| figure(&points, &axes, measure)).collect())];
    curves.extend(tails(&points, &axes).map(Block::figure));
    let table = html::table(&points_table(records, MAX_ROWS));
    [Section::new("sweep", &title(&axes), curves), Section::text("points", "Every point", table)]
        .into_iter()
        .flatten()
        .collect()
}

fn title(axes: &Axes) -> String {
    match axes {
        Axes::None => "The trials".to_owned(),
        Axes::One(keys) => format!("By {}", keys.join(" and ")),
        Axes::Two(one, other) => format!("By {one} and {other}"),
        Axes::Many(_) => "The points".to_owned(),
    }
}

fn figure(points: &[Point<'_>], axes: &Axes, measure: &Measure) -> Figure {
    let names = axes.names();
    let spots: Vec<Spot> = points.iter().map(|point| point.spot(point.name(&names), &measure.value)).collect();
    let sentence = sentence(&spots, axes, measure);
    let mut figure = match axes {
        Axes::None => trials(points, measure, sentence),
        Axes::Two(one, other) => heat(points, (one, other), &spots, measure, sentence),
        Axes::One(keys) => match points::places(points, &keys[0]) {
            Some(places) => curve(places, spots.clone(), keys.join(", "), true, measure, sentence),
            None if points.len() <= MAX_BARS => bars(&spots, measure, sentence),
            None => ordered(points, &spots, measure, sentence),
        },
        Axes::Many(_) if points.len() <= MAX_BARS => bars(&spots, measure, sentence),
        Axes::Many(_) => ordered(points, &spots, measure, sentence),
    };
    figure.table = if *axes == Axes::None { trials_table(points, measure) } else { spots_table(&spots, measure) };
    figure
}

fn curve(
    places: Vec<f64>,
    spots: Vec<Spot>,
    axis: String,
    is_connected: bool,
    measure: &Measure,
    sentence: String,
) -> Figure {
    // A line and the names below it go from left to right, in whichever order the values were listed.
    let mut placed: Vec<(f64, Spot)> = places.into_iter().zip(spots).collect();
    placed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (places, spots) = placed.into_iter().unzip();
    let group = Group { name: measure.name.clone(), style: style(measure), spots };
    let dots = Dots {
        name: measure.name.clone(),
        unit: measure.unit,
        axis,
        places,
        groups: vec![group],
        is_connected,
        is_from_zero: measure.unit == Unit::PerSecond,
    };
    Figure::draw(measure.id, &measure.title, sentence, (HALF, PHONE_HALF), |shape| dots.draw(shape))
}

fn style(measure: &Measure) -> usize {
    if measure.unit == Unit::PerSecond { 1 } else { 2 }
}

/// Points that no number orders, by their numbers; some may be missing.
fn ordered(points: &[Point<'_>], spots: &[Spot], measure: &Measure, sentence: String) -> Figure {
    let places = evenly(spots.len());
    let number = |point: &Point<'_>| point.records[0].point_index.to_string();
    let numbered = points.iter().zip(spots).map(|(point, spot)| Spot { name: number(point), ..spot.clone() });
    curve(places, numbered.collect(), "point, as numbered in the table".to_owned(), false, measure, sentence)
}

/// The repetitions of one point, each at its number.
fn trials(points: &[Point<'_>], measure: &Measure, sentence: String) -> Figure {
    let records: Vec<&Record> = points.iter().flat_map(|point| point.records.iter().copied()).collect();
    let spot = |record: &&Record| Spot {
        name: record.trial.to_string(),
        trials: (measure.value)(record).map(|value| (value, record.verdict.valid)).into_iter().collect(),
        middle: None,
        interval: None,
    };
    let places = evenly(records.len());
    curve(places, records.iter().map(spot).collect(), "trial".to_owned(), false, measure, sentence)
}

fn bars(spots: &[Spot], measure: &Measure, sentence: String) -> Figure {
    let bar = |spot: &Spot| Bar {
        name: spot.name.clone(),
        value: spot.middle,
        text: spot.middle.map_or("–".to_owned(), |middle| measure.unit.exact(middle)),
        interval: spot.interval,
        trials: spot.trials.clone(),
        style: style(measure),
    };
    let bars = Bars { name: measure.name.clone(), unit: measure.unit, bars: spots.iter().map(bar).collect() };
    let shapes = (bars.shape(HALF.width), bars.shape(PHONE.width));
    Figure::draw(measure.id, &measure.title, sentence, shapes, |shape| bars.draw(shape))
}

fn heat(
    points: &[Point<'_>],
    (one, other): (&str, &str),
    spots: &[Spot],
    measure: &Measure,
    sentence: String,
) -> Figure {
    let values = |key: &str| {
        let mut found: Vec<&serde_json::Value> = Vec::new();
        for value in points.iter().filter_map(|point| point.values.get(key)) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    };
    // The key with more values lies along the longer edge.
    let (across, up) = if values(one).len() >= values(other).len() { (one, other) } else { (other, one) };
    let (columns, rows) = (values(across), values(up));
    let middles: Vec<f64> = spots.iter().filter_map(|spot| spot.middle).collect();
    let (low, high) = extent(middles.iter().copied());
    let cell = |row: &serde_json::Value, column: &serde_json::Value| {
        let found = points
            .iter()
            .position(|point| point.values.get(up) == Some(row) && point.values.get(across) == Some(column));
        match found.and_then(|index| spots[index].middle) {
            Some(middle) => (level(middle, low, high), measure.unit.short(three_digits(middle))),
            None => (0, "–".to_owned()),
        }
    };
    let ticks = |values: &[&serde_json::Value]| {
        let share = |index: usize| (index as f64 + 0.5) / values.len() as f64;
        values.iter().enumerate().map(|(index, value)| (share(index), plain(value))).collect::<Vec<_>>()
    };
    let row_ticks = ticks(&rows);
    let widest = row_ticks.iter().map(|tick| crate::report::svg::text_width(&tick.1)).fold(20.0, f64::max);
    let grid = Grid {
        name: format!("{up}, bottom to top; in cells: {}", measure.name),
        columns: columns.len(),
        column_ticks: ticks(&columns),
        rows: rows.len(),
        row_ticks,
        axis: across.to_owned(),
        cells: rows.iter().flat_map(|row| columns.iter().map(|column| cell(row, column))).collect(),
        left: Some((widest + 14.0).min(140.0)),
        until: None,
        marks: Vec::new(),
        column_share: 1.0 / columns.len() as f64,
    };
    Figure::draw(measure.id, &measure.title, sentence, (HALF, PHONE_HALF), |shape| grid.draw(shape))
}

fn three_digits(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powi(2 - value.log10().floor() as i32);
    (value * power).round() / power
}

fn sentence(spots: &[Spot], axes: &Axes, measure: &Measure) -> String {
    if *axes == Axes::None {
        return repetitions_sentence(spots, measure);
    }
    let mut known: Vec<(&Spot, f64)> = spots.iter().filter_map(|spot| Some((spot, spot.middle?))).collect();
    known.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (Some(low), Some(high)) = (known.first(), known.last()) else {
        return format!("No point has a {} that can be stated.", measure.name);
    };
    let (most, least) = if measure.unit == Unit::PerSecond { ("highest", "lowest") } else { ("longest", "shortest") };
    let times = high.1 / low.1.max(f64::MIN_POSITIVE);
    let apart = if times < 1.05 {
        "hardly any difference".to_owned()
    } else if low.1 <= 0.0 {
        "nothing at all".to_owned()
    } else {
        format!("{} times as much", crate::report::svg::unit::plain(three_digits(times)))
    };
    format!(
        "{} at {} ({}), {least} at {} ({}): {apart}.{}",
        capital(most),
        high.0.name,
        measure.unit.exact(high.1),
        low.0.name,
        measure.unit.exact(low.1),
        doubts(spots)
    )
}

/// How many trials are not valid, which are crosses where trials have marks.
fn doubts(spots: &[Spot]) -> String {
    let all: usize = spots.iter().map(|spot| spot.trials.len()).sum();
    let not_valid: usize = spots.iter().flat_map(|spot| &spot.trials).filter(|trial| !trial.1).count();
    match not_valid {
        0 => String::new(),
        number => format!(" {number} of {} not valid (crosses, where trials have marks).", several(all, "trial")),
    }
}

fn repetitions_sentence(spots: &[Spot], measure: &Measure) -> String {
    let Some(middle) = spots.first().and_then(|spot| spot.middle) else {
        let has_any = spots.iter().any(|spot| !spot.trials.is_empty());
        let (which, median) = if has_any { ("Not every", ", so there is no median") } else { ("No", "") };
        return format!("{which} trial has a {} that can be stated{median}.", measure.name);
    };
    let (low, high) = extent(spots.iter().flat_map(|spot| &spot.trials).map(|trial| trial.0));
    let between = spots.first().and_then(|spot| spot.interval).map(|(low, high)| {
        format!(" The true middle lies between {} and {} (95 %).", measure.unit.exact(low), measure.unit.exact(high))
    });
    format!(
        "Median {}; trials from {} to {}, {} apart.{}{}",
        measure.unit.exact(middle),
        measure.unit.exact(low),
        measure.unit.exact(high),
        percent((high - low) / middle.max(f64::MIN_POSITIVE)),
        between.unwrap_or_default(),
        doubts(spots)
    )
}

/// The percentiles of some points: the first, the last, and some between them.
fn tails(points: &[Point<'_>], axes: &Axes) -> Option<Figure> {
    let known: Vec<&Point<'_>> = points
        .iter()
        .filter(|point| point.counted().iter().any(|record| record.headline_latency().is_some()))
        .collect();
    let number = known.len().min(MAX_CURVES);
    let index = |place: usize| if number < 2 { 0 } else { place * (known.len() - 1) / (number - 1) };
    let names = axes.names();
    let chosen = (0..number).map(|place| known[index(place)]);
    let name = |point: &Point<'_>| if *axes == Axes::None { "all trials".to_owned() } else { point.name(&names) };
    let curves: Vec<_> = chosen
        .enumerate()
        .filter_map(|(place, point)| latency::merged(&name(point), place + 1, &point.counted()))
        .collect();
    let longest = curves.iter().max_by_key(|curve| curve.histogram.value_at_quantile(0.99))?;
    let shortest = curves.iter().min_by_key(|curve| curve.histogram.value_at_quantile(0.99))?;
    let part =
        if known.len() > number { format!(" Shown are {number} of {} points.", known.len()) } else { String::new() };
    let sentence = if !curves.iter().all(|curve| curve.supports(0.99)) {
        format!("Too few independent messages were measured to state the 99th percentile of each curve.{part}")
    } else if curves.len() == 1 {
        format!(
            "Over all trials together, half of the messages took {} or less, 99 of 100 {} or less.",
            duration(longest.at(0.5)),
            duration(longest.at(0.99))
        )
    } else {
        format!(
            "The 99th percentile is longest at {} ({}) and shortest at {} ({}).{part}",
            longest.name,
            duration(longest.at(0.99)),
            shortest.name,
            duration(shortest.at(0.99))
        )
    };
    let title = if names.is_empty() {
        "Latency by percentile".to_owned()
    } else {
        format!("Latency by percentile and {}", names.join(", "))
    };
    Some(latency::figure("latency-by-percentile", &title, sentence, curves))
}

/// The points of a chart.
fn spots_table(spots: &[Spot], measure: &Measure) -> Table {
    let row = |spot: &Spot| {
        let between = |(low, high)| format!("{} … {}", measure.unit.exact(low), measure.unit.exact(high));
        vec![
            spot.name.clone(),
            spot.trials.len().to_string(),
            or_dash(spot.middle.map(|middle| measure.unit.exact(middle))),
            or_dash(spot.interval.map(between)),
        ]
    };
    let rows = spots.iter().take(MAX_ROWS).map(row).collect();
    Table::from_rows(["point", "trials", "median", "95 % interval of the middle"], rows)
}

/// The trials of a chart, where there is a single point.
fn trials_table(points: &[Point<'_>], measure: &Measure) -> Table {
    let records = points.iter().flat_map(|point| &point.records);
    let row = |record: &&Record| {
        let value = or_dash((measure.value)(record).map(|value| measure.unit.exact(value)));
        vec![record.trial.to_string(), value, if record.verdict.valid { "valid" } else { "not valid" }.to_owned()]
    };
    Table::from_rows(["trial", &measure.name, "verdict"], records.take(MAX_ROWS).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    /// A sweep of producers with these rates: its chart of throughput.
    fn throughput(points: &[(u64, f64)]) -> Figure {
        let of = |(point_index, (producers, rate)): (usize, &(u64, f64))| {
            let mut record = Record { point_index, ..sample::record() };
            record.point.insert("producers.count".to_owned(), (*producers).into());
            record.throughput.messages_per_second = *rate;
            record
        };
        let records: Vec<Record> = points.iter().enumerate().map(of).collect();
        let records: Vec<&Record> = records.iter().collect();
        let points = by_point(&records);
        figure(&points, &points::axes(&points), &measures(&records)[0])
    }

    #[test]
    fn values_that_are_listed_from_the_largest_down_have_names_and_a_line_from_left_to_right() {
        let (down, up) = ([(100, 3e3), (10, 2e3), (1, 1e3)], [(1, 1e3), (10, 2e3), (100, 3e3)]);
        let (down, up) = (throughput(&down), throughput(&up));
        assert_eq!(down.wide.body.matches("tick m").count(), 3, "{}", down.wide.body);
        assert_eq!(down.wide.body, up.wide.body);
    }

    #[test]
    fn points_that_no_number_orders_are_numbered_as_in_the_table() {
        let of = |point_index: usize| {
            let mut record = Record { point_index, ..sample::record() };
            record.point.insert("topology.name".to_owned(), format!("topic-{point_index}").into());
            record
        };
        // Those before were not run when the sweep was interrupted.
        let records: Vec<Record> = (100..130).map(of).collect();
        let records: Vec<&Record> = records.iter().collect();
        let points = by_point(&records);
        let figure = figure(&points, &points::axes(&points), &measures(&records)[0]);
        assert!(figure.wide.body.contains(">100</text>"), "{}", figure.wide.body);
    }

    #[test]
    fn a_point_that_carried_nothing_is_not_compared_by_a_factor() {
        let sentence = throughput(&[(1, 50_000.0), (2, 0.0)]).sentence;
        assert_eq!(sentence, "Highest at 1 (50,000/s), lowest at 2 (0.00/s): nothing at all.");
    }

    #[test]
    fn a_percentile_of_all_trials_is_told_where_it_can_be_stated() {
        let mut record = sample::record();
        for (independent, told) in [(999, "Too few independent messages"), (1_000, "Over all trials together")] {
            record.latency.response.as_mut().unwrap().independent = Some(independent);
            let figure = tails(&by_point(&[&record]), &Axes::None).unwrap();
            assert!(figure.sentence.starts_with(told), "{}", figure.sentence);
        }
    }
}
