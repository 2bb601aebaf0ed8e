//! The mean of a series whose neighbours are correlated, such as the seconds of one trial.

use super::trials::{student, variance};
use super::{Interval, mean};

/// Fewest values of a series that an interval is made from.
const MIN_VALUES: usize = 10;

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
    if number < MIN_VALUES {
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
}
