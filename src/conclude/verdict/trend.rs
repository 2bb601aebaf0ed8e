//! Whether a sequence of figures goes one way, and how far: without assuming how they are distributed.

use std::cmp::Ordering;

/// The trend of figures that are equally far apart in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trend {
    pub(super) median: f64,
    /// From the first figure to the last along the line through the median of all pairs' slopes (Sen, *J. Am. Stat. Assoc.*
    /// 63, 1968).
    pub(super) change: f64,
    /// The Mann–Kendall statistic in standard deviations (Mann, *Econometrica* 13, 1945): about a normal deviate where there
    /// is no trend. Reduced by the correlation of neighbours, which makes chance look like a trend: `n` correlated figures are
    /// worth `n·(1−ρ)/(1+ρ)` independent ones (Bayley and Hammersley, 1946, for a first-order autoregression).
    pub(super) score: f64,
}

impl Trend {
    /// Of three figures or more; `None` of fewer, or where their median is 0.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let median = median(values.to_vec()).filter(|median| values.len() >= 3 && *median > 0.0)?;
        let n = values.len() as f64;
        let pairs = || (0..values.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
        let slope = self::median(
            pairs().map(|(first, second)| (values[second] - values[first]) / (second - first) as f64).collect(),
        )?;
        let sum: f64 = pairs()
            .map(|(first, second)| match values[second].total_cmp(&values[first]) {
                Ordering::Greater => 1.0,
                Ordering::Less => -1.0,
                Ordering::Equal => 0.0,
            })
            .sum();
        let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let rest: Vec<f64> = values.iter().enumerate().map(|(index, value)| value - slope * index as f64).collect();
        let correlation = correlation_of_neighbours(&rest).clamp(0.0, 0.99);
        let worth = ((1.0 - correlation) / (1.0 + correlation)).sqrt();
        Some(Trend { median, change: slope * (n - 1.0), score: sum / deviation * worth })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

fn correlation_of_neighbours(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let product: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if square > 0.0 { product / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_one_outlier_does_not_bend_it() {
        let mut values: Vec<f64> = (0..30).map(|index| 100.0 + f64::from(index)).collect();
        values[20] = 10_000.0;
        let trend = Trend::of(&values).unwrap();
        assert!((trend.change - 29.0).abs() < 0.5, "{trend:?}");
        assert!(trend.score > 5.0, "{trend:?}");
    }

    #[test]
    fn what_only_wavers_has_no_trend() {
        let values: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index * 7 % 5)).collect();
        let trend = Trend::of(&values).unwrap();
        assert!(trend.change.abs() < 0.5 && trend.score.abs() < 1.0, "{trend:?}");
        assert_eq!(Trend::of(&[1.0, 2.0]), None);
    }

    #[test]
    fn neighbours_that_are_alike_weigh_less() {
        // A slow wave and a line look alike to a test that takes every figure for independent.
        let wave: Vec<f64> = (0..40).map(|index| 100.0 + (f64::from(index) / 40.0 * 4.0).sin() * 10.0).collect();
        let line: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index) / 4.0 + f64::from(index % 3)).collect();
        assert!(Trend::of(&wave).unwrap().score.abs() < 2.0);
        assert!(Trend::of(&line).unwrap().score > 5.0);
    }
}
