//! An interval of a quantile within one trial.

use super::CONFIDENCE;
use super::trials::normal_quantile;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_a_hundred_lies_between_the_40th_and_the_60th() {
        let ranks = quantile_ranks(0.5, 100.0).unwrap();
        assert!((ranks.low - 0.402).abs() < 0.001 && (ranks.high - 0.598).abs() < 0.001, "{ranks:?}");
    }

    #[test]
    fn a_tail_of_two_values_has_no_interval() {
        assert_eq!(quantile_ranks(0.99, 200.0), None);
    }
}
