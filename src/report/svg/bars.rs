//! Named figures one below the other: a bar from zero for each, with its value beside it and its name above ([`Bars`]); and ratios with
//! their intervals, on a logarithmic axis around 1 where a half and the double are equally far ([`Forest`]). The ground of each ratio is the
//! band within which A's own trials lie.

use super::axes::Scale;
use super::unit::{Unit, plain};
use super::{Canvas, Drawing, Mark, Shape, mark, number, text_width};

/// A named figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub value: Option<f64>,
    /// What stands beside it.
    pub text: String,
    pub interval: Option<(f64, f64)>,
    /// The trials, and whether each is valid.
    pub trials: Vec<(f64, bool)>,
    /// Of all styles, 1 for what matters and 6 for the others.
    pub style: usize,
}

/// One below the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    pub name: String,
    pub unit: Unit,
    pub bars: Vec<Bar>,
}

/// The height of a bar with its name.
const ROW: f64 = 44.0;
const TOP: f64 = 22.0;

impl Bars {
    /// As high as the number of bars needs.
    pub fn shape(&self, width: f64) -> Shape {
        Shape { width, height: TOP + ROW * self.bars.len() as f64 + 8.0 }
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
        let mut canvas = Canvas::default();
        let beside = self.bars.iter().map(|bar| text_width(&bar.text)).fold(0.0, f64::max) + 14.0;
        let width = (shape.width - beside - 4.0).max(60.0);
        let ends = |bar: &Bar| {
            let trials = bar.trials.iter().map(|trial| trial.0).collect::<Vec<_>>();
            bar.value.into_iter().chain(trials).collect::<Vec<_>>()
        };
        let largest = self.bars.iter().flat_map(ends).fold(0.0f64, f64::max);
        // The interval of two trials may be far wider than all that was measured: the axis follows the trials, with some room.
        let intervals = self.bars.iter().filter_map(|bar| Some(bar.interval?.1));
        let highest = intervals.fold(largest, f64::max).min(largest * 1.1).min(f64::MAX);
        let scale = Scale::Linear { low: 0.0, high: if highest > 0.0 { highest } else { 1.0 } };
        canvas.text("name", (0.0, 12.0), &self.name);
        for (index, bar) in self.bars.iter().enumerate() {
            let y = TOP + ROW * index as f64;
            row(&mut canvas, bar, y, width, scale);
        }
        canvas.line("axis", (0.5, TOP), (0.5, shape.height - 8.0));
        canvas.finish(shape, [0.0, TOP, width, shape.height - TOP])
    }
}

fn row(canvas: &mut Canvas, bar: &Bar, y: f64, width: f64, scale: Scale) {
    let (top, height) = (y + 19.0, 16.0);
    let middle = top + height / 2.0;
    canvas.text("barname", (4.0, y + 14.0), &bar.name);
    let x = |value: f64| width * scale.place(value);
    let mut end = x(bar.value.unwrap_or(0.0));
    canvas.rectangle(&format!("bar f{}", bar.style), [0.5, top, end, height]);
    if let Some((low, high)) = bar.interval {
        // An end beyond the axis has no cap.
        let cap = |value: f64| {
            let is_inside = value <= scale.high();
            if is_inside { format!("M{},{}m0,-5v10", number(x(value)), number(middle)) } else { String::new() }
        };
        let line = format!("M{},{}H{}", number(x(low)), number(middle), number(x(high)));
        canvas.path("whisker ink", &(line + &cap(low) + &cap(high)));
        end = end.max(x(high));
    }
    for (valid, class, kind) in [(true, "dots ink", Mark::Dot), (false, "cross ink", Mark::Cross)] {
        let marks = bar.trials.iter().filter(|trial| trial.1 == valid && bar.trials.len() > 1);
        canvas.path(class, &marks.map(|trial| mark(kind, x(trial.0), middle)).collect::<String>());
    }
    end = bar.trials.iter().map(|trial| x(trial.0)).fold(end, f64::max);
    canvas.text("value", (end + 10.0, middle + 4.0), &bar.text);
}

/// A ratio of B to A.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    pub name: String,
    pub ratio: f64,
    pub interval: Option<(f64, f64)>,
    /// Half the width of the band, as a share.
    pub band: f64,
    /// What is concluded.
    pub text: String,
    /// 1: nothing to say; 2: better; 3: worse.
    pub style: usize,
}

/// Rows of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    pub rows: Vec<Ratio>,
}

const RATIO_ROW: f64 = 50.0;
const RATIO_TOP: f64 = 26.0;
const RATIO_BOTTOM: f64 = 30.0;

/// The axis reaches at least so far from 1, and at most so far.
const MIN_REACH: f64 = 1.1;
const MAX_REACH: f64 = 32.0;

impl Forest {
    pub fn shape(&self, width: f64) -> Shape {
        Shape { width, height: RATIO_TOP + RATIO_ROW * self.rows.len() as f64 + RATIO_BOTTOM }
    }

    /// How far from 1 the axis reaches, as a factor.
    fn reach(&self) -> f64 {
        let far = |value: f64| if value > 0.0 { value.max(1.0 / value) } else { 1.0 };
        let ends = |row: &Ratio| {
            let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
            far(low).max(far(high)).max(far(row.ratio)).max(1.0 + row.band)
        };
        self.rows.iter().map(ends).fold(MIN_REACH, f64::max).powf(1.08).min(MAX_REACH)
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
        let mut canvas = Canvas::default();
        let (left, width, reach) = (6.0, shape.width - 12.0, self.reach());
        let x = |ratio: f64| {
            let share = 0.5 + 0.5 * ratio.max(1e-9).ln() / reach.ln();
            left + width * share.clamp(0.0, 1.0)
        };
        canvas.text("name", (0.0, 12.0), "B / A, logarithmic");
        let bottom = shape.height - RATIO_BOTTOM;
        for tick in ticks(reach) {
            canvas.line(if tick == 1.0 { "axis" } else { "grid" }, (x(tick), RATIO_TOP), (x(tick), bottom));
            canvas.text(
                "tick m",
                (x(tick).clamp(18.0, shape.width - 18.0), bottom + 18.0),
                &format!("×{}", plain(tick)),
            );
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = RATIO_TOP + RATIO_ROW * index as f64;
            let middle = y + 34.0;
            let (low, high) = (x(1.0 / (1.0 + row.band)), x(1.0 + row.band));
            canvas.rectangle("apart", [low, middle - 9.0, (high - low).max(1.0), 18.0]);
            canvas.text("barname", (4.0, y + 18.0), &row.name);
            canvas.text("value e", (shape.width - 4.0, y + 18.0), &row.text);
            if let Some((low, high)) = row.interval {
                let (low, high, middle) = (number(x(low)), number(x(high)), number(middle));
                canvas.path(
                    &format!("whisker c{}", row.style),
                    &format!("M{low},{middle}H{high}M{low},{middle}m0,-5v10M{high},{middle}m0,-5v10"),
                );
            }
            let kind = if row.style == 3 { Mark::Cross } else { Mark::Diamond };
            let class = if row.style == 3 { "cross" } else { "middle" };
            canvas.path(&format!("{class} c{0} g{0}", row.style), &mark(kind, x(row.ratio), middle));
        }
        canvas.finish(shape, [left, RATIO_TOP, width, bottom - RATIO_TOP])
    }
}

fn ticks(reach: f64) -> Vec<f64> {
    let all: &[f64] = match reach {
        reach if reach < 1.3 => &[0.8, 0.9, 1.0, 1.1, 1.25],
        reach if reach < 2.2 => &[0.5, 0.75, 1.0, 1.33, 2.0],
        reach if reach < 6.0 => &[0.2, 0.5, 1.0, 2.0, 5.0],
        _ => &[0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
    };
    all.iter().copied().filter(|tick| *tick <= reach && *tick >= 1.0 / reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_has_its_name_and_its_value_as_text() {
        let bar = |name: &str, value: Option<f64>| Bar {
            name: name.to_owned(),
            value,
            text: value.map_or("–".to_owned(), |value| Unit::Share.exact(value)),
            interval: None,
            trials: vec![],
            style: 1,
        };
        let bars = Bars {
            name: "share of the time".to_owned(),
            unit: Unit::Share,
            bars: vec![bar("fetch", Some(0.9)), bar("<parse>", Some(0.1)), bar("redis", None)],
        };
        let body = bars.draw(bars.shape(360.0)).body;
        for text in [">fetch<", ">90 %<", ">&lt;parse&gt;<", ">–<"] {
            assert!(body.contains(text), "{text} in {body}");
        }
    }

    #[test]
    fn an_interval_that_goes_on_beyond_the_axis_does_not_end_there() {
        let caps = |high: f64| {
            let trials = vec![(90.0, true), (110.0, true)];
            let (name, text) = ("lz4".to_owned(), "100".to_owned());
            let bar = Bar { name, value: Some(100.0), text, interval: Some((50.0, high)), trials, style: 1 };
            let bars = Bars { name: "messages/s".to_owned(), unit: Unit::PerSecond, bars: vec![bar] };
            bars.draw(bars.shape(360.0)).body.matches("m0,-5v10").count()
        };
        assert_eq!([105.0, 115.0, 200.0].map(caps), [2, 2, 1]);
    }

    #[test]
    fn half_and_double_are_equally_far_within_the_drawing() {
        let row = |ratio: f64, style| Ratio {
            name: "messages/s".to_owned(),
            ratio,
            interval: Some((ratio * 0.9, ratio * 1e9)),
            band: 0.02,
            text: "changed".to_owned(),
            style,
        };
        let forest = Forest { rows: vec![row(0.5, 3), row(2.0, 2)] };
        let drawing = forest.draw(forest.shape(360.0));
        assert!(drawing.body.contains("cross c3"), "worse is a cross");
        assert!(ticks(forest.reach()).contains(&1.0));
        assert!(!drawing.body.contains("inf") && !drawing.body.contains("NaN"), "{}", drawing.body);
    }
}
