//! Whether a scenario's thresholds held, judged by the record alone; and whether a point has been repeated often enough (`sweep.until`).
//!
//! A threshold on a figure that the record lacks counts as missed.

use super::verdict::trend::Trend;
use crate::record::{
    Fault, GroupVerification, Latency, Outage, Record, Status, ThresholdOutcome, Verification,
    independent_values_needed, readable, saturating_sum,
};
use crate::scenario::{Comparison, LatencyKind, LatencyStatistic, Metric, Threshold, Until, on_one_line};
use crate::statistics::{Interval, centre_after_looks, likeness_of_neighbours};

const NOT_VERIFIED: &str = "nothing was verified: set `consumers.verify = true`";

/// One outcome for each threshold, in their order. `groups` is how many groups of consumers were owed each message.
///
/// A failed trial holds no threshold. An interrupted one is judged by what had been measured.
pub fn evaluate(thresholds: &[Threshold], record: &Record, groups: u64) -> Vec<ThresholdOutcome> {
    thresholds.iter().map(|threshold| evaluate_one(threshold, record, groups)).collect()
}

fn evaluate_one(threshold: &Threshold, record: &Record, groups: u64) -> ThresholdOutcome {
    let found = match record.status {
        Status::Failed => Err("the trial failed".to_owned()),
        Status::Completed | Status::Interrupted | Status::Stalled | Status::Running => {
            measured(threshold.metric, threshold.group.as_deref(), record, groups)
        }
    };
    let (held, explanation) = match &found {
        Ok(value) => {
            let held = compare(*value, threshold.comparison, threshold.value);
            let events = few_events(threshold, record, *value).unwrap_or_default();
            (held, format!("{} measured{events}", readable_figure(threshold.metric, *value)))
        }
        Err(reason) => (false, format!("not known, so it counts as missed: {reason}")),
    };
    ThresholdOutcome { text: threshold.text.clone(), measured: found.ok(), held, explanation }
}

/// How few events made a high percentile. Its threshold is judged all the same: a limit that one event broke was broken, and one that held
/// in spite of it held.
fn few_events(threshold: &Threshold, record: &Record, value_ns: f64) -> Option<String> {
    let Metric::Latency(kind, LatencyStatistic::Quantile(quantile)) = threshold.metric else { return None };
    let slowest = latency_of(record, kind, threshold.group.as_deref())?
        .slowest
        .as_ref()
        .filter(|_| (0.99..1.0).contains(&quantile))?;
    let found = slowest.exceedances(value_ns as u64).ok().filter(|found| !found.are_enough())?;
    Some(format!(
        ", by few events: messages as slow as that were answered in {} tenths of a second, in {} different seconds",
        readable::count(found.tenths),
        readable::count(found.seconds)
    ))
}

/// Whether it holds; `None` where the record has no such figure.
pub(super) fn holds(threshold: &Threshold, record: &Record) -> Option<bool> {
    let value = measured(threshold.metric, threshold.group.as_deref(), record, 1).ok()?;
    Some(compare(value, threshold.comparison, threshold.value))
}

/// What the messages tell of a percentile that is not stated, because fewer than ten independent ones lie beyond it: its value among them;
/// with fewer than two, their slowest. `None` where messages that have no latency decide it, or lag grew.
pub(super) fn estimate(threshold: &Threshold, record: &Record) -> Option<f64> {
    let Metric::Latency(kind, LatencyStatistic::Quantile(quantile)) = threshold.metric else { return None };
    let group = threshold.group.as_deref();
    let latency = latency_of(record, kind, group).filter(|latency| !latency.lag_grew)?;
    let population = Population { missing: missing(record, kind, group, 1), latency };
    if population.independent() < independent_values_needed(quantile) / 5 {
        return population.over_all(|latency| latency.max_ns as f64).ok();
    }
    population.value_at(quantile).ok()
}

/// Whether the threshold holds by [`estimate`].
pub(super) fn holds_by_estimate(threshold: &Threshold, record: &Record) -> bool {
    estimate(threshold, record).is_some_and(|value| compare(value, threshold.comparison, threshold.value))
}

fn compare(measured: f64, comparison: Comparison, limit: f64) -> bool {
    match comparison {
        Comparison::Less => measured < limit,
        Comparison::LessOrEqual => measured <= limit,
        Comparison::Equal => measured == limit,
        Comparison::GreaterOrEqual => measured >= limit,
        Comparison::Greater => measured > limit,
    }
}

/// The metric's figure of the trial, or of one group of its consumers; or why the record has none.
pub(super) fn measured(metric: Metric, group: Option<&str>, record: &Record, groups: u64) -> Result<f64, String> {
    let of_group = || {
        let found = record.verification.as_ref().ok_or_else(|| NOT_VERIFIED.to_owned())?;
        let is_it = |of: &&GroupVerification| Some(of.title().as_str()) == group;
        found.groups.iter().find(is_it).ok_or_else(|| "the record has no such group".to_owned())
    };
    // Of those that this record was merged from.
    let is_share_missing = record.shares.first().is_some_and(|first| record.shares.len() < first.share.count);
    let verification = || -> Result<Verification, String> {
        let found = record.verification.as_ref().ok_or_else(|| NOT_VERIFIED.to_owned())?;
        let is_removal_unclear = found.undecided > 0 && !found.removal_rules.is_empty();
        match (found.saturated, metric) {
            // What was found is there all the same, but what was not found may be.
            (true, Metric::Lost | Metric::Unread | Metric::Removed | Metric::Duplicated | Metric::Reordered) => {
                Err("the verifier's memory was exceeded, so its counts are not certain".to_owned())
            }
            (_, Metric::Lost | Metric::Unread) if is_share_missing => {
                Err("a share is missing, and it is not known what its consumers received".to_owned())
            }
            (_, Metric::Lost | Metric::Unread | Metric::Removed) if is_removal_unclear => {
                Err("the broker removed messages by its own rules, and shares do not tell which".to_owned())
            }
            (_, Metric::Reordered) if found.order_unchecked > 0 => {
                Err("the order of some messages was not checked, for lack of memory".to_owned())
            }
            _ if group.is_some() => {
                let mut one = Verification::default();
                one.add_group(of_group()?.clone());
                Ok(one)
            }
            _ => Ok(found.clone()),
        }
    };
    match metric {
        Metric::Latency(kind, statistic) => latency(record, kind, statistic, group, groups),
        Metric::Lag => of_group()?.consumer_lag_at_load_end.map(|lag| lag as f64).ok_or_else(|| {
            "it is not known how far the group was behind when the load ended: it had not begun, or shares were merged"
                .to_owned()
        }),
        Metric::CatchUp => of_group()?
            .catch_up_ns
            .map(|ns| ns as f64)
            .ok_or_else(|| "the group had not received everything when the wait for it ended".to_owned()),
        Metric::MessagesPerSecond => Ok(record.throughput.messages_per_second),
        Metric::PayloadBytesPerSecond => Ok(record.throughput.payload_bytes_per_second),
        Metric::ConsumedPerSecond => {
            record.throughput.consumed_per_second.ok_or("nothing was consumed: add a [consumers] table".to_owned())
        }
        Metric::WrittenPerSecond => {
            let sinks = record.pipeline.iter().flat_map(|pipeline| &pipeline.sinks);
            let slowest = sinks.map(|sink| sink.written_per_second).reduce(f64::min);
            slowest.ok_or("nothing was written: add `[[pipeline.sinks]]`".to_owned())
        }
        Metric::ConsumerLag => {
            let consumer_lag = record.pipeline.as_ref().and_then(|pipeline| pipeline.consumer_lag_at_end);
            consumer_lag
                .map(|consumer_lag| consumer_lag as f64)
                .ok_or("the consumer lag of the pipeline is unknown".to_owned())
        }
        Metric::Failed => Ok(record.counts.failed.saturating_sub(record.aborted_on_purpose()) as f64),
        Metric::Unresolved => Ok(record.counts.unresolved as f64),
        Metric::Lost => verification().map(|found| found.lost as f64),
        Metric::Unread => verification().map(|found| found.unread as f64),
        Metric::Removed => verification().map(|found| found.removed as f64),
        Metric::Duplicated => verification().map(|found| found.duplicated as f64),
        Metric::Reordered => verification().map(|found| found.reordered as f64),
        Metric::Corrupt => verification().map(|found| found.corrupt as f64),
        Metric::Condition(kind) => {
            let of_kind = record.conditions.iter().filter(|condition| condition.kind == kind);
            Ok(saturating_sum(of_kind.map(|condition| condition.in_window_ns)) as f64)
        }
        Metric::Outage => broken(record, |outage| {
            outage
                .first_acknowledgement_ns
                .map(|_| outage.longest_gap_ns)
                .ok_or("no acknowledgement followed an outage")
        }),
        Metric::Recovery => {
            let of_faults =
                record.faults.iter().flat_map(Fault::commands).filter_map(|(_, command)| command.recovered_ns);
            let of_outages = broken(record, |outage| {
                outage.recovered_ns.ok_or("the rate was not held again after an outage before the load ended")
            });
            of_outages.map(|ns| of_faults.map(|ns| ns as f64).fold(ns, f64::max))
        }
        Metric::CpuPerMessage => record.client.cpu_ns_per_message.ok_or("no message was acknowledged".to_owned()),
    }
}

/// The longest of what outages have; 0 without any. Or why it is not known.
fn broken(record: &Record, figure: impl Fn(&Outage) -> Result<u64, &'static str>) -> Result<f64, String> {
    if !record.shares.is_empty() {
        return Err("outages are found in the records of shares alone".to_owned());
    }
    if let Some((_, failed)) = record.faults.iter().flat_map(Fault::commands).find(|(_, one)| one.failure.is_some()) {
        let failure = failed.failure.as_deref().unwrap_or_default();
        return Err(format!("a fault failed: {} {failure}", on_one_line(&failed.command)));
    }
    if record.counts.acknowledged == 0 && record.counts.warm_up.acknowledged == 0 {
        return Err("no message was acknowledged, and an outage begins with an acknowledgement".to_owned());
    }
    let longest = record.outages.iter().map(figure).try_fold(0, |longest, one| Ok(longest.max(one?)));
    longest.map(|ns| ns as f64).map_err(|reason: &str| reason.to_owned())
}

fn latency(
    record: &Record,
    kind: LatencyKind,
    statistic: LatencyStatistic,
    group: Option<&str>,
    groups: u64,
) -> Result<f64, String> {
    let absent = match kind {
        LatencyKind::Headline | LatencyKind::Service => "no message was acknowledged",
        LatencyKind::Response => "a closed loop has no response time",
        LatencyKind::ScheduleDelay => "a closed loop has no schedule",
        LatencyKind::EndToEnd => "no end-to-end latency was recorded: set `consumers.end_to_end = true`",
    };
    let latency = latency_of(record, kind, group).ok_or(absent)?;
    if latency.lag_grew {
        return Err("consumers fell further and further behind, so it tells how long the trial lasted".to_owned());
    }
    if group.is_some() && record.verification.is_none() && times_a_part(record) {
        return Err(
            "messages that the group received from other shares were not counted: set `consumers.verify = true`"
                .to_owned(),
        );
    }
    let population = Population { missing: missing(record, kind, group, groups), latency };
    match statistic {
        LatencyStatistic::Quantile(quantile) if quantile < 1.0 => population.at_quantile(quantile),
        LatencyStatistic::Quantile(_) | LatencyStatistic::Max => population.over_all(|latency| latency.max_ns as f64),
        LatencyStatistic::Mean => population.over_all(|latency| latency.mean_ns),
    }
}

fn latency_of<'a>(record: &'a Record, kind: LatencyKind, group: Option<&str>) -> Option<&'a Latency> {
    if let Some(group) = group {
        return record.latency.of_group(group);
    }
    match kind {
        LatencyKind::Headline => record.headline_latency(),
        LatencyKind::Response => record.latency.response.as_ref(),
        LatencyKind::Service => record.latency.service.as_ref(),
        LatencyKind::ScheduleDelay => record.latency.schedule_delay.as_ref(),
        LatencyKind::EndToEnd => record.latency.end_to_end.as_ref(),
    }
}

/// Messages that are not in a latency because its second moment never came.
fn missing(record: &Record, kind: LatencyKind, group: Option<&str>, groups: u64) -> Missing {
    match kind {
        LatencyKind::EndToEnd => {
            let timed =
                latency_of(record, kind, group).map_or(0, |latency| latency.count.saturating_add(latency.beyond_range));
            // Those that another process sent were received, and not timed.
            let received = match (times_a_part(record), group) {
                (false, _) => timed,
                (true, None) => record.counts.consumed.unwrap_or(0),
                (true, Some(group)) => {
                    let groups = record.verification.iter().flat_map(|found| &found.groups);
                    groups.filter(|of| of.title() == group).map(|of| of.consumed).sum()
                }
            };
            let wanted = record.counts.attempted.saturating_add(record.counts.unsent);
            let owing = if group.is_some() { 1 } else { groups };
            let owed = wanted.saturating_sub(record.aborted_on_purpose()).saturating_mul(owing);
            Missing { messages: owed.saturating_sub(received), what: "were not received" }
        }
        _ => Missing {
            messages: record.counts.without_acknowledgement().saturating_sub(record.aborted_on_purpose()),
            what: "had no acknowledgement",
        },
    }
}

/// Whether end-to-end latency covers only a part of the received messages. In one process, it covers all of them.
fn times_a_part(record: &Record) -> bool {
    !record.shares.is_empty() && record.times_own_messages()
}

struct Missing {
    messages: u64,
    /// What did not become of them.
    what: &'static str,
}

/// All messages that a latency is about, those that are missing from it included: each of them waited longer than any that is
/// in it. A quantile of the others alone would be that of the survivors, and better the more messages fail.
struct Population<'a> {
    latency: &'a Latency,
    missing: Missing,
}

impl Population<'_> {
    fn messages(&self) -> u64 {
        let known = self.latency.count.saturating_add(self.latency.beyond_range);
        known.saturating_add(self.missing.messages)
    }

    /// Messages that are independent of each other. Those that are missing count as the others do: as many for each moment.
    fn independent(&self) -> u64 {
        let recorded = self.latency.count.saturating_add(self.latency.beyond_range) as f64;
        (self.latency.independent_values() as f64 * self.messages() as f64 / recorded).round() as u64
    }

    /// The value at a quantile of all messages, in nanoseconds; or why it is not known.
    fn at_quantile(&self, quantile: f64) -> Result<f64, String> {
        let value = self.value_at(quantile)?;
        let (independent, needed) = (self.independent(), independent_values_needed(quantile));
        if independent < needed {
            return Err(format!(
                "p{} needs {} independent messages, so that ten are slower, and {} were measured (messages acknowledged or received together are one)",
                round(quantile * 100.0),
                readable::count(needed),
                readable::count(independent),
            ));
        }
        Ok(value)
    }

    /// The same, however few messages there are.
    fn value_at(&self, quantile: f64) -> Result<f64, String> {
        let (within, all) = (self.latency.count as f64, self.messages() as f64);
        if quantile * all > within {
            return Err(self.not_in_it());
        }
        let histogram = self.latency.decode_histogram().map_err(|error| error.to_string())?;
        Ok(histogram.value_at_quantile(quantile * all / within) as f64)
    }

    /// A figure that depends on every message; or why it is not known.
    fn over_all(&self, figure: impl FnOnce(&Latency) -> f64) -> Result<f64, String> {
        if self.messages() == self.latency.count { Ok(figure(self.latency)) } else { Err(self.not_in_it()) }
    }

    /// Which messages are not in the histogram.
    fn not_in_it(&self) -> String {
        let Missing { messages, what } = self.missing;
        let share = |part: u64| readable::percent(part as f64 / self.messages() as f64);
        let missing = || format!("{} of the messages {what}", share(messages));
        let beyond =
            || format!("{} values lay beyond the histogram's range", readable::count(self.latency.beyond_range));
        match (messages > 0, self.latency.beyond_range > 0) {
            (true, true) => format!("{}, and {}", missing(), beyond()),
            (true, false) => missing(),
            (false, _) => beyond(),
        }
    }
}

/// Without the noise of binary fractions: 99.99 rather than 99.99000000000001.
fn round(percentile: f64) -> f64 {
    (percentile * 1e9).round() / 1e9
}

fn readable_figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Latency(..)
        | Metric::Condition(_)
        | Metric::CpuPerMessage
        | Metric::Outage
        | Metric::Recovery
        | Metric::CatchUp => readable::duration(value),
        Metric::MessagesPerSecond | Metric::ConsumedPerSecond | Metric::WrittenPerSecond => {
            format!("{}/s", readable::rate(value))
        }
        Metric::PayloadBytesPerSecond => format!("{}/s", readable::bytes(value)),
        Metric::ConsumerLag
        | Metric::Lag
        | Metric::Failed
        | Metric::Unresolved
        | Metric::Lost
        | Metric::Unread
        | Metric::Removed
        | Metric::Duplicated
        | Metric::Reordered
        | Metric::Corrupt => readable::count(value as u64),
    }
}

/// A trend of the trials is one from this score on, in standard deviations: chance makes so large a one in 1 of 20 cases.
const TREND: f64 = 1.96;

/// Neighbouring trials are alike from this score on, in standard deviations: chance makes them so alike in 1 of 20 cases.
const ALIKE: f64 = 1.645;

/// What trials say of a point's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// The interval is narrow enough.
    Known,
    /// It reaches by this share of the estimate to a side.
    Wide(f64),
    /// The trials are not alike in time: the interval of their mean says nothing of later ones.
    Changed,
    /// There are too few trials.
    TooFew,
}

/// Whether no further trial of the point is needed.
pub fn is_enough(until: &Until, trials: &[&Record]) -> bool {
    figures(until, trials).is_ok_and(|figures| standing(&figures, until.share, until.least_trials) == Standing::Known)
}

/// Why a point whose trials are over is not known as it was to be; `None` where it is.
pub fn not_known(until: &Until, trials: &[&Record]) -> Option<String> {
    let found = match figures(until, trials) {
        Ok(figures) => figures,
        Err(reason) => return Some(format!("`{}` cannot be told: {reason}", until.text)),
    };
    let number = readable::count(found.len() as u64);
    match standing(&found, until.share, until.least_trials) {
        Standing::Known => None,
        Standing::TooFew => Some(format!("`{}` was not reached: too few trials count ({number})", until.text)),
        Standing::Wide(half) => {
            Some(format!("`{}` was not reached with {number} trials: ± {}", until.text, readable::percent(half)))
        }
        Standing::Changed => Some(format!(
            "`{}` cannot be told: the result changed during the run, beyond what chance does to {number} trials. \
             Their mean is that of this time only: use longer trials, or find out what changed",
            until.text
        )),
    }
}

/// The metric of the valid trials; without any, of all completed ones. Or why one of them lacks it.
fn figures(until: &Until, trials: &[&Record]) -> Result<Vec<f64>, String> {
    let valid: Vec<&Record> = trials.iter().copied().filter(|record| record.verdict.valid).collect();
    let counted = if valid.is_empty() { trials.to_vec() } else { valid };
    counted.iter().map(|record| measured(until.metric, None, record, 0)).collect()
}

/// `figures` are in the order of the trials.
fn standing(figures: &[f64], share: f64, least_trials: u32) -> Standing {
    let interval = centre_after_looks(figures).filter(|_| figures.len() >= least_trials as usize);
    let Some(Interval { estimate, low, high }) = interval else { return Standing::TooFew };
    let half = (high - estimate).max(estimate - low) / estimate;
    if has_changed(figures) {
        Standing::Changed
    } else if half <= share {
        Standing::Known
    } else {
        Standing::Wide(half)
    }
}

/// Whether the figures have a trend, or follow each other more closely than chance makes them.
fn has_changed(figures: &[f64]) -> bool {
    let trend = Trend::new(&[figures.to_vec()]);
    trend.is_some_and(|trend| trend.score.abs() >= TREND) || likeness_of_neighbours(figures) >= ALIKE
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/threshold.rs"]
mod tests;
#[cfg(test)]
#[path = "../../tests/unit/evaluate/until.rs"]
mod until_tests;
