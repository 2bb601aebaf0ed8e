//! Trials of one point: their median and quartiles, an interval of their centre, and what differs between runs. Trials of one run share its
//! day, its topics and its broker's start, so they differ by less than runs do.

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

/// The middle and the ends of the middle half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// Quartiles of type 7 of Hyndman and Fan, *Sample Quantiles in Statistical Packages*, The American Statistician 50 (1996):
/// linear between the two nearest values. `None` of no values.
pub fn quartiles(values: &[f64]) -> Option<Quartiles> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return None;
    }
    let at = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Some(Quartiles { lower: at(0.25), median: at(0.5), upper: at(0.75) })
}

/// The median; `None` of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|quartiles| quartiles.median)
}

/// The figure of each run from the logarithms of its trials: their geometric mean.
pub fn run_centres(runs: &[Vec<f64>]) -> Vec<f64> {
    runs.iter().map(|trials| mean(trials).exp()).collect()
}

/// The standard deviation of the logarithm of a ratio of two sides that comes from their runs, given the logarithms of each run's trials.
///
/// `least`: the standard deviation of the logarithm of a run's figure that is taken for granted. If the runs of a side differ by more
/// than that, what they differ by counts instead: the pooled standard deviation of their centres, as much larger as Student's quantile
/// is than the normal one, because it is known from few runs.
pub fn spread_of_runs(sides: &[Vec<Vec<f64>>; 2], least: f64) -> f64 {
    let (mut squares, mut degrees) = (0.0, 0.0);
    for runs in sides {
        let centres: Vec<f64> = runs.iter().map(|trials| mean(trials)).collect();
        let middle = mean(&centres);
        squares += centres.iter().map(|centre| (centre - middle).powi(2)).sum::<f64>();
        degrees += centres.len() as f64 - 1.0;
    }
    let normal = normal_quantile((1.0 + CONFIDENCE) / 2.0);
    let seen = if degrees > 0.0 { (squares / degrees).sqrt() * student(degrees) / normal } else { 0.0 };
    let of_runs: f64 = sides.iter().map(|runs| 1.0 / runs.len() as f64).sum();
    seen.max(least) * of_runs.sqrt()
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

    #[test]
    fn quartiles_are_those_of_numpy_and_r() {
        let found = quartiles(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(found, Quartiles { lower: 1.75, median: 2.5, upper: 3.25 });
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn single_runs_differ_by_what_is_taken_for_granted() {
        let one = || vec![vec![0.1, 0.2, 0.3]];
        assert!((spread_of_runs(&[one(), one()], 0.07) - 0.07 * 2f64.sqrt()).abs() < 1e-12);
        let two = vec![vec![0.1], vec![0.12]];
        assert!((spread_of_runs(&[two, one()], 0.2) - 0.2 * 1.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn runs_that_differ_by_more_say_so() {
        // Their standard deviation is 0.2828 with one degree of freedom, whose quantile is 12.706.
        let two = vec![vec![0.0, 0.2], vec![0.4, 0.6]];
        let found = spread_of_runs(&[two, vec![vec![0.0]]], 0.07);
        assert!((found - 0.08f64.sqrt() * 12.7062 / 1.95996 * 1.5f64.sqrt()).abs() < 1e-3, "{found}");
        assert_eq!(run_centres(&[vec![0.0, 0.0], vec![1.0, 3.0]]), [1.0, 2f64.exp()]);
    }
}
