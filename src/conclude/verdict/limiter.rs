//! What kept the throughput from being higher, as far as the evidence goes.
//!
//! The order of the questions matters: a schedule that was kept was the limit whatever else was near its own; a broker that
//! refuses a good part of what it is sent says itself that it is the limit; and a client without CPU explains everything
//! behind it, a few refusals included.

use super::{Evidence, limits, pace, resources};
use crate::record::readable::{bytes, count, duration, percent, rate};
use crate::record::{LimitedBy, Limiter, Status};

pub(super) fn limited_by(evidence: &Evidence<'_>) -> LimitedBy {
    let (limiter, evidence) = limit(evidence);
    LimitedBy { limiter, evidence }
}

fn limit(evidence: &Evidence<'_>) -> (Limiter, String) {
    // Where nobody sent meanwhile, or more than it could take, the pipeline is what was measured.
    let alone = evidence.pipeline.filter(|pipeline| {
        evidence.status != Status::Failed
            && pipeline.consumed > 0
            && pipeline.consumer_kept_up.is_none_or(|kept_up| !kept_up.held)
    });
    if let Some(pipeline) = alone {
        let stage = pipeline.bound_by.stage.as_deref();
        let lead = stage.map(|stage| format!("The pipeline's stage `{stage}`. ")).unwrap_or_default();
        return (Limiter::Pipeline, lead + &pipeline.bound_by.evidence);
    }
    if evidence.status == Status::Failed || evidence.counts.acknowledged == 0 {
        return (Limiter::Unknown, "No message was measured.".to_owned());
    }
    let missed = pace::rate_missed(evidence).is_some();
    if let (false, Some(target)) = (missed, evidence.throughput.target_per_second) {
        let sent = rate(evidence.throughput.sent_per_second);
        return (
            Limiter::Schedule,
            format!("The schedule wanted {} messages/s, and {sent}/s were sent in time.", rate(target)),
        );
    }
    match (quota(evidence), resources::client_is_the_limit(evidence)) {
        (Some((_, refused)), None) => return (Limiter::Broker, refused),
        (Some((share, refused)), Some(busy)) if share >= limits::QUOTA_REFUSAL_SHARE_OF_A_BUSY_CLIENT => {
            return (Limiter::Broker, format!("{refused} Beside that, too: {busy}"));
        }
        (Some((_, refused)), Some(busy)) => return (Limiter::Client, format!("{busy} Beside that, too: {refused}")),
        (None, Some(busy)) => return (Limiter::Client, busy),
        (None, None) => {}
    }
    let idle = format!("the client used {}", evidence.client.cores());
    let waiting = queue_full_share(evidence);
    if waiting >= limits::QUEUE_FULL_SHARE {
        let sentence = format!(
            "Producers waited {} of their time for room in the client's queue, while {idle}.",
            percent(waiting)
        );
        return (Limiter::Broker, sentence);
    }
    if let Some((in_flight, share)) = in_flight(evidence).filter(|(_, share)| *share >= limits::FULL_WINDOW_SHARE) {
        let service = evidence.latency.service.as_ref().map_or(0, |service| service.p50_ns);
        let window = format!(
            "{} of the {} messages that may be in flight were, on average ({}), and half of the answers took {} or longer, while {idle}",
            count(in_flight.round() as u64),
            count(evidence.window),
            percent(share),
            duration(service as f64),
        );
        return match missed {
            true => (Limiter::Broker, format!("{window}: answers did not come at the schedule's rate.")),
            false => (Limiter::Window, format!("{window}: a larger `producers.in_flight` may carry more.")),
        };
    }
    (Limiter::Unknown, format!("Neither the window, the client's queue nor its CPU was full: {idle}."))
}

/// A broker that says it takes no more is believed, if it said so often enough to matter.
/// The share of the requests that it refused comes with the sentence.
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

/// Share of all producers' time that they were kept waiting for the client's queue.
fn queue_full_share(evidence: &Evidence<'_>) -> f64 {
    let all = evidence.throughput.window_ns as f64 * evidence.producers as f64;
    if all > 0.0 { (evidence.client.queue_full_ns as f64 / all).min(1.0) } else { 0.0 }
}

/// Messages in flight on average over the measured seconds, and as a share of the window.
fn in_flight(evidence: &Evidence<'_>) -> Option<(f64, f64)> {
    let seconds: Vec<f64> = evidence.measured_rows().map(|row| row.in_flight as f64).collect();
    if seconds.is_empty() || evidence.window == 0 {
        return None;
    }
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    Some((mean, mean / evidence.window as f64))
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
    fn a_quota_that_was_used_up_is_named() {
        let found = |quota_refusals, cores_used| {
            judged(move |record, _, _| {
                closed(record);
                record.client.cores_used = cores_used;
                record.wire = Some(crate::record::Wire { requests: 1000, quota_refusals, ..Default::default() });
            })
            .limited_by
        };
        for (quota_refusals, cores_used, limiter, says_quota, says_cores) in [
            (9, 1.0, Limiter::Unknown, false, true),
            (10, 1.0, Limiter::Broker, true, false),
            (9, 4.0, Limiter::Client, false, true),
            (99, 4.0, Limiter::Client, true, true),
            (100, 4.0, Limiter::Broker, true, true),
        ] {
            let found = found(quota_refusals, cores_used);
            assert_eq!(found.limiter, limiter, "{quota_refusals} refused, {cores_used} cores: {}", found.evidence);
            let says = |word| found.evidence.contains(word);
            assert_eq!((says("quota"), says("cores")), (says_quota, says_cores), "{}", found.evidence);
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

    #[test]
    fn a_full_queue_with_an_idle_client_is_the_broker_at_its_boundary() {
        let with = |share: f64| {
            limiter(move |record, _, _| {
                closed(record);
                record.client.queue_full_ns = (record.throughput.window_ns as f64 * 4.0 * share) as u64 + 1;
            })
        };
        assert_eq!((with(0.1), with(0.099)), (Limiter::Broker, Limiter::Unknown));
    }

    #[test]
    fn a_full_window_is_the_limit_of_a_closed_loop_and_the_broker_s_of_an_open_one() {
        let with = |in_flight: u64| {
            limiter(move |record, series, _| {
                closed(record);
                series.iter_mut().for_each(|row| row.in_flight = in_flight);
            })
        };
        assert_eq!((with(2_000), with(1_999)), (Limiter::Window, Limiter::Unknown));
        let open = limiter(|record, series, _| {
            record.throughput.sent_per_second = 1_000.0;
            series.iter_mut().for_each(|row| row.in_flight = 4_000);
        });
        assert_eq!(open, Limiter::Broker);
    }

    #[test]
    fn nothing_measured_tells_nothing() {
        assert_eq!(limiter(|record, _, _| record.counts = Counts::default()), Limiter::Unknown);
    }
}
