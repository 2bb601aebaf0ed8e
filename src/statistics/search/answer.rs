//! What a search has found, from its probes so far.

use super::beliefs::{self, Beliefs};
use super::{Probe, ProbeOutcome, Search};
use crate::statistics::Interval;

/// Probes within this share of the estimate tell whether the capacity has changed.
const NEAR_A_CHANGE: f64 = 0.2;

/// Where the line between early and late probes is drawn, as shares of those near the capacity.
const LINES: [f64; 3] = [0.33, 0.5, 0.67];

/// How unlikely it must be that a capacity which seems to have risen or fallen has not.
const CHANGE_BY_CHANCE: f64 = 0.005;

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The interval is narrow, and a long probe held.
    Found,
    /// Not even the lowest rate of the range held.
    NothingHeld,
    /// The highest rate of the range held, in a long probe as well.
    NothingMissed,
    /// What missed was limited by the load generator or its machine.
    Limited,
    /// Time was up, or the probes were too many.
    OutOfTime,
    /// No more messages may be sent.
    OutOfMessages,
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    pub end: End,
    /// The highest rate that a long probe held, if fewer long probes missed at it or below it than held at it or above.
    pub rate: Option<f64>,
    /// The highest rate that only short probes held; `None` where a rate is confirmed.
    pub unconfirmed: Option<f64>,
    /// The rate of which half of all probes would hold, with its 95 % interval; `None` unless something held and something
    /// missed, and where a long probe contradicts it.
    pub capacity: Option<Interval>,
    /// Where late probes contradict early ones.
    pub change: Option<Change>,
}

/// A capacity that was not the same from the begin of a search to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The capacity by the early probes near it, and by the late ones.
    pub early: f64,
    pub late: f64,
}

impl Search {
    /// What this search would say if it ended now.
    pub fn answer(&self, end: End) -> Answer {
        let enclosed = self.highest_held().is_some() && self.lowest_missed().is_some();
        let capacity = enclosed.then(|| self.interval());
        // What held above the capacity held by chance.
        let most = capacity.map_or(f64::INFINITY, |capacity| capacity.estimate);
        let short = self.held().filter(|rate| *rate <= most).reduce(f64::max).or(self.highest_held());
        let rate = self.confirmed();
        let unconfirmed = short.or(self.highest_held_at_all()).filter(|_| rate.is_none());
        let capacity = capacity.filter(|capacity| !self.is_contradicted(capacity));
        Answer { end, rate, unconfirmed, capacity, change: self.change() }
    }

    /// The interval of the capacity, as wide as it is if the capacity may have wandered during the search.
    fn interval(&self) -> Interval {
        beliefs::wandering_interval(&self.counted())
    }

    /// Whether a long probe missed below the interval, where none has held.
    fn is_contradicted(&self, capacity: &Interval) -> bool {
        let mut missed = self.long(|outcome| outcome != ProbeOutcome::Held).filter(|rate| *rate < capacity.low);
        missed.any(|rate| !self.held_long_at(rate))
    }

    /// Whether late probes contradict early ones, at any line between them.
    fn change(&self) -> Option<Change> {
        let estimate = self.beliefs.interval().estimate;
        let counted = self.counted();
        let is_near = |probe: &Probe| (probe.rate / estimate).ln().abs() <= NEAR_A_CHANGE;
        let near: Vec<usize> = (0..counted.len()).filter(|index| is_near(counted[*index])).collect();
        let beliefs = |probes: &[&Probe]| {
            let mut beliefs = Beliefs::new(estimate * (1.0 - NEAR_A_CHANGE), estimate / (1.0 - NEAR_A_CHANGE));
            probes.iter().for_each(|probe| beliefs.observe(probe.rate, probe.held()));
            beliefs
        };
        let compared = LINES.into_iter().filter_map(|share| {
            let line = near.get((near.len() as f64 * share) as usize)?;
            let (early, late) = counted.split_at(*line);
            let (early, late) = (beliefs(early), beliefs(late));
            let exceeds = early.chance_to_exceed(&late);
            Some((exceeds.min(1.0 - exceeds), Change { early: early.quantile(0.5), late: late.quantile(0.5) }))
        });
        let (chance, change) = compared.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (chance < CHANGE_BY_CHANCE).then_some(change)
    }
}
