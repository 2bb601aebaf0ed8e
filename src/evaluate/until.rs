//! Whether a point has been repeated often enough.

use super::threshold::measured;
use crate::record::Record;
use crate::scenario::Until;
use crate::statistics::centre;

/// How far the interval of the metric reaches to each side, as a share of the estimate, over the valid trials; without any,
/// over all completed ones. `None` where a trial lacks the figure, or there are too few.
fn half_width(until: &Until, trials: &[&Record]) -> Option<f64> {
    let valid: Vec<&Record> = trials.iter().copied().filter(|record| record.verdict.valid).collect();
    let counted = if valid.is_empty() { trials.to_vec() } else { valid };
    if counted.len() < until.least_trials as usize {
        return None;
    }
    let figures: Result<Vec<f64>, String> = counted.iter().map(|record| measured(until.metric, record, 0)).collect();
    let interval = centre(&figures.ok()?)?;
    Some((interval.high - interval.estimate).max(interval.estimate - interval.low) / interval.estimate)
}

/// Whether no further trial of the point is needed.
pub fn is_enough(until: &Until, trials: &[&Record]) -> bool {
    half_width(until, trials).is_some_and(|half_width| half_width <= until.share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use crate::scenario::Metric;

    fn enough(rates: &[f64], share: f64) -> bool {
        let until = Until { text: String::new(), metric: Metric::MessagesPerSecond, share, least_trials: 3 };
        let mut record = sample::record();
        record.verdict.valid = true;
        let of = |rate: &f64| {
            let mut record = record.clone();
            record.throughput.messages_per_second = *rate;
            record
        };
        let records: Vec<Record> = rates.iter().map(of).collect();
        is_enough(&until, &records.iter().collect::<Vec<_>>())
    }

    #[test]
    fn trials_that_agree_are_enough_from_the_third_on() {
        assert!(!enough(&[100.0, 100.0], 0.05));
        assert!(enough(&[100.0, 101.0, 99.0], 0.05));
        assert!(!enough(&[100.0, 120.0, 80.0], 0.05));
        assert!(!enough(&[100.0, 101.0, 99.0], 0.01));
    }

    #[test]
    fn trials_that_are_not_valid_do_not_count_beside_valid_ones() {
        let until = Until { text: String::new(), metric: Metric::MessagesPerSecond, share: 0.05, least_trials: 3 };
        let mut valid = sample::record();
        valid.verdict.valid = true;
        let mut invalid = valid.clone();
        invalid.verdict.valid = false;
        assert!(!is_enough(&until, &[&valid, &valid, &invalid]));
        assert!(is_enough(&until, &[&invalid, &invalid, &invalid]));
    }
}
