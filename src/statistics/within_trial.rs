//! One trial, whose neighbouring seconds are correlated: the mean of such a series, an interval of a quantile, and where a series begins to be
//! steady.

use super::trials::{normal_quantile, student, variance};
use super::{CONFIDENCE, Interval, mean};

/// Fewest values of a series that an interval is made from.
const MIN_SERIES_VALUES: usize = 10;

/// A correlation above this is taken for this: a longer memory than 65 values cannot be told from a drift.
const MAX_CORRELATION: f64 = 0.97;

/// The mean of a series, and how much its neighbours tell twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesMean {
    pub interval: Interval,
    /// The correlation of neighbours, corrected for its bias.
    pub autocorrelation: f64,
    /// How many independent values would know the mean as well.
    pub effective_size: f64,
}

/// The mean of a correlated series with its interval, by a moving-block bootstrap of the prewhitened series.
///
/// The variance of the bootstrapped mean over infinitely many resamples has a closed form, the variance of the means of all
/// overlapping blocks (Künsch, *The Jackknife and the Bootstrap for General Stationary Observations*, Annals of Statistics 17,
/// 1989), so nothing is drawn. Blocks of a short series see too little of its correlation. So a first-order
/// autoregression is taken out first and put back into the variance (Andrews and Monahan, Econometrica 60, 1992). Its coefficient is
/// corrected for the bias of short series (Marriott and Pope, Biometrika 41, 1954). The interval is Student's, with the
/// half the degrees of freedom of the effective sample size, because the variance comes from blocks. `None` with fewer than ten values.
pub fn series_mean(values: &[f64]) -> Option<SeriesMean> {
    let number = values.len();
    if number < MIN_SERIES_VALUES {
        return None;
    }
    let estimate = mean(values);
    let centred: Vec<f64> = values.iter().map(|value| value - estimate).collect();
    let squares: f64 = centred.iter().map(|value| value * value).sum();
    if squares <= 0.0 {
        let interval = Interval { estimate, low: estimate, high: estimate };
        return Some(SeriesMean { interval, autocorrelation: 0.0, effective_size: number as f64 });
    }
    let products: f64 = centred.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let found = products / squares;
    let corrected = found + (1.0 + 3.0 * found) / number as f64;
    let correlation = corrected.clamp(-MAX_CORRELATION, MAX_CORRELATION);
    let residuals: Vec<f64> = centred.windows(2).map(|pair| pair[1] - correlation * pair[0]).collect();
    let long_run = block_variance(&residuals) / (1.0 - correlation).powi(2);
    let effective_size = (number as f64 * variance(values) / long_run).clamp(2.0, number as f64);
    let half = student(((effective_size - 1.0) / 2.0).max(1.0)) * (long_run / number as f64).sqrt();
    let interval = Interval { estimate, low: estimate - half, high: estimate + half };
    Some(SeriesMean { interval, autocorrelation: correlation, effective_size })
}

/// The number of values times the variance of their mean, from all overlapping blocks. Blocks are as long as the cube root of
/// the number: the order that Künsch finds best.
fn block_variance(values: &[f64]) -> f64 {
    let number = values.len();
    let length = ((number as f64).cbrt().round() as usize).max(1);
    let whole = mean(values);
    let blocks: Vec<f64> = values.windows(length).map(mean).collect();
    let spread = blocks.iter().map(|block| (block - whole).powi(2)).sum::<f64>() / blocks.len() as f64;
    // As with the variance of a sample, the mean was fitted to the values themselves.
    spread * length as f64 * number as f64 / (number - length) as f64
}

/// The quantiles between which a quantile of the whole lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileRanks {
    pub low: f64,
    pub high: f64,
}

/// Where to read the ends of the interval of `quantile` (0 to 1) from a distribution of `independent` values. Values that
/// share a fate count once.
///
/// The number of values below the true quantile is binomial, so two order statistics hold it (Conover, *Practical
/// Nonparametric Statistics*, section 3.2: the normal approximation). `None` where one end lies beyond the values.
pub fn quantile_ranks(quantile: f64, independent: f64) -> Option<QuantileRanks> {
    let reach = normal_quantile((1.0 + CONFIDENCE) / 2.0) * (quantile * (1.0 - quantile) / independent).sqrt();
    let (low, high) = (quantile - reach, quantile + reach);
    (low > 0.0 && high < 1.0).then_some(QuantileRanks { low, high })
}

/// Fewest values of a series that is judged.
const MIN_STEADY_VALUES: usize = 20;

/// Values of a batch, as the name of the rule says, in a series of ten batches or more. Single values otherwise.
const BATCH: usize = 5;

/// The earliest truncation whose error is at most this many times the smallest: near its minimum the rule is decided by chance.
const NEARLY_SMALLEST: f64 = 1.5;

/// How many standard errors the begin must lie away from the rest: chance reaches that once in several hundred series.
const MIN_SCORE: f64 = 3.0;

/// How many of the first values do not belong to the steady state: 0 where the series is steady from its begin. `None`: it has
/// too few values, or its halves still differ after that.
///
/// MSER-5 (White, Cobb and Spratt, *A Comparison of Five Steady-State Truncation Heuristics for Simulation*, Winter Simulation
/// Conference 2000): the truncation that makes the standard error of the remaining mean smallest. The rule truncates
/// something of most series that are steady, so what it truncates must also differ from the rest by more than chance.
pub fn steady_from(values: &[f64]) -> Option<usize> {
    if values.len() < MIN_STEADY_VALUES {
        return None;
    }
    let batch = if values.len() >= 10 * BATCH { BATCH } else { 1 };
    let batches: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let half = batches.len() / 2;
    let errors: Vec<f64> = (0..=half).map(|from| variance(&batches[from..]) / (batches.len() - from) as f64).collect();
    let smallest = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let best = errors.iter().position(|error| *error <= smallest * NEARLY_SMALLEST)?;
    let cut = if differs(&values[..best * batch], &values[best * batch..]) { best * batch } else { 0 };
    let rest = &values[cut..];
    let (first, second) = rest.split_at(rest.len() / 2);
    (!differs(first, second)).then_some(cut)
}

fn differs(begin: &[f64], rest: &[f64]) -> bool {
    let Some(known) = series_mean(rest).filter(|_| !begin.is_empty()) else { return false };
    let worth = known.effective_size / rest.len() as f64;
    // Both are means of few values of the same spread, each worth less by the correlation of its neighbours.
    let error = (variance(rest) / worth * (1.0 / begin.len() as f64 + 1.0 / rest.len() as f64)).sqrt();
    (mean(begin) - known.interval.estimate).abs() > MIN_SCORE * error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_are_alike_tell_less() {
        let steps: Vec<f64> = (0..60).map(|index| f64::from(index / 10 % 2)).collect();
        let mixed: Vec<f64> = (0..60).map(|index| f64::from(index * 7 % 13 % 2)).collect();
        let (steps, mixed) = (series_mean(&steps).unwrap(), series_mean(&mixed).unwrap());
        assert!(steps.autocorrelation > 0.7 && steps.effective_size < 20.0, "{steps:?}");
        assert!(mixed.autocorrelation.abs() < 0.4 && mixed.effective_size > 20.0, "{mixed:?}");
    }

    #[test]
    fn what_does_not_vary_is_known_and_few_values_are_not() {
        let constant = series_mean(&[5.0; 12]).unwrap();
        assert_eq!((constant.interval.low, constant.interval.high), (5.0, 5.0));
        assert_eq!(series_mean(&[1.0; 9]), None);
    }

    #[test]
    fn a_median_of_a_hundred_lies_between_the_40th_and_the_60th() {
        let ranks = quantile_ranks(0.5, 100.0).unwrap();
        assert!((ranks.low - 0.402).abs() < 0.001 && (ranks.high - 0.598).abs() < 0.001, "{ranks:?}");
    }

    #[test]
    fn a_tail_of_two_values_has_no_interval() {
        assert_eq!(quantile_ranks(0.99, 200.0), None);
    }

    fn waver(index: usize) -> f64 {
        (index * 7 % 11) as f64 - 5.0
    }

    #[test]
    fn a_slow_begin_is_found() {
        let with = |slow: usize, length: usize| -> Vec<f64> {
            (0..length).map(|index| waver(index) + if index < slow { 60.0 } else { 100.0 }).collect()
        };
        assert_eq!(steady_from(&with(0, 60)), Some(0));
        assert_eq!(steady_from(&with(10, 60)), Some(10));
        assert_eq!(steady_from(&with(4, 30)), Some(4));
        assert_eq!(steady_from(&with(1, 30)), Some(1));
        assert_eq!(steady_from(&with(0, 19)), None);
    }

    #[test]
    fn what_never_becomes_steady_is_not_called_so() {
        let rising: Vec<f64> = (0..60).map(|index| waver(index) + 10.0 * index as f64).collect();
        assert_eq!(steady_from(&rising), None);
    }
}
