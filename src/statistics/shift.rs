//! The Hodges–Lehmann estimate of a difference, with its interval: no distribution is assumed, and one outlier moves it little.
//!
//! Hodges and Lehmann, *Estimates of Location Based on Rank Tests*, Annals of Mathematical Statistics 34 (1963); intervals by
//! Hollander and Wolfe, *Nonparametric Statistical Methods*, sections 3.3 and 4.3.

use super::trials::normal_quantile;
use super::{CONFIDENCE, Interval, median};

/// Up to so many values the distribution of ranks is counted; beyond, it is nearly normal.
const MAX_COUNTED: usize = 40;

/// By how much `other` lies above `one`. `None` with so few values that no interval of this confidence exists.
pub(super) fn independent(one: &[f64], other: &[f64]) -> Option<Interval> {
    let mut differences: Vec<f64> = other.iter().flat_map(|other| one.iter().map(move |one| other - one)).collect();
    differences.sort_by(f64::total_cmp);
    let (m, n) = (one.len(), other.len());
    let place = if m.max(n) <= MAX_COUNTED {
        lowest_place(&rank_sums(m, n))?
    } else {
        let (product, sum) = ((m * n) as f64, (m + n + 1) as f64);
        normal_place(product / 2.0, product * sum / 12.0)?
    };
    between(&differences, place)
}

/// The centre of differences within blocks. `None` with so few that no interval of this confidence exists.
pub(super) fn paired(differences: &[f64]) -> Option<Interval> {
    let averages = differences
        .iter()
        .enumerate()
        .flat_map(|(index, one)| differences[index..].iter().map(move |other| (one + other) / 2.0));
    let mut averages: Vec<f64> = averages.collect();
    averages.sort_by(f64::total_cmp);
    let number = differences.len();
    let place = if number <= MAX_COUNTED {
        lowest_place(&signed_ranks(number))?
    } else {
        let n = number as f64;
        normal_place(n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0)?
    };
    between(&averages, place)
}

/// The interval from the `place`-th lowest to the `place`-th highest value, counted from 1.
fn between(sorted: &[f64], place: usize) -> Option<Interval> {
    let estimate = median(sorted)?;
    let (low, high) = (sorted.get(place.checked_sub(1)?)?, sorted.get(sorted.len().checked_sub(place)?)?);
    Some(Interval { estimate, low: *low, high: *high })
}

/// The highest place with at most half of what the confidence leaves below it. `ways[k]` counts the assignments with statistic `k`.
fn lowest_place(ways: &[f64]) -> Option<usize> {
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let fitting = ways.iter().take_while(|ways| {
        below += **ways;
        below / all <= (1.0 - CONFIDENCE) / 2.0
    });
    Some(fitting.count()).filter(|place| *place > 0)
}

fn normal_place(mean: f64, variance: f64) -> Option<usize> {
    let place = (mean - normal_quantile((1.0 + CONFIDENCE) / 2.0) * variance.sqrt()).floor();
    (place >= 1.0).then_some(place as usize)
}

/// How many orders of `m` and `n` values have each Mann–Whitney statistic: the coefficients of the Gaussian binomial, by the
/// product of (1 − q^(n+i)) / (1 − q^i).
fn rank_sums(m: usize, n: usize) -> Vec<f64> {
    let most = m * n;
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    for step in 1..=m {
        for statistic in (n + step..=most).rev() {
            ways[statistic] -= ways[statistic - n - step];
        }
        for statistic in step..=most {
            ways[statistic] += ways[statistic - step];
        }
    }
    ways
}

/// How many choices of signs have each sum of positive ranks.
fn signed_ranks(number: usize) -> Vec<f64> {
    let most = number * (number + 1) / 2;
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    for rank in 1..=number {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_the_published_tables() {
        // R: qwilcox(0.025, 4, 4) = 1, qwilcox(0.025, 10, 10) = 24, qsignrank(0.025, 6) = 1, qsignrank(0.025, 10) = 9.
        assert_eq!(lowest_place(&rank_sums(4, 4)), Some(1));
        assert_eq!(lowest_place(&rank_sums(10, 10)), Some(24));
        assert_eq!(lowest_place(&rank_sums(3, 3)), None);
        assert_eq!(lowest_place(&signed_ranks(6)), Some(1));
        assert_eq!(lowest_place(&signed_ranks(10)), Some(9));
        assert_eq!(lowest_place(&signed_ranks(5)), None);
    }

    #[test]
    fn counted_and_normal_places_meet() {
        let counted = lowest_place(&rank_sums(40, 40)).unwrap() as f64;
        let normal = normal_place(800.0, 1600.0 * 81.0 / 12.0).unwrap() as f64;
        assert!((counted - normal).abs() <= 2.0, "{counted} {normal}");
    }

    #[test]
    fn an_outlier_moves_the_estimate_little() {
        let one = [1.0, 2.0, 3.0, 4.0, 5.0];
        let other = [3.0, 4.0, 5.0, 6.0, 700.0];
        let shift = independent(&one, &other).unwrap();
        assert!((2.0..=3.0).contains(&shift.estimate) && shift.low <= 0.0, "{shift:?}");
        let paired = paired(&[2.0, 2.1, 1.9, 2.2, 1.8, 90.0]).unwrap();
        assert!((1.8..=2.2).contains(&paired.estimate), "{paired:?}");
    }
}
