//! Ratios with their intervals, one below the other, on a logarithmic axis around 1: a half and the double are equally far. The
//! ground of each row is the band within which A's own trials lie.

use super::{Canvas, Drawing, Mark, Shape, mark, number};

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

const ROW: f64 = 50.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 30.0;

/// The axis reaches at least so far from 1, and at most so far.
const MIN_REACH: f64 = 1.1;
const MAX_REACH: f64 = 32.0;

impl Forest {
    pub fn shape(&self, width: f64) -> Shape {
        Shape { width, height: TOP + ROW * self.rows.len() as f64 + BOTTOM }
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
        let bottom = shape.height - BOTTOM;
        for tick in ticks(reach) {
            canvas.line(if tick == 1.0 { "axis" } else { "grid" }, (x(tick), TOP), (x(tick), bottom));
            canvas.text(
                "tick m",
                (x(tick).clamp(18.0, shape.width - 18.0), bottom + 18.0),
                &format!("×{}", super::unit::plain(tick)),
            );
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = TOP + ROW * index as f64;
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
        canvas.finish(shape, [left, TOP, width, bottom - TOP])
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
    fn a_half_and_the_double_are_equally_far_and_nothing_leaves_the_drawing() {
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
