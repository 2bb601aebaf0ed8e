//! The headline latency by percentile, as a curve of dots.
//!
//! The axis of percentiles is that of HdrHistogram's plots, 1/(1−p): each further nine takes the same room. The axis of latencies is
//! logarithmic, so that a tail of many times the median leaves the median visible.

use super::braille::Canvas;
use super::page::{LABEL_WIDTH, Page, Tone};
use crate::record::Record;
use crate::record::readable::duration;

/// Lines of the curve.
const ROWS: usize = 6;

/// Most characters in a line of it.
const MAX_COLUMNS: usize = 60;

/// Columns that the latencies at the right take.
const SCALE_WIDTH: usize = 12;

/// Percentiles that are named below the curve, as far as enough values lie beyond them.
const NAMED: [(f64, &str); 5] = [(0.0, "0"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// Draws nothing where charts are not wanted, or fewer than the 90th percentile can be stated.
pub(super) fn draw(page: &mut Page, record: &Record) {
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
    let height = |value: u64| match span > 0.0 {
        true => ((value as f64 / lowest).ln() / span * (canvas.height() - 1) as f64).round() as usize,
        false => 0,
    };
    let heights: Vec<usize> = values.into_iter().map(height).collect();
    for (x, pair) in heights.windows(2).enumerate() {
        canvas.column(x, pair[0], pair[1]);
    }
    print(page, record, &canvas, [lowest, highest]);
    let place = |quantile: f64| (-(1.0 - quantile).log10() / nines * (columns - 1) as f64).round() as usize;
    let axis = axis(named().map(|(quantile, name)| (place(quantile), name)));
    let label = page.paint(Tone::Faint, &format!("{:LABEL_WIDTH$}", "percentile"));
    page.line(&format!("{label}{axis}"));
}

/// The curve, with the highest latency beside its first line and the lowest beside its last.
fn print(page: &mut Page, record: &Record, canvas: &Canvas, [lowest, highest]: [f64; 2]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_axis_do_not_touch() {
        assert_eq!(axis([(0, "0"), (10, "90 %"), (20, "99 %")].into_iter()), "0       90 %      99 %");
        assert_eq!(axis([(0, "0"), (3, "90 %"), (6, "99 %")].into_iter()), "0 90 % 99 %");
        assert_eq!(axis([(0, "0"), (3, "90 %"), (4, "99 %")].into_iter()), "0 90 %");
    }
}
