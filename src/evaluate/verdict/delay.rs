//! Findings from the tails: what the load generator itself added to latencies and outages, and whether a few events made a percentile.

use super::{Evidence, Finding, against, groups_that_fell_behind, limits, note};
use crate::record::ReasonKind::*;
use crate::record::readable::{SLEEPER, count, duration, percent};
use crate::record::{Latency, LoadModel, Outage, Tail};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    [own_delay(evidence), few_events(evidence)].into_iter().flatten().collect()
}

/// What was found, as parts of a sentence.
#[derive(Default)]
struct Found {
    parts: Vec<String>,
    /// Whether one of them speaks against the figures.
    against: bool,
}

impl Found {
    fn add(&mut self, part: String, against: bool) {
        self.parts.push(part);
        self.against |= against;
    }
}

/// What the load generator itself added to the latency that it reports, or to an outage.
fn own_delay(evidence: &Evidence<'_>) -> Option<Finding> {
    let client = &evidence.record.client;
    let is_open = evidence.record.load_model == LoadModel::Open;
    let wake_up = client.wake_up_delay.or(client.timer_lateness).filter(|_| is_open).unwrap_or_default();
    let timers = client.timer_lateness.unwrap_or_default();
    let pauses = client.pauses.unwrap_or_default();
    let reported_ns = evidence.record.headline_latency().and_then(|latency| latency.p99_ns).unwrap_or(0);
    let late = is_much(wake_up.p99_ns, reported_ns);
    let paused = pauses.p99_ns > limits::MAX_PAUSE_P99_NS
        || pauses.p99_ns > limits::MIN_PAUSE_P99_NS && is_much(pauses.p99_ns, reported_ns);
    let mut found = Found::default();
    if late {
        found.add(late_wake_ups("1 in 100 messages", wake_up.p99_ns, timers.p99_ns), true);
    }
    if paused {
        let text = "1 in 100 wake-ups of a thread that only sleeps came";
        // A closed loop is there for its throughput; its service time depends on the window and on the load of the machine as well as on
        // the broker.
        let long = pauses.p99_ns > limits::MAX_PAUSE_P99_NS;
        found.add(format!("{text} {} late or later", duration(pauses.p99_ns as f64)), is_open || long);
    }
    let pressure = evidence.record.host_load.and_then(|load| load.cpu_pressure_share);
    if let Some(pressure) = pressure.filter(|_| paused) {
        found.add(format!("tasks waited for a core for {} of the time", percent(pressure)), false);
    }
    let delay_ns = late.then_some(wake_up.p99_ns).max(paused.then_some(pauses.p99_ns));
    let lead = delay_ns.map(|delay_ns| share_of_headline(evidence, delay_ns, reported_ns));
    if !late && is_much(wake_up.p50_ns, evidence.record.headline_latency().map_or(0, |latency| latency.p50_ns)) {
        found.add(late_wake_ups("half of the messages", wake_up.p50_ns, timers.p50_ns), false);
    }
    beyond_p99(evidence, &mut found);
    outages(evidence, &mut found);
    if found.parts.is_empty() {
        return None;
    }
    let lead = lead.unwrap_or_else(|| "The tool itself made a part of what it reports".to_owned());
    let finding = if found.against { against } else { note };
    Some(finding(
        OwnDelay,
        format!("{lead}: {}.", found.parts.join("; ")),
        "Leave a core idle for the load generator: lower the load, or run the broker on another machine; for latencies below a millisecond, see `load.pacing`.",
        &[
            ("timer_lateness_p99_ns", timers.p99_ns as f64),
            ("wake_up_delay_p99_ns", wake_up.p99_ns as f64),
            ("pause_p99_ns", pauses.p99_ns as f64),
            ("reported_p99_ns", reported_ns as f64),
            ("cpu_pressure_share", pressure.unwrap_or(f64::NAN)),
        ],
    ))
}

fn is_much(delay_ns: u64, reported_ns: u64) -> bool {
    reported_ns > 0 && delay_ns as f64 > limits::MAX_OWN_DELAY_SHARE * reported_ns as f64
}

/// Both parts of a delay: the timer's, and what the scenario chose.
fn late_wake_ups(what: &str, delay_ns: u64, timer_ns: u64) -> String {
    let delay = duration(delay_ns as f64);
    // Quantiles of both do not add up, but where they are close, there is one cause.
    if timer_ns.saturating_mul(2) > delay_ns {
        return format!("late timers made {what} {delay} late or later");
    }
    let timer = duration(timer_ns as f64);
    format!(
        "wake-ups made {what} {delay} late or later, of which the timers were late by {timer}: the rest is `load.pacing`"
    )
}

/// How much of the reported headline p99 the tool's own delay is.
fn share_of_headline(evidence: &Evidence<'_>, delay_ns: u64, reported_ns: u64) -> String {
    if reported_ns == 0 {
        return "The tool's own delay is large".to_owned();
    }
    format!(
        "The tool's own delay is {} of the {} p99 it reports, {}",
        percent((delay_ns as f64 / reported_ns as f64).min(1.0)),
        evidence.record.load_model.headline(),
        duration(reported_ns as f64)
    )
}

/// The percentiles above p99 that the record states. Where answers came late while a thread of the client was not woken, that is known; else
/// pauses as long as a good part of the latency are worth a note.
fn beyond_p99(evidence: &Evidence<'_>, found: &mut Found) {
    let Some(latency) = evidence.record.headline_latency() else { return };
    let beyond = || latency.high_percentiles().filter(|(quantile, _)| *quantile > 0.99);
    let tails = || beyond().filter_map(|(quantile, value_ns)| Some((quantile, value_ns, latency.tail(quantile)?)));
    if let Some((quantile, value_ns, tail)) = tails().find(|(_, _, tail)| tail.is_the_clients()) {
        let part = format!(
            "{SLEEPER} for half of the wait or longer in {} of the {} tenths of a second with messages as slow as {}, {}",
            count(tail.client_paused_tenths.unwrap_or(0)),
            count(tail.tenths),
            percentile(quantile),
            duration(value_ns as f64),
        );
        // `compare` and the page show p99.9; one pause of 20 ms may make a p99.99.
        return found.add(part, evidence.record.load_model == LoadModel::Open && quantile <= 0.999);
    }
    let Some((quantile, value_ns)) = beyond().last() else { return };
    let pauses = evidence.record.client.pauses.unwrap_or_default();
    let pause_ns = if quantile > 0.999 { pauses.p99_99_ns } else { pauses.p99_9_ns };
    if pause_ns > limits::MIN_PAUSE_P99_NS && is_much(pause_ns, value_ns) {
        let name = percentile(quantile);
        found.add(
            format!(
                "the {name} of the pauses of a thread that only sleeps, {}, is {} of the reported {} {name}",
                duration(pause_ns as f64),
                percent((pause_ns as f64 / value_ns as f64).min(1.0)),
                evidence.record.load_model.headline()
            ),
            false,
        );
    }
}

/// "p99.9", without the noise of binary fractions.
fn percentile(quantile: f64) -> String {
    format!("p{}", (quantile * 1e9).round() / 1e7)
}

/// How long a thread of the client was not woken in outages: of those that would not be one without that, or else of the one with the longest pause.
fn outages(evidence: &Evidence<'_>, found: &mut Found) {
    let paused = || evidence.record.outages.iter().filter(|outage| outage.client_paused_ns > 0);
    let longest =
        |outages: &mut dyn Iterator<Item = &'_ Outage>| outages.max_by_key(|outage| outage.client_paused_ns).copied();
    let own = paused().filter(|outage| outage.caused_by_client).count();
    let Some(outage) =
        longest(&mut paused().filter(|outage| outage.caused_by_client)).or_else(|| longest(&mut paused()))
    else {
        return;
    };
    let more = match own {
        0 | 1 => String::new(),
        _ => format!(", and likewise in {} more", count(own as u64 - 1)),
    };
    found.add(
        format!(
            "{SLEEPER} for {} of the {} without an acknowledgement, in an outage that began {}{more}",
            duration(outage.client_paused_ns as f64),
            duration(outage.longest_gap_ns as f64),
            outage.when()
        ),
        false,
    );
}

/// High percentiles that another run may not have, for they come from one event or a few. What the client itself made is said as that.
fn few_events(evidence: &Evidence<'_>) -> Option<Finding> {
    // A window that is too short has few seconds anyhow.
    if evidence.record.throughput.window_ns < limits::MIN_WINDOW_NS {
        return None;
    }
    let headline = evidence.record.load_model.headline().to_string();
    let of_headline =
        evidence.record.headline_latency().and_then(|latency| tail_of_few_events(headline.as_str(), latency));
    let end_to_end = evidence.record.latency.end_to_end.as_ref();
    // Of a lag that grew, no high percentile is stated.
    let of_arrivals = end_to_end
        .and_then(|latency| tail_of_few_events("end-to-end", latency))
        .filter(|_| groups_that_fell_behind(evidence).is_empty());
    let found: Vec<(String, &Tail)> = of_headline.into_iter().chain(of_arrivals).collect();
    let (_, first) = found.first()?;
    let (tenths, seconds) = (first.tenths as f64, first.seconds as f64);
    let parts: Vec<&str> = found.iter().map(|(part, _)| part.as_str()).collect();
    Some(note(
        FewEventsInTail,
        format!("Few events made a high percentile: {}.", parts.join("; ")),
        "Whether a run has such an event is chance: measure longer, or compare several trials. The series shows when it was.",
        &[("tenths", tenths), ("seconds", seconds)],
    ))
}

/// The lowest percentile of a latency that few events made, and that the client did not: higher ones rest on even fewer.
fn tail_of_few_events<'a>(name: &str, latency: &'a Latency) -> Option<(String, &'a Tail)> {
    let is_of_few = |(quantile, _): &(f64, u64)| {
        latency.is_of_few_events(*quantile) && !latency.tail(*quantile).is_some_and(Tail::is_the_clients)
    };
    let (quantile, value_ns) = latency.high_percentiles().find(is_of_few)?;
    let tail = latency.tail(quantile)?;
    let place = format!("{name} {}, {}", percentile(quantile), duration(value_ns as f64));
    Some((format!("messages as slow as the {place}, were answered in {}", moments(tail)), tail))
}

/// "1 tenth of a second", "12 tenths of a second, all within 2 seconds".
fn moments(tail: &Tail) -> String {
    let plural =
        |number: u64, one: &str, many: &str| format!("{} {}", count(number), if number == 1 { one } else { many });
    let tenths = plural(tail.tenths, "tenth of a second", "tenths of a second");
    match tail.tenths {
        0 | 1 => tenths,
        _ => format!("{tenths}, all within {}", plural(tail.seconds, "second", "different seconds")),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/delay.rs"]
mod tests;
