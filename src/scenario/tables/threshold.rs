//! What a scenario asks of metrics: requirements (`p99 < 10ms`), and how well a figure has to be known (`p99 ± 5 %`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units;
use crate::measure::ConditionKind;
use crate::scenario::advice::{closest, list};
use crate::scenario::problem::Refusal;

/// `p99 < 10ms`, `messages_per_second > 50k`, `lost = 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As written.
    pub text: String,
    /// The group of consumers that it is about, by its name; `None`: the whole trial.
    pub group: Option<String>,
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
    /// Messages that a group had not received when the load ended.
    Lag,
    /// How long it took the group from then on to receive them, in nanoseconds.
    CatchUp,
    Failed,
    Unresolved,
    Lost,
    Unread,
    Removed,
    Duplicated,
    Reordered,
    Corrupt,
    /// How long this held messages up inside the measured window, in nanoseconds.
    Condition(ConditionKind),
    /// CPU of this process per acknowledged message, in nanoseconds.
    CpuPerMessage,
    /// The longest time without an acknowledgement in an outage, in nanoseconds.
    Outage,
    /// The longest time until the rate was held again after an outage, or after the fault that caused it, in nanoseconds.
    Recovery,
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
    pub(in crate::scenario) fn parse(text: &str) -> Result<Self, Refusal> {
        let (position, sign, comparison) = COMPARISONS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(position, sign, _)| (*position, 2 - sign.len()))
            .ok_or_else(|| Refusal::new(format!("\"{text}\" compares nothing"), ADVICE))?;
        let (name, value) = (text[..position].trim(), text[position + sign.len()..].trim());
        let (name, group) = name_and_group(name);
        let metric = match (metric(name)?, &group) {
            (Metric::Lag, None) => return Err(Refusal::new(format!("\"{text}\" is about no group"), OF_GROUP)),
            (Metric::Lag, Some(_)) if units::parse_duration(value).is_ok() => Metric::CatchUp,
            (Metric::Latency(LatencyKind::Headline, statistic), Some(_)) => {
                Metric::Latency(LatencyKind::EndToEnd, statistic)
            }
            (metric, Some(_)) if !metric.is_of_a_group() => {
                return Err(Refusal::new(format!("`{name}` is not a figure of a group"), OF_GROUP));
            }
            (metric, _) => metric,
        };
        let value = match metric {
            Metric::Latency(..)
            | Metric::Condition(_)
            | Metric::CpuPerMessage
            | Metric::Outage
            | Metric::Recovery
            | Metric::CatchUp => units::parse_duration(value)?.as_nanos() as f64,
            Metric::PayloadBytesPerSecond => units::parse_size(value.strip_suffix("/s").unwrap_or(value))? as f64,
            Metric::MessagesPerSecond | Metric::ConsumedPerSecond | Metric::WrittenPerSecond => {
                units::parse_count(value.strip_suffix("/s").unwrap_or(value))? as f64
            }
            _ => units::parse_count(value)? as f64,
        };
        Ok(Threshold { text: text.to_owned(), group, metric, comparison, value })
    }
}

const OF_GROUP: &str = "of a group there are its end-to-end latencies, its lag at the end and what it verified, as in \
                        `p99 of \"billing\" < 1s`, `lag of \"billing\" at end < 5s` or `lost of \"billing\" = 0`";

impl Metric {
    /// Whether a group of consumers has it.
    fn is_of_a_group(self) -> bool {
        matches!(self, Metric::Latency(LatencyKind::EndToEnd, _)) || self.needs_verification()
    }

    /// Whether it is known only where consumers verify.
    pub fn needs_verification(self) -> bool {
        matches!(
            self,
            Metric::Lag
                | Metric::CatchUp
                | Metric::Lost
                | Metric::Unread
                | Metric::Removed
                | Metric::Duplicated
                | Metric::Reordered
                | Metric::Corrupt
        )
    }
}

/// Divides `p99 of "billing"` and `lag of "billing" at end`.
fn name_and_group(text: &str) -> (&str, Option<String>) {
    let Some((name, group)) = text.split_once(" of ") else { return (text, None) };
    let group = group.trim().strip_suffix(" at end").unwrap_or(group).trim();
    (name.trim(), Some(group.trim_matches(['"', '\'']).to_owned()))
}

const METRICS: [(&str, Metric); 17] = [
    ("messages_per_second", Metric::MessagesPerSecond),
    ("payload_bytes_per_second", Metric::PayloadBytesPerSecond),
    ("consumed_per_second", Metric::ConsumedPerSecond),
    ("written_per_second", Metric::WrittenPerSecond),
    ("consumer_lag", Metric::ConsumerLag),
    ("lag", Metric::Lag),
    ("failed", Metric::Failed),
    ("unresolved", Metric::Unresolved),
    ("lost", Metric::Lost),
    ("unread", Metric::Unread),
    ("removed", Metric::Removed),
    ("duplicated", Metric::Duplicated),
    ("reordered", Metric::Reordered),
    ("corrupt", Metric::Corrupt),
    ("cpu_per_message", Metric::CpuPerMessage),
    ("outage", Metric::Outage),
    ("recovery", Metric::Recovery),
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
fn metric(name: &str) -> Result<Metric, Refusal> {
    if let Some((_, metric)) = METRICS.iter().find(|(known, _)| *known == name) {
        return Ok(*metric);
    }
    if let Some(kind) = name.strip_prefix("condition.") {
        return ConditionKind::from_name(kind).map(Metric::Condition).ok_or_else(|| unknown_condition(kind));
    }
    let (kind, statistic) = name
        .split_once('.')
        .and_then(|(prefix, rest)| Some((LATENCIES.iter().find(|(known, _)| *known == prefix)?.1, rest)))
        .unwrap_or((LatencyKind::Headline, name));
    statistic_of(statistic, name)?.map(|statistic| Metric::Latency(kind, statistic)).ok_or_else(|| unknown(name))
}

/// `p99`, `p99.9` (`p99_9` as in a record), `mean` or `max`; `None` if it is something else.
fn statistic_of(text: &str, name: &str) -> Result<Option<LatencyStatistic>, Refusal> {
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
    let advice = "percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`";
    Err(Refusal::new(format!("unknown percentile `{name}`"), advice))
}

fn unknown_condition(kind: &str) -> Refusal {
    let names: Vec<String> = ConditionKind::ALL.iter().map(ToString::to_string).collect();
    let names = || names.iter().map(String::as_str);
    let advice = match closest(kind, names()) {
        Some(near) => format!("did you mean `condition.{near}`?"),
        None => format!("conditions are {}", list(names())),
    };
    Refusal::new(format!("unknown condition `{kind}`"), advice)
}

fn unknown(name: &str) -> Refusal {
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
    Refusal::new(format!("unknown metric `{name}`"), advice)
}

/// `sweep.until`: when a point, repeated until its figure is known well enough, has had enough trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Until {
    /// As written.
    pub text: String,
    pub metric: Metric,
    /// The interval of the metric reaches at most this share to each side.
    pub share: f64,
    /// Trials of a point that run in any case.
    pub least_trials: u32,
}

const UNTIL_ADVICE: &str = "write a metric and half the width of its interval, as in \"p99 ± 5 %\"";

/// Reads `p99 ± 5 %`.
pub(in crate::scenario) fn metric_and_share(text: &str) -> Result<(Metric, f64), Refusal> {
    let signs = ["±", "+/-", "+-"];
    let (name, share) = signs
        .iter()
        .find_map(|sign| text.split_once(sign))
        .ok_or_else(|| Refusal::new(format!("\"{text}\" has no ±"), UNTIL_ADVICE))?;
    let share = share.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = share
        .filter(|share| *share > 0.0 && *share < 100.0)
        .ok_or_else(|| Refusal::new(format!("\"{text}\" has no share above 0 % and below 100 %"), UNTIL_ADVICE))?;
    let metric = metric(name.trim())?;
    if !has_interval(metric) {
        let message = format!("`{}` has no interval around its centre", name.trim());
        return Err(Refusal::new(message, "take a rate, a percentile below 100 or a mean"));
    }
    Ok((metric, share / 100.0))
}

/// Whether trials vary around a centre that is above zero.
fn has_interval(metric: Metric) -> bool {
    match metric {
        Metric::Latency(_, LatencyStatistic::Quantile(quantile)) => quantile < 1.0,
        Metric::Latency(_, LatencyStatistic::Mean) => true,
        Metric::MessagesPerSecond
        | Metric::PayloadBytesPerSecond
        | Metric::ConsumedPerSecond
        | Metric::WrittenPerSecond
        | Metric::CpuPerMessage => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/tables/threshold.rs"]
mod tests;
