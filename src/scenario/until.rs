//! `sweep.until`: a point is repeated until its figure is known well enough.

use super::fields::{Field, Fields};
use super::metric_name::metric;
use super::threshold::{LatencyStatistic, Metric};

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
pub(super) fn read(fields: &Fields<'_>, most: usize, trials: &mut u32) -> Option<Until> {
    let Some(field) = fields.get("until") else {
        fields.forbid(
            "trials_at_most",
            "`trials_at_most` needs `until`",
            "write `until = \"p99 ± 5 %\"`, or set `trials`",
        );
        return None;
    };
    let least = match fields.get("trials") {
        Some(_) if (*trials as usize) < MIN_TRIALS => {
            let message = format!("an interval needs {MIN_TRIALS} trials or more");
            field.problems.value(fields.path.key("trials"), message, "with `until`, `trials` is the fewest");
            return None;
        }
        Some(_) => *trials as usize,
        None => MIN_TRIALS,
    };
    let default = (least as u32).max(MAX_TRIALS);
    let at_most = match fields.get("trials_at_most") {
        Some(field) => field.amount(least, most)? as u32,
        None => default,
    };
    let (metric, share) = quantity(&field)?;
    *trials = at_most;
    Some(Until { text: field.string()?.to_owned(), metric, share, least_trials: least as u32 })
}

fn quantity(field: &Field<'_>) -> Option<(Metric, f64)> {
    let text = field.string()?;
    let signs = ["±", "+/-", "+-"];
    let Some((name, share)) = signs.iter().find_map(|sign| text.split_once(sign)) else {
        field.refuse(format!("\"{text}\" has no ±"), ADVICE);
        return None;
    };
    let share = share.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let Some(share) = share.filter(|share| *share > 0.0 && *share < 100.0) else {
        field.refuse(format!("\"{text}\" has no share above 0 % and below 100 %"), ADVICE);
        return None;
    };
    match metric(name.trim()) {
        Ok(metric) if has_interval(metric) => Some((metric, share / 100.0)),
        Ok(_) => {
            field.refuse(
                format!("`{}` has no interval around its centre", name.trim()),
                "take a rate, a percentile below 100 or a mean",
            );
            None
        }
        Err(error) => {
            field.refuse(error.message, error.advice);
            None
        }
    }
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
    use toml::Value;

    use super::super::path::KeyPath;
    use super::super::problem::Problems;
    use super::*;

    fn parsed(text: &str) -> Result<(Metric, f64), usize> {
        let problems = Problems::default();
        let value = Value::String(text.to_owned());
        let field = Field { value: &value, path: KeyPath::of(&["sweep", "until"]), problems: &problems };
        quantity(&field).ok_or_else(|| problems.into_inner().len())
    }

    #[test]
    fn what_people_write() {
        for text in [
            "messages_per_second ± 5 %",
            "messages_per_second±5%",
            "messages_per_second +/- 5%",
            "messages_per_second +- 5 %",
        ] {
            assert_eq!(parsed(text), Ok((Metric::MessagesPerSecond, 0.05)), "{text}");
        }
        assert!(matches!(parsed("p99.9 ± 2.5%"), Ok((Metric::Latency(_, LatencyStatistic::Quantile(_)), 0.025))));
    }

    #[test]
    fn what_is_refused() {
        for text in ["p99", "p99 ± 5", "p99 ± 0 %", "p99 ± 100 %", "lost ± 5 %", "max ± 5 %", "p100 ± 5 %", "pp ± 5 %"]
        {
            assert_eq!(parsed(text), Err(1), "{text}");
        }
    }
}
