//! What is known of a capacity, from probes that held or missed.
//!
//! The chance that a probe holds falls with its rate, along a logistic curve whose middle is the capacity. How steep it falls
//! differs between brokers (a cliff, a noisy machine) and is not known, so capacity and spread are estimated together: each
//! pair of both has a weight, which every probe changes by Bayes' rule. Placing the next probe by these weights is the method of
//! psychophysics for thresholds (Kontsevich and Tyler, *Bayesian adaptive estimation of psychometric slope and threshold*, Vision
//! Research 39, 1999).
//!
//! The answer's interval is that of a capacity that may wander: the machine and the broker of the first probe are not those of the last.
//! The logarithm of the capacity is a level plus a deviation that decays with a memory (an Ornstein-Uhlenbeck process), and each probe
//! sees it with a spread of its own. How far it wanders, for how long it remembers and how wide the spread is are not known, so each
//! combination has a weight, as each level has. For each of these, the deviation is normally distributed, and a probe changes it by
//! moment matching (*assumed density filtering*: Minka, *A family of algorithms for approximate Bayesian inference*, MIT 2001,
//! chapter 3). A search is short, so it hardly tells a capacity that stood still from one that wandered slowly: the interval is wider
//! than one that takes probes for independent.

use super::Probe;
use crate::statistics::Interval;

/// Between two capacities that are told apart, as a share.
pub(super) const STEP: f64 = 0.005;

/// Spreads of the capacity from probe to probe that are considered, as shares of it, each with how likely it is beforehand.
const SPREADS: [(f64, f64); 5] = [(0.002, 0.2), (0.006, 0.2), (0.015, 0.25), (0.03, 0.25), (0.06, 0.1)];

/// How often a probe misses far below the capacity, for a reason of its own: a pause of the machine, a leader that moves.
const FALSE_MISS: f64 = 0.03;

/// How often a probe holds far above it.
const FALSE_HOLD: f64 = 0.01;

/// The logistic curve that is closest to the normal distribution has this factor.
const LOGISTIC: f64 = 1.702;

/// Beyond so many spreads, the curve is flat.
const FLAT: f64 = 8.0;

/// Capacities at the ends that are less likely than this are left out: five odd probes in a row would not bring them back.
const FORGOTTEN: f64 = 1e-7;

/// How far beyond the ends of the range a capacity may lie, as a factor.
const MARGIN: f64 = 2.0;

/// A weight for each capacity and spread.
#[derive(Debug, Clone)]
pub(super) struct Beliefs {
    /// The logarithm of the lowest capacity.
    origin: f64,
    weights: Vec<[f64; SPREADS.len()]>,
    /// The probability of each capacity, over all spreads.
    capacities: Vec<f64>,
}

impl Beliefs {
    /// Before any probe: each capacity of the range is as likely as any other with the same share between them.
    pub(super) fn new(least: f64, most: f64) -> Self {
        let origin = (least / MARGIN).ln();
        let steps = ((most * MARGIN).ln() - origin) / STEP;
        let number = steps.ceil() as usize + 1;
        let weights = vec![SPREADS.map(|(_, share)| share / number as f64); number];
        Beliefs { origin, weights, capacities: vec![1.0 / number as f64; number] }
    }

    /// Takes a probe into account.
    pub(super) fn observe(&mut self, rate: f64, held: bool) {
        let mut above = self.origin - rate.ln();
        let mut sum = 0.0;
        for (weights, capacity) in self.weights.iter_mut().zip(&mut self.capacities) {
            *capacity = 0.0;
            for (weight, (spread, _)) in weights.iter_mut().zip(SPREADS) {
                *weight *= Chances::new(above / spread).outcome(held).0;
                *capacity += *weight;
            }
            sum += *capacity;
            above += STEP;
        }
        self.weights.iter_mut().flatten().chain(&mut self.capacities).for_each(|weight| *weight /= sum);
        self.forget();
    }

    /// Leaves out both ends as far as hardly any weight is there.
    fn forget(&mut self) {
        let is_likely = |capacity: &f64| *capacity > FORGOTTEN;
        let ends = (self.capacities.iter().position(is_likely), self.capacities.iter().rposition(is_likely));
        if let (Some(first), Some(last)) = ends {
            self.weights.truncate(last + 1);
            self.weights.drain(..first);
            self.capacities.truncate(last + 1);
            self.capacities.drain(..first);
            self.origin += first as f64 * STEP;
        }
    }

    /// By which share the capacity differs from probe to probe.
    pub(super) fn spread(&self) -> f64 {
        let of_each = self.weights.iter().flat_map(|weights| weights.iter().zip(SPREADS));
        of_each.map(|(weight, (spread, _))| weight * spread).sum()
    }

    /// The capacity that is above the true one with this probability.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut before = 0.0;
        let reaches = self.capacities.iter().position(|capacity| {
            before += capacity;
            before >= share
        });
        (self.origin + reaches.unwrap_or(self.capacities.len() - 1) as f64 * STEP).exp()
    }

    /// The chance that this capacity is larger than the other one, of the same range.
    pub(super) fn chance_to_exceed(&self, other: &Beliefs) -> f64 {
        // Both have the same steps, of which each has left out others at its ends.
        let ahead = ((self.origin - other.origin) / STEP).round() as i64;
        let below = |index: i64| {
            let until = (index + ahead).clamp(0, other.capacities.len() as i64) as usize;
            let same = other.capacities.get(until).filter(|_| index + ahead >= 0).copied().unwrap_or(0.0);
            other.capacities[..until].iter().sum::<f64>() + same / 2.0
        };
        self.capacities.iter().zip(0..).map(|(capacity, index)| capacity * below(index)).sum()
    }

    /// The capacity with the interval that holds it with a probability of 95 %.
    pub(super) fn interval(&self) -> Interval {
        // A step on each side: the true capacity lies between two that are told apart.
        Interval {
            estimate: self.quantile(0.5),
            low: self.quantile(0.025) * (1.0 - STEP),
            high: self.quantile(0.975) * (1.0 + STEP),
        }
    }
}

/// The chance that a probe holds, with its first and its second derivative.
pub(super) struct Chances {
    holds: f64,
    slope: f64,
    bend: f64,
}

impl Chances {
    /// `above`: how far the capacity lies above the rate, in spreads.
    pub(super) fn new(above: f64) -> Self {
        const SHARPNESS: f64 = 1.0 - FALSE_HOLD - FALSE_MISS;
        let curve = match above {
            _ if above > FLAT => 1.0,
            _ if above < -FLAT => 0.0,
            _ => 1.0 / (1.0 + (-LOGISTIC * above).exp()),
        };
        let slope = SHARPNESS * LOGISTIC * curve * (1.0 - curve);
        Chances { holds: FALSE_HOLD + SHARPNESS * curve, slope, bend: LOGISTIC * slope * (1.0 - 2.0 * curve) }
    }

    /// The chance of this outcome, with its derivatives.
    pub(super) fn outcome(&self, held: bool) -> (f64, f64, f64) {
        if held { (self.holds, self.slope, self.bend) } else { (1.0 - self.holds, -self.slope, -self.bend) }
    }
}

/// Spreads of the capacity from probe to probe, as shares of it, each with how likely it is beforehand.
const WANDERING_SPREADS: [(f64, f64); 3] = [(0.004, 0.4), (0.015, 0.35), (0.05, 0.25)];

/// How far the capacity wanders, as a share of it, for how long it remembers, in seconds, and how likely that is beforehand.
const WANDERS: [(f64, f64, f64); 5] =
    [(0.0, 1.0, 0.32), (0.02, 60.0, 0.15), (0.02, 300.0, 0.15), (0.05, 60.0, 0.19), (0.05, 300.0, 0.19)];

/// Levels that are tried, first widely and then closely.
const FEW_LEVELS: usize = 20;
const LEVELS: usize = 40;

/// How far from the rates that were probed a level may lie, as a factor.
const WANDERING_MARGIN: f64 = 1.5;

/// Levels at the ends that are less likely than this are left out when the others are looked at closely.
const UNLIKELY: f64 = 1e-3;

/// The level of the capacity with the interval that holds it with a probability of 95 %, from probes in the order in which they
/// ran. There must be some.
pub(super) fn wandering_interval(probes: &[&Probe]) -> Interval {
    let rates = || probes.iter().map(|probe| probe.rate.ln());
    let lowest = rates().fold(f64::INFINITY, f64::min) - WANDERING_MARGIN.ln();
    let highest = rates().fold(f64::NEG_INFINITY, f64::max) + WANDERING_MARGIN.ln();
    let coarse = Levels::new(lowest, highest, FEW_LEVELS, probes);
    let (lowest, highest) = (coarse.quantile(UNLIKELY) - coarse.step, coarse.quantile(1.0 - UNLIKELY) + coarse.step);
    let fine = Levels::new(lowest, highest, LEVELS, probes);
    let at = |share| fine.quantile(share).exp();
    Interval { estimate: at(0.5), low: at(0.025) * (1.0 - STEP), high: at(0.975) * (1.0 + STEP) }
}

/// Logarithms of levels at equal distances, each with its probability.
struct Levels {
    lowest: f64,
    step: f64,
    probabilities: Vec<f64>,
}

impl Levels {
    fn new(lowest: f64, highest: f64, number: usize, probes: &[&Probe]) -> Self {
        let step = (highest - lowest) / (number - 1) as f64;
        let of_level = |index: usize| {
            let level = lowest + index as f64 * step;
            let of_spread = |(spread, likely): (f64, f64)| {
                let of_wander = |wander: (f64, f64, f64)| likely * wander.2 * likelihood(probes, level, spread, wander);
                WANDERS.map(of_wander).iter().sum::<f64>()
            };
            WANDERING_SPREADS.map(of_spread).iter().sum::<f64>()
        };
        let likelihoods: Vec<f64> = (0..number).map(of_level).collect();
        let sum: f64 = likelihoods.iter().sum();
        Levels { lowest, step, probabilities: likelihoods.iter().map(|likelihood| likelihood / sum).collect() }
    }

    /// The level that is above the true one with this probability, between two levels in proportion.
    fn quantile(&self, share: f64) -> f64 {
        let mut before = 0.0;
        for (index, probability) in self.probabilities.iter().enumerate() {
            if before + probability >= share {
                return self.lowest + (index as f64 - 0.5 + (share - before) / probability) * self.step;
            }
            before += probability;
        }
        self.lowest + (self.probabilities.len() - 1) as f64 * self.step
    }
}

/// The chance of all outcomes at this level.
fn likelihood(probes: &[&Probe], level: f64, spread: f64, (deviation, memory, _): (f64, f64, f64)) -> f64 {
    let (mut mean, mut variance) = (0.0, deviation * deviation);
    let mut last = None;
    let mut all = 1.0;
    for probe in probes {
        let seconds = last.replace(probe.at).map_or(0.0, |last| probe.at.saturating_sub(last).as_secs_f64());
        let kept = (-seconds / memory).exp();
        mean *= kept;
        variance = kept * kept * variance + deviation * deviation * (1.0 - kept * kept);
        let width = (spread * spread + variance).sqrt();
        let chances = Chances::new((level + mean - probe.rate.ln()) / width);
        let (chance, slope, bend) = chances.outcome(probe.held());
        let slope = slope / (chance * width);
        let curvature = slope * slope - bend / (chance * width * width);
        all *= chance;
        mean += variance * slope;
        variance -= variance * variance * curvature;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_on_both_sides_enclose_the_capacity() {
        let mut beliefs = Beliefs::new(1e3, 1e6);
        for _ in 0..3 {
            beliefs.observe(98e3, true);
            beliefs.observe(102e3, false);
        }
        let found = beliefs.interval();
        assert!((98e3..102e3).contains(&found.estimate), "{found:?}");
        assert!(found.low > 90e3 && found.high < 110e3, "{found:?}");
    }

    #[test]
    fn a_capacity_exceeds_another_one_for_certain_or_by_chance() {
        let known = |capacity: f64| {
            let mut beliefs = Beliefs::new(1e3, 1e6);
            for _ in 0..6 {
                beliefs.observe(capacity * 0.98, true);
                beliefs.observe(capacity * 1.02, false);
            }
            beliefs
        };
        let same = known(100e3).chance_to_exceed(&known(100e3));
        assert!((same - 0.5).abs() < 0.01, "{same}");
        assert!(known(110e3).chance_to_exceed(&known(100e3)) > 0.99);
        assert!(known(100e3).chance_to_exceed(&known(110e3)) < 0.01);
    }

    #[test]
    fn a_single_miss_far_below_does_not_outweigh_later_probes() {
        let mut beliefs = Beliefs::new(1e3, 1e6);
        beliefs.observe(10e3, false);
        for rate in [8e3, 12e3, 30e3, 60e3] {
            beliefs.observe(rate, true);
        }
        beliefs.observe(100e3, false);
        assert!(beliefs.quantile(0.5) > 50e3, "{}", beliefs.quantile(0.5));
    }
}
