//! Axes: from values to places between 0 and 1, the values at which an axis has ticks, and the rectangle in which values lie with its
//! axes, ticks and grid.

use super::unit::{Unit, plain};
use super::{Canvas, Shape, apart, end_of, text_width};
use crate::statistics::extent;

/// A scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    Linear { low: f64, high: f64 },
    Logarithmic { low: f64, high: f64 },
}

/// Values that span more than this need a logarithmic scale to be seen side by side.
const WIDE_SPAN: f64 = 20.0;

impl Scale {
    /// From 0 to a little above the largest value.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        Scale::Linear { low: 0.0, high: highest * 1.08 }
    }

    /// Around all values, in powers of 10 or parts of them.
    pub fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = extent(positive);
        if low > high {
            return Scale::Logarithmic { low: 1.0, high: 10.0 };
        }
        let (low, high) = (step_below(low), step_above(high));
        if low < high { Scale::Logarithmic { low, high } } else { Scale::Logarithmic { low, high: low * 10.0 } }
    }

    /// Logarithmic where the values span so much that small ones would not be seen, else from zero.
    pub fn fitting(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.clone().filter(|value| *value > 0.0);
        let (low, high) = extent(positive);
        if high > low * WIDE_SPAN { Scale::logarithmic(values) } else { Scale::from_zero(values) }
    }

    pub fn is_logarithmic(self) -> bool {
        matches!(self, Scale::Logarithmic { .. })
    }

    /// The place of a value; values beyond the scale lie at its ends.
    pub fn place(self, value: f64) -> f64 {
        let share = match self {
            Scale::Linear { low, high } => (value - low) / (high - low),
            Scale::Logarithmic { .. } if value <= 0.0 => 0.0,
            Scale::Logarithmic { low, high } => (value / low).ln() / (high / low).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Where it ends.
    pub fn high(self) -> f64 {
        match self {
            Scale::Linear { high, .. } | Scale::Logarithmic { high, .. } => high,
        }
    }

    /// As [`Scale::ticks`], with values that are round when they are counted in `base`.
    pub fn ticks_of(self, base: f64, most: usize) -> Vec<f64> {
        let scale = match self {
            Scale::Linear { low, high } => Scale::Linear { low: low / base, high: high / base },
            Scale::Logarithmic { low, high } => Scale::Logarithmic { low: low / base, high: high / base },
        };
        scale.ticks(most).into_iter().map(|tick| tick * base).collect()
    }

    /// At most about `most` values for ticks.
    pub fn ticks(self, most: usize) -> Vec<f64> {
        match self {
            Scale::Linear { low, high } => {
                let step = step_of((high - low) / most.max(1) as f64);
                let first = (low / step).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                // Figures of a damaged record may be too far apart for their ticks to be told from each other.
                (first..=last).take(2 * most.max(1) + 2).map(|index| index as f64 * step).collect()
            }
            Scale::Logarithmic { low, high } => {
                let all = steps(low, high, &[1.0, 2.0, 5.0]);
                if all.len() <= most + 1 {
                    return all;
                }
                let halves = steps(low, high, &[1.0, 3.0]);
                if halves.len() <= most { halves } else { decades(low, high, most) }
            }
        }
    }
}

/// 1, 2 or 5 times a power of 10, not below `least`.
fn step_of(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * 0.999).unwrap_or(power)
}

fn step_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|factor| factor * power).find(|step| *step <= value).unwrap_or(power)
}

fn step_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.into_iter().map(|factor| factor * power).find(|step| *step >= value).unwrap_or(power * 10.0)
}

fn steps(low: f64, high: f64, factors: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all = (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
    all.filter(|value| *value >= low * 0.999 && *value <= high * 1.001).collect()
}

fn decades(low: f64, high: f64, most: usize) -> Vec<f64> {
    let all = steps(low, high, &[1.0]);
    let every = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().step_by(every).collect()
}

/// Steps of a time axis, in seconds.
const TIME_STEPS: [f64; 22] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
    21_600.0, 43_200.0, 86_400.0, WEEK,
];

const WEEK: f64 = 604_800.0;

/// Ticks of a time axis from 0, in seconds.
pub fn time_ticks(until: f64, most: usize) -> Vec<f64> {
    let weeks = || (until / most.max(1) as f64 / WEEK).ceil() * WEEK;
    let step = TIME_STEPS.into_iter().find(|step| until / step <= most as f64).unwrap_or_else(weeks);
    (0..=(until / step + 1e-9) as usize).map(|index| index as f64 * step).collect()
}

/// Room above the values for the axis' name.
const TOP: f64 = 26.0;
/// Room below them for ticks.
const BOTTOM: f64 = 26.0;
/// At least as much room is right of them.
const RIGHT: f64 = 14.0;
/// Room for the numbers of flags.
const FLAGS: f64 = 8.0;
/// Below this height, an axis has fewer ticks.
const TICK_DISTANCE: f64 = 42.0;

/// Between the names of series.
const LABEL_DISTANCE: f64 = 15.0;

/// With more ticks, only those with a name have a mark.
const MAX_MARKS: usize = 40;

/// Where values lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    /// With `left` and `right` of room for ticks and labels.
    pub fn inside(shape: Shape, left: f64, right: f64) -> Self {
        Frame { left, top: TOP, width: shape.width - left - right, height: shape.height - TOP - BOTTOM }
    }

    /// The same for all charts of a trial over time, so that their seconds stand below each other.
    pub fn for_time(shape: Shape) -> Self {
        let mut frame =
            if shape.is_narrow() { Frame::inside(shape, 52.0, 74.0) } else { Frame::inside(shape, 62.0, 84.0) };
        // Flags stand between the axis' name and the values.
        frame.top += FLAGS;
        frame.height -= FLAGS;
        frame
    }

    /// With room for a name below the horizontal axis.
    pub fn above_a_name(mut self) -> Self {
        self.height -= 18.0;
        self
    }

    /// With room for a line of text below the name of the vertical axis.
    pub fn below_a_legend(mut self) -> Self {
        self.top += 18.0;
        self.height -= 18.0;
        self
    }

    pub fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    /// 0 is at the bottom.
    pub fn y(&self, share: f64) -> f64 {
        self.top + (1.0 - share) * self.height
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn plot(&self) -> [f64; 4] {
        [self.left, self.top, self.width, self.height]
    }

    /// The vertical axis with its grid; its name stands above it.
    pub fn vertical(&self, canvas: &mut Canvas, scale: Scale, unit: Unit, name: &str) {
        let base = unit.base(scale.high());
        let text = |tick: f64| match base {
            Some((size, _)) => plain(tick / size),
            None => unit.short(tick),
        };
        for tick in scale.ticks_of(base.map_or(1.0, |base| base.0), (self.height / TICK_DISTANCE) as usize) {
            let y = self.y(scale.place(tick));
            canvas.line("grid", (self.left, y), (self.right(), y));
            canvas.text("tick e", (self.left - 8.0, y + 4.0), &text(tick));
        }
        let logarithmic = if scale.is_logarithmic() { ", logarithmic" } else { "" };
        let counted = base.map(|(_, name)| format!(", {name}")).unwrap_or_default();
        canvas.text("name", (0.0, 12.0), &format!("{name}{counted}{logarithmic}"));
    }

    /// Ticks of the horizontal axis at shares of the width; those that would cover the one before are left out.
    pub fn horizontal(&self, canvas: &mut Canvas, ticks: &[(f64, String)]) {
        canvas.line("axis", (self.left, self.bottom()), (self.right(), self.bottom()));
        let mut free_from = f64::NEG_INFINITY;
        canvas.open_ticks();
        for (share, text) in ticks {
            let text = end_of(text);
            let (x, half) = (self.x(*share), text_width(&text) / 2.0);
            // A long name at an end is not centred: it stays inside the drawing.
            let middle = x.min(self.right() + RIGHT - half).max(half);
            let has_room = middle - half >= free_from;
            if has_room || ticks.len() <= MAX_MARKS {
                canvas.line("axis", (x, self.bottom()), (x, self.bottom() + 4.0));
            }
            if has_room {
                canvas.text("tick m", (middle, self.bottom() + 18.0), &text);
                free_from = middle + half + 8.0;
            }
        }
        canvas.close_group();
    }

    /// The names of series at the heights of their last values, moved apart. Each has its index and its style.
    pub fn labels(&self, canvas: &mut Canvas, names: impl Iterator<Item = (usize, usize, String, f64)>) {
        let names: Vec<(usize, usize, String, f64)> = names.collect();
        let wanted = names.iter().enumerate().map(|(place, (.., y))| (place, *y)).collect();
        for (place, y) in apart(wanted, LABEL_DISTANCE, self.top + 4.0, self.bottom()) {
            let (index, style, name, _) = &names[place];
            canvas.open_series(*index);
            canvas.text(&format!("label l{style}"), (self.right() + 8.0, y + 4.0), name);
            canvas.close_group();
        }
    }

    /// The name of the horizontal axis, below its ticks.
    pub fn horizontal_name(&self, canvas: &mut Canvas, name: &str) {
        canvas.text("name m", (self.x(0.5), self.bottom() + 37.0), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::from_zero([19_900.0].into_iter()).ticks(5), [0.0, 5e3, 10e3, 15e3, 20e3]);
        assert_eq!(Scale::logarithmic([1.3e6, 8e6].into_iter()).ticks(5), [1e6, 2e6, 5e6, 10e6]);
        let wide = Scale::logarithmic([1e3, 9e9].into_iter()).ticks(5);
        assert!(wide.len() <= 5 && wide.iter().all(|tick| tick.log10().fract().abs() < 1e-9), "{wide:?}");
        let mebibyte = 1024.0 * 1024.0;
        assert_eq!(
            Scale::from_zero([18.0 * mebibyte].into_iter()).ticks_of(mebibyte, 4),
            [0.0, 5.0, 10.0, 15.0].map(|number| number * mebibyte)
        );
        assert_eq!(time_ticks(31.0, 8), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(time_ticks(86_400.0, 8).last(), Some(&86_400.0));
        // A year, and what a damaged row may say.
        assert_eq!(time_ticks(52.0 * WEEK, 8)[1], 7.0 * WEEK);
        assert!(time_ticks(2f64.powi(53), 8).len() <= 9);
    }

    #[test]
    fn places_lie_between_0_and_1_whatever_the_value() {
        for scale in [
            Scale::from_zero([0.0].into_iter()),
            Scale::logarithmic([].into_iter()),
            Scale::logarithmic([5.0].into_iter()),
        ] {
            for value in [0.0, -1.0, 5.0, 1e12] {
                assert!((0.0..=1.0).contains(&scale.place(value)), "{scale:?} {value}");
            }
        }
    }
}
