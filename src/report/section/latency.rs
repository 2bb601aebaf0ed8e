//! The latencies of one trial by percentile, and of several points beside each other, on an axis of 1/(1−p), as HdrHistogram's plots have it: each
//! further nine takes as much room as the one before. A curve is dashed from where fewer than ten independent values lie beyond it.

use hdrhistogram::Histogram;

use super::{Block, Section};
use crate::present::Table;
use crate::present::trial::{END_TO_END, latencies, latency_table, latency_words};
use crate::record::readable::{duration, percent};
use crate::record::{Headline, Latency, Record, independent_values_needed};
use crate::report::figure::{Figure, PHONE, Values, WIDE};
use crate::report::html;
use crate::report::svg::axes::{Frame, Scale};
use crate::report::svg::unit::Unit;
use crate::report::svg::{Canvas, Drawing, Shape, number, shortened, text_width};

/// Which messages the curves are about.
const POPULATION: &str = "Only messages that were acknowledged (end to end: received) are in a curve; a threshold counts the missing ones as slower.";

/// Places at which the script may tell values, for each nine.
const PER_NINE: usize = 24;

const SHAPES: (Shape, Shape) = (Shape { height: 330.0, ..WIDE }, Shape { height: 270.0, ..PHONE });

/// Of one trial: every latency that it has.
pub fn section(record: &Record) -> Option<Section> {
    // The groups' curves have colours of their own, after the one of a single group.
    let mut of_groups = [2, 4, 5].into_iter().cycle();
    let mut style = |name: &str| if name.starts_with(END_TO_END) { of_groups.next().unwrap_or(2) } else { style(name) };
    let curves = latencies(record).into_iter().filter_map(|(name, latency)| curve(&name, style(&name), latency));
    let curves: Vec<Curve> = curves.collect();
    let figure = (!curves.is_empty())
        .then(|| figure("latency-by-percentile", "Latency by percentile", sentence(record), curves))
        .map(Block::figure);
    let words = || latency_words(record).into_iter().map(html::note).collect::<String>();
    let table = latency_table(record).map(|table| Block::Html(html::table(&table) + &words()));
    Section::new("latency", "How long messages took", figure.into_iter().chain(table).collect())
}

fn style(name: &str) -> usize {
    match name {
        "response" => 1,
        "service" => 3,
        "schedule delay" => 6,
        _ => 4,
    }
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
            if curve.supports(quantile) { duration(curve.at(quantile)) } else { "–".to_owned() }
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
    Table::from_rows(heads, rows).with_note("A dash: fewer than ten independent values lie beyond it.")
}

fn values(tail: &Tail) -> Values {
    let places = (tail.nines() * PER_NINE as f64) as usize;
    let at: Vec<f64> = (0..=places).map(|place| place as f64 / PER_NINE as f64).collect();
    let of =
        |curve: &Curve| at.iter().map(|nines| (*nines <= curve.nines()).then(|| curve.at(quantile(*nines)))).collect();
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
    let slowest = format!("the slowest {}", duration(latency.max_ns as f64));
    if !latency.supports(0.5) {
        return format!("Too few independent messages were measured to state a percentile; {slowest} {name}.");
    }
    let tail = match latency.p99_ns {
        Some(p99) => format!("99 of 100 at most {}, ", duration(p99 as f64)),
        None if latency.supports(0.9) => format!("9 of 10 at most {}, ", duration(latency.p90_ns as f64)),
        None => String::new(),
    };
    let half = duration(latency.p50_ns as f64);
    format!("Half of the messages took {half} or less {name}, {tail}{slowest}.{}", delay(record))
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

/// One distribution.
#[derive(Debug, Clone)]
pub struct Curve {
    pub name: String,
    pub style: usize,
    /// Of nanoseconds.
    pub histogram: Histogram<u64>,
    /// Values that are independent of each other.
    pub independent: u64,
}

/// Several of them.
#[derive(Debug, Clone)]
struct Tail {
    curves: Vec<Curve>,
}

/// Named places of the axis.
const TICKS: [(f64, &str); 8] = [
    (0.0, "0 %"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
    (0.999999, "99.9999 %"),
];

impl Curve {
    /// The value that a share of all values does not exceed.
    pub fn at(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64
    }

    /// Where it ends: one value lies beyond so many nines.
    fn nines(&self) -> f64 {
        (self.histogram.len().max(1) as f64).log10()
    }

    /// Whether it can be stated: ten independent values or more lie beyond it.
    pub fn supports(&self, quantile: f64) -> bool {
        self.independent >= independent_values_needed(quantile)
    }
}

/// The quantile that so many nines stand for.
fn quantile(nines: f64) -> f64 {
    1.0 - 10f64.powf(-nines)
}

impl Tail {
    /// Where the axis ends, in nines: at the last value of the longest curve.
    fn nines(&self) -> f64 {
        let most = self.curves.iter().map(|curve| curve.histogram.len()).max().unwrap_or(1);
        (most.max(10) as f64).log10().clamp(1.0, 6.0)
    }

    fn draw(&self, shape: Shape) -> Drawing {
        let widest = self.curves.iter().map(|curve| text_width(&shortened(&curve.name))).fold(60.0, f64::max);
        let left = if shape.is_narrow() { 52.0 } else { 62.0 };
        let frame = Frame::inside(shape, left, widest * 1.1 + 10.0).above_a_name();
        let ends = |curve: &Curve| [curve.at(0.0).max(curve.at(0.02)).max(1_000.0), curve.histogram.max() as f64];
        let scale = Scale::logarithmic(self.curves.iter().flat_map(ends));
        let (mut canvas, nines) = (Canvas::default(), self.nines());
        frame.vertical(&mut canvas, scale, Unit::Nanoseconds, "latency");
        let ticks: Vec<(f64, String)> = TICKS
            .iter()
            .map(|(quantile, text)| (-(1.0 - quantile).log10() / nines, (*text).to_owned()))
            .filter(|(share, _)| *share <= 1.0)
            .collect();
        for (share, _) in &ticks {
            canvas.line("grid", (frame.x(*share), frame.top), (frame.x(*share), frame.bottom()));
        }
        frame.horizontal(&mut canvas, &ticks);
        frame.horizontal_name(&mut canvas, "share of messages that took at most so long");
        for (index, curve) in self.curves.iter().enumerate() {
            canvas.open_series(index);
            let [sure, unsure] = path(curve, &frame, scale, nines);
            canvas.path(&format!("line s{}", curve.style), &sure);
            canvas.path(&format!("line s{} unsure", curve.style), &unsure);
            canvas.close_group();
        }
        let names = self.curves.iter().enumerate().map(|(index, curve)| {
            (index, curve.style, shortened(&curve.name), frame.y(scale.place(curve.at(quantile(nines)))))
        });
        frame.labels(&mut canvas, names);
        canvas.finish(shape, frame.plot())
    }
}

/// The part that ten values or more lie beyond, and the rest.
fn path(curve: &Curve, frame: &Frame, scale: Scale, nines: f64) -> [String; 2] {
    let own = curve.nines().min(nines);
    let sure = (curve.independent as f64 / 10.0).max(1.0).log10().min(own);
    let columns = (frame.width / 2.0) as usize;
    let mut paths = [String::new(), String::new()];
    let mut last: Option<String> = None;
    for column in 0..=columns {
        let at = nines * column as f64 / columns as f64;
        if at > own + nines / columns as f64 {
            break;
        }
        let (x, y) = (frame.x(at / nines), frame.y(scale.place(curve.at(quantile(at)))));
        let place = format!("{},{}", number(x), number(y));
        let path = &mut paths[usize::from(at > sure)];
        let begin = if path.is_empty() { last.take().map(|last| format!("M{last}")) } else { Some(String::new()) };
        let letter = if path.is_empty() && begin.is_none() { 'M' } else { 'L' };
        *path += &format!("{}{letter}{place}", begin.unwrap_or_default());
        last = Some(place);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn a_curve_is_dashed_where_too_few_values_lie_beyond_it() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        (1..=10_000u64).for_each(|value| histogram.record(value * 1_000).unwrap());
        let curve =
            |independent| Curve { name: "response".to_owned(), style: 1, histogram: histogram.clone(), independent };
        let drawn =
            |independent| Tail { curves: vec![curve(independent)] }.draw(Shape { width: 560.0, height: 320.0 }).body;
        assert!(drawn(10_000).contains(" unsure"));
        assert!(!drawn(1_000_000).contains(" unsure"));
    }

    #[test]
    fn a_curve_of_few_messages_has_no_values_where_it_has_ended() {
        let curve = |count: u64| {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
            histogram.record_n(1_000_000, count).unwrap();
            Curve { name: count.to_string(), style: 1, histogram, independent: count }
        };
        let values = values(&Tail { curves: vec![curve(1_000), curve(1_000_000)] });
        let last = |series: usize| values.series[series].1.iter().rposition(Option::is_some).unwrap();
        assert_eq!((values.at[last(0)], values.at[last(1)]), (3.0, 6.0));
    }

    #[test]
    fn a_sentence_tells_only_percentiles_that_can_be_stated() {
        let mut record = sample::record();
        record.latency.response.as_mut().unwrap().p99_ns = None;
        let ends = [
            (19, "to state a percentile; the slowest 26.5 ms"),
            (20, "to the acknowledgement, the slowest"),
            (100, ", 9 of 10 at most 2.02 ms, the slowest"),
        ];
        for (independent, told) in ends {
            record.latency.response.as_mut().unwrap().independent = Some(independent);
            assert!(sentence(&record).contains(told), "{}", sentence(&record));
        }
    }
}
