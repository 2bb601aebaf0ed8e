//! Figures of named things: a bar from zero for each, with its value beside it and its name above.

use super::scale::Scale;
use super::unit::Unit;
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
        let scale = Scale::Linear { low: 0.0, high: if largest > 0.0 { largest } else { 1.0 } };
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
        let (low, high) = (x(low), x(high));
        canvas.path(
            "whisker ink",
            &format!("M{0},{2}H{1}M{0},{2}m0,-5v10M{1},{2}m0,-5v10", number(low), number(high), number(middle)),
        );
        end = end.max(high);
    }
    for (valid, class, kind) in [(true, "dots ink", Mark::Dot), (false, "cross ink", Mark::Cross)] {
        let marks = bar.trials.iter().filter(|trial| trial.1 == valid && bar.trials.len() > 1);
        canvas.path(class, &marks.map(|trial| mark(kind, x(trial.0), middle)).collect::<String>());
    }
    end = bar.trials.iter().map(|trial| x(trial.0)).fold(end, f64::max);
    canvas.text("value", (end + 10.0, middle + 4.0), &bar.text);
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
}
