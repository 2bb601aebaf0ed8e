//! Findings from the tails: what the load generator itself added to latencies and outages, and whether a few events made a percentile.

use super::{Evidence, Finding, against, limits, note};
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
    let client = evidence.client;
    let is_open = evidence.load_model == LoadModel::Open;
    let wake_up = client.wake_up_delay.or(client.timer_lateness).filter(|_| is_open).unwrap_or_default();
    let timers = client.timer_lateness.unwrap_or_default();
    let pauses = client.pauses.unwrap_or_default();
    let reported_ns = evidence.headline().and_then(|latency| latency.p99_ns).unwrap_or(0);
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
    let pressure = evidence.host_load.and_then(|load| load.cpu_pressure_share);
    if let Some(pressure) = pressure.filter(|_| paused) {
        found.add(format!("tasks waited for a core for {} of the time", percent(pressure)), false);
    }
    let delay_ns = late.then_some(wake_up.p99_ns).max(paused.then_some(pauses.p99_ns));
    let lead = delay_ns.map(|delay_ns| share_of_headline(evidence, delay_ns, reported_ns));
    if !late && is_much(wake_up.p50_ns, evidence.headline().map_or(0, |latency| latency.p50_ns)) {
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
        "wake-ups made {what} {delay} late or later, of which the timers were late by {timer}: the rest is `load.pacing.wake_interval`"
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
        evidence.load_model.headline(),
        duration(reported_ns as f64)
    )
}

/// The percentiles above p99 that the record states. Where answers came late while a thread of the client was not woken, that is known; else
/// pauses as long as a good part of the latency are worth a note.
fn beyond_p99(evidence: &Evidence<'_>, found: &mut Found) {
    let Some(latency) = evidence.headline() else { return };
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
        return found.add(part, evidence.load_model == LoadModel::Open && quantile <= 0.999);
    }
    let Some((quantile, value_ns)) = beyond().last() else { return };
    let pauses = evidence.client.pauses.unwrap_or_default();
    let pause_ns = if quantile > 0.999 { pauses.p99_99_ns } else { pauses.p99_9_ns };
    if pause_ns > limits::MIN_PAUSE_P99_NS && is_much(pause_ns, value_ns) {
        let name = percentile(quantile);
        found.add(
            format!(
                "the {name} of the pauses of a thread that only sleeps, {}, is {} of the reported {} {name}",
                duration(pause_ns as f64),
                percent((pause_ns as f64 / value_ns as f64).min(1.0)),
                evidence.load_model.headline()
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
    let paused = || evidence.outages.iter().filter(|outage| outage.client_paused_ns > 0);
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
            "{SLEEPER} for {} of the {} without an acknowledgement at {}{more}",
            duration(outage.client_paused_ns as f64),
            duration(outage.longest_gap_ns as f64),
            duration(outage.begin_ns as f64)
        ),
        false,
    );
}

/// High percentiles that another run may not have, for they come from one event or a few. What the client itself made is said as that.
fn few_events(evidence: &Evidence<'_>) -> Option<Finding> {
    // A window that is too short has few seconds anyhow.
    if evidence.throughput.window_ns < limits::MIN_WINDOW_NS {
        return None;
    }
    let headline = evidence.load_model.headline().to_string();
    let latencies = [(headline.as_str(), evidence.headline()), ("end-to-end", evidence.latency.end_to_end.as_ref())];
    let found: Vec<(String, &Tail)> =
        latencies.into_iter().filter_map(|(name, latency)| tail_of_few_events(name, latency?)).collect();
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
mod tests {
    use super::super::sound::{judged, notes, reasons};
    use super::*;
    use crate::record::{Client, LoadModel, Record};

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn own_delay_is_a_reason_beyond_a_fifth_of_the_headline() {
        let with = |change: fn(&mut Client, u64), delay: u64| {
            reasons(move |record, _, _| {
                record.latency.response.as_mut().unwrap().p99_ns = Some(3_000_000);
                change(&mut record.client, delay);
            })
        };
        let wake_up = |client: &mut Client, p99_ns| client.wake_up_delay.as_mut().unwrap().p99_ns = p99_ns;
        let pause = |client: &mut Client, p99_ns| client.pauses.as_mut().unwrap().p99_ns = p99_ns;
        assert_eq!((with(wake_up, 600_000), with(wake_up, 600_001)), (vec![], vec![OwnDelay]));
        assert_eq!((with(pause, 600_000), with(pause, 600_001)), (vec![], vec![OwnDelay]));
        let of_older_builds = |client: &mut Client, p99_ns| {
            client.wake_up_delay = None;
            client.timer_lateness.as_mut().unwrap().p99_ns = p99_ns;
        };
        assert_eq!((with(of_older_builds, 600_000), with(of_older_builds, 600_001)), (vec![], vec![OwnDelay]));
    }

    #[test]
    fn what_the_wake_interval_adds_is_told_apart_from_late_timers() {
        let evidence = |timer_ns: u64| {
            let verdict = judged(move |record, _, _| {
                record.latency.response.as_mut().unwrap().p99_ns = Some(1_000_000);
                record.client.wake_up_delay.as_mut().unwrap().p99_ns = 250_000;
                record.client.timer_lateness.as_mut().unwrap().p99_ns = timer_ns;
            });
            verdict.reasons[0].evidence.clone()
        };
        let chosen = evidence(60_000);
        assert!(chosen.contains("late by 60.0 µs") && chosen.contains("`load.pacing.wake_interval`"), "{chosen}");
        assert!(!evidence(240_000).contains("wake_interval"));
    }

    #[test]
    fn a_median_of_which_the_tool_made_a_fifth_is_a_note() {
        let with = |delay_ns: u64| {
            notes(move |record, _, _| {
                record.latency.response.as_mut().unwrap().p50_ns = 500_000;
                record.client.wake_up_delay.as_mut().unwrap().p50_ns = delay_ns;
            })
        };
        assert_eq!((with(100_000), with(100_001)), (vec![], vec![OwnDelay]));
    }

    #[test]
    fn pauses_are_a_note_on_a_closed_loop_and_long_ones_a_reason() {
        let closed = |record: &mut Record, pause: u64| {
            record.load_model = LoadModel::Closed;
            record.throughput.target_per_second = None;
            record.latency.service.as_mut().unwrap().p99_ns = Some(10_000_000);
            record.client.pauses.as_mut().unwrap().p99_ns = pause;
        };
        assert_eq!(notes(|record, _, _| closed(record, 2_000_000)), []);
        assert_eq!(notes(|record, _, _| closed(record, 2_000_001)), [OwnDelay]);
        assert_eq!(reasons(|record, _, _| closed(record, 10_000_000)), []);
        assert_eq!(reasons(|record, _, _| closed(record, 10_000_001)), [OwnDelay]);
    }

    #[test]
    fn long_pause_is_a_reason_and_a_core_waking_up_is_not() {
        let with = |headline: u64, pause: u64| {
            reasons(move |record, _, _| {
                record.latency.response.as_mut().unwrap().p99_ns = Some(headline);
                (record.client.timer_lateness, record.client.wake_up_delay) = (None, None);
                record.client.pauses.as_mut().unwrap().p99_ns = pause;
            })
        };
        let second = 1_000_000_000;
        assert_eq!((with(second, 10_000_000), with(second, 10_000_001)), (vec![], vec![OwnDelay]));
        assert_eq!((with(2_000, 100_000), with(2_000, 100_001)), (vec![], vec![OwnDelay]));
    }

    /// The response time with a tail, of which so many tenths of a second were the client's.
    fn tail(record: &mut Record, quantile: f64, tenths: u64, seconds: u64, paused: Option<u64>) {
        let response = record.latency.response.as_mut().unwrap();
        response.tails.retain(|tail| tail.percentile != quantile * 100.0);
        response.tails.push(Tail { percentile: quantile * 100.0, tenths, seconds, client_paused_tenths: paused });
        response.p99_99_ns = Some(230 * MILLISECOND);
    }

    #[test]
    fn a_p99_9_that_lies_in_pauses_of_the_client_is_a_reason() {
        let with = |quantile, paused| {
            let verdict = judged(|record, _, _| tail(record, quantile, 4, 3, Some(paused)));
            let kinds = |list: &[crate::record::Reason]| list.iter().map(|reason| reason.kind).collect::<Vec<_>>();
            (kinds(&verdict.reasons), kinds(&verdict.notes))
        };
        assert_eq!(with(0.999, 3), (vec![OwnDelay], vec![]));
        assert_eq!(with(0.999, 2), (vec![], vec![FewEventsInTail]), "not most of it");
        assert_eq!(with(0.9999, 4), (vec![], vec![OwnDelay]));
    }

    #[test]
    fn a_high_percentile_of_few_events_is_a_note() {
        let with = |tenths, seconds| notes(move |record, _, _| tail(record, 0.999, tenths, seconds, Some(0)));
        assert_eq!((with(10, 3), with(9, 3), with(10, 2)), (vec![], vec![FewEventsInTail], vec![FewEventsInTail]));
        let short = reasons(|record, _, _| {
            tail(record, 0.999, 1, 1, Some(0));
            record.throughput.window_ns = 1_000_000_000;
        });
        assert_eq!(short, [TooShort], "which says it already");
        let evidence = |tenths, seconds| {
            judged(move |record, _, _| tail(record, 0.999, tenths, seconds, Some(0))).notes[0].evidence.clone()
        };
        assert!(evidence(1, 1).ends_with("were answered in 1 tenth of a second."), "{}", evidence(1, 1));
        assert!(evidence(12, 2).contains("12 tenths of a second, all within 2 different seconds"));
    }

    #[test]
    fn pauses_are_compared_with_the_highest_percentile() {
        let with = |pause_ns: u64| {
            notes(move |record, _, _| {
                record.latency.response.as_mut().unwrap().p99_99_ns = Some(10 * MILLISECOND);
                record.client.pauses.as_mut().unwrap().p99_99_ns = pause_ns;
            })
        };
        assert_eq!((with(2 * MILLISECOND), with(2 * MILLISECOND + 1)), (vec![], vec![OwnDelay]));
        let verdict = judged(|record, _, _| {
            record.latency.response.as_mut().unwrap().p99_99_ns = Some(10 * MILLISECOND);
            record.client.pauses.as_mut().unwrap().p99_99_ns = 3 * MILLISECOND;
        });
        let text =
            "the p99.99 of the pauses of a thread that only sleeps, 3.00 ms, is 30 % of the reported response p99.99";
        assert!(verdict.notes[0].evidence.contains(text), "{verdict:?}");
    }

    #[test]
    fn an_outage_in_which_the_client_stood_still_is_a_note() {
        let outage = |client_paused_ms: u64, caused_by_client| Outage {
            begin_ns: 13_300 * MILLISECOND,
            longest_gap_ns: 258 * MILLISECOND,
            first_acknowledgement_ns: Some(258 * MILLISECOND),
            recovered_ns: Some(258 * MILLISECOND),
            expected_per_second: 2_000.0,
            client_paused_ns: client_paused_ms * MILLISECOND,
            caused_by_client,
        };
        let verdict = |outages: &[Outage]| judged(|record, _, _| record.outages = outages.to_vec());
        assert!(verdict(&[outage(0, false)]).notes.is_empty());
        let found = verdict(&[outage(227, true), outage(0, false)]);
        assert_eq!(found.notes[0].kind, OwnDelay);
        assert!(
            found.notes[0]
                .evidence
                .contains("was not woken for 227 ms of the 258 ms without an acknowledgement at 13.3 s"),
            "{}",
            found.notes[0].evidence
        );
        let two = verdict(&[outage(227, true), outage(226, true), outage(250, false)]);
        assert!(
            two.notes[0].evidence.contains("227 ms of the 258 ms") && two.notes[0].evidence.contains("in 1 more"),
            "{two:?}"
        );
    }
}
