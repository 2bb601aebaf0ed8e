//! How long one consumer works on each message.

use rand::RngExt;
use rand_distr::{Exp1, LogNormal, Pareto};

use super::random::{Generator, Purpose, generator};
use crate::scenario::{Work, WorkLaw};

/// Draws the times of one consumer, message by message.
#[derive(Debug, Clone)]
pub struct WorkTimes {
    mean_ns: u64,
    law: Law,
    generator: Generator,
}

#[derive(Debug, Clone, Copy)]
enum Law {
    Fixed,
    Exponential,
    Lognormal(LogNormal<f64>),
    Pareto(Pareto<f64>),
}

impl WorkTimes {
    /// Of the consumer with this number: each has its own random stream of the seed.
    ///
    /// The mean is the scenario's. A lognormal's is exp(µ + σ²/2), so µ = ln(mean) − σ²/2; that of a Pareto distribution with the least
    /// value x and the shape a is a·x/(a − 1), so x = mean·(a − 1)/a.
    pub fn new(work: &Work, consumer: u64) -> Self {
        let mean_ns = work.mean.as_nanos() as u64;
        let mean = mean_ns as f64;
        // The scenario's bounds leave no parameters that a distribution would refuse.
        let law = match work.law {
            WorkLaw::Fixed => Law::Fixed,
            WorkLaw::Exponential => Law::Exponential,
            WorkLaw::Lognormal { sigma } => {
                LogNormal::new(mean.ln() - sigma * sigma / 2.0, sigma).map_or(Law::Fixed, Law::Lognormal)
            }
            WorkLaw::Pareto { shape } => {
                Pareto::new(mean * (shape - 1.0) / shape, shape).map_or(Law::Fixed, Law::Pareto)
            }
        };
        WorkTimes { mean_ns, law, generator: generator(work.seed, Purpose::Work, consumer) }
    }

    pub fn mean_ns(&self) -> u64 {
        self.mean_ns
    }

    /// The time for the next message, in nanoseconds.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        match self.law {
            Law::Fixed => self.mean_ns,
            Law::Exponential => (self.generator.sample::<f64, _>(Exp1) * self.mean_ns as f64) as u64,
            Law::Lognormal(law) => self.generator.sample(law) as u64,
            Law::Pareto(law) => self.generator.sample(law) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MEAN_NS: u64 = 2_000_000;

    fn times(law: WorkLaw, consumer: u64, seed: u64) -> Vec<u64> {
        let mut times = WorkTimes::new(&Work { mean: Duration::from_nanos(MEAN_NS), law, seed }, consumer);
        (0..200_000).map(|_| times.next_ns()).collect()
    }

    fn share_beyond(times: &[u64], limit_ns: u64) -> f64 {
        times.iter().filter(|time| **time > limit_ns).count() as f64 / times.len() as f64
    }

    #[test]
    fn every_law_has_the_mean_and_its_own_tail() {
        // Of times beyond 3 means: exp(−3); the normal distribution beyond (ln 3 + σ²/2)/σ; (x/3·mean)^shape.
        let laws = [
            (WorkLaw::Exponential, 0.0498),
            (WorkLaw::Lognormal { sigma: 1.0 }, 0.0549),
            (WorkLaw::Pareto { shape: 3.0 }, 0.0110),
        ];
        for (law, expected) in laws {
            let times = times(law, 0, 7);
            let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
            assert!((mean / MEAN_NS as f64 - 1.0).abs() < 0.02, "{law:?}: {mean}");
            let share = share_beyond(&times, 3 * MEAN_NS);
            assert!((share - expected).abs() < 0.002, "{law:?}: {share}");
        }
        assert!(times(WorkLaw::Fixed, 0, 7).iter().all(|time| *time == MEAN_NS));
    }

    #[test]
    fn the_seed_and_the_consumer_decide_the_times() {
        let first = times(WorkLaw::Exponential, 0, 7);
        assert_eq!(first, times(WorkLaw::Exponential, 0, 7));
        assert_ne!(first, times(WorkLaw::Exponential, 1, 7));
        assert_ne!(first, times(WorkLaw::Exponential, 0, 8));
    }
}
