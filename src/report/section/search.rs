//! The probes of a search: what was asked for against the latency that came of it, with the interval in which the capacity lies; and as rows.

use super::{Block, Section};
use crate::present::search::{facts, probes_table};
use crate::present::several;
use crate::record::readable::rate;
use crate::record::{ProbeRecord, ProbeResult, SearchRecord};
use crate::report::figure::{Figure, PHONE, WIDE};
use crate::report::html;
use crate::report::svg::axes::{Frame, Scale};
use crate::report::svg::unit::Unit;
use crate::report::svg::{Canvas, Drawing, Mark, Shape, mark, text_width};
use crate::statistics::extent;

const SHAPES: (Shape, Shape) = (Shape { height: 330.0, ..WIDE }, Shape { height: 290.0, ..PHONE });

/// The probes as a chart and as rows.
pub fn section(search: &SearchRecord) -> Option<Section> {
    let table = probes_table(search)?;
    let text = format!("{}{}", html::table(&table), html::facts(&facts(search)));
    Section::new("search", "The search", vec![Block::figure(figure(search)), Block::Html(text)])
}

fn figure(search: &SearchRecord) -> Figure {
    let probe = |probe: &ProbeRecord| {
        let latency_ns = probe.p99_ns? as f64;
        Some(Probe { rate_per_second: probe.rate_per_second, latency_ns, kind: probe.outcome })
    };
    let chart = Probes {
        name: "response time, p99".to_owned(),
        axis: "rate that was probed, messages/s".to_owned(),
        probes: search.probes.iter().filter_map(probe).collect(),
        interval: search.answer.capacity_low.zip(search.answer.capacity_high),
        answer: search.answer.rate_per_second,
    };
    let shown = chart.probes.len();
    Figure::draw("probes", "Probes by rate", what_to_see(search, shown), SHAPES, |shape| chart.draw(shape))
}

fn what_to_see(search: &SearchRecord, shown: usize) -> String {
    let all = || search.probes.iter();
    let rates = |held: bool| {
        all().filter(move |probe| (probe.outcome == ProbeResult::Held) == held).map(|probe| probe.rate_per_second)
    };
    let held =
        rates(true).reduce(f64::max).map(|highest| format!("{} held, up to {}/s", rates(true).count(), rate(highest)));
    let missed = rates(false)
        .reduce(f64::min)
        .map(|lowest| format!("{} missed, from {}/s on", rates(false).count(), rate(lowest)));
    let both = [held, missed].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let overlap = match (rates(true).reduce(f64::max), rates(false).reduce(f64::min)) {
        (Some(highest), Some(lowest)) if lowest < highest => " Between these two rates, some held and others missed.",
        _ => "",
    };
    let interval = match search.answer.capacity_low {
        Some(_) => " Tinted: the 95 % interval of the rate at which half of all probes would hold.",
        None => "",
    };
    let line = if search.answer.rate_per_second.is_some() { " The line is the answer." } else { "" };
    let absent = match all().count() - shown {
        0 => String::new(),
        number => format!(" {} had too few messages for a p99.", several(number, "probe")),
    };
    format!("Of {}, {both}.{overlap}{interval}{line}{absent}", several(all().count(), "probe"))
}

/// A probe with its rate and its latency.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Probe {
    rate_per_second: f64,
    latency_ns: f64,
    kind: ProbeResult,
}

#[derive(Debug, Clone, PartialEq)]
struct Probes {
    name: String,
    axis: String,
    probes: Vec<Probe>,
    /// The interval of the capacity.
    interval: Option<(f64, f64)>,
    /// The answer.
    answer: Option<f64>,
}

/// Classes, mark and name of each kind.
const KINDS: [(ProbeResult, &str, Mark, &str); 3] = [
    (ProbeResult::Held, "dots held s1", Mark::Dot, "● held"),
    (ProbeResult::Missed, "cross s2", Mark::Cross, "× missed"),
    (ProbeResult::LimitedByClient, "middle f6", Mark::Diamond, "◆ limited by the client"),
];

/// Rates of which the largest is at most so many times the smallest lie on a linear axis.
const LINEAR_SPAN: f64 = 5.0;

impl Probes {
    fn scale_of_rates(&self) -> Scale {
        let rates = self.probes.iter().map(|probe| probe.rate_per_second);
        let interval = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        let all = rates.chain(interval).chain(self.answer).filter(|rate| *rate > 0.0);
        let (low, high) = extent(all);
        if low > high {
            return Scale::Linear { low: 0.0, high: 1.0 };
        }
        if high > low * LINEAR_SPAN {
            return Scale::Logarithmic { low: low / 1.2, high: high * 1.2 };
        }
        let room = ((high - low) * 0.08).max(high * 0.01);
        Scale::Linear { low: low - room, high: high + room }
    }

    fn draw(&self, shape: Shape) -> Drawing {
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
            probes: vec![probe(40e3, ProbeResult::Held), probe(160e3, ProbeResult::Missed)],
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
