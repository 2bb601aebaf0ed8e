//! An interval of a point's centre, from its trials.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::{CONFIDENCE, Interval, mean};

/// How much wider an interval must be that was looked at after every trial, and ended the trials as soon as it was narrow enough: the
/// spread of the trials is then underestimated more often than not. By simulation (`evaluate/until.rs`).
const OF_MANY_LOOKS: f64 = 1.12;

/// The centre of positive figures of independent trials, with Student's interval of the mean of their logarithms ("Student",
/// *The Probable Error of a Mean*, Biometrika 6, 1908): the geometric mean, which is the median where the logarithms are
/// symmetric. `None` with fewer than two trials, or where a figure is not positive.
pub fn centre(figures: &[f64]) -> Option<Interval> {
    scaled(figures, 1.0)
}

/// The same of trials that went on until their interval was narrow.
pub fn centre_after_looks(figures: &[f64]) -> Option<Interval> {
    scaled(figures, OF_MANY_LOOKS)
}

fn scaled(figures: &[f64], factor: f64) -> Option<Interval> {
    if figures.len() < 2 || figures.iter().any(|figure| *figure <= 0.0 || !figure.is_finite()) {
        return None;
    }
    let logarithms: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    let number = logarithms.len() as f64;
    let half = factor * student(number - 1.0) * (variance(&logarithms) / number).sqrt();
    let estimate = mean(&logarithms);
    Some(Interval { estimate, low: estimate - half, high: estimate + half }.exp())
}

/// How far neighbouring values are more alike than chance makes them, in standard deviations: the correlation of neighbours, corrected
/// for the bias of a short series, times the root of their number (Bartlett, *J. R. Stat. Soc. B* 8 (supplement), 1946).
pub fn likeness_of_neighbours(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let middle = mean(values);
    let products: f64 = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    if squares > 0.0 { (products / squares + 1.0 / number) * number.sqrt() } else { 0.0 }
}

/// The variance of a sample.
pub(super) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// How many standard errors an interval reaches to each side, with so many degrees of freedom.
pub(super) fn student(degrees: f64) -> f64 {
    let upper = (1.0 + CONFIDENCE) / 2.0;
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(upper))
}

/// With which probability a normal deviate is below `value`.
pub(super) fn normal_share(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

/// The value that a normal deviate is below with probability `share`.
pub(super) fn normal_quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

/// How many standard errors chance exceeds in one of so many `comparisons` as seldom as `errors` in a single one (Bonferroni's correction), where
/// the error itself is estimated with so many degrees of freedom (Student's distribution).
pub fn corrected_errors(errors: f64, comparisons: usize, degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees)
        .map_or(errors, |distribution| -distribution.inverse_cdf(distribution.cdf(-errors) / comparisons.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_published_example() {
        // Student's own: the additional hours of sleep of ten patients (R's `sleep`), mean 1.58, 95 % from 0.70 to 2.46.
        let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let figures: Vec<f64> = hours.iter().map(|hours: &f64| hours.exp()).collect();
        let found = centre(&figures).unwrap();
        for (found, expected) in [(found.estimate, 1.58), (found.low, 0.7001), (found.high, 2.4599)] {
            assert!((found.ln() - expected).abs() < 0.0005, "{} {expected}", found.ln());
        }
    }

    #[test]
    fn one_trial_has_no_interval() {
        assert_eq!(centre(&[1.0]), None);
        assert_eq!(centre(&[1.0, 0.0]), None);
    }
}
