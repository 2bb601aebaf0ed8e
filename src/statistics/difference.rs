//! The difference of two lists of trials: the Hodges–Lehmann estimate with its interval, and how often chance alone makes one as large. No
//! distribution is assumed, and one outlier moves the estimate little.
//!
//! Hodges and Lehmann, *Estimates of Location Based on Rank Tests*, Annals of Mathematical Statistics 34 (1963); intervals by
//! Hollander and Wolfe, *Nonparametric Statistical Methods*, sections 3.3 and 4.3.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::trials::normal_quantile;
use super::{CONFIDENCE, Interval, mean, median};

/// Up to so many values the distribution of ranks is counted; beyond, it is nearly normal.
const MAX_COUNTED: usize = 40;

/// By how much `other` lies above `one`. `None` with so few values that no interval of this confidence exists.
pub(super) fn shift_of_independent(one: &[f64], other: &[f64]) -> Option<Interval> {
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
pub(super) fn shift_of_pairs(differences: &[f64]) -> Option<Interval> {
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

/// Up to so many assignments are all tried. Of more, [`DRAWS`] are drawn.
const MAX_EXACT: f64 = 20_000.0;

/// Draws: a p of 0.05 is then certain to 0.003.
const DRAWS: u32 = 4_999;

/// After so many draws that are as extreme the p is known well enough (Besag and Clifford, *Sequential Monte Carlo p-values*,
/// Biometrika 78, 1991).
const ENOUGH_EXTREME: u32 = 100;

/// The same seed gives the same p.
const SEED: u64 = 19;

/// Differences count as equal where rounding alone makes them: of two sums, by this share of the largest value.
const ROUNDING: f64 = 1e-12;

/// The two-sided p of the difference of two means, when labels are exchanged among all values (Fisher, *The Design of
/// Experiments*, 1935; drawn ones as Phipson and Smyth count them, Stat. Appl. Genet. Mol. Biol. 9, 2010).
pub fn chance_of_independent(one: &[f64], other: &[f64]) -> f64 {
    let mut all = [one, other].concat();
    let total: f64 = all.iter().sum();
    let (number, chosen) = (all.len(), one.len());
    let difference = |sum: f64| (sum / chosen as f64 - (total - sum) / (number - chosen) as f64).abs();
    let largest = all.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let found = difference(one.iter().sum()) - ROUNDING * largest - f64::MIN_POSITIVE;
    if combinations(number, chosen) <= MAX_EXACT {
        let (mut extreme, mut tried) = (0.0, 0.0);
        each_sum(&all, chosen, 0.0, &mut |sum| {
            tried += 1.0;
            extreme += if difference(sum) >= found { 1.0 } else { 0.0 };
        });
        return extreme / tried;
    }
    drawn(|random| {
        // The first steps of a Fisher–Yates shuffle.
        let mut sum = 0.0;
        for place in 0..chosen {
            let drawn = place + below(random, number - place);
            all.swap(place, drawn);
            sum += all[place];
        }
        difference(sum) >= found
    })
}

/// The two-sided p of the mean of differences within blocks, when the sides of each block are exchanged.
pub(super) fn chance_of_pairs(differences: &[f64]) -> f64 {
    let found = mean(differences).abs() * (1.0 - ROUNDING) - f64::MIN_POSITIVE;
    let number = differences.len();
    let is_extreme = |is_exchanged: &mut dyn FnMut(usize) -> bool| {
        let sides = differences.iter().enumerate();
        let sum: f64 = sides.map(|(index, value)| if is_exchanged(index) { -value } else { *value }).sum();
        (sum / number as f64).abs() >= found
    };
    if number < 64 && 2f64.powi(number as i32) <= MAX_EXACT {
        let all = 1u64 << number;
        let extreme = (0..all).filter(|flips| is_extreme(&mut |index| flips >> index & 1 == 1));
        return extreme.count() as f64 / all as f64;
    }
    drawn(|random| {
        let mut flips = 0;
        is_extreme(&mut |index| {
            // A number has the sides of 64 blocks.
            if index % 64 == 0 {
                flips = rand::Rng::next_u64(&mut *random);
            }
            flips >> (index % 64) & 1 == 1
        })
    })
}

/// A number below `end`, uniform but for one part in four billions (Lemire, ACM Trans. Model. Comput. Simul. 29, 2019).
fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
    (((rand::Rng::next_u64(random) >> 32) * end as u64) >> 32) as usize
}

fn drawn(mut is_extreme: impl FnMut(&mut Xoshiro256PlusPlus) -> bool) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut extreme = 0;
    for draws in 1..=DRAWS {
        extreme += u32::from(is_extreme(&mut random));
        if extreme == ENOUGH_EXTREME {
            return f64::from(extreme) / f64::from(draws);
        }
    }
    f64::from(extreme + 1) / f64::from(DRAWS + 1)
}

/// Calls `each` with the sum of every choice of `chosen` values.
fn each_sum(values: &[f64], chosen: usize, sum: f64, each: &mut impl FnMut(f64)) {
    if chosen == 0 {
        return each(sum);
    }
    for first in 0..=values.len() - chosen {
        each_sum(&values[first + 1..], chosen - 1, sum + values[first], each);
    }
}

/// How many choices of `chosen` from `number` there are.
pub(super) fn combinations(number: usize, chosen: usize) -> f64 {
    (1..=chosen).map(|step| (number - chosen + step) as f64 / step as f64).product()
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
        let shift = shift_of_independent(&one, &other).unwrap();
        assert!((2.0..=3.0).contains(&shift.estimate) && shift.low <= 0.0, "{shift:?}");
        let shift = shift_of_pairs(&[2.0, 2.1, 1.9, 2.2, 1.8, 90.0]).unwrap();
        assert!((1.8..=2.2).contains(&shift.estimate), "{shift:?}");
    }

    #[test]
    fn all_assignments_are_counted() {
        // Of the 20 ways to choose three of six, the one that was found and its mirror are the most extreme.
        assert_eq!(chance_of_independent(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0]), 0.1);
        assert_eq!(chance_of_independent(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(chance_of_pairs(&[1.0, 2.0, 1.5, 1.2, 0.7]), 2.0 / 32.0);
        // Rates of an open loop differ by so little that rounding told an assignment from its mirror.
        let rates = |rates: [f64; 4]| rates.map(f64::ln);
        let (one, other) = ([50_000.0, 50_000.01, 50_000.02, 50_000.03], [49_999.8, 49_999.81, 49_999.79, 49_999.82]);
        assert_eq!(chance_of_independent(&rates(one), &rates(other)), 2.0 / 70.0);
    }

    #[test]
    fn drawn_assignments_agree_with_all_of_them() {
        let one: Vec<f64> = (0..12).map(f64::from).collect();
        let other: Vec<f64> = (0..12).map(|value| f64::from(value) + 2.5).collect();
        // The t-test's p is 0.103; permutation and t agree closely for such values.
        let p = chance_of_independent(&one, &other);
        assert!((p - 0.103).abs() < 0.02, "{p}");
        let differences: Vec<f64> = (0..20).map(|value| f64::from(value * 7 % 20) - 6.0).collect();
        let p = chance_of_pairs(&differences);
        assert!((p - 0.015).abs() < 0.01, "{p}");
        // Of 128 signs, 76 are positive: by the binomial distribution 0.042. Those 64 apart are equal, and are exchanged by themselves all the same.
        let differences: Vec<f64> = (0..128).map(|index| if index % 64 < 38 { 1.0 } else { -1.0 }).collect();
        let p = chance_of_pairs(&differences);
        assert!((p - 0.042).abs() < 0.02, "{p}");
    }
}
