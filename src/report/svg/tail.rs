//! Latency by percentile on an axis of 1/(1−p), as HdrHistogram's plots have it: each further nine takes as much room as the one
//! before. A curve is dashed from where fewer than ten independent values lie beyond it.

use hdrhistogram::Histogram;

use super::axes::{Frame, Scale};
use super::unit::Unit;
use super::{Canvas, Drawing, Shape, number, shortened, text_width};

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
pub struct Tail {
    pub curves: Vec<Curve>,
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
}

/// The quantile that so many nines stand for.
fn quantile(nines: f64) -> f64 {
    1.0 - 10f64.powf(-nines)
}

impl Tail {
    /// Where the axis ends, in nines: at the last value of the longest curve.
    pub fn nines(&self) -> f64 {
        let most = self.curves.iter().map(|curve| curve.histogram.len()).max().unwrap_or(1);
        (most.max(10) as f64).log10().clamp(1.0, 6.0)
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
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
    let own = (curve.histogram.len().max(1) as f64).log10().min(nines);
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
}
