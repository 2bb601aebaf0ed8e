//! Finds the highest rate that holds, by probes. Pure: from the probes so far to the next one, or to the answer.
//!
//! 1. *Bracket*: from the first rate on by a factor of four, until one holds and one misses.
//! 2. *Narrow*: the next probe goes where the beliefs are divided, again and again near the edge, until the interval of the
//!    capacity is narrow. A single odd probe moves them little.
//! 3. *Confirm*: the lower end of the interval is probed for longer. If that misses twice, short probes hold what longer ones
//!    do not, and only long ones count from then on.
//!
//! A broker that was overloaded needs time to recover. So a miss right after an overload does not count: its rate is probed again. So is one
//! near the edge while time was withheld from the machine, which may be otherwise a moment later.

mod beliefs;
#[cfg(test)]
mod simulations;

use std::time::Duration;

use self::beliefs::Beliefs;
use super::Interval;

/// Between two rates while nothing is bracketed.
const GROWTH: f64 = 4.0;

/// Half the width of the interval of the capacity, as a share, that is narrow enough.
const PRECISION: f64 = 0.02;

/// The same where each probe takes long.
const PRECISION_OF_LONG_PROBES: f64 = 0.03;

/// Probes within this share of the estimate are near the edge.
const NEAR: f64 = 0.1;

/// How many probes must have held near the edge, and how many missed.
const LEAST_NEAR: usize = 2;

/// No more probes than this.
const MOST_PROBES: usize = 100;

/// A miss at this many times a rate overloads the broker for the probe that comes next.
const OVERLOAD: f64 = 1.25;

/// Long probes that miss before short ones are distrusted.
const LONG_MISSES: usize = 2;

/// Probes in a row that are repeated because time was withheld from the machine.
const MOST_REPEATED: usize = 3;

/// From a long probe that missed to the next one, before any has held.
const STEP_DOWN: f64 = 0.85;

/// What is confirmed is above the true capacity with this probability.
const CAUTION: f64 = 0.05;

/// The rates that may be probed, and with which to begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub least: f64,
    pub most: f64,
    pub first: f64,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    Held,
    Missed,
    /// It missed, and the load generator or its machine was the limit.
    Limited,
    /// It missed, and the machine was kept from running for a part of its time.
    Withheld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

/// A probe that has run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    pub rate: f64,
    pub length: Length,
    pub outcome: ProbeOutcome,
}

/// What is left of the search's time, and what a probe takes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    pub left: Duration,
    pub short: Duration,
    pub long: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    Probe { rate: f64, length: Length },
    End(Answer),
}

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
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    pub end: End,
    /// The highest rate that held: in a long probe where one did, else in a short one.
    pub rate: Option<f64>,
    /// Whether that was a long probe.
    pub confirmed: bool,
    /// The rate of which half of all probes would hold, with its 95 % interval; `None` unless something held and something missed.
    pub capacity: Option<Interval>,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    probes: Vec<Probe>,
    beliefs: Beliefs,
    /// Only long probes hold anything.
    long_only: bool,
    /// This is probed again before anything else.
    again: Option<(f64, Length)>,
    /// Probes in a row that were repeated because time was withheld.
    repeated: usize,
}

impl Search {
    /// A search whose first rate is brought into the range.
    pub fn new(range: Range) -> Self {
        let range = Range { first: range.first.clamp(range.least, range.most), ..range };
        let beliefs = Beliefs::new(range.least, range.most);
        Search { range, probes: Vec::new(), beliefs, long_only: false, again: None, repeated: 0 }
    }

    /// Takes a probe into account.
    pub fn record(&mut self, mut probe: Probe) {
        if probe.outcome == ProbeOutcome::Withheld && self.is_near_what_held(probe.rate) {
            if self.repeated < MOST_REPEATED {
                self.repeated += 1;
                self.again = Some((probe.rate, probe.length));
                return;
            }
            probe.outcome = ProbeOutcome::Limited;
        }
        self.repeated = 0;
        let held = probe.outcome == ProbeOutcome::Held;
        let overloaded = self.probes.last().is_some_and(|last| {
            last.outcome != ProbeOutcome::Held && last.rate >= OVERLOAD * probe.rate && self.again.is_none()
        });
        if !held && overloaded {
            self.again = Some((probe.rate, probe.length));
            return;
        }
        self.again = None;
        self.probes.push(probe);
        if !held || self.counts(&probe) {
            self.beliefs.observe(probe.rate, held);
        }
        if !self.long_only && self.long(|outcome| outcome != ProbeOutcome::Held).count() >= LONG_MISSES {
            self.trust_long_probes_only();
        }
    }

    /// What to do next.
    pub fn next(&self, budget: Budget) -> Step {
        let usual = if self.long_only { Length::Long } else { Length::Short };
        let wanted = match self.again {
            Some((rate, length)) => Step::Probe { rate, length },
            None => self.wanted(usual),
        };
        let Step::Probe { length, .. } = wanted else { return wanted };
        let takes = |length| if length == Length::Long { budget.long } else { budget.short };
        if self.probes.len() < MOST_PROBES && budget.left >= takes(length) {
            // A short probe must leave time for a long one.
            let leaves_time = budget.left - takes(length) >= budget.long;
            if length == Length::Long || leaves_time || budget.left < budget.long {
                return wanted;
            }
        }
        match self.cautious_rate() {
            Some(rate) if budget.left >= budget.long && self.is_unconfirmed() => {
                Step::Probe { rate, length: Length::Long }
            }
            _ => Step::End(self.answer(End::OutOfTime)),
        }
    }

    /// What to do next if time does not matter.
    fn wanted(&self, usual: Length) -> Step {
        if self.probes.is_empty() {
            return probe(self.range.first, usual);
        }
        let Range { least, most, .. } = self.range;
        let (highest_held, lowest_missed) = (self.highest_held(), self.lowest_missed());
        match (highest_held, lowest_missed) {
            (_, None) => match highest_held {
                Some(held) if held < most => probe((held * GROWTH).min(most), usual),
                _ if self.held_long_at(most) => Step::End(self.answer(End::NothingMissed)),
                _ => probe(most, Length::Long),
            },
            (None, Some(missed)) => match missed > least {
                true if self.long_only => probe((missed * STEP_DOWN).max(least), usual),
                true => probe((missed / GROWTH).max(least), usual),
                false if self.misses_at(least) < LEAST_NEAR => probe(least, usual),
                false if self.is_limited() => Step::End(self.answer(End::Limited)),
                false => Step::End(self.answer(End::NothingHeld)),
            },
            (Some(_), Some(_)) => self.narrow(usual),
        }
    }

    fn narrow(&self, usual: Length) -> Step {
        let Range { least, most, .. } = self.range;
        let last = self.probes.last();
        if self.beliefs.quantile(0.9) <= least && self.misses_at(least) >= LEAST_NEAR {
            return Step::End(self.answer(End::NothingHeld));
        }
        if self.beliefs.quantile(0.1) >= most && self.held_long_at(most) {
            return Step::End(self.answer(End::NothingMissed));
        }
        if self.is_limited() {
            return Step::End(self.answer(End::Limited));
        }
        if !self.is_narrow() {
            // Off the middle to both sides in turn: probes at the middle alone do not tell how wide the edge is.
            let share = if self.probes.len().is_multiple_of(2) { 0.3 } else { 0.7 };
            return probe(self.beliefs.quantile(share).clamp(least, most), usual);
        }
        let confirmed = match self.long_only {
            true => self.highest_held().is_some(),
            false => last.is_some_and(|last| last.length == Length::Long && last.outcome == ProbeOutcome::Held),
        };
        match confirmed {
            true => Step::End(self.answer(End::Found)),
            false => probe(self.safe_rate(), Length::Long),
        }
    }

    /// Whether the capacity is known well, from probes near it on both sides.
    fn is_narrow(&self) -> bool {
        let known = self.beliefs.interval();
        let (precision, least_near) =
            if self.long_only { (PRECISION_OF_LONG_PROBES, 1) } else { (PRECISION, LEAST_NEAR) };
        let near = |held: bool| {
            let probes = self.probes.iter().filter(|probe| self.counts(probe) || !held);
            let probes = probes.filter(|probe| probe.outcome != ProbeOutcome::Withheld);
            let probes = probes.filter(|probe| (probe.outcome == ProbeOutcome::Held) == held);
            probes.filter(|probe| (probe.rate / known.estimate).ln().abs() <= NEAR).count()
        };
        (known.high / known.low).ln() / 2.0 <= precision && near(true) >= least_near && near(false) >= least_near
    }

    /// Whether the load generator or its machine is what missed: twice, not far above what held.
    fn is_limited(&self) -> bool {
        let held = self.highest_held().unwrap_or(self.range.least);
        let above = self.probes.iter().filter(|probe| probe.outcome != ProbeOutcome::Held && probe.rate >= held);
        let near: Vec<&Probe> = above.filter(|probe| probe.rate <= held * OVERLOAD).collect();
        let is = |outcome| near.iter().filter(move |probe| probe.outcome == outcome).count();
        is(ProbeOutcome::Limited) >= LEAST_NEAR && is(ProbeOutcome::Missed) == 0
    }

    fn is_near_what_held(&self, rate: f64) -> bool {
        self.highest_held().is_some_and(|held| rate <= held * OVERLOAD)
    }

    /// Forgets what held in short probes.
    fn trust_long_probes_only(&mut self) {
        self.long_only = true;
        self.beliefs = Beliefs::new(self.range.least, self.range.most);
        for probe in &self.probes {
            let held = probe.outcome == ProbeOutcome::Held;
            if !held || probe.length == Length::Long {
                self.beliefs.observe(probe.rate, held);
            }
        }
    }

    /// What this search would say if it ended now.
    pub fn answer(&self, end: End) -> Answer {
        let long = self.long(|outcome| outcome == ProbeOutcome::Held).reduce(f64::max);
        let capacity =
            (self.highest_held().is_some() && self.lowest_missed().is_some()).then(|| self.beliefs.interval());
        // What held above the capacity held by chance.
        let most = capacity.map_or(f64::INFINITY, |capacity| capacity.estimate);
        let short = self.held().filter(|rate| *rate <= most).reduce(f64::max);
        Answer { end, rate: long.or(short).or(self.highest_held()), confirmed: long.is_some(), capacity }
    }

    /// The rate to confirm; `None` while nothing has held.
    fn cautious_rate(&self) -> Option<f64> {
        let held = self.highest_held()?;
        Some(match self.lowest_missed() {
            None => held,
            Some(_) => self.safe_rate(),
        })
    }

    /// Below the capacity with certainty, and as much as the capacity differs from probe to probe.
    fn safe_rate(&self) -> f64 {
        let rate = self.beliefs.quantile(CAUTION) * (1.0 - self.beliefs.spread());
        rate.clamp(self.range.least, self.range.most)
    }

    fn is_unconfirmed(&self) -> bool {
        self.long(|outcome| outcome == ProbeOutcome::Held).next().is_none()
    }

    /// Whether a probe that held tells anything.
    fn counts(&self, probe: &Probe) -> bool {
        !self.long_only || probe.length == Length::Long
    }

    fn held(&self) -> impl Iterator<Item = f64> {
        let held = |probe: &&Probe| probe.outcome == ProbeOutcome::Held && self.counts(probe);
        self.probes.iter().filter(held).map(|probe| probe.rate)
    }

    fn highest_held(&self) -> Option<f64> {
        self.held().reduce(f64::max)
    }

    fn lowest_missed(&self) -> Option<f64> {
        let missed = self.probes.iter().filter(|probe| probe.outcome != ProbeOutcome::Held);
        missed.map(|probe| probe.rate).reduce(f64::min)
    }

    fn misses_at(&self, rate: f64) -> usize {
        self.probes.iter().filter(|probe| probe.outcome != ProbeOutcome::Held && probe.rate <= rate).count()
    }

    fn held_long_at(&self, rate: f64) -> bool {
        self.long(|outcome| outcome == ProbeOutcome::Held).any(|held| held >= rate)
    }

    /// Rates of the long probes that ended so.
    fn long(&self, ended: impl Fn(ProbeOutcome) -> bool) -> impl Iterator<Item = f64> {
        let long = self.probes.iter().filter(move |probe| probe.length == Length::Long && ended(probe.outcome));
        long.map(|probe| probe.rate)
    }
}

fn probe(rate: f64, length: Length) -> Step {
    Step::Probe { rate: readable(rate), length }
}

/// With four digits, so that the rate that was probed is the one that is printed.
fn readable(rate: f64) -> f64 {
    let unit = 10f64.powi(rate.log10().floor() as i32 - 3);
    (rate / unit).round() * unit
}
