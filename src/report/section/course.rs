//! One trial over time: rate, latency, messages in flight, CPU and memory, all on one time axis.

use super::timeline::{MAX_OUTAGES, Timeline, events, figure};
use super::{Part, Section, lag, resources};
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Phase, Record, SeriesRow};
use crate::report::figure::Figure;
use crate::report::svg::unit::{Unit, moment};

/// All charts over time.
pub fn section(record: &Record, series: &[SeriesRow], heat: Option<Figure>) -> Option<Section> {
    let timeline = Timeline::of(record, series)?;
    let events = events(&timeline);
    let charts = [
        Some(rates(&timeline)),
        latencies(&timeline),
        heat,
        Some(in_flight(&timeline)),
        lag::behind(&timeline),
        lag::end_to_end(&timeline),
        Some(resources::cpu(&timeline)),
        resources::memory(&timeline),
    ];
    let mut parts: Vec<Part> = charts.into_iter().flatten().map(Part::figure).collect();
    if let Some(Part::Figure(first)) = parts.first_mut() {
        first.events = events.iter().map(|event| format!("{}: {}", moment(event.at), event.text)).collect();
        let outages = record.outages.len();
        if outages > MAX_OUTAGES {
            first.sentence += &format!(" Flagged are the {MAX_OUTAGES} longest of {outages} outages.");
        }
    }
    Section::of("course", "Over time", parts)
}

fn rates(timeline: &Timeline<'_>) -> Figure {
    let per_second = |number: u64, row: &SeriesRow| number as f64 / row.seconds();
    let any = |figure: fn(&SeriesRow) -> bool| timeline.rows.iter().any(|(_, row)| figure(row));
    let mut lines = Vec::new();
    if any(|row| row.due.is_some()) {
        lines
            .push(timeline.line("wanted", 6, |row| {
                row.due.map(|due| per_second(due, row)).filter(|_| row.phase != Phase::Drain)
            }));
    }
    lines.push(timeline.line("achieved", 1, |row| Some(row.acknowledged_per_second())));
    if any(|row| row.consumed.is_some()) {
        lines.push(timeline.line("received", 3, |row| row.consumed.map(|consumed| per_second(consumed, row))));
    }
    if any(|row| row.failed > 0) {
        lines.push(timeline.line("failed", 2, |row| Some(per_second(row.failed, row))));
    }
    figure("rate", "Rate", rate_sentence(timeline), timeline, "messages/s", Unit::PerSecond, lines)
}

fn rate_sentence(timeline: &Timeline<'_>) -> String {
    let rows: Vec<(f64, &SeriesRow)> = timeline.measured_rows().collect();
    let due = |row: &SeriesRow| row.due.filter(|due| *due > 0).map(|due| due as f64);
    let shares: Vec<(f64, f64, &SeriesRow)> =
        rows.iter().filter_map(|(begin, row)| Some((*begin, row.acknowledged as f64 / due(row)?, *row))).collect();
    let lowest = shares.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((at, share, row)) = lowest else { return closed_sentence(&rows) };
    let far = shares.iter().map(|share| (share.1 - 1.0).abs()).fold(0.0, f64::max);
    if far <= 0.05 {
        return format!(
            "In each of the {} measured seconds, the achieved rate was within {} of the wanted one.",
            shares.len(),
            percent(far)
        );
    }
    let below = shares.iter().filter(|share| share.1 < 0.95).count();
    if below == 0 {
        return "The achieved rate was never more than 5 % below the wanted one; above it, messages that had waited caught up.".to_owned();
    }
    format!(
        "The achieved rate was lowest at {}: {} messages in that second, {} of what was wanted. {} of {} measured seconds had less than 95 % of it.",
        moment(*at),
        count(row.acknowledged),
        percent(*share),
        below,
        shares.len()
    )
}

fn closed_sentence(rows: &[(f64, &SeriesRow)]) -> String {
    let by_rate = |one: &&(f64, &SeriesRow), other: &&(f64, &SeriesRow)| {
        one.1.acknowledged_per_second().total_cmp(&other.1.acknowledged_per_second())
    };
    let (Some((low_at, low)), Some((high_at, high))) = (rows.iter().min_by(by_rate), rows.iter().max_by(by_rate))
    else {
        return "The measurement has no full second.".to_owned();
    };
    let (low, high) = (low.acknowledged_per_second(), high.acknowledged_per_second());
    format!(
        "The slowest measured second carried {} messages/s (at {}), the fastest {} (at {}): {} apart.",
        rate(low),
        moment(*low_at),
        rate(high),
        moment(*high_at),
        percent(if high > 0.0 { (high - low) / high } else { 0.0 })
    )
}

fn latencies(timeline: &Timeline<'_>) -> Option<Figure> {
    let value = |ns: Option<u64>| ns.map(|ns| ns as f64);
    timeline.rows.iter().find_map(|(_, row)| row.p50_ns)?;
    let lines =
        vec![timeline.line("p99", 2, |row| value(row.p99_ns)), timeline.line("median", 1, |row| value(row.p50_ns))];
    let name = timeline.record.headline;
    let title = if name == crate::record::Headline::Response { "Response time" } else { "Service time" };
    Some(figure(
        "latency-over-time",
        &format!("{title} of each second"),
        latency_sentence(timeline),
        timeline,
        &format!("{name} time"),
        Unit::Nanoseconds,
        lines,
    ))
}

fn latency_sentence(timeline: &Timeline<'_>) -> String {
    let mut slow: Vec<(f64, f64)> =
        timeline.measured_rows().filter_map(|(begin, row)| Some((begin, row.p99_ns? as f64))).collect();
    slow.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (Some(highest), Some(middle)) = (slow.last(), slow.get(slow.len() / 2)) else {
        return "No measured second has a 99th percentile.".to_owned();
    };
    let times = highest.1 / middle.1.max(1.0);
    let steady = if times < 2.0 { "no second stands out" } else { "that second stands out" };
    format!(
        "The p99 of a typical second was {}; of the slowest, at {}, {} ({:.1} times as long: {steady}).",
        duration(middle.1),
        moment(highest.0),
        duration(highest.1),
        times
    )
}

fn in_flight(timeline: &Timeline<'_>) -> Figure {
    let mut lines = vec![timeline.line("in flight", 1, |row| Some(row.in_flight as f64))];
    if timeline.rows.iter().any(|(_, row)| row.queue_messages.is_some_and(|queued| queued > 0)) {
        lines.push(timeline.line("queued", 4, |row| row.queue_messages.map(|queued| queued as f64)));
    }
    let flights: Vec<f64> = timeline.measured_rows().map(|(_, row)| row.in_flight as f64).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let third = flights.len() / 3;
    let (first, last) = (mean(&flights[..third]), mean(&flights[flights.len() - third..]));
    let course = match third {
        0 => String::new(),
        _ if last > 2.0 * first + 100.0 => {
            format!(
                " They grew from {} in the first third to {} in the last: messages came in faster than they were acknowledged.",
                rate(first),
                rate(last)
            )
        }
        _ => " They did not pile up.".to_owned(),
    };
    let sentence = format!(
        "At the end of a second, {} messages on average had no answer yet, at most {}.{course}",
        rate(mean(&flights)),
        count(flights.iter().copied().fold(0.0, f64::max) as u64)
    );
    figure("in-flight", "Messages in flight", sentence, timeline, "messages without an answer", Unit::Count, lines)
}
