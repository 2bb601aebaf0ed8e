//! A figure over the points of a sweep: every trial a mark, the middle of a point with its 95 % interval.

use super::axes::{Frame, Scale};
use super::unit::Unit;
use super::{Canvas, Drawing, Mark, Shape, mark, number, text_width};
use crate::present::points::Spot;
use crate::statistics::extent;

/// One figure of all points.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub name: String,
    pub style: usize,
    pub spots: Vec<Spot>,
}

/// Figures over points that lie along one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    pub name: String,
    pub unit: Unit,
    /// What is swept.
    pub axis: String,
    /// The share of the width at which each point lies.
    pub places: Vec<f64>,
    pub groups: Vec<Group>,
    /// Whether a line may lead from one point to the next.
    pub is_connected: bool,
    pub is_from_zero: bool,
}

/// With more points than this, intervals become a band.
const MAX_WHISKERS: usize = 60;

/// Places of points that no number orders: one after the other.
pub fn evenly(points: usize) -> Vec<f64> {
    let last = points.saturating_sub(1).max(1) as f64;
    (0..points).map(|index| index as f64 / last).collect()
}

impl Dots {
    fn scale(&self) -> Scale {
        let trials = self.groups.iter().flat_map(|group| &group.spots).flat_map(|spot| &spot.trials);
        let values: Vec<f64> = trials.map(|trial| trial.0).collect();
        // The interval of two trials may be far wider than all that was measured: the axis follows the trials, with some room.
        let (low, high) = extent(values.iter().copied());
        let values = values.into_iter().chain([high * 1.1, low / 1.1]).filter(|value| value.is_finite());
        let values: Vec<f64> = values.collect();
        if self.is_from_zero { Scale::from_zero(values.into_iter()) } else { Scale::fitting(values.into_iter()) }
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
        let widest = self.groups.iter().map(|group| text_width(&group.name)).fold(0.0, f64::max);
        let right = if self.groups.len() > 1 { widest + 14.0 } else { 14.0 };
        let frame = Frame::inside(shape, 62.0, right).above_a_name();
        let (mut canvas, scale) = (Canvas::default(), self.scale());
        frame.vertical(&mut canvas, scale, self.unit, &self.name);
        let names = self.groups.first().map(|group| group.spots.as_slice()).unwrap_or_default();
        let ticks: Vec<(f64, String)> =
            names.iter().zip(&self.places).map(|(spot, place)| (inside(*place), spot.name.clone())).collect();
        frame.horizontal(&mut canvas, &ticks);
        frame.horizontal_name(&mut canvas, &self.axis);
        for (index, group) in self.groups.iter().enumerate() {
            canvas.open_series(index);
            self.group(&mut canvas, &frame, scale, group);
            canvas.close_group();
        }
        if self.groups.len() > 1 {
            let last = |group: &Group| group.spots.iter().rev().find_map(|spot| spot.middle);
            let names = self.groups.iter().enumerate().filter_map(|(index, group)| {
                Some((index, group.style, group.name.clone(), frame.y(scale.place(last(group)?))))
            });
            frame.labels(&mut canvas, names);
        }
        canvas.finish(shape, frame.plot())
    }

    fn group(&self, canvas: &mut Canvas, frame: &Frame, scale: Scale, group: &Group) {
        let at = |place: f64, value: f64| (frame.x(inside(place)), frame.y(scale.place(value)));
        let spots: Vec<(f64, &Spot)> = self.places.iter().copied().zip(&group.spots).collect();
        self.intervals(canvas, frame, scale, group.style, &spots);
        if self.is_connected {
            let middles = spots.iter().filter_map(|(place, spot)| Some(at(*place, spot.middle?)));
            let middles: Vec<String> = middles.map(|(x, y)| format!("{},{}", number(x), number(y))).collect();
            if middles.len() > 1 {
                canvas.path(&format!("line s{}", group.style), &format!("M{}", middles.join("L")));
            }
        }
        let (mut valid, mut not_valid, mut middles) = (String::new(), String::new(), String::new());
        for (place, spot) in &spots {
            for (value, is_valid) in &spot.trials {
                let (x, y) = at(*place, *value);
                if *is_valid {
                    valid += &mark(Mark::Dot, x, y);
                } else {
                    not_valid += &mark(Mark::Cross, x, y);
                }
            }
            if let Some(middle) = spot.middle.filter(|_| spots.len() <= MAX_WHISKERS && spot.trials.len() > 1) {
                let (x, y) = at(*place, middle);
                middles += &mark(Mark::Diamond, x, y);
            }
        }
        canvas.path(&format!("dots s{}", group.style), &valid);
        canvas.path(&format!("cross s{}", group.style), &not_valid);
        canvas.path(&format!("middle f{}", group.style), &middles);
    }

    fn intervals(&self, canvas: &mut Canvas, frame: &Frame, scale: Scale, style: usize, spots: &[(f64, &Spot)]) {
        let known = spots.iter().filter_map(|(place, spot)| {
            let (low, high) = spot.interval?;
            Some((frame.x(inside(*place)), frame.y(scale.place(low)), frame.y(scale.place(high))))
        });
        let known: Vec<(f64, f64, f64)> = known.collect();
        if spots.len() <= MAX_WHISKERS {
            let whisker = |(x, low, high): &(f64, f64, f64)| {
                // An end beyond the axis has no cap.
                let cap = |y: f64| {
                    let is_inside = y < frame.bottom() - 0.1 && y > frame.top + 0.1;
                    if is_inside { format!("M{},{}h10", number(x - 5.0), number(y)) } else { String::new() }
                };
                format!("M{},{}V{}{}{}", number(*x), number(*low), number(*high), cap(*low), cap(*high))
            };
            canvas.path(&format!("whisker s{style}"), &known.iter().map(whisker).collect::<String>());
        } else if !known.is_empty() {
            let upper = known.iter().map(|(x, _, high)| format!("{},{}", number(*x), number(*high)));
            let lower = known.iter().rev().map(|(x, low, _)| format!("{},{}", number(*x), number(*low)));
            let edge: Vec<String> = upper.chain(lower).collect();
            canvas.path(&format!("band f{style}"), &format!("M{}z", edge.join("L")));
        }
    }
}

/// Away from both edges, so that marks are whole.
fn inside(place: f64) -> f64 {
    0.03 + place * 0.94
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(points: usize) -> Dots {
        let spot = |index: usize| {
            let value = 1000.0 + index as f64;
            let trials = vec![(value, true), (value * 1.1, !index.is_multiple_of(5))];
            Spot {
                name: index.to_string(),
                trials,
                middle: Some(value * 1.05),
                interval: Some((value * 0.9, value * 1.2)),
            }
        };
        Dots {
            name: "messages/s".to_owned(),
            unit: Unit::PerSecond,
            axis: "producers.count".to_owned(),
            places: (0..points).map(|index| index as f64 / points as f64).collect(),
            groups: vec![Group { name: "all".to_owned(), style: 1, spots: (0..points).map(spot).collect() }],
            is_connected: true,
            is_from_zero: true,
        }
    }

    #[test]
    fn trials_that_are_not_valid_have_another_shape() {
        let body = dots(10).draw(Shape { width: 460.0, height: 300.0 }).body;
        assert!(body.contains("dots s1") && body.contains("cross s1") && body.contains("whisker s1"), "{body}");
    }

    #[test]
    fn a_thousand_points_are_a_band_with_few_ticks() {
        let body = dots(1000).draw(Shape { width: 460.0, height: 300.0 }).body;
        assert!(body.contains("band f1") && !body.contains("whisker"));
        assert!(body.len() < 100_000, "{}", body.len());
        assert!(body.matches("tick m").count() < 30);
    }
}
