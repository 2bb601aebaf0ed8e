//! What limited the throughput, as far as the evidence shows.
//!
//! The first limit that applies is reported, in this order: a schedule that was kept without a long stop; a broker that refuses many requests
//! because of a quota; a client or a machine without CPU, which also explains a few refusals; a condition that the client saw hold messages
//! up; a full queue, full connections or a full window; other programs
//! that kept tasks waiting for a core; a stop of the acknowledgements; then answers that are late for another reason.

use super::{Evidence, limits, pace, resources};
use crate::measure::FailureClass;
use crate::record::readable::{bytes, capital, count, duration, percent, rate};
use crate::record::{BrokerUsage, Condition, LimitedBy, Limiter, Outage, Record, Status, saturating_sum};
use crate::statistics::mean;

pub(super) fn limited_by(evidence: &Evidence<'_>) -> LimitedBy {
    let (limiter, mut sentence) = limit(evidence);
    // Where the client or the schedule is the limit, the broker is not.
    let is_of_interest = matches!(limiter, Limiter::Machine | Limiter::Broker | Limiter::Window | Limiter::Unknown);
    let used = evidence.record.broker_usage.as_ref().filter(|_| is_of_interest).and_then(BrokerUsage::cores);
    if let Some(used) = used {
        sentence += &format!(" The broker's processes used {used}.");
    }
    if let Some(throttled) = throttled_fetches(evidence) {
        sentence += &format!(" {throttled}");
    }
    LimitedBy { limiter, evidence: sentence }
}

fn limit(evidence: &Evidence<'_>) -> (Limiter, String) {
    // Without producers, or when it fell behind them, the pipeline is what was measured.
    let alone = evidence.record.pipeline.as_ref().filter(|pipeline| {
        evidence.record.status != Status::Failed
            && pipeline.consumed > 0
            && pipeline.consumer_kept_up.is_none_or(|kept_up| !kept_up.held)
    });
    if let Some(pipeline) = alone {
        let stage = pipeline.bottleneck.stage.as_deref();
        let lead = stage.map(|stage| format!("The pipeline's stage `{stage}`. ")).unwrap_or_default();
        return (Limiter::Pipeline, lead + &pipeline.bottleneck.evidence);
    }
    if evidence.record.status == Status::Failed || evidence.record.counts.acknowledged == 0 {
        let unmeasured = (Limiter::Unknown, "No message was measured.".to_owned());
        return held_up(evidence).filter(|_| evidence.record.status != Status::Failed).unwrap_or(unmeasured);
    }
    let missed = pace::rate_missed(evidence).is_some();
    let behind = is_behind(evidence);
    let (stopped, held_up) = (stopped(evidence), held_up(evidence));
    // A client or a machine without CPU slows acknowledgements down, and stops none for so long.
    if let (Some(_), Some(held_up)) = (&stopped, &held_up) {
        return held_up.clone();
    }
    if let (false, false, Some(target)) = (missed, behind, evidence.record.throughput.target_per_second) {
        let sent = rate(evidence.record.throughput.sent_per_second);
        let held = format!("The schedule asked for {} messages/s, and {sent}/s were sent in time.", rate(target));
        return stopped.unwrap_or((Limiter::Schedule, held));
    }
    cpu_or_quota(evidence).or(held_up).unwrap_or_else(|| match queue_or_window(evidence, missed || behind) {
        (Limiter::Unknown, sentence) => {
            let others = resources::others_are_the_limit(evidence).filter(|_| missed);
            let others = others.map(|sentence| (Limiter::Machine, sentence));
            others.or(stopped).unwrap_or((Limiter::Unknown, sentence))
        }
        found => found,
    })
}

/// The condition that held messages up for the largest part of the window, if that is a good part of it.
fn held_up(evidence: &Evidence<'_>) -> Option<(Limiter, String)> {
    let longest = evidence
        .record
        .conditions
        .iter()
        .filter(|condition| condition.holds_producers_up())
        .max_by_key(|condition| condition.in_window_ns)?;
    let window_ns = evidence.record.throughput.window_ns;
    if longest.in_window_ns == 0 || (longest.in_window_ns as f64) < limits::STOPPED_SHARE * window_ns as f64 {
        return None;
    }
    let Condition { in_window_ns, words, .. } = longest;
    let words =
        if words.is_empty() { String::new() } else { format!(" The broker said: {}.", words.trim_end_matches('.')) };
    let sentence = format!(
        "{}, for {} of the {} that were measured.{words}",
        capital(&longest.told()),
        duration(*in_window_ns as f64),
        duration(window_ns as f64)
    );
    Some((Limiter::Broker, sentence))
}

/// That nothing was acknowledged for a good part of the window, although messages were due: a rate that is caught up with afterwards was not
/// held. What the load generator's own pauses explain, and what of an outage lies in the warm-up or the drain, is left out.
fn stopped(evidence: &Evidence<'_>) -> Option<(Limiter, String)> {
    let in_window = |outage: &&Outage| !outage.caused_by_client && outage.in_window_ns > 0;
    let outages = || evidence.record.outages.iter().filter(in_window);
    let stopped_ns = saturating_sum(outages().map(|outage| outage.in_window_ns));
    let window_ns = evidence.record.throughput.window_ns;
    if stopped_ns == 0 || (stopped_ns as f64) < limits::STOPPED_SHARE * window_ns as f64 {
        return None;
    }
    let first = outages().min_by_key(|outage| outage.begin_ns)?;
    let sentence = format!(
        "No message was acknowledged for {} of the {} that were measured. That began {}: the broker stopped, or could not be reached. The client reported no cause.",
        duration(stopped_ns as f64),
        duration(window_ns as f64),
        first.when()
    );
    Some((Limiter::Broker, sentence))
}

/// Whether answers did not come inside the window at the rate of the schedule.
fn is_behind(evidence: &Evidence<'_>) -> bool {
    is_below_target(evidence, evidence.record.throughput.messages_per_second)
}

fn is_below_target(evidence: &Evidence<'_>, per_second: f64) -> bool {
    let wanted = evidence.record.target_without_aborted().map(|target| target * limits::MIN_ANSWERED_SHARE);
    wanted.is_some_and(|wanted| per_second < wanted)
}

/// A client or a machine without CPU, or a quota of the broker.
fn cpu_or_quota(evidence: &Evidence<'_>) -> Option<(Limiter, String)> {
    let client = resources::client_is_the_limit(evidence).map(|busy| (Limiter::Client, busy));
    let busy = client.or_else(|| resources::machine_is_the_limit(evidence).map(|busy| (Limiter::Machine, busy)));
    match (quota(evidence), busy) {
        (Some((_, refused)), None) => Some((Limiter::Broker, refused)),
        (Some((share, refused)), Some((_, busy))) if share >= limits::QUOTA_REFUSAL_SHARE_OF_A_BUSY_CLIENT => {
            Some((Limiter::Broker, format!("{refused} Also: {busy}")))
        }
        (Some((_, refused)), Some((limiter, busy))) => Some((limiter, format!("{busy} Also: {refused}"))),
        (None, busy) => busy,
    }
}

/// A full queue or a full window, while the client has CPU left. `missed`: an open loop did not hold its rate, or answers did not.
fn queue_or_window(evidence: &Evidence<'_>, missed: bool) -> (Limiter, String) {
    let others =
        resources::cores_of_others(evidence).map(|cores| format!(" and other programs {cores:.2} of the machine's"));
    let idle = format!("the client used {}{}", evidence.record.client.cores(), others.unwrap_or_default());
    let waiting = queue_full_share(evidence);
    if waiting >= limits::QUEUE_FULL_SHARE {
        let sentence = format!(
            "Producers waited for the full queue of the client for {} of their time, while {idle}.",
            percent(waiting)
        );
        return (Limiter::Broker, sentence);
    }
    if let Some(full) =
        evidence.record.client.connections_full_share.filter(|full| *full >= limits::FULL_CONNECTIONS_SHARE)
    {
        let sentence = format!(
            "For {} of the time, the connections had as many requests without a response as they may have, or the broker did not read, while more messages were ready to be sent and {idle}. A broker may serve the requests of a connection one after the other: more `broker.connections`, of which each needs a producer, or a larger `max_in_flight` may carry more.",
            percent(full)
        );
        return (Limiter::Broker, sentence);
    }
    if let Some(in_flight) =
        InFlight::from_evidence(evidence).filter(|in_flight| in_flight.share >= limits::FULL_WINDOW_SHARE)
    {
        let service = evidence.record.latency.service.as_ref().map_or(0, |service| service.p50_ns);
        let window = format!(
            "On average, {} of the {} messages that may be in flight were in flight ({}; {}), and half of the answers took {} or longer, while {idle}",
            count(in_flight.messages.round() as u64),
            count(evidence.shape.window),
            percent(in_flight.share),
            in_flight.sources,
            duration(service as f64),
        );
        let behind = if missed {
            "the schedule had to wait for answers: either they take long, and a larger `producers.in_flight` carries more, or the broker carries no more, and a larger window only makes answers slower"
        } else {
            "a larger `producers.in_flight` may carry more"
        };
        return (Limiter::Window, format!("{window}: {behind}."));
    }
    if pace::rate_missed(evidence).is_none() && is_behind(evidence) {
        return (Limiter::Broker, answers_are_behind(evidence, &idle));
    }
    let late = match evidence.record.throughput.target_per_second {
        Some(target)
            if pace::rate_missed(evidence).is_some()
                && evidence.record.throughput.sent_per_second >= target * limits::MIN_RATE_SHARE =>
        {
            " The wanted rate was sent, but not in time.".to_owned()
        }
        _ => String::new(),
    };
    (Limiter::Unknown, format!("Neither the window, nor the queue of the client, nor its CPU was full: {idle}.{late}"))
}

/// Of messages that were sent in time by a client with CPU left: they failed, or their answers are what was late.
fn answers_are_behind(evidence: &Evidence<'_>, idle: &str) -> String {
    let Record { throughput, counts, errors, .. } = evidence.record;
    let (sent, answered) = (rate(throughput.sent_per_second), rate(throughput.messages_per_second));
    let failed = counts.failed.saturating_sub(evidence.record.aborted_on_purpose());
    let failed_per_second = failed as f64 * 1e9 / throughput.window_ns as f64;
    let on_their_own = errors.iter().filter(|error| error.class != FailureClass::Aborted);
    let most = on_their_own.max_by_key(|error| error.count);
    match most.filter(|_| !is_below_target(evidence, throughput.messages_per_second + failed_per_second)) {
        Some(most) => format!(
            "{sent}/s were sent in time, and {answered}/s were acknowledged inside the window: {} of {} messages failed, most of them with: {}.",
            count(failed),
            count(counts.attempted),
            most.first_message.trim_end_matches('.')
        ),
        None => format!(
            "{sent}/s were sent in time, and {answered}/s were answered inside the window, while {idle} and neither its window nor its queue was full: answers take long, or the broker falls behind."
        ),
    }
}

/// The share of requests that a quota refused and the sentence on it; `None` where few were refused.
fn quota(evidence: &Evidence<'_>) -> Option<(f64, String)> {
    let wire = evidence.record.wire.filter(|wire| wire.requests > 0)?;
    let share = wire.quota_refusals as f64 / wire.requests as f64;
    (share >= limits::QUOTA_REFUSAL_SHARE).then(|| {
        let sentence = format!(
            "The broker refused {} of {} requests ({}) because its quota was used up: it took {}/s of what was sent, {}/s before compression and encoding.",
            count(wire.quota_refusals),
            count(wire.requests),
            percent(share),
            bytes(wire.sent_bytes_per_second),
            bytes(wire.raw_bytes_per_second),
        );
        (share, sentence)
    })
}

/// The sentence on consumers that a quota delays, beside what limits the throughput; `None` where few fetches were delayed.
fn throttled_fetches(evidence: &Evidence<'_>) -> Option<String> {
    let wire = evidence.record.wire.filter(|wire| wire.fetches > 0)?;
    let share = wire.throttled_fetches as f64 / wire.fetches as f64;
    (share >= limits::QUOTA_REFUSAL_SHARE).then(|| {
        format!(
            "The broker delayed {} of {} fetches ({}) because the quota of the consumers was used up: it may be what limits them.",
            count(wire.throttled_fetches),
            count(wire.fetches),
            percent(share),
        )
    })
}

/// Share of their time that producers waited for the full queue of the client.
fn queue_full_share(evidence: &Evidence<'_>) -> f64 {
    let all = evidence.record.throughput.window_ns as f64 * evidence.shape.producers as f64;
    if all > 0.0 { (evidence.record.client.queue_full_ns as f64 / all).min(1.0) } else { 0.0 }
}

/// Messages in flight on average.
struct InFlight {
    messages: f64,
    /// Their share of the window.
    share: f64,
    /// What was found in both ways.
    sources: String,
}

impl InFlight {
    /// By Little's law, which counts every acknowledged message for as long as it was in flight. The counts at the rows' ends
    /// are few, and a load that pulses with the clock is always met in the same state; but they see messages that were never
    /// acknowledged too, so they are believed where such are many.
    fn from_evidence(evidence: &Evidence<'_>) -> Option<Self> {
        if evidence.shape.window == 0 {
            return None;
        }
        let seconds: Vec<f64> = evidence.measured_rows().map(|row| row.in_flight as f64).collect();
        let counted = (!seconds.is_empty()).then(|| mean(&seconds));
        let service = evidence.record.latency.service.as_ref();
        let by_law = service.map(|service| evidence.record.throughput.in_flight(service.mean_ns));
        let counts = evidence.record.counts;
        let missing = counts.without_acknowledgement() as f64
            > limits::MAX_MISSING_SHARE * counts.acknowledged.saturating_add(counts.without_acknowledgement()) as f64;
        let whole = !missing && service.is_some_and(|service| service.beyond_range == 0);
        let messages = if whole { by_law.or(counted) } else { counted.or(by_law) }?;
        let shown =
            |messages: Option<f64>| messages.map_or("unknown".to_owned(), |messages| count(messages.round() as u64));
        Some(InFlight {
            messages,
            share: messages / evidence.shape.window as f64,
            sources: format!("{} by Little's law, {} at the rows' ends", shown(by_law), shown(counted)),
        })
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/limiter.rs"]
mod tests;
