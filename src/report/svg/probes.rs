//! The probes of a search: what was asked for against the latency that came of it, with the interval in which the capacity lies.

use super::axes::{Frame, Scale};
use super::unit::Unit;
use super::{Canvas, Drawing, Mark, Shape, mark, text_width};

/// A probe with its rate and its latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    pub rate_per_second: f64,
    pub latency_ns: f64,
    pub kind: Kind,
}

/// What became of it, each with a mark of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Held,
    Missed,
    LimitedByClient,
}

/// All probes of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Probes {
    pub name: String,
    pub axis: String,
    pub probes: Vec<Probe>,
    /// The interval of the capacity.
    pub interval: Option<(f64, f64)>,
    /// The answer.
    pub answer: Option<f64>,
}

/// Classes, mark and name of each kind.
const KINDS: [(Kind, &str, Mark, &str); 3] = [
    (Kind::Held, "dots held s1", Mark::Dot, "● held"),
    (Kind::Missed, "cross s2", Mark::Cross, "× missed"),
    (Kind::LimitedByClient, "middle f6", Mark::Diamond, "◆ limited by the client"),
];

/// Rates of which the largest is at most so many times the smallest lie on a linear axis.
const LINEAR_SPAN: f64 = 5.0;

impl Probes {
    fn scale_of_rates(&self) -> Scale {
        let rates = self.probes.iter().map(|probe| probe.rate_per_second);
        let interval = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        let all = rates.chain(interval).chain(self.answer).filter(|rate| *rate > 0.0);
        let (low, high) = all.fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        if low > high {
            return Scale::Linear { low: 0.0, high: 1.0 };
        }
        if high > low * LINEAR_SPAN {
            return Scale::Logarithmic { low: low / 1.2, high: high * 1.2 };
        }
        let room = ((high - low) * 0.08).max(high * 0.01);
        Scale::Linear { low: low - room, high: high + room }
    }

    pub fn draw(&self, shape: Shape) -> Drawing {
        let frame = Frame::inside(shape, 62.0, 14.0).above_a_name().below_a_legend();
        let (mut canvas, across) = (Canvas::default(), self.scale_of_rates());
        // Marks at the ends stay whole.
        let latencies = self.probes.iter().flat_map(|probe| [probe.latency_ns * 1.1, probe.latency_ns / 1.1]);
        let up = Scale::fitting(latencies);
        let x = |rate: f64| frame.x(across.place(rate));
        if let Some((low, high)) = self.interval {
            canvas.rectangle("band f1", [x(low), frame.top, (x(high) - x(low)).max(1.5), frame.height]);
        }
        frame.vertical(&mut canvas, up, Unit::Nanoseconds, &self.name);
        let ticks = across.ticks((frame.width / 90.0) as usize);
        let ticks: Vec<(f64, String)> =
            ticks.into_iter().map(|tick| (across.place(tick), Unit::PerSecond.short(tick))).collect();
        frame.horizontal(&mut canvas, &ticks);
        let logarithmic = if across.is_logarithmic() { ", logarithmic" } else { "" };
        frame.horizontal_name(&mut canvas, &format!("{}{logarithmic}", self.axis));
        if let Some(answer) = self.answer {
            canvas.line("axis", (x(answer), frame.top), (x(answer), frame.bottom()));
        }
        for (kind, class, shape, _) in KINDS {
            let of_kind = self.probes.iter().filter(|probe| probe.kind == kind);
            let marks = of_kind.map(|probe| mark(shape, x(probe.rate_per_second), frame.y(up.place(probe.latency_ns))));
            canvas.path(class, &marks.collect::<String>());
        }
        self.legend(&mut canvas);
        canvas.finish(shape, frame.plot())
    }

    /// Only the kinds that there are, below the name of the axis.
    fn legend(&self, canvas: &mut Canvas) {
        let mut left = 0.0;
        for (kind, .., name) in KINDS {
            if self.probes.iter().any(|probe| probe.kind == kind) {
                canvas.text("label", (left, 30.0), name);
                left += text_width(name) + 18.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_probe_has_a_mark_and_a_name() {
        let probe = |rate_per_second, kind| Probe { rate_per_second, latency_ns: 2e6, kind };
        let mut probes = Probes {
            name: "p99".to_owned(),
            axis: "messages/s".to_owned(),
            probes: vec![probe(40e3, Kind::Held), probe(160e3, Kind::Missed)],
            interval: Some((90e3, 95e3)),
            answer: Some(91e3),
        };
        let shape = Shape { width: 900.0, height: 300.0 };
        let body = probes.draw(shape).body;
        for part in ["dots held s1", "cross s2", "● held", "× missed", "band f1"] {
            assert!(body.contains(part), "{part} in {body}");
        }
        assert!(!body.contains("limited by the client"), "{body}");
        probes = Probes { probes: vec![], interval: None, answer: None, ..probes };
        assert!(!probes.draw(shape).body.contains("NaN"), "nothing was probed");
    }
}
