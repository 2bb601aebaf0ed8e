//! The names of metrics, as thresholds and `sweep.until` write them.

use super::suggestion::{closest, list};
use super::units::UnitError;
use super::{LatencyKind, LatencyStatistic, Metric};

const METRICS: [(&str, Metric); 13] = [
    ("messages_per_second", Metric::MessagesPerSecond),
    ("payload_bytes_per_second", Metric::PayloadBytesPerSecond),
    ("consumed_per_second", Metric::ConsumedPerSecond),
    ("written_per_second", Metric::WrittenPerSecond),
    ("consumer_lag", Metric::ConsumerLag),
    ("failed", Metric::Failed),
    ("unresolved", Metric::Unresolved),
    ("lost", Metric::Lost),
    ("unread", Metric::Unread),
    ("duplicated", Metric::Duplicated),
    ("reordered", Metric::Reordered),
    ("corrupt", Metric::Corrupt),
    ("cpu_per_message", Metric::CpuPerMessage),
];

const LATENCIES: [(&str, LatencyKind); 4] = [
    ("response", LatencyKind::Response),
    ("service", LatencyKind::Service),
    ("schedule_delay", LatencyKind::ScheduleDelay),
    ("end_to_end", LatencyKind::EndToEnd),
];

/// The metric of this name.
///
/// # Errors
/// When there is no such metric, or its percentile is impossible.
pub(super) fn metric(name: &str) -> Result<Metric, UnitError> {
    if let Some((_, metric)) = METRICS.iter().find(|(known, _)| *known == name) {
        return Ok(*metric);
    }
    let (kind, statistic) = match name.split_once('.') {
        Some((prefix, rest)) if LATENCIES.iter().any(|(known, _)| *known == prefix) => {
            let kind = LATENCIES.iter().find(|(known, _)| *known == prefix).map(|(_, kind)| *kind);
            (kind.unwrap_or(LatencyKind::Headline), rest)
        }
        _ => (LatencyKind::Headline, name),
    };
    statistic_of(statistic, name)?.map(|statistic| Metric::Latency(kind, statistic)).ok_or_else(|| unknown(name))
}

/// `p99`, `p99.9` (`p99_9` as in a record), `mean` or `max`; `None` if it is something else.
fn statistic_of(text: &str, name: &str) -> Result<Option<LatencyStatistic>, UnitError> {
    match text {
        "mean" => return Ok(Some(LatencyStatistic::Mean)),
        "max" => return Ok(Some(LatencyStatistic::Max)),
        _ => {}
    }
    let Some(percent) = text.strip_prefix('p').and_then(|number| number.replacen('_', ".", 1).parse::<f64>().ok())
    else {
        return Ok(None);
    };
    if percent > 0.0 && percent <= 100.0 {
        return Ok(Some(LatencyStatistic::Quantile(percent / 100.0)));
    }
    Err(UnitError {
        message: format!("unknown percentile `{name}`"),
        advice: "percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`".to_owned(),
    })
}

fn unknown(name: &str) -> UnitError {
    let names = || METRICS.iter().map(|(name, _)| *name);
    let prefix = name.split('.').next().unwrap_or_default();
    let kinds = || LATENCIES.iter().map(|(name, _)| *name);
    let advice = match (closest(name, names()), closest(prefix, kinds())) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(near)) => format!("did you mean `{near}.p99`? Any percentile, `mean` and `max` are possible"),
        (None, None) => {
            format!(
                "latencies are p99 and other percentiles, `mean` and `max`, alone or after {} with a dot; other metrics are {}",
                list(kinds()),
                list(names())
            )
        }
    };
    UnitError { message: format!("unknown metric `{name}`"), advice }
}
