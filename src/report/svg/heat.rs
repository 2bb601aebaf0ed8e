//! A grid of shades, darker for more. The shades are few, so that a legend can name them; where there is room, the value stands in
//! its cell.

use std::fmt::Write;

use super::axes::Frame;
use super::{Canvas, Drawing, Shape, number, text_width};

/// Shades, from 1.
pub const LEVELS: usize = 6;

/// A grid of which each cell has a shade.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    pub name: String,
    /// From left to right.
    pub columns: usize,
    /// Names of the horizontal axis, at shares of the width.
    pub column_ticks: Vec<(f64, String)>,
    /// From the bottom to the top.
    pub rows: usize,
    /// Names of the vertical axis, at shares of the height.
    pub row_ticks: Vec<(f64, String)>,
    pub axis: String,
    /// Shade (0: none) and text of each cell, row by row from the bottom.
    pub cells: Vec<(usize, String)>,
    /// Room for the names of rows; `None` for a chart over time.
    pub left: Option<f64>,
    /// Of a chart over time, how long it is, in seconds.
    pub until: Option<f64>,
    /// Of a chart over time, when its numbered events were, in seconds.
    pub marks: Vec<f64>,
    /// The share of the width that a column takes; the last one may be cut off.
    pub column_share: f64,
}

impl Grid {
    pub fn draw(&self, shape: Shape) -> Drawing {
        let frame = self.left.map_or_else(|| Frame::for_time(shape), |left| Frame::inside(shape, left, 8.0));
        let frame = if self.axis.is_empty() { frame } else { frame.above_a_name() };
        let mut canvas = Canvas::default();
        canvas.text("name", (0.0, 12.0), &self.name);
        let (width, height) = (frame.width * self.column_share, frame.height / self.rows as f64);
        canvas.open_window(frame.plot());
        self.shades(&mut canvas, &frame, width, height);
        let marks = self.marks.iter().map(|at| (*at, frame.x((at / self.until.unwrap_or(f64::MAX)).clamp(0.0, 1.0))));
        for (_, x) in marks.clone() {
            canvas.line("flag", (x, frame.top - 2.0), (x, frame.bottom()));
        }
        canvas.close_window();
        for (index, (at, x)) in marks.enumerate() {
            canvas.text_at("flagged m", at, (x, frame.top - 5.0), &(index + 1).to_string());
        }
        for (share, text) in &self.row_ticks {
            canvas.text("tick e", (frame.left - 8.0, frame.y(*share) + 4.0), text);
        }
        frame.horizontal(&mut canvas, &self.column_ticks);
        if !self.axis.is_empty() {
            frame.horizontal_name(&mut canvas, &self.axis);
        }
        let widest = self.cells.iter().map(|cell| text_width(&cell.1)).fold(0.0, f64::max);
        if widest > 0.0 && widest < width && height >= 16.0 {
            for (index, (level, text)) in self.cells.iter().enumerate() {
                let (column, row) = (index % self.columns, index / self.columns);
                let x = frame.left + (column as f64 + 0.5) * width;
                let y = frame.bottom() - (row as f64 + 0.5) * height;
                canvas.text(&format!("on h{level}t m"), (x, y + 4.0), text);
            }
        }
        Drawing { until: self.until, ..canvas.finish(shape, frame.plot()) }
    }

    /// All cells of a shade are one path; neighbours in a row are one rectangle of it.
    fn shades(&self, canvas: &mut Canvas, frame: &Frame, width: f64, height: f64) {
        // Cells of few columns and rows stand apart; those of many are a picture.
        let gap = if self.cells.len() <= 400 { 1.0 } else { 0.0 };
        for level in 1..=LEVELS {
            let mut data = String::new();
            for row in 0..self.rows {
                let y = frame.bottom() - (row + 1) as f64 * height;
                let mut column = 0;
                while column < self.columns {
                    let begin = column;
                    while column < self.columns && self.cells[row * self.columns + column].0 == level {
                        column += 1;
                        if gap > 0.0 {
                            break;
                        }
                    }
                    if column == begin {
                        column += 1;
                        continue;
                    }
                    let x = frame.left + begin as f64 * width;
                    let wide = (frame.left + column as f64 * width).min(frame.right()) - x - gap;
                    let (wide, high) = (number(wide), number(height - gap));
                    let _ = write!(data, "M{},{}h{wide}v{high}h-{wide}z", number(x), number(y));
                }
            }
            canvas.path(&format!("h{level}"), &data);
        }
    }
}

/// The shade of a value between the smallest and the largest.
pub fn level(value: f64, low: f64, high: f64) -> usize {
    let share = if high > low { (value - low) / (high - low) } else { 0.5 };
    1 + ((share * LEVELS as f64) as usize).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_from_the_smallest_to_the_largest() {
        assert_eq!([1.0, 2.0, 5.9, 6.0].map(|value| level(value, 1.0, 6.0)), [1, 2, 6, 6]);
        assert_eq!(level(3.0, 3.0, 3.0), 4);
    }

    #[test]
    fn values_stand_in_their_cells_where_there_is_room() {
        let grid = |columns: usize| Grid {
            name: "messages/s".to_owned(),
            columns,
            column_ticks: vec![],
            rows: 2,
            row_ticks: vec![],
            axis: String::new(),
            cells: (0..2 * columns).map(|cell| (1 + cell % 6, "12k".to_owned())).collect(),
            left: Some(60.0),
            until: None,
            marks: vec![],
            column_share: 1.0 / columns as f64,
        };
        let shape = Shape { width: 460.0, height: 200.0 };
        assert_eq!(grid(4).draw(shape).body.matches("12k").count(), 8);
        assert!(!grid(100).draw(shape).body.contains("12k"));
        let marked = Grid { until: Some(10.0), marks: vec![2.5, 5.0], ..grid(4) }.draw(shape).body;
        assert_eq!((marked.matches("\"flag\"").count(), marked.matches("flagged").count()), (2, 2), "{marked}");
    }
}
