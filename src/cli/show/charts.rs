//! Small charts of characters: a row of blocks for figures of each second, and a curve of dots for latency by percentile.

use super::page::{LABEL_WIDTH, Page};
use crate::present::Tone;
use crate::present::thin::{Fold, Point, folded};
use crate::record::readable::{count, duration, rate};
use crate::record::{Phase, Record, SeriesRow, current_series};
use crate::statistics::extent;

/// Columns of a row of blocks in a table.
const TABLE_WIDTH: usize = 16;

/// A record's acknowledgements in each measured second, for a table.
pub(super) fn acknowledged(record: &Record, series: &[SeriesRow]) -> String {
    let rows = current_series(series, record.point_index, record.trial);
    let measured = rows.iter().filter(|row| row.phase == Phase::Measure && row.full);
    let figures: Vec<Option<f64>> = measured.map(|row| Some(row.acknowledged as f64)).collect();
    sparkline(&figures, TABLE_WIDTH, Fold::Mean)
}

/// Throughput and 99th percentile second by second, measured seconds only.
pub(super) fn each_second(page: &mut Page, record: &Record, series: &[SeriesRow]) {
    let rows: Vec<&SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure && row.full).collect();
    if rows.len() < 2 {
        return;
    }
    let width = page.width().saturating_sub(LABEL_WIDTH + 32).max(10);
    let throughput: Vec<Option<f64>> = rows.iter().map(|row| Some(row.acknowledged_per_second())).collect();
    let slowest: Vec<Option<f64>> = rows.iter().map(|row| row.p99_ns.map(|value| value as f64)).collect();
    let range = |figures: &[Option<f64>], text: fn(f64) -> String| {
        let (low, high) = extent(figures.iter().flatten().copied());
        format!("{} … {}", text(low), text(high))
    };
    page.blank();
    let blocks = |page: &Page, figures: &[Option<f64>], fold| {
        if page.has_charts() { sparkline(figures, width, fold) + "  " } else { String::new() }
    };
    let label = |page: &Page, text: &str| page.paint(Tone::Faint, &format!("{text:LABEL_WIDTH$}"));
    let drawn = blocks(page, &throughput, Fold::Mean);
    let line = format!("{}{drawn}{} messages/s", label(page, "each second"), range(&throughput, rate));
    page.line(&line);
    if slowest.iter().any(Option::is_some) {
        let name = record.headline;
        let drawn = blocks(page, &slowest, Fold::Largest);
        let line = format!("{}{drawn}{} {name} p99", label(page, ""), range(&slowest, duration));
        page.line(&line);
    }
    // What a share lacks of its own messages is not lag.
    let lag: Vec<Option<f64>> = rows.iter().map(|row| furthest_behind(row)).collect();
    if record.share.is_none() && lag.iter().any(Option::is_some) {
        let drawn = blocks(page, &lag, Fold::Largest);
        let line = format!("{}{drawn}{} messages of lag", label(page, ""), range(&lag, |lag| count(lag as u64)));
        page.line(&line);
    }
}

/// Lag of the group that lacks the most.
fn furthest_behind(row: &SeriesRow) -> Option<f64> {
    row.groups.iter().filter_map(|group| group.consumer_lag).max().map(|lag| lag.max(0) as f64)
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// At most `width` blocks, from zero to the largest figure: a scale that begins at zero shows a small change as small.
/// A figure that is missing, or zero, is a blank.
fn sparkline(figures: &[Option<f64>], width: usize, fold: Fold) -> String {
    let points: Vec<Point> = figures.iter().enumerate().map(|(index, figure)| (index as f64, *figure)).collect();
    let figures = folded(&points, points.len() as f64, width.max(1), fold);
    let top = figures.iter().filter_map(|point| point.1).fold(0.0, f64::max);
    let block = |(_, figure): &Point| match figure {
        Some(value) if *value > 0.0 => BLOCKS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    figures.iter().map(block).collect()
}

// The curve. Its axis of percentiles is that of HdrHistogram's plots, 1/(1−p): each further nine takes the same room. The axis of
// latencies is logarithmic, so that a tail of many times the median leaves the median visible.

/// Lines of the curve.
const ROWS: usize = 6;

/// Most characters in a line of it.
const MAX_COLUMNS: usize = 60;

/// Columns that the latencies at the right take.
const SCALE_WIDTH: usize = 12;

/// Percentiles that are named below the curve, as far as enough values lie beyond them.
const NAMED: [(f64, &str); 5] = [(0.0, "0"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// Draws nothing where charts are not wanted, or fewer than the 90th percentile can be stated.
pub(super) fn percentile_curve(page: &mut Page, record: &Record) {
    let Some(latency) = record.headline_latency().filter(|_| page.has_charts()) else { return };
    let Ok(histogram) = latency.decode_histogram() else { return };
    let named = || NAMED.into_iter().filter(|(quantile, _)| *quantile == 0.0 || latency.supports(*quantile));
    let Some((last, _)) = named().next_back().filter(|(quantile, _)| *quantile > 0.0) else { return };
    let columns = page.width().saturating_sub(LABEL_WIDTH + SCALE_WIDTH).clamp(10, MAX_COLUMNS);
    let mut canvas = Canvas::new(columns, ROWS);
    let nines = -(1.0 - last).log10();
    let last_dot = (canvas.width() - 1) as f64;
    let quantile_at = |x: usize| 1.0 - 10f64.powf(-nines * x as f64 / last_dot);
    let values: Vec<u64> = (0..canvas.width()).map(|x| histogram.value_at_quantile(quantile_at(x)).max(1)).collect();
    let (lowest, highest) = (values[0] as f64, values[values.len() - 1] as f64);
    let span = (highest / lowest).ln();
    let height = |value: u64| {
        let share = if span > 0.0 { (value as f64 / lowest).ln() / span } else { 0.0 };
        (share * (canvas.height() - 1) as f64).round() as usize
    };
    let heights: Vec<usize> = values.into_iter().map(height).collect();
    for (x, pair) in heights.windows(2).enumerate() {
        canvas.column(x, pair[0], pair[1]);
    }
    print_curve(page, record, &canvas, [lowest, highest]);
    let place = |quantile: f64| (-(1.0 - quantile).log10() / nines * (columns - 1) as f64).round() as usize;
    let axis = axis(named().map(|(quantile, name)| (place(quantile), name)));
    let label = page.paint(Tone::Faint, &format!("{:LABEL_WIDTH$}", "percentile"));
    page.line(&format!("{label}{axis}"));
}

/// The curve, with the highest latency beside its first line and the lowest beside its last.
fn print_curve(page: &mut Page, record: &Record, canvas: &Canvas, [lowest, highest]: [f64; 2]) {
    page.blank();
    for (index, line) in canvas.lines().enumerate() {
        let label = if index == 0 { format!("{}", record.headline) } else { String::new() };
        let label = page.paint(Tone::Faint, &format!("{label:LABEL_WIDTH$}"));
        let scale = match index {
            0 => duration(highest),
            _ if index == ROWS - 1 => duration(lowest),
            _ => String::new(),
        };
        page.line(&format!("{label}{line}  {scale}"));
    }
}

/// Names at their columns; one that would touch the name before it is left out.
fn axis<'a>(names: impl Iterator<Item = (usize, &'a str)>) -> String {
    let mut line = String::new();
    for (column, name) in names {
        let length = line.chars().count();
        let begin = column.saturating_sub(name.chars().count() / 2).max(if length > 0 { length + 1 } else { 0 });
        if length == 0 || column >= length {
            line = format!("{line:begin$}{name}");
        }
    }
    line
}

/// The pattern of braille without a dot.
const BLANK: u32 = 0x2800;

/// The bits of a pattern's dots, by row and column.
const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// A drawing of dots in braille characters, two dots wide and four high in each (Unicode, block "Braille Patterns"). Dots are set one by
/// one; the origin is at the lower left.
struct Canvas {
    columns: usize,
    rows: usize,
    patterns: Vec<u32>,
}

impl Canvas {
    /// Of so many characters in each direction.
    fn new(columns: usize, rows: usize) -> Self {
        Canvas { columns, rows, patterns: vec![0; columns * rows] }
    }

    /// Dots in a row.
    fn width(&self) -> usize {
        self.columns * 2
    }

    /// Dots in a column.
    fn height(&self) -> usize {
        self.rows * 4
    }

    /// A dot outside is left out.
    fn set(&mut self, x: usize, y: usize) {
        if x < self.width() && y < self.height() {
            let from_top = self.height() - 1 - y;
            self.patterns[from_top / 4 * self.columns + x / 2] |= BITS[from_top % 4][x % 2];
        }
    }

    /// Sets all dots of a column from one height to another, in either direction.
    fn column(&mut self, x: usize, from: usize, to: usize) {
        (from.min(to)..=from.max(to)).for_each(|y| self.set(x, y));
    }

    /// The lines from top to bottom.
    fn lines(&self) -> impl Iterator<Item = String> {
        self.patterns.chunks(self.columns.max(1)).map(|row| {
            let characters = row.iter().map(|pattern| char::from_u32(BLANK + pattern).unwrap_or(' '));
            // A blank pattern is wider than a blank in some fonts.
            characters.map(|character| if u32::from(character) == BLANK { ' ' } else { character }).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_begins_at_zero_and_gaps_stay_blank() {
        let figures = [Some(8.0), Some(4.0), None, Some(0.0), Some(1.0), Some(7.9)];
        assert_eq!(sparkline(&figures, 10, Fold::Mean), "█▄  ▁█");
        assert_eq!(sparkline(&[Some(0.0)], 10, Fold::Mean), " ");
        assert_eq!(sparkline(&[], 10, Fold::Mean), "");
    }

    #[test]
    fn more_figures_than_room_are_folded() {
        let figures = [8.0, 0.0, 4.0, 4.0].map(Some);
        assert_eq!(sparkline(&figures, 2, Fold::Mean), "██");
        assert_eq!(sparkline(&figures, 2, Fold::Largest), "█▄");
    }

    #[test]
    fn names_of_the_axis_do_not_touch() {
        assert_eq!(axis([(0, "0"), (10, "90 %"), (20, "99 %")].into_iter()), "0       90 %      99 %");
        assert_eq!(axis([(0, "0"), (3, "90 %"), (6, "99 %")].into_iter()), "0 90 % 99 %");
        assert_eq!(axis([(0, "0"), (3, "90 %"), (4, "99 %")].into_iter()), "0 90 %");
    }

    #[test]
    fn dots_lie_where_the_standard_has_them() {
        let mut canvas = Canvas::new(2, 1);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["  "]);
        // Dot 7 is at the lower left, dot 4 at the upper right.
        canvas.set(0, 0);
        canvas.set(3, 3);
        canvas.set(4, 0);
        canvas.set(0, 4);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["⡀⠈"]);
        let mut canvas = Canvas::new(1, 2);
        canvas.column(0, 7, 0);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["⡇", "⡇"]);
    }
}
