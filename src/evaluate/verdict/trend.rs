//! Whether a sequence of figures has a trend, and how large it is. No distribution is assumed.

use std::cmp::Ordering;

use crate::statistics;

/// The common trend of one or several stretches of figures, which are equally far apart in time within each of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::evaluate) struct Trend {
    /// From the begin of each stretch to its end along the line through the median of all pairs' slopes (Sen, *J. Am.
    /// Stat. Assoc.* 63, 1968), as a share of the stretch's median; summed over the stretches.
    pub(in crate::evaluate) relative_change: f64,
    /// The same in the figures' own unit.
    pub(in crate::evaluate) change: f64,
    /// The Mann–Kendall statistic in standard deviations (Mann, *Econometrica* 13, 1945; summed over stretches as Hirsch, Slack
    /// and Smith do over seasons, *Water Resour. Res.* 18, 1982): about a normal deviate without a trend. Reduced by
    /// the correlation of neighbours, which makes chance look like a trend: `n` correlated figures are worth
    /// `n·(1−ρ)/(1+ρ)` independent ones (Bayley and Hammersley, 1946, for a first-order autoregression).
    pub(in crate::evaluate) score: f64,
}

impl Trend {
    /// Of all stretches of three figures or more; `None` without such a stretch, or if a median is 0.
    pub(in crate::evaluate) fn new(stretches: &[Vec<f64>]) -> Option<Self> {
        let stretches: Vec<Segment> = stretches
            .iter()
            .filter(|values| values.len() >= 3)
            .map(|values| Segment::new(values))
            .collect::<Option<_>>()?;
        let sum = |figure: fn(&Segment) -> f64| stretches.iter().map(figure).sum::<f64>();
        // One correlation for all of them: a short stretch has too few values for one of its own.
        let squares = sum(|stretch| stretch.square);
        let correlation = if squares > 0.0 { sum(|stretch| stretch.product) / squares } else { 0.0 }.clamp(0.0, 0.99);
        let worth = (1.0 - correlation) / (1.0 + correlation);
        let deviation = (sum(|stretch| stretch.variance) / worth).sqrt();
        (deviation > 0.0).then(|| Trend {
            relative_change: sum(|stretch| stretch.change / stretch.median),
            change: sum(|stretch| stretch.change),
            score: sum(|stretch| stretch.score) / deviation,
        })
    }
}

struct Segment {
    median: f64,
    change: f64,
    /// Pairs that grow less pairs that fall.
    score: f64,
    /// Variance of the score without a trend, if neighbours are not correlated.
    variance: f64,
    /// The sum of products of neighbours in what the line leaves, and the sum of squares, relative to the median.
    product: f64,
    square: f64,
}

/// Figures of a stretch that are compared pair by pair: the pairs of a day of seconds would take 30 GB.
const MAX_FIGURES: usize = 600;

impl Segment {
    /// Of many figures, neighbours are taken together.
    fn new(values: &[f64]) -> Option<Self> {
        let together = values.chunks(values.len().div_ceil(MAX_FIGURES).max(1));
        let values: Vec<f64> = together.map(statistics::mean).collect();
        let median = statistics::median(&values).filter(|median| *median > 0.0)?;
        let n = values.len() as f64;
        let pairs = || (0..values.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
        let slopes: Vec<f64> =
            pairs().map(|(first, second)| (values[second] - values[first]) / (second - first) as f64).collect();
        let slope = statistics::median(&slopes)?;
        let score = pairs()
            .map(|(first, second)| match values[second].total_cmp(&values[first]) {
                Ordering::Greater => 1.0,
                Ordering::Less => -1.0,
                Ordering::Equal => 0.0,
            })
            .sum();
        let rest: Vec<f64> = values.iter().enumerate().map(|(index, value)| value - slope * index as f64).collect();
        let mean = statistics::mean(&rest);
        let rest: Vec<f64> = rest.iter().map(|value| (value - mean) / median).collect();
        Some(Segment {
            median,
            change: slope * n,
            score,
            variance: n * (n - 1.0) * (2.0 * n + 5.0) / 18.0,
            product: rest.windows(2).map(|pair| pair[0] * pair[1]).sum(),
            square: rest.iter().map(|value| value * value).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_seconds_has_the_trend_of_its_minutes() {
        let day: Vec<f64> =
            (0..86_400).map(|second| 1_000.0 + f64::from(second % 7) + f64::from(second) / 864.0).collect();
        let trend = Trend::new(&[day]).unwrap();
        assert!((trend.change - 100.0).abs() < 1.0 && trend.score > 10.0, "{trend:?}");
    }

    #[test]
    fn a_line_is_found_and_one_outlier_does_not_bend_it() {
        let mut values: Vec<f64> = (0..30).map(|index| 100.0 + f64::from(index)).collect();
        values[20] = 10_000.0;
        let trend = Trend::new(&[values]).unwrap();
        assert!((trend.change - 30.0).abs() < 0.5, "{trend:?}");
        assert!(trend.score > 5.0, "{trend:?}");
    }

    #[test]
    fn what_only_wavers_has_no_trend() {
        let values: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index * 7 % 5)).collect();
        let trend = Trend::new(&[values]).unwrap();
        assert!(trend.change.abs() < 0.5 && trend.score.abs() < 1.0, "{trend:?}");
        assert_eq!(Trend::new(&[vec![1.0, 2.0]]), None);
    }

    #[test]
    fn stretches_at_different_levels_have_a_trend_together() {
        let stretch = |level: f64| -> Vec<f64> {
            (0..10).map(|index| level * (1.0 + 0.002 * f64::from(index) + 0.001 * f64::from(index * 7 % 5))).collect()
        };
        let alone = Trend::new(&[stretch(100.0)]).unwrap();
        let both = Trend::new(&[stretch(100.0), stretch(300.0)]).unwrap();
        assert!(both.score > alone.score * 1.3, "{alone:?} {both:?}");
        assert!((both.relative_change / alone.relative_change - 2.0).abs() < 0.01, "{alone:?} {both:?}");
    }

    #[test]
    fn neighbours_that_are_alike_weigh_less() {
        // A slow wave and a line look alike to a test that takes every figure for independent.
        let wave: Vec<f64> = (0..40).map(|index| 100.0 + (f64::from(index) / 40.0 * 4.0).sin() * 10.0).collect();
        let line: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index) / 4.0 + f64::from(index % 3)).collect();
        assert!(Trend::new(&[wave]).unwrap().score.abs() < 2.0);
        assert!(Trend::new(&[line]).unwrap().score > 5.0);
    }
}
