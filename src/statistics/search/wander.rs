//! The interval of a capacity that may wander: the machine and the broker of the first probe are not those of the last.
//!
//! The logarithm of the capacity is a level plus a deviation that decays with a memory (an Ornstein-Uhlenbeck process), and each probe
//! sees it with a spread of its own. How far it wanders, for how long it remembers and how wide the spread is are not known, so each
//! combination has a weight, as each level has. For each of these, the deviation is normally distributed, and a probe changes it by
//! moment matching (*assumed density filtering*: Minka, *A family of algorithms for approximate Bayesian inference*, MIT 2001,
//! chapter 3). A search is short, so it hardly tells a capacity that stood still from one that wandered slowly: the interval is wider
//! than one that takes probes for independent.

use super::Probe;
use super::beliefs::{Chances, STEP};
use crate::statistics::Interval;

/// Spreads of the capacity from probe to probe, as shares of it, each with how likely it is beforehand.
const SPREADS: [(f64, f64); 3] = [(0.004, 0.4), (0.015, 0.35), (0.05, 0.25)];

/// How far the capacity wanders, as a share of it, for how long it remembers, in seconds, and how likely that is beforehand.
const WANDERS: [(f64, f64, f64); 5] =
    [(0.0, 1.0, 0.32), (0.02, 60.0, 0.15), (0.02, 300.0, 0.15), (0.05, 60.0, 0.19), (0.05, 300.0, 0.19)];

/// Levels that are tried, first widely and then closely.
const FEW_LEVELS: usize = 20;
const LEVELS: usize = 40;

/// How far from the rates that were probed a level may lie, as a factor.
const MARGIN: f64 = 1.5;

/// Levels at the ends that are less likely than this are left out when the others are looked at closely.
const UNLIKELY: f64 = 1e-3;

/// The level of the capacity with the interval that holds it with a probability of 95 %, from probes in the order in which they
/// ran. There must be some.
pub(super) fn interval(probes: &[&Probe]) -> Interval {
    let rates = || probes.iter().map(|probe| probe.rate.ln());
    let lowest = rates().fold(f64::INFINITY, f64::min) - MARGIN.ln();
    let highest = rates().fold(f64::NEG_INFINITY, f64::max) + MARGIN.ln();
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
            SPREADS.map(of_spread).iter().sum::<f64>()
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
        let (chance, slope, bend) = chances.of(probe.held());
        let slope = slope / (chance * width);
        let curvature = slope * slope - bend / (chance * width * width);
        all *= chance;
        mean += variance * slope;
        variance -= variance * variance * curvature;
    }
    all
}
