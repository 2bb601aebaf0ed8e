//! One trial over time: rate, latency, messages in flight, CPU and memory, all on one time axis.

use super::timeline::{Timeline, events, figure};
use super::{Block, Section};
use crate::present::several;
use crate::record::readable::{bytes, count, duration, percent, rate};
use crate::record::{GroupRow, Headline, Phase, Record, SeriesRow};
use crate::report::figure::Figure;
use crate::report::svg::lines::Line;
use crate::report::svg::unit::{Unit, moment};

/// Groups of consumers that have a line each; of more, only the worst is drawn.
const MAX_LINES: u32 = 4;

/// The styles of both lines in the charts of CPU and memory: each is one chart, so that the busier of the two is seen.
const CLIENT: usize = 1;
const BROKER: usize = 2;

/// Growth from the first to the last measured second that is worth a sentence.
const MUCH_GROWTH: f64 = 0.25;

/// All charts over time.
pub fn section(record: &Record, series: &[SeriesRow], heat: Option<Figure>) -> Option<Section> {
    let timeline = Timeline::new(record, series)?;
    let (events, all_events) = events(&timeline);
    let charts = [
        Some(rates(&timeline)),
        latencies(&timeline),
        heat,
        Some(in_flight(&timeline)),
        behind(&timeline),
        end_to_end(&timeline),
        Some(cpu(&timeline)),
        memory(&timeline),
    ];
    let mut blocks: Vec<Block> = charts.into_iter().flatten().map(Block::figure).collect();
    if let Some(Block::Figure(first)) = blocks.first_mut() {
        first.events = events.iter().map(|event| format!("{}: {}", moment(event.at), event.text)).collect();
        if all_events > events.len() {
            first.sentence +=
                &format!(" Flagged are {} of {all_events} events; of many outages, the longest.", events.len());
        }
    }
    Section::new("course", "Over time", blocks)
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
    let title = if name == Headline::Response { "Response time" } else { "Service time" };
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
    let trend = match third {
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
        "At the end of a second, {} messages on average had no answer yet, at most {}.{trend}",
        rate(mean(&flights)),
        count(flights.iter().copied().fold(0.0, f64::max) as u64)
    );
    figure("in-flight", "Messages in flight", sentence, timeline, "messages without an answer", Unit::Count, lines)
}

/// Messages that groups lack at the end of each second; `None`: that is not known.
fn behind(timeline: &Timeline<'_>) -> Option<Figure> {
    let lag = |of: &GroupRow| of.consumer_lag.map(|lag| lag.max(0) as f64);
    // What a share lacks of its own messages is not lag.
    let is_known = timeline.record.share.is_none() && any(timeline, lag);
    let lines = is_known.then(|| lines(timeline, lag))?;
    let worst: Vec<f64> = timeline.measured_rows().filter_map(|(_, row)| worst(row, lag)).collect();
    let (first, last) = (worst.first().copied().unwrap_or(0.0), worst.last().copied().unwrap_or(0.0));
    let sentence = format!(
        "The group that was the furthest behind lacked {} messages after the first measured second and {} after the last one, at most {}.",
        count(first as u64),
        count(last as u64),
        count(worst.into_iter().fold(0.0, f64::max) as u64)
    );
    Some(figure("consumer-lag", "Consumer lag", sentence, timeline, "messages not received yet", Unit::Count, lines))
}

/// 99th percentile of the end-to-end latency of each second; `None`: it was not recorded.
fn end_to_end(timeline: &Timeline<'_>) -> Option<Figure> {
    let p99 = |of: &GroupRow| of.end_to_end_p99_ns.map(|ns| ns as f64);
    let lines = any(timeline, p99).then(|| lines(timeline, p99))?;
    let worst: Vec<f64> = timeline.measured_rows().filter_map(|(_, row)| worst(row, p99)).collect();
    let has_grown = timeline.record.latency.end_to_end.as_ref().is_some_and(|latency| latency.lag_grew);
    let verdict =
        if has_grown { " It grew for as long as the load lasted, so there is no percentile of the trial." } else { "" };
    let largest = duration(worst.iter().copied().fold(0.0, f64::max));
    // A delay of the broker, or consumers that begin late, may leave the first seconds without arrivals, or all.
    let sentence = match (worst.first(), worst.last()) {
        (Some(first), Some(last)) => format!(
            "The p99 of the slowest group was {} in the first measured second with arrivals and {} in the last one, at most {largest}.{verdict}",
            duration(*first),
            duration(*last)
        ),
        _ => format!("No measured message arrived in a measured second.{verdict}"),
    };
    let title = "End-to-end latency (p99) of each second";
    Some(figure("end-to-end-over-time", title, sentence, timeline, "end-to-end latency", Unit::Nanoseconds, lines))
}

fn any(timeline: &Timeline<'_>, of: impl Fn(&GroupRow) -> Option<f64>) -> bool {
    timeline.rows.iter().any(|(_, row)| worst(row, &of).is_some())
}

fn worst(row: &SeriesRow, figure: impl Fn(&GroupRow) -> Option<f64>) -> Option<f64> {
    row.groups.iter().filter_map(figure).reduce(f64::max)
}

fn lines(timeline: &Timeline<'_>, of: impl Fn(&GroupRow) -> Option<f64>) -> Vec<Line> {
    let last = timeline.rows.iter().flat_map(|(_, row)| &row.groups).map(|of| of.group).max().unwrap_or(0);
    if last >= MAX_LINES {
        return vec![timeline.line("the worst group", 2, |row| worst(row, &of))];
    }
    let line = |group: u32| {
        let of_group = |row: &SeriesRow| row.groups.iter().find(|row| row.group == group).and_then(&of);
        timeline.line(&format!("group {}", timeline.record.group_name(group as usize)), group as usize + 1, of_group)
    };
    (0..=last).map(line).collect()
}

fn cpu(timeline: &Timeline<'_>) -> Figure {
    let mut lines = vec![timeline.line("client", CLIENT, |row| Some(row.cpu_cores))];
    let mut sentence = client_sentence(timeline);
    if timeline.rows.iter().any(|(_, row)| row.broker_cpu_cores.is_some()) {
        lines.push(timeline.line("broker", BROKER, |row| row.broker_cpu_cores));
        sentence += &broker_sentence(timeline);
    } else if timeline.record.environment.embedded {
        sentence += " The broker ran in the same process, so its CPU is among this.";
    } else {
        sentence += " What the broker used is unknown: `broker.watch` names its processes.";
    }
    let title = if lines.len() > 1 { "CPU of client and broker" } else { "CPU of the load generator" };
    figure("cpu", title, sentence, timeline, "cores", Unit::Cores, lines)
}

/// The busiest measured second, with its value.
fn busiest(timeline: &Timeline<'_>, cores: impl Fn(&SeriesRow) -> Option<f64>) -> String {
    let known = timeline.measured_rows().filter_map(|(at, row)| Some((at, cores(row)?)));
    known
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(at, cores)| format!(", {cores:.2} in its busiest second (at {})", moment(at)))
        .unwrap_or_default()
}

fn client_sentence(timeline: &Timeline<'_>) -> String {
    let client = &timeline.record.client;
    let left = match client.cores_used / client.cores_available.max(f64::MIN_POSITIVE) {
        share if share >= 0.9 => "it had none left",
        share if share >= 0.6 => "it had little left",
        _ => "it had CPU left",
    };
    format!("brokermark used {} on average{}: {left}.", client.cores(), busiest(timeline, |row| Some(row.cpu_cores)))
}

fn broker_sentence(timeline: &Timeline<'_>) -> String {
    let Some(usage) = &timeline.record.broker_usage else { return String::new() };
    let Some(cores) = usage.cores() else { return String::new() };
    let more = match usage.cores_used {
        Some(used) if used > timeline.record.client.cores_used => " The broker was the busier of the two.",
        _ => "",
    };
    let most = busiest(timeline, |row| row.broker_cpu_cores);
    let whose = match usage.sources.len() {
        0 | 1 => "The broker".to_owned(),
        number => format!("The broker's {}", several(number, "source")),
    };
    format!(" {whose} used {cores}{most}.{more}")
}

/// Of both; `None` where no row knows of any.
fn memory(timeline: &Timeline<'_>) -> Option<Figure> {
    let bytes_of = |known: Option<u64>| known.map(|bytes| bytes as f64);
    let sides = [
        ("client", CLIENT, (|row| row.memory_bytes) as fn(&SeriesRow) -> Option<u64>),
        ("broker", BROKER, |row| row.broker_memory_bytes),
    ];
    let (mut lines, mut sentences) = (Vec::new(), Vec::new());
    for (name, style, of) in sides {
        let known: Vec<u64> = timeline.measured_rows().filter_map(|(_, row)| of(row)).collect();
        let (Some(first), Some(last)) = (known.first(), known.last()) else { continue };
        lines.push(timeline.line(name, style, |row| bytes_of(of(row))));
        sentences.push(memory_sentence(
            name,
            *first as f64,
            *last as f64,
            known.iter().copied().max().unwrap_or(0) as f64,
        ));
    }
    if lines.is_empty() {
        return None;
    }
    if let Some(peak) = timeline.record.client.peak_memory_bytes {
        sentences.push(format!("The client's peak was {}.", bytes(peak as f64)));
    }
    let title = if lines.len() > 1 { "Memory of client and broker" } else { "Memory of the load generator" };
    Some(figure("memory", title, sentences.join(" "), timeline, "resident memory", Unit::Bytes, lines))
}

fn memory_sentence(name: &str, first: f64, last: f64, most: f64) -> String {
    let grew = last / first.max(1.0) - 1.0;
    if grew.abs() >= MUCH_GROWTH {
        let verb = if grew > 0.0 { "grew" } else { "fell" };
        return format!("The {name} {verb} from {} to {} in the measured time.", bytes(first), bytes(last));
    }
    format!("The {name} stayed near {}, at most {}.", bytes(last), bytes(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outage, sample};

    #[test]
    fn events_that_are_not_flagged_are_counted() {
        let (mut record, series) = (sample::record(), sample::series());
        let outage = |second: u64| Outage {
            begin_ns: second * 1_000_000_000,
            longest_gap_ns: 300_000_000,
            in_window_ns: 300_000_000,
            first_acknowledgement_ns: Some(300_000_000),
            recovered_ns: Some(400_000_000),
            expected_per_second: 50_000.0,
            client_paused_ns: 0,
            caused_by_client: false,
        };
        record.outages = (0..9).map(outage).collect();
        record.errors = vec![record.errors[0].clone(); 8];
        let section = section(&record, &series, None).unwrap();
        let sentence = &section.blocks[0].figures()[0].sentence;
        assert!(sentence.ends_with(" Flagged are 12 of 17 events; of many outages, the longest."), "{sentence}");
    }

    #[test]
    fn seconds_without_arrivals_have_no_end_to_end_latency_of_0() {
        let (record, mut series) = (sample::record(), sample::series());
        let sentence = |series: &[SeriesRow]| end_to_end(&Timeline::new(&record, series).unwrap()).unwrap().sentence;
        assert!(sentence(&series).contains(" was 3.20 ms in the first measured second with arrivals"));
        let measured = series.iter_mut().filter(|row| row.phase == Phase::Measure);
        measured.for_each(|row| row.groups[0].end_to_end_p99_ns = None);
        assert_eq!(sentence(&series), "No measured message arrived in a measured second.");
    }
}
