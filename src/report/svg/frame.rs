//! The rectangle in which values lie, with its axes, ticks and grid.

use super::scale::Scale;
use super::unit::Unit;
use super::{Canvas, Shape, end_of, text_width};

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
    pub fn of_time(shape: Shape) -> Self {
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
            Some((size, _)) => super::unit::plain(tick / size),
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

    /// The name of the horizontal axis, below its ticks.
    pub fn horizontal_name(&self, canvas: &mut Canvas, name: &str) {
        canvas.text("name m", (self.x(0.5), self.bottom() + 37.0), name);
    }
}
