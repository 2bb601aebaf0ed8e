//! The requirements of a scenario: metric, comparison and value, and the names of metrics, which `sweep.until` has as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::suggestion::{closest, list};
use super::units::{self, UnitError};

/// `p99 < 10ms`, `messages_per_second > 50k`, `lost = 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As written.
    pub text: String,
    pub metric: Metric,
    pub comparison: Comparison,
    /// In the metric's unit: nanoseconds, messages per second, bytes per second, or a count.
    pub value: f64,
}

/// What a record that is not valid does to a run with thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenInvalid {
    /// The run exits as if a threshold had been missed: figures that cannot be trusted hold nothing.
    #[default]
    Fail,
    /// The thresholds alone decide.
    Ignore,
}

/// What a threshold may be about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// A quantile (0 to 1) of a latency, or its mean or maximum, in nanoseconds.
    Latency(LatencyKind, LatencyStatistic),
    MessagesPerSecond,
    PayloadBytesPerSecond,
    ConsumedPerSecond,
    /// Of the slowest of a pipeline's sinks.
    WrittenPerSecond,
    /// Messages that a pipeline was behind when it ended.
    ConsumerLag,
    Failed,
    Unresolved,
    Lost,
    Unread,
    Duplicated,
    Reordered,
    Corrupt,
    /// CPU of this process per acknowledged message, in nanoseconds.
    CpuPerMessage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKind {
    /// The headline: response time in an open loop, service time in a closed one.
    Headline,
    Response,
    Service,
    ScheduleDelay,
    EndToEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyStatistic {
    Quantile(f64),
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

const ADVICE: &str = "write `metric comparison value`, as in \"p99 < 10ms\" or \"messages_per_second > 50k\"";

/// Two-character signs first, so that `<=` is not read as `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl Threshold {
    /// Reads a requirement.
    ///
    /// # Errors
    /// When it compares nothing, or what it compares cannot be.
    pub(super) fn parse(text: &str) -> Result<Self, UnitError> {
        let error = |message: String, advice: &str| UnitError { message, advice: advice.to_owned() };
        let (position, sign, comparison) = COMPARISONS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(position, sign, _)| (*position, 2 - sign.len()))
            .ok_or_else(|| error(format!("\"{text}\" compares nothing"), ADVICE))?;
        let (name, value) = (text[..position].trim(), text[position + sign.len()..].trim());
        let metric = metric(name)?;
        let value = match metric {
            Metric::Latency(..) | Metric::CpuPerMessage => units::parse_duration(value)?.as_nanos() as f64,
            Metric::PayloadBytesPerSecond => units::parse_size(value.strip_suffix("/s").unwrap_or(value))? as f64,
            Metric::MessagesPerSecond | Metric::ConsumedPerSecond | Metric::WrittenPerSecond => {
                units::parse_count(value.strip_suffix("/s").unwrap_or(value))? as f64
            }
            _ => units::parse_count(value)? as f64,
        };
        Ok(Threshold { text: text.to_owned(), metric, comparison, value })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Metric, Comparison, f64) {
        let threshold = Threshold::parse(text).unwrap();
        (threshold.metric, threshold.comparison, threshold.value)
    }

    #[test]
    fn what_people_write() {
        use LatencyKind::{EndToEnd, Headline, Service};
        let quantile = |kind, share| Metric::Latency(kind, LatencyStatistic::Quantile(share));
        assert_eq!(parsed("p99 < 10ms"), (quantile(Headline, 0.99), Comparison::Less, 1e7));
        assert_eq!(parsed("messages_per_second > 50k"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
        assert_eq!(parsed("messages_per_second>50k/s"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
        assert_eq!(parsed("lost = 0"), (Metric::Lost, Comparison::Equal, 0.0));
        assert_eq!(parsed("lost == 0"), (Metric::Lost, Comparison::Equal, 0.0));
        assert_eq!(parsed("end_to_end.p50 <= 50ms"), (quantile(EndToEnd, 0.5), Comparison::LessOrEqual, 5e7));
        assert_eq!(parsed("p100>=1us"), (quantile(Headline, 1.0), Comparison::GreaterOrEqual, 1e3));
        let max = Metric::Latency(Service, LatencyStatistic::Max);
        assert_eq!(parsed("service.max < 1s"), (max, Comparison::Less, 1e9));
        assert_eq!(parsed("payload_bytes_per_second > 10MiB/s").2, 10_485_760.0);
    }

    #[test]
    fn what_is_refused_and_why() {
        let refusals = [
            "p99",
            "p101 < 1ms",
            "p0 < 1ms",
            "p99 < 10",
            "p99 < 10 parsecs",
            "messages_per_secnd > 5",
            "end_too_end.p99 < 1s",
            "speed > 5",
            "lost < many",
        ]
        .map(|text| Threshold::parse(text).unwrap_err().to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r##"
        "p99" compares nothing: write `metric comparison value`, as in "p99 < 10ms" or "messages_per_second > 50k"
        unknown percentile `p101`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
        unknown percentile `p0`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
        "10" is not a duration: the unit is missing: write a number and one of ns, us, ms, s, min, h, as in "30s"
        "10 parsecs" is not a duration: unknown unit `parsecs`: write a number and one of ns, us, ms, s, min, h, as in "30s"
        unknown metric `messages_per_secnd`: did you mean `messages_per_second`?
        unknown metric `end_too_end.p99`: did you mean `end_to_end.p99`? Any percentile, `mean` and `max` are possible
        unknown metric `speed`: latencies are p99 and other percentiles, `mean` and `max`, alone or after `response`, `service`, `schedule_delay` and `end_to_end` with a dot; other metrics are `messages_per_second`, `payload_bytes_per_second`, `consumed_per_second`, `written_per_second`, `consumer_lag`, `failed`, `unresolved`, `lost`, `unread`, `duplicated`, `reordered`, `corrupt` and `cpu_per_message`
        "many" is not a count: it does not begin with a number: write a whole number, or a number with k, M or G, as in "20M"
        "##);
    }
}
