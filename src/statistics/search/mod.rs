//! Finds the highest rate that holds, by probes. Pure: from the probes so far to the next one, or to the answer.
//!
//! 1. *Bracket*: from the first rate on, at most doubled and less where a part of the machine was busy, until one holds and one misses. A
//!    miss shows what was carried, and the next rate lies below that.
//! 2. *Narrow*: the next probe goes where the beliefs are divided, again and again near the edge, until the interval of the
//!    capacity is narrow. A single odd probe moves them little.
//! 3. *Confirm*: the lower end of the interval is probed for longer. If that misses twice, short probes hold what longer ones
//!    do not, and only long ones count from then on.
//!
//! The time of two long probes is kept for the end. If no rate is confirmed by then, they probe a lower one that surely holds.
//!
//! A broker that was overloaded needs time to recover. So a miss right after an overload does not count: its rate is probed again. A miss
//! near the edge is probed again, too, if time was withheld from the machine during it.

mod answer;
mod beliefs;
#[cfg(test)]
#[path = "../../../tests/unit/statistics/search_simulations.rs"]
mod simulations;

use std::time::Duration;

pub use self::answer::{Answer, End};
use self::beliefs::Beliefs;

/// Between two rates while nothing has missed, and where a part of the machine is nearly full.
const GROWTH: f64 = 2.0;
const MIN_GROWTH: f64 = 1.25;

/// How busy a part of the machine may become by the next rate while nothing has missed.
const FULL: f64 = 0.9;

/// From a rate that missed to the next one while nothing has held, if all of it was carried.
const SHRINKAGE: f64 = 0.5;

/// The next rate while nothing has held, as a share of what was carried.
const SHARE_OF_CARRIED: f64 = 0.9;

/// Half the width of the interval of the capacity, as a share, that is narrow enough.
const PRECISION: f64 = 0.02;

/// The same where each probe takes long.
const PRECISION_OF_LONG_PROBES: f64 = 0.03;

/// Probes within this share of the estimate are near the edge.
const NEAR: f64 = 0.1;

/// How many probes must have held near the edge, and how many missed.
const MIN_NEAR: usize = 2;

/// No more probes than this.
const MAX_PROBES: usize = 100;

/// A miss at this many times a rate overloads the broker for the probe that comes next.
const OVERLOAD: f64 = 1.25;

/// Long probes that miss before short ones are distrusted.
const LONG_MISSES: usize = 2;

/// Probes in a row that are repeated because time was withheld from the machine.
const MAX_REPEATED: usize = 3;

/// From a long probe that missed to the next one, before any has held.
const STEP_DOWN: f64 = 0.85;

/// What is confirmed is above the true capacity with this probability.
const CAUTION: f64 = 0.05;

/// Long probes for which time is kept, so that a search without a confirmed rate ends with one.
const LAST_PROBES: u32 = 2;

/// The share of the messages left that a last probe may use, since its rate is rounded.
const AFFORDABLE: f64 = 0.999;

/// From a long probe that missed to the next one when time is nearly up.
const LAST_STEP_DOWN: f64 = 0.6;

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
    /// When it ended, since the search began.
    pub at: Duration,
    /// The rate that was acknowledged.
    pub carried: f64,
    /// The share of the busiest part of the machine that is known, such as its cores or a thread; 0 where none is.
    pub busy: f64,
}

impl Probe {
    fn held(&self) -> bool {
        self.outcome == ProbeOutcome::Held
    }
}

/// What is left of the search's time and messages, and what a probe takes of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    pub left: Duration,
    pub short: Duration,
    pub long: Duration,
    /// Messages that may still be sent.
    pub messages: f64,
}

impl Budget {
    fn takes(&self, length: Length) -> Duration {
        if length == Length::Long { self.long } else { self.short }
    }

    fn fits(&self, rate: f64, length: Length) -> bool {
        self.left >= self.takes(length) && self.messages >= rate * self.takes(length).as_secs_f64()
    }

    /// What is left after a probe that fits.
    fn after(self, rate: f64, length: Length) -> Budget {
        let takes = self.takes(length);
        Budget { left: self.left - takes, messages: self.messages - rate * takes.as_secs_f64(), ..self }
    }

    /// Whether so many long probes at this rate fit.
    fn fits_long(&self, number: u32, rate: f64) -> bool {
        let takes = self.long * number;
        self.left >= takes && self.messages >= rate * takes.as_secs_f64()
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    Probe { rate: f64, length: Length },
    End(Answer),
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
            if self.repeated < MAX_REPEATED {
                self.repeated += 1;
                self.again = Some((probe.rate, probe.length));
                return;
            }
            probe.outcome = ProbeOutcome::Limited;
        }
        self.repeated = 0;
        let held = probe.held();
        let overloaded = self
            .probes
            .last()
            .is_some_and(|last| !last.held() && last.rate >= OVERLOAD * probe.rate && self.again.is_none());
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
        let unconfirmed = self.confirmed().is_none();
        let to_confirm = self.rate_to_confirm().filter(|_| unconfirmed);
        let end = match wanted {
            Step::Probe { rate, length } => {
                let allows = |budget: Budget| {
                    let is_kept = |rate_of_last: f64| match length {
                        Length::Long => budget.fits_long(LAST_PROBES, rate.max(rate_of_last)),
                        Length::Short => budget.after(rate, length).fits_long(LAST_PROBES, rate_of_last),
                    };
                    self.probes.len() < MAX_PROBES && budget.fits(rate, length) && to_confirm.is_none_or(is_kept)
                };
                if allows(budget) {
                    return wanted;
                }
                let is_of_messages = allows(Budget { messages: f64::INFINITY, ..budget });
                if is_of_messages { End::OutOfMessages } else { End::OutOfTime }
            }
            Step::End(answer) if answer.end == End::Limited => End::Limited,
            Step::End(_) => return wanted,
        };
        // No higher than there are messages for.
        let affordable = |rate: f64| rate.min(AFFORDABLE * budget.messages / budget.long.as_secs_f64());
        match to_confirm.map(affordable) {
            Some(rate) if budget.left >= budget.long && rate >= self.range.least => probe(rate, Length::Long),
            _ => Step::End(self.answer(end)),
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
                Some(held) if held < most => probe((held * self.growth()).min(most), usual),
                _ if self.held_long_at(most) => Step::End(self.answer(End::NothingMissed)),
                _ => probe(most, Length::Long),
            },
            (None, Some(missed)) => match missed > least {
                true if self.long_only => probe((missed * STEP_DOWN).max(least), usual),
                true => probe(self.below_what_missed().clamp(least, missed), usual),
                false if self.misses_at(least) < MIN_NEAR => probe(least, usual),
                false if self.is_limited() => Step::End(self.answer(End::Limited)),
                false => Step::End(self.answer(End::NothingHeld)),
            },
            (Some(_), Some(_)) => self.narrow(usual),
        }
    }

    fn narrow(&self, usual: Length) -> Step {
        let Range { least, most, .. } = self.range;
        if self.beliefs.quantile(0.9) <= least && self.misses_at(least) >= MIN_NEAR {
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
            return probe(self.beliefs.quantile(share).min(self.highest_safe()).clamp(least, most), usual);
        }
        if self.confirmed().is_some_and(|rate| rate >= self.safe_rate() * (1.0 - NEAR)) {
            Step::End(self.answer(End::Found))
        } else {
            probe(self.safe_rate(), Length::Long)
        }
    }

    /// Beyond it, a probe would only overload the broker, although a capacity there is not impossible.
    fn highest_safe(&self) -> f64 {
        match (self.highest_held(), self.lowest_missed()) {
            (Some(held), Some(missed)) if held < missed => missed * MIN_GROWTH,
            (Some(held), _) => held * GROWTH,
            (None, _) => self.range.most,
        }
    }

    /// How much the rate may grow while nothing has missed: as much as the busiest part of the machine bears.
    fn growth(&self) -> f64 {
        let busy = self.probes.last().map_or(0.0, |last| last.busy);
        (FULL / busy.max(FULL / GROWTH)).max(MIN_GROWTH)
    }

    /// The next rate while nothing has held.
    fn below_what_missed(&self) -> f64 {
        let next = |probe: &Probe| (probe.rate * SHRINKAGE).min(probe.carried * SHARE_OF_CARRIED);
        self.probes.iter().map(next).fold(f64::INFINITY, f64::min)
    }

    /// Whether the capacity is known well, from probes near it on both sides.
    fn is_narrow(&self) -> bool {
        let known = self.beliefs.interval();
        let (precision, least_near) =
            if self.long_only { (PRECISION_OF_LONG_PROBES, 1) } else { (PRECISION, MIN_NEAR) };
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
        is(ProbeOutcome::Limited) >= MIN_NEAR && is(ProbeOutcome::Missed) == 0
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

    /// The highest rate that a long probe held, and that long probes at it or below it do not contradict: fewer of those missed
    /// than held at it or above it.
    fn confirmed(&self) -> Option<f64> {
        let held = || self.long(|outcome| outcome == ProbeOutcome::Held);
        let missed = || self.long(|outcome| outcome != ProbeOutcome::Held);
        let is_sound =
            |rate: &f64| held().filter(|held| held >= rate).count() > missed().filter(|missed| missed <= rate).count();
        held().filter(is_sound).reduce(f64::max)
    }

    /// The rate to confirm when time is nearly up: a lower one each time; `None` while nothing has held.
    fn rate_to_confirm(&self) -> Option<f64> {
        let held = self.highest_held_at_all()?;
        // Few long probes do not tell yet what is safe.
        let is_known = self.lowest_missed().is_some() && !self.long_only;
        let cautious = if is_known { held.min(self.safe_rate()) } else { held };
        // The rate of a long probe that was to be repeated counts, because no time is left to repeat it.
        let again = self.again.filter(|(_, length)| *length == Length::Long).map(|(rate, _)| rate);
        let missed = self.long(|outcome| outcome != ProbeOutcome::Held).chain(again).reduce(f64::min);
        let lower = missed.map_or(cautious, |missed| cautious.min(missed * LAST_STEP_DOWN));
        Some(lower.max(self.range.least))
    }

    /// Below the capacity with certainty, and as much as the capacity differs from probe to probe.
    fn safe_rate(&self) -> f64 {
        let rate = self.beliefs.quantile(CAUTION) * (1.0 - self.beliefs.spread());
        rate.clamp(self.range.least, self.range.most)
    }

    /// The probes that tell of the capacity.
    fn counted(&self) -> Vec<&Probe> {
        self.probes.iter().filter(|probe| self.counts(probe) || !probe.held()).collect()
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

    /// In a short probe too, although only long ones count.
    fn highest_held_at_all(&self) -> Option<f64> {
        self.probes.iter().filter(|probe| probe.held()).map(|probe| probe.rate).reduce(f64::max)
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
