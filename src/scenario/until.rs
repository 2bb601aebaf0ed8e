//! `sweep.until`: a point is repeated until its figure is known well enough.

use super::path::KeyPath;
use super::problem::Problems;
use super::tables::SweepTable;
use super::threshold::{LatencyStatistic, Metric, metric};
use super::units::UnitError;

/// Fewest trials of a point: the spread of fewer is known so badly that a run would end by luck.
const MIN_TRIALS: usize = 6;

/// Most trials unless the scenario says otherwise.
const MAX_TRIALS: u32 = 30;

const ADVICE: &str = "write a metric and half the width of its interval, as in \"p99 ± 5 %\"";

/// When enough trials of a point have run.
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

/// Reads `until` and `trials_at_most`. `trials` is how many trials of a point run in any case; it becomes how many may run.
pub(super) fn read(table: &SweepTable, trials: &mut u32, problems: &Problems) -> Option<Until> {
    let sweep = KeyPath::of(&["sweep"]);
    let at_most = table.trials_at_most.map(|count| count.amount());
    let Some(text) = &table.until else {
        if at_most.is_some() {
            let advice = "write `until = \"p99 ± 5 %\"`, or set `trials`";
            problems.key(sweep.key("trials_at_most"), "`trials_at_most` needs `until`", advice);
        }
        return None;
    };
    let least = table.trials.map_or(MIN_TRIALS, |count| count.amount());
    if least < MIN_TRIALS {
        let message = format!("an interval needs {MIN_TRIALS} trials or more");
        problems.value(sweep.key("trials"), message, "with `until`, `trials` is the fewest");
        return None;
    }
    if at_most.is_some_and(|at_most| at_most < least) {
        let message = format!("`sweep.trials_at_most` cannot be {}", at_most.unwrap_or_default());
        problems.value(sweep.key("trials_at_most"), message, format!("it is at least {least}"));
        return None;
    }
    *trials = at_most.map_or((least as u32).max(MAX_TRIALS), |at_most| at_most as u32);
    let (metric, share) = quantity(text)
        .map_err(|UnitError { message, advice }| problems.value(sweep.key("until"), message, advice))
        .ok()?;
    Some(Until { text: text.clone(), metric, share, least_trials: least as u32 })
}

fn quantity(text: &str) -> Result<(Metric, f64), UnitError> {
    let refused = |message: String, advice: &str| UnitError { message, advice: advice.to_owned() };
    let signs = ["±", "+/-", "+-"];
    let (name, share) = signs
        .iter()
        .find_map(|sign| text.split_once(sign))
        .ok_or_else(|| refused(format!("\"{text}\" has no ±"), ADVICE))?;
    let share = share.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = share
        .filter(|share| *share > 0.0 && *share < 100.0)
        .ok_or_else(|| refused(format!("\"{text}\" has no share above 0 % and below 100 %"), ADVICE))?;
    let metric = metric(name.trim())?;
    if !has_interval(metric) {
        let message = format!("`{}` has no interval around its centre", name.trim());
        return Err(refused(message, "take a rate, a percentile below 100 or a mean"));
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
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        for text in [
            "messages_per_second ± 5 %",
            "messages_per_second±5%",
            "messages_per_second +/- 5%",
            "messages_per_second +- 5 %",
        ] {
            assert_eq!(quantity(text), Ok((Metric::MessagesPerSecond, 0.05)), "{text}");
        }
        assert!(matches!(quantity("p99.9 ± 2.5%"), Ok((Metric::Latency(_, LatencyStatistic::Quantile(_)), 0.025))));
    }

    #[test]
    fn what_is_refused() {
        for text in ["p99", "p99 ± 5", "p99 ± 0 %", "p99 ± 100 %", "lost ± 5 %", "max ± 5 %", "p100 ± 5 %", "pp ± 5 %"]
        {
            assert!(quantity(text).is_err(), "{text}");
        }
    }
}
