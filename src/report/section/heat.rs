//! The distribution of latencies over time, from the run's interval log: a column for each stretch of time, a row for each
//! twentieth of a decade, a darker shade for more messages.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use hdrhistogram::Histogram;

use super::timeline::{Timeline, events};
use crate::present::{Table, capital, or_dash};
use crate::record::readable::{count, duration};
use crate::record::{HLOG_FILE, Record, SeriesRow, decode_histogram, saturating_sum};
use crate::report::figure::{Figure, PHONE, WIDE};
use crate::report::svg::axes::{Scale, time_ticks};
use crate::report::svg::heat::{Grid, LEVELS};
use crate::report::svg::unit::{Unit, moment};

/// Rows of a decade, and decades from a microsecond on.
const PER_DECADE: f64 = 20.0;
const DECADES: usize = 9;
const ROWS: usize = PER_DECADE as usize * DECADES;
const MIN_NS: f64 = 1e3;

/// Columns at most, and seconds at least.
const COLUMNS: usize = 150;
const MIN_COLUMNS: usize = 10;

/// Messages by time and latency.
struct Cells {
    columns: usize,
    /// How long a column is, in whole seconds, so that each has as many rows of the log.
    seconds: f64,
    /// Column by column, from the shortest latency.
    numbers: Vec<u64>,
}

/// The chart; `None` where no log was kept, or the trial is short.
pub fn figure(record: &Record, series: &[SeriesRow], directory: &Path) -> Option<Figure> {
    let timeline = Timeline::new(record, series)?;
    let seconds = (timeline.until / COLUMNS as f64).ceil();
    let columns = (timeline.until / seconds).ceil() as usize;
    if columns < MIN_COLUMNS {
        return None;
    }
    let empty = Cells { columns, seconds, numbers: vec![0; columns * ROWS] };
    let cells = read(record, &timeline, directory, empty)?;
    let used: Vec<usize> = (0..ROWS).filter(|row| (0..columns).any(|column| cells.at(column, *row) > 0)).collect();
    let (low, high) = (*used.first()?, *used.last()? + 1);
    let marks: Vec<f64> = events(&timeline).0.iter().map(|event| event.at).collect();
    let grid = |is_narrow: bool| Grid { marks: marks.clone(), ..cells.grid(low, high, timeline.until, is_narrow) };
    let (wide, narrow) = (grid(false), grid(true));
    let title = format!("{} of all messages", capital(&format!("{} times", record.headline)));
    let mut figure = Figure::draw("latency-heat", &title, sentence(&cells, low, high), (WIDE, PHONE), |shape| {
        if shape.is_narrow() { narrow.draw(shape) } else { wide.draw(shape) }
    });
    figure.table = cells.table();
    Some(figure)
}

/// Adds up the intervals of the headline's latency that belong to the trial. They have the time of day: the first that begins in the trial is that of
/// its first row with a latency, as the trial begins before its load, with its preparation.
fn read(record: &Record, timeline: &Timeline<'_>, directory: &Path, mut cells: Cells) -> Option<Cells> {
    let log = BufReader::new(File::open(directory.join(HLOG_FILE)).ok()?);
    let trial_begin = record.started_at.as_nanosecond() as f64 / 1e9;
    let (first_begin, _) = *timeline.rows.iter().find(|(_, row)| row.p50_ns.is_some())?;
    let mut load_begin = None;
    let tag = format!("Tag={},", record.headline);
    for line in log.lines().map_while(Result::ok) {
        let Some(fields) = line.strip_prefix(&tag) else { continue };
        let mut fields = fields.splitn(4, ',');
        let (Some(start), Some(length), _, Some(text)) = (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (Ok(start), Ok(length)) = (start.parse::<f64>(), length.parse::<f64>()) else { continue };
        // The log counts in milliseconds.
        if start < trial_begin - 0.001 {
            continue;
        }
        let begin = start - *load_begin.get_or_insert(start - first_begin);
        if begin + length / 2.0 >= timeline.until {
            continue;
        }
        let Ok(histogram) = decode_histogram(text) else { continue };
        cells.add(&histogram, begin, begin + length);
    }
    cells.numbers.iter().any(|number| *number > 0).then_some(cells)
}

/// The latency at which a row begins.
fn begin_of(row: usize) -> f64 {
    MIN_NS * 10f64.powf(row as f64 / PER_DECADE)
}

impl Cells {
    /// Shares an interval out to the columns that it lies in: the log's seconds do not begin with whole seconds of the trial.
    fn add(&mut self, histogram: &Histogram<u64>, begin: f64, end: f64) {
        let first = (begin / self.seconds).max(0.0) as usize;
        let share_until = |at: f64| (at.max(begin).min(end) - begin) / (end - begin);
        for column in first..self.columns {
            let (left, right) = (column as f64 * self.seconds, (column + 1) as f64 * self.seconds);
            if left >= end {
                break;
            }
            let (before, after) = (share_until(left), share_until(right));
            for value in histogram.iter_recorded() {
                let row = ((value.value_iterated_to() as f64 / MIN_NS).max(1.0).log10() * PER_DECADE) as usize;
                // Rounded from the begin on, so that all columns together have each message once, and a single slow one does not vanish.
                let until = |share: f64| (value.count_at_value() as f64 * share).round() as u64;
                let number = until(after).saturating_sub(until(before));
                let cell = &mut self.numbers[column * ROWS + row.min(ROWS - 1)];
                *cell = cell.saturating_add(number);
            }
        }
    }

    fn at(&self, column: usize, row: usize) -> u64 {
        self.numbers[column * ROWS + row]
    }

    fn column(&self, column: usize) -> &[u64] {
        &self.numbers[column * ROWS..(column + 1) * ROWS]
    }

    fn grid(&self, low: usize, high: usize, until: f64, is_narrow: bool) -> Grid {
        let rows = high - low;
        let cells = (low..high).flat_map(|row| (0..self.columns).map(move |column| (row, column)));
        let shade = |(row, column): (usize, usize)| {
            let all = saturating_sum(self.column(column).iter().copied());
            (self.shade(self.at(column, row), all), String::new())
        };
        let scale = Scale::Logarithmic { low: begin_of(low), high: begin_of(high) };
        let row_ticks =
            scale.ticks(5).into_iter().map(|tick| (scale.place(tick), Unit::Nanoseconds.short(tick))).collect();
        let ticks = time_ticks(until, if is_narrow { 3 } else { 10 });
        Grid {
            name: "latency, logarithmic".to_owned(),
            columns: self.columns,
            column_ticks: ticks.into_iter().map(|tick| (tick / until, moment(tick))).collect(),
            rows,
            row_ticks,
            axis: String::new(),
            cells: cells.map(shade).collect(),
            left: None,
            until: Some(until),
            marks: Vec::new(),
            column_share: self.seconds / until,
        }
    }

    /// By the share of the column's messages: each shade is for about three times as many as the one before.
    fn shade(&self, number: u64, all: u64) -> usize {
        if number == 0 {
            return 0;
        }
        let share = number as f64 / all.max(1) as f64;
        let limits = [0.001, 0.003, 0.01, 0.03, 0.1];
        1 + limits.iter().filter(|limit| share >= **limit).count().min(LEVELS - 1)
    }

    /// The middle and the longest row of some columns.
    fn table(&self) -> Table {
        let every = self.columns.div_ceil(30);
        let row = |column: usize| {
            let numbers = self.column(column);
            let all = saturating_sum(numbers.iter().copied());
            let mut seen = 0u64;
            let middle = numbers.iter().position(|number| {
                seen = seen.saturating_add(*number);
                seen >= all.div_ceil(2)
            });
            let longest = numbers.iter().rposition(|number| *number > 0);
            let text = |row: Option<usize>| or_dash(row.filter(|_| all > 0).map(|row| duration(begin_of(row + 1))));
            vec![moment(column as f64 * self.seconds), count(all), text(middle), text(longest)]
        };
        let rows = (0..self.columns).step_by(every).map(row).collect();
        Table::from_rows(["time", "messages", "half took at most", "all took at most"], rows)
            .with_note("Latencies are the upper ends of the rows.")
    }
}

fn sentence(cells: &Cells, low: usize, high: usize) -> String {
    let sum = |row| saturating_sum((0..cells.columns).map(|column| cells.at(column, row)));
    let sums: Vec<u64> = (0..ROWS).map(sum).collect();
    let all = saturating_sum(sums.iter().copied());
    // The narrowest stretch from the fullest row on that has half of all messages.
    let fullest = (low..high).max_by_key(|row| sums[*row]).unwrap_or(low);
    let (mut from, mut to) = (fullest, fullest + 1);
    let mut inside = sums[fullest];
    while (inside as f64) < 0.8 * all as f64 && (from > low || to < high) {
        let below = if from > low { sums[from - 1] } else { 0 };
        let above = if to < high { sums[to] } else { 0 };
        if to >= high || (from > low && below >= above) {
            from -= 1;
            inside = inside.saturating_add(below);
        } else {
            to += 1;
            inside = inside.saturating_add(above);
        }
    }
    let slowest = (0..cells.columns).find(|column| cells.at(*column, high - 1) > 0).unwrap_or(0);
    format!(
        "The dark band holds most messages: 8 of 10 took {} to {}. The slowest, up to {}, came at {}.",
        duration(begin_of(from)),
        duration(begin_of(to)),
        duration(begin_of(high)),
        moment(slowest as f64 * cells.seconds)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::{HlogInterval, HlogLines, sample};

    #[test]
    fn columns_begin_with_the_load_however_long_the_preparation_took() {
        let directory = tempfile::tempdir().unwrap();
        let (record, series) = (sample::record(), sample::series());
        let timeline = Timeline::new(&record, &series).unwrap();
        let mut log = HlogLines::default();
        for second in 0..12 {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
            histogram.record_n(1_000_000, second + 1).unwrap();
            let (started, length) = (record.started_at + Duration::from_secs(7 + second), Duration::from_secs(1));
            log.push(&HlogInterval { tag: "response", started, length, histogram: &histogram }).unwrap();
        }
        std::fs::write(directory.path().join(HLOG_FILE), log.text()).unwrap();
        let empty = Cells { columns: 12, seconds: 1.0, numbers: vec![0; 12 * ROWS] };
        let cells = read(&record, &timeline, directory.path(), empty).unwrap();
        let messages: Vec<u64> = (0..12).map(|column| cells.column(column).iter().sum()).collect();
        assert_eq!(messages, (1..=12).collect::<Vec<u64>>());
    }

    #[test]
    fn a_message_of_a_long_interval_is_in_one_column() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        histogram.record(3_000_000_000).unwrap();
        for length in [1.0, 2.0, 3.0, 3.5, 7.0] {
            let mut cells = Cells { columns: 10, seconds: 1.0, numbers: vec![0; 10 * ROWS] };
            cells.add(&histogram, 1.5, 1.5 + length);
            assert_eq!(cells.numbers.iter().sum::<u64>(), 1, "{length}");
        }
    }

    #[test]
    fn counts_of_a_damaged_log_do_not_overflow() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000_000, 3).unwrap();
        for value_ns in [1_000_000, 2_000_000, 900_000_000] {
            histogram.record_n(value_ns, u64::MAX / 2).unwrap();
        }
        let mut cells = Cells { columns: 10, seconds: 1.0, numbers: vec![0; 10 * ROWS] };
        for _ in 0..4 {
            cells.add(&histogram, 0.0, 1.0);
            cells.add(&histogram, 1.0, 2.0);
        }
        let (low, high) = (0, ROWS);
        assert!(cells.grid(low, high, 10.0, false).cells.iter().any(|cell| cell.0 > 0));
        assert_eq!(cells.table().rows(), 10);
        assert!(sentence(&cells, low, high).contains("8 of 10 took"));
    }
}
