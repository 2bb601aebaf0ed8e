//! How often chance alone makes a difference as large as the one that was found.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::mean;

/// Up to so many assignments are all tried. Of more, [`DRAWS`] are drawn.
const MAX_EXACT: f64 = 20_000.0;

/// Draws: a p of 0.05 is then certain to 0.003.
const DRAWS: u32 = 4_999;

/// After so many draws that are as extreme the p is known well enough (Besag and Clifford, *Sequential Monte Carlo p-values*,
/// Biometrika 78, 1991).
const ENOUGH_EXTREME: u32 = 100;

/// The same seed gives the same p.
const SEED: u64 = 19;

/// Differences that rounding alone makes count as equal.
const ROUNDING: f64 = 1e-12;

/// The two-sided p of the difference of two means, when labels are exchanged among all values (Fisher, *The Design of
/// Experiments*, 1935; drawn ones as Phipson and Smyth count them, Stat. Appl. Genet. Mol. Biol. 9, 2010).
pub fn independent(one: &[f64], other: &[f64]) -> f64 {
    let mut all = [one, other].concat();
    let total: f64 = all.iter().sum();
    let (number, chosen) = (all.len(), one.len());
    let difference = |sum: f64| (sum / chosen as f64 - (total - sum) / (number - chosen) as f64).abs();
    let found = difference(one.iter().sum()) * (1.0 - ROUNDING) - f64::MIN_POSITIVE;
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
pub(super) fn paired(differences: &[f64]) -> f64 {
    let found = mean(differences).abs() * (1.0 - ROUNDING) - f64::MIN_POSITIVE;
    let number = differences.len();
    let is_extreme = |flips: u64| {
        let sides = differences.iter().enumerate();
        let sum: f64 = sides.map(|(index, value)| if flips >> (index % 64) & 1 == 1 { -value } else { *value }).sum();
        (sum / number as f64).abs() >= found
    };
    if number < 64 && 2f64.powi(number as i32) <= MAX_EXACT {
        let all = 1u64 << number;
        return (0..all).filter(|flips| is_extreme(*flips)).count() as f64 / all as f64;
    }
    drawn(|random| is_extreme(rand::Rng::next_u64(random)))
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
    fn all_assignments_are_counted() {
        // Of the 20 ways to choose three of six, the one that was found and its mirror are the most extreme.
        assert_eq!(independent(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0]), 0.1);
        assert_eq!(independent(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(paired(&[1.0, 2.0, 1.5, 1.2, 0.7]), 2.0 / 32.0);
    }

    #[test]
    fn drawn_assignments_agree_with_all_of_them() {
        let one: Vec<f64> = (0..12).map(f64::from).collect();
        let other: Vec<f64> = (0..12).map(|value| f64::from(value) + 2.5).collect();
        // The t-test's p is 0.103; permutation and t agree closely for such values.
        let p = independent(&one, &other);
        assert!((p - 0.103).abs() < 0.02, "{p}");
        let differences: Vec<f64> = (0..20).map(|value| f64::from(value * 7 % 20) - 6.0).collect();
        let p = paired(&differences);
        assert!((p - 0.015).abs() < 0.01, "{p}");
    }
}
