//! What limited the throughput, as far as the evidence shows.
//!
//! The first limit that applies is reported, in this order: a schedule that was kept; a broker that refuses many requests
//! because of a quota; a client or a machine without CPU, which also explains a few refusals; a full queue, full connections or a full
//! window; then answers that are late for another reason.

use super::{Evidence, limits, pace, resources};
use crate::record::readable::{bytes, count, duration, percent, rate};
use crate::record::{BrokerUsage, LimitedBy, Limiter, Status};

pub(super) fn limited_by(evidence: &Evidence<'_>) -> LimitedBy {
    let (limiter, mut sentence) = limit(evidence);
    // Where the client or the schedule is the limit, the broker is not.
    let is_of_interest = matches!(limiter, Limiter::Machine | Limiter::Broker | Limiter::Window | Limiter::Unknown);
    let used = evidence.broker_usage.filter(|_| is_of_interest).and_then(BrokerUsage::cores);
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
    let alone = evidence.pipeline.filter(|pipeline| {
        evidence.status != Status::Failed
            && pipeline.consumed > 0
            && pipeline.consumer_kept_up.is_none_or(|kept_up| !kept_up.held)
    });
    if let Some(pipeline) = alone {
        let stage = pipeline.bottleneck.stage.as_deref();
        let lead = stage.map(|stage| format!("The pipeline's stage `{stage}`. ")).unwrap_or_default();
        return (Limiter::Pipeline, lead + &pipeline.bottleneck.evidence);
    }
    if evidence.status == Status::Failed || evidence.counts.acknowledged == 0 {
        return (Limiter::Unknown, "No message was measured.".to_owned());
    }
    let missed = pace::rate_missed(evidence).is_some();
    let behind = is_behind(evidence);
    if let (false, false, Some(target)) = (missed, behind, evidence.throughput.target_per_second) {
        let sent = rate(evidence.throughput.sent_per_second);
        return (
            Limiter::Schedule,
            format!("The schedule asked for {} messages/s, and {sent}/s were sent in time.", rate(target)),
        );
    }
    cpu_or_quota(evidence).unwrap_or_else(|| queue_or_window(evidence, missed || behind))
}

/// Whether answers did not come inside the window at the rate of the schedule.
fn is_behind(evidence: &Evidence<'_>) -> bool {
    let throughput = evidence.throughput;
    let wanted = throughput.target_per_second.map(|target| target * limits::MIN_ANSWERED_SHARE);
    wanted.is_some_and(|wanted| throughput.messages_per_second < wanted)
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
    let idle = format!("the client used {}{}", evidence.client.cores(), others.unwrap_or_default());
    let waiting = queue_full_share(evidence);
    if waiting >= limits::QUEUE_FULL_SHARE {
        let sentence = format!(
            "Producers waited for the full queue of the client for {} of their time, while {idle}.",
            percent(waiting)
        );
        return (Limiter::Broker, sentence);
    }
    if let Some(full) = evidence.client.connections_full_share.filter(|full| *full >= limits::FULL_CONNECTIONS_SHARE) {
        let sentence = format!(
            "For {} of the time, the connections had as many requests without a response as they may have, or the broker did not read, while more messages were ready to be sent and {idle}. A broker may serve the requests of a connection one after the other: more `broker.connections`, of which each needs a producer, or a larger `max_in_flight` may carry more.",
            percent(full)
        );
        return (Limiter::Broker, sentence);
    }
    if let Some(in_flight) =
        InFlight::from_evidence(evidence).filter(|in_flight| in_flight.share >= limits::FULL_WINDOW_SHARE)
    {
        let service = evidence.latency.service.as_ref().map_or(0, |service| service.p50_ns);
        let window = format!(
            "On average, {} of the {} messages that may be in flight were in flight ({}; {}), and half of the answers took {} or longer, while {idle}",
            count(in_flight.messages.round() as u64),
            count(evidence.window),
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
    let late = match evidence.throughput.target_per_second {
        Some(target)
            if pace::rate_missed(evidence).is_some()
                && evidence.throughput.sent_per_second >= target * limits::MIN_RATE_SHARE =>
        {
            " The wanted rate was sent, but not in time.".to_owned()
        }
        _ => String::new(),
    };
    (Limiter::Unknown, format!("Neither the window, nor the queue of the client, nor its CPU was full: {idle}.{late}"))
}

/// Of messages that were sent in time by a client with CPU left: their answers are what was late.
fn answers_are_behind(evidence: &Evidence<'_>, idle: &str) -> String {
    let throughput = evidence.throughput;
    format!(
        "{}/s were sent in time, and {}/s were answered inside the window, while {idle} and neither its window nor its queue was full: answers take long, or the broker falls behind.",
        rate(throughput.sent_per_second),
        rate(throughput.messages_per_second)
    )
}

/// The share of requests that a quota refused and the sentence on it; `None` where few were refused.
fn quota(evidence: &Evidence<'_>) -> Option<(f64, String)> {
    let wire = evidence.wire.filter(|wire| wire.requests > 0)?;
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

/// The sentence on consumers that a quota delays, beside whatever limits the throughput; `None` where few fetches were delayed.
fn throttled_fetches(evidence: &Evidence<'_>) -> Option<String> {
    let wire = evidence.wire.filter(|wire| wire.fetches > 0)?;
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
    let all = evidence.throughput.window_ns as f64 * evidence.producers as f64;
    if all > 0.0 { (evidence.client.queue_full_ns as f64 / all).min(1.0) } else { 0.0 }
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
        if evidence.window == 0 {
            return None;
        }
        let seconds: Vec<f64> = evidence.measured_rows().map(|row| row.in_flight as f64).collect();
        let counted = (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64);
        let service = evidence.latency.service.as_ref();
        let by_law = service.map(|service| evidence.throughput.in_flight(service.mean_ns));
        let counts = evidence.counts;
        let missing = counts.without_acknowledgement() as f64
            > limits::MAX_MISSING_SHARE * counts.acknowledged.saturating_add(counts.without_acknowledgement()) as f64;
        let whole = !missing && service.is_some_and(|service| service.beyond_range == 0);
        let messages = if whole { by_law.or(counted) } else { counted.or(by_law) }?;
        let shown =
            |messages: Option<f64>| messages.map_or("unknown".to_owned(), |messages| count(messages.round() as u64));
        Some(InFlight {
            messages,
            share: messages / evidence.window as f64,
            sources: format!("{} by Little's law, {} at the rows' ends", shown(by_law), shown(counted)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::LoadShape;
    use super::super::sound::judged;
    use super::*;
    use crate::record::{Counts, LoadModel, Record, SeriesRow};

    fn limiter(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Limiter {
        judged(spoil).limited_by.limiter
    }

    fn closed(record: &mut Record) {
        record.load_model = LoadModel::Closed;
        record.throughput.target_per_second = None;
    }

    #[test]
    fn a_kept_schedule_is_the_limit() {
        assert_eq!(limiter(|_, _, _| {}), Limiter::Schedule);
        assert_ne!(limiter(|record, _, _| record.throughput.sent_per_second = 1.0), Limiter::Schedule);
    }

    #[test]
    fn a_schedule_whose_answers_do_not_come_is_not_the_limit() {
        let answered = |messages_per_second| {
            judged(move |record, _, _| record.throughput.messages_per_second = messages_per_second).limited_by
        };
        assert_eq!(answered(48_000.0).limiter, Limiter::Schedule);
        let behind = answered(40_000.0);
        assert_eq!(behind.limiter, Limiter::Broker);
        assert!(behind.evidence.contains("40,000/s were answered inside the window"), "{}", behind.evidence);
    }

    #[test]
    fn a_rate_that_was_sent_late_is_told_where_no_limit_was_found() {
        let late = |sent_per_second| {
            judged(move |record, _, _| {
                record.latency.schedule_delay.as_mut().unwrap().p99_ns = Some(50_000_000);
                record.throughput.sent_per_second = sent_per_second;
            })
            .limited_by
        };
        assert_eq!(late(50_000.0).limiter, Limiter::Unknown);
        assert!(late(50_000.0).evidence.contains("but not in time"), "{}", late(50_000.0).evidence);
        assert!(!late(40_000.0).evidence.contains("but not in time"), "{}", late(40_000.0).evidence);
    }

    #[test]
    fn a_quota_that_was_used_up_is_named() {
        let found = |quota_refusals, cores_used| {
            judged(move |record, _, _| {
                closed(record);
                record.client.cores_used = cores_used;
                record.wire = Some(crate::record::Wire { requests: 1000, quota_refusals, ..Default::default() });
            })
            .limited_by
        };
        for (quota_refusals, cores_used, limiter, names_quota, names_cores) in [
            (9, 1.0, Limiter::Unknown, false, true),
            (10, 1.0, Limiter::Broker, true, false),
            (9, 4.0, Limiter::Client, false, true),
            (99, 4.0, Limiter::Client, true, true),
            (100, 4.0, Limiter::Broker, true, true),
        ] {
            let found = found(quota_refusals, cores_used);
            assert_eq!(found.limiter, limiter, "{quota_refusals} refused, {cores_used} cores: {}", found.evidence);
            let names = |word| found.evidence.contains(word);
            assert_eq!((names("quota"), names("cores")), (names_quota, names_cores), "{}", found.evidence);
        }
    }

    #[test]
    fn consumer_quota_is_named_and_leaves_the_limit() {
        let found = |throttled_fetches| {
            judged(move |record, _, _| {
                record.wire = Some(crate::record::Wire { fetches: 1000, throttled_fetches, ..Default::default() });
            })
            .limited_by
        };
        for (throttled, is_named) in [(0, false), (9, false), (10, true), (1000, true)] {
            let found = found(throttled);
            assert_eq!(found.evidence.contains("quota of the consumers"), is_named, "{}", found.evidence);
            assert_eq!(found.limiter, Limiter::Schedule);
        }
    }

    #[test]
    fn a_client_without_cpu_is_the_limit_before_all_else() {
        let found = limiter(|record, _, _| {
            closed(record);
            record.client.cores_used = 4.0;
            record.client.queue_full_ns = u64::MAX / 2;
        });
        assert_eq!(found, Limiter::Client);
    }

    /// No thread is full, and so is the window, because the answers of all connections wait for one task.
    #[test]
    fn a_task_that_is_always_busy_is_the_limit_before_a_full_window() {
        let with = |task: f64| {
            judged(move |record, _, _| {
                closed(record);
                hold(record, 4_000.0);
                (record.client.cores_used, record.client.busiest_thread_cores) = (1.2, Some(0.3));
                record.client.busiest_task_cores = Some(task);
                record.client.busiest_task = Some("producer 3".to_owned());
            })
            .limited_by
        };
        assert_eq!(with(0.9).limiter, Limiter::Window);
        let found = with(0.97);
        assert_eq!(found.limiter, Limiter::Client);
        assert!(found.evidence.contains("'producer 3'") && found.evidence.contains("97 %"), "{}", found.evidence);
    }

    /// The usual case: a broker on the same machine.
    #[test]
    fn a_full_machine_is_the_limit_before_broker_queue_and_window() {
        let with = |busy: f64, steal: f64, spoil: fn(&mut Record)| {
            judged(move |record, series, _| {
                record.host_load = Some(crate::record::HostLoad { system_cpu_busy: busy, steal, ..Default::default() });
                record.client.cores_used = 1.3;
                record.client.queue_full_ns = u64::MAX / 2;
                series.iter_mut().for_each(|row| row.in_flight = 4_000);
                spoil(record);
            })
            .limited_by
        };
        let missed = |record: &mut Record| record.throughput.sent_per_second = 1_000.0;
        for spoil in [closed, missed] {
            let found = with(0.97, 0.0, spoil);
            assert_eq!(found.limiter, Limiter::Machine, "{}", found.evidence);
            assert!(found.evidence.contains("97 % busy") && found.evidence.contains("1.30 of 4 cores"), "{found:?}");
            assert_eq!(with(0.95, 0.0, spoil).limiter, Limiter::Machine);
            assert_eq!(with(0.94, 0.0, spoil).limiter, Limiter::Broker);
            assert_eq!(with(0.80, 0.15, spoil).limiter, Limiter::Machine, "withheld cores are not idle");
        }
        assert_eq!(with(0.97, 0.0, |_| {}).limiter, Limiter::Schedule, "what was asked for was sent");
        let client = with(0.97, 0.0, |record| {
            closed(record);
            record.client.cores_used = 3.7;
        });
        assert_eq!(client.limiter, Limiter::Client, "{}", client.evidence);
    }

    #[test]
    fn full_queue_with_an_idle_client_means_the_broker() {
        let with = |share: f64| {
            limiter(move |record, _, _| {
                closed(record);
                record.client.queue_full_ns = (record.throughput.window_ns as f64 * 4.0 * share) as u64 + 1;
            })
        };
        assert_eq!((with(0.1), with(0.099)), (Limiter::Broker, Limiter::Unknown));
    }

    /// A larger window would only wait for the same connections.
    #[test]
    fn full_connections_are_the_broker_before_a_full_window() {
        let with = |share: f64| {
            judged(move |record, _, _| {
                closed(record);
                hold(record, 4_000.0);
                record.client.connections_full_share = Some(share);
            })
            .limited_by
        };
        assert_eq!((with(0.5).limiter, with(0.49).limiter), (Limiter::Broker, Limiter::Window));
        let evidence = with(0.93).evidence;
        assert!(evidence.contains("93 %") && evidence.contains("`broker.connections`"), "{evidence}");
        assert!(!evidence.contains("producers.in_flight"), "{evidence}");
    }

    #[test]
    fn a_full_window_is_the_limit_of_both_kinds_of_load() {
        let with = |in_flight: f64| {
            limiter(move |record, _, _| {
                closed(record);
                hold(record, in_flight);
            })
        };
        assert_eq!((with(2_000.0), with(1_999.0)), (Limiter::Window, Limiter::Unknown));
        let open = judged(|record, _, _| {
            record.throughput.sent_per_second = 1_000.0;
            hold(record, 4_000.0);
        });
        assert_eq!(open.limited_by.limiter, Limiter::Window);
        assert!(open.limited_by.evidence.contains("the schedule had to wait"), "{open:?}");
    }

    /// Lets so many messages be in flight by Little's law.
    fn hold(record: &mut Record, in_flight: f64) {
        let service = record.latency.service.as_mut().unwrap();
        service.mean_ns = in_flight * 1e9 / record.throughput.messages_per_second;
    }

    /// A load that pulses once a second is always met in the same state at the seconds' ends.
    #[test]
    fn littles_law_decides_unless_messages_are_missing() {
        let with = |by_law: f64, counted: u64, failed: u64| {
            judged(move |record, series, _| {
                closed(record);
                hold(record, by_law);
                series.iter_mut().for_each(|row| row.in_flight = counted);
                record.counts.failed = failed;
                record.counts.acknowledged -= failed;
            })
            .limited_by
        };
        let full = with(3_000.0, 10, 0);
        assert_eq!(full.limiter, Limiter::Window);
        assert!(full.evidence.contains("3,000 by Little's law, 10 at the rows' ends"), "{}", full.evidence);
        assert_eq!(with(10.0, 3_000, 0).limiter, Limiter::Unknown);
        assert_eq!(with(10.0, 3_000, 1_000).limiter, Limiter::Window);
    }

    #[test]
    fn broker_processes_are_named_where_they_may_limit() {
        let with = |is_closed: bool| {
            judged(move |record, _, _| {
                if is_closed {
                    closed(record);
                }
                record.broker_usage =
                    Some(BrokerUsage { cores_used: Some(1.9), cores_of_machine: Some(2), ..Default::default() });
            })
            .limited_by
        };
        let unknown = with(true);
        assert!(unknown.evidence.ends_with("The broker's processes used 1.90 of 2 cores."), "{unknown:?}");
        let kept = with(false);
        assert!(kept.limiter == Limiter::Schedule && !kept.evidence.contains("broker's"), "{kept:?}");
    }

    #[test]
    fn without_measured_messages_the_limiter_is_unknown() {
        assert_eq!(limiter(|record, _, _| record.counts = Counts::default()), Limiter::Unknown);
    }
}
