//! The probes of a search, as marks and as rows.

use super::{Block, Section};
use crate::present::search::{facts, probes_table};
use crate::present::several;
use crate::record::readable::rate;
use crate::record::{ProbeRecord, ProbeResult, SearchRecord};
use crate::report::figure::{Figure, PHONE, WIDE};
use crate::report::html;
use crate::report::svg::Shape;
use crate::report::svg::probes::{Kind, Probe, Probes};

const SHAPES: (Shape, Shape) = (Shape { height: 330.0, ..WIDE }, Shape { height: 290.0, ..PHONE });

/// The probes as a chart and as rows.
pub fn section(search: &SearchRecord) -> Option<Section> {
    let table = probes_table(search)?;
    let text = format!("{}{}", html::table(&table), html::facts(&facts(search)));
    Section::new("search", "The search", vec![Block::figure(figure(search)), Block::Html(text)])
}

fn figure(search: &SearchRecord) -> Figure {
    let kind = |outcome| match outcome {
        ProbeResult::Held => Kind::Held,
        ProbeResult::Missed => Kind::Missed,
        ProbeResult::LimitedByClient => Kind::LimitedByClient,
    };
    let probe = |probe: &ProbeRecord| {
        let latency_ns = probe.p99_ns? as f64;
        Some(Probe { rate_per_second: probe.rate_per_second, latency_ns, kind: kind(probe.outcome) })
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
