//! Figures over time: lines with their names at their ends, phases as tinted ground, events as numbered flags.

use super::axes::{Frame, Scale, time_ticks};
use super::unit::{Unit, moment};
use super::{Canvas, Drawing, Shape, number, text_width};
use crate::present::thin::{Point, envelope};

/// A figure over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    /// Which of the page's styles: 1 to 6.
    pub style: usize,
    /// In seconds since the trial began.
    pub points: Vec<Point>,
}

/// A segment of time that is not what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    pub begin: f64,
    pub end: f64,
    pub name: &'static str,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at: f64,
    /// Where it lasted.
    pub until: Option<f64>,
    pub text: String,
}

/// Lines over one time axis.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeChart {
    pub name: String,
    pub unit: Unit,
    pub lines: Vec<Line>,
    /// How long the trial lasted, in seconds.
    pub until: f64,
    pub segments: Vec<Segment>,
    pub events: Vec<Event>,
}

/// By what factor the warm-up or the drain may exceed what was measured before it is cut off.
const MAX_APART: f64 = 2.0;

impl TimeChart {
    /// Fits what was measured. What lies far above it, in the warm-up or the drain, is cut off.
    fn scale(&self) -> Scale {
        let is_apart = |at: f64| self.segments.iter().any(|segment| at >= segment.begin && at < segment.end);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let all: Vec<f64> = points().filter_map(|point| point.1).collect();
        let measured: Vec<f64> = points().filter(|point| !is_apart(point.0)).filter_map(|point| point.1).collect();
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let is_cut = !measured.is_empty() && largest(&all) > MAX_APART * largest(&measured);
        let shown = if is_cut { measured } else { all }.into_iter();
        // A number that falls to 0 has no place on a logarithmic axis.
        if self.unit == Unit::Nanoseconds { Scale::fitting(shown) } else { Scale::from_zero(shown) }
    }

    /// The segments that have values above the scale.
    fn beyond(&self, scale: Scale) -> Vec<&'static str> {
        let is_beyond = |segment: &&Segment| {
            let points = self.lines.iter().flat_map(|line| &line.points);
            let mut of_segment = points.filter(|point| point.0 >= segment.begin && point.0 < segment.end);
            of_segment.any(|point| point.1.is_some_and(|value| value > scale.high()))
        };
        self.segments.iter().filter(is_beyond).map(|segment| segment.name).collect()
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
        let frame = Frame::for_time(shape);
        let (mut canvas, scale) = (Canvas::default(), self.scale());
        self.ground(&mut canvas, &frame);
        let cut = match self.beyond(scale).as_slice() {
            [] => String::new(),
            [one] => format!("; the {one} goes beyond"),
            several => format!("; the {} go beyond", several.join(" and the ")),
        };
        frame.vertical(&mut canvas, scale, self.unit, &format!("{}{cut}", self.name));
        let most = (frame.width / 70.0) as usize;
        let ticks: Vec<(f64, String)> =
            time_ticks(self.until, most).into_iter().map(|tick| (tick / self.until, moment(tick))).collect();
        frame.horizontal(&mut canvas, &ticks);
        canvas.open_window(frame.plot());
        for (index, line) in self.lines.iter().enumerate() {
            canvas.open_series(index);
            canvas.path(&format!("line s{}", line.style), &self.path(line, &frame, scale));
            canvas.close_group();
        }
        for event in &self.events {
            let x = self.x(&frame, event.at);
            canvas.line("flag", (x, frame.top - 2.0), (x, frame.bottom()));
        }
        canvas.close_window();
        let last = |line: &Line| line.points.iter().rev().find_map(|point| point.1);
        let names = self.lines.iter().enumerate().filter_map(|(index, line)| {
            Some((index, line.style, line.name.clone(), frame.y(scale.place(last(line)?))))
        });
        frame.labels(&mut canvas, names);
        self.names_of_moments(&mut canvas, &frame);
        Drawing { until: Some(self.until), ..canvas.finish(shape, frame.plot()) }
    }

    fn x(&self, frame: &Frame, at: f64) -> f64 {
        frame.x((at / self.until).clamp(0.0, 1.0))
    }

    fn ground(&self, canvas: &mut Canvas, frame: &Frame) {
        canvas.open_window(frame.plot());
        let segments = self.segments.iter().map(|segment| ("apart", segment.begin, segment.end));
        let events = self.events.iter().filter_map(|event| Some(("outage", event.at, event.until?)));
        for (class, begin, end) in segments.chain(events) {
            let (begin, end) = (self.x(frame, begin), self.x(frame, end));
            canvas.rectangle(class, [begin, frame.top, (end - begin).max(1.0), frame.height]);
        }
        canvas.close_window();
    }

    /// Above the values: which segments were not measured, and the numbers of events.
    fn names_of_moments(&self, canvas: &mut Canvas, frame: &Frame) {
        let y = frame.top - 5.0;
        for segment in &self.segments {
            let (begin, end) = (self.x(frame, segment.begin), self.x(frame, segment.end));
            if end - begin > text_width(segment.name) {
                let middle = (segment.begin + segment.end) / 2.0;
                canvas.text_at("tick m", middle, ((begin + end) / 2.0, y), segment.name);
            }
        }
        for (index, event) in self.events.iter().enumerate() {
            canvas.text_at("flagged m", event.at, (self.x(frame, event.at), y), &(index + 1).to_string());
        }
    }

    fn path(&self, line: &Line, frame: &Frame, scale: Scale) -> String {
        let thin = envelope(&line.points, self.until, (frame.width / 2.0) as usize);
        let (mut data, mut pen_is_down) = (String::new(), false);
        for (at, value) in &thin {
            let Some(value) = value else {
                pen_is_down = false;
                continue;
            };
            let (x, y) = (number(self.x(frame, *at)), number(frame.y(scale.place(*value))));
            // A point of its own is a dot.
            data += &if pen_is_down { format!("L{x},{y}") } else { format!("M{x},{y}h0") };
            pen_is_down = true;
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_beyond_the_axis_is_named() {
        let named = |warm_up: f64, drain: f64| {
            let values = [warm_up, 10.0, 10.0, drain].into_iter().enumerate();
            let points = values.map(|(second, value)| (second as f64 + 0.5, Some(value))).collect();
            let segment = |begin: f64, name| Segment { begin, end: begin + 1.0, name };
            let chart = TimeChart {
                name: "messages/s".to_owned(),
                unit: Unit::PerSecond,
                lines: vec![Line { name: "received".to_owned(), style: 1, points }],
                until: 4.0,
                segments: vec![segment(0.0, "warm-up"), segment(3.0, "drain")],
                events: vec![],
            };
            let body = chart.draw(Shape { width: 900.0, height: 236.0 }).body;
            let name = body.split_once(">messages/s").unwrap().1;
            name.split_once('<').unwrap().0.to_owned()
        };
        assert_eq!([named(10.0, 11.0), named(50.0, 10.0)], ["", "; the warm-up goes beyond"]);
        assert_eq!(
            [named(10.0, 50.0), named(50.0, 40.0)],
            ["; the drain goes beyond", "; the warm-up and the drain go beyond"]
        );
    }

    #[test]
    fn a_day_is_a_short_drawing_and_a_gap_is_not_bridged() {
        let points = (0..86_400).map(|second| (f64::from(second), Some(f64::from(second % 977)))).collect();
        let with_gap = vec![(0.0, Some(1.0)), (10.0, None), (20.0, Some(2.0))];
        let line = |points| Line { name: "p99".to_owned(), style: 1, points };
        let chart = |points| TimeChart {
            name: "messages/s".to_owned(),
            unit: Unit::PerSecond,
            lines: vec![line(points)],
            until: 86_400.0,
            segments: vec![],
            events: vec![Event { at: 5.0, until: None, text: "x".to_owned() }],
        };
        let shape = Shape { width: 920.0, height: 240.0 };
        assert!(chart(points).draw(shape).body.len() < 14_000);
        let gap = chart(with_gap).draw(shape).body;
        assert_eq!(gap.matches("h0").count(), 2, "{gap}");
    }
}
