//! Finds where acknowledgements stopped although messages were due, and from when on the rate was held again.

use std::ops::Range;
use std::time::Duration;

use crate::engine::Outcome;
use crate::measure::host::{LongPause, paused_ns};
use crate::measure::{BIN_NS, Bin, FailureClass};
use crate::record::Outage;
use crate::scenario::{Load, Schedule};

/// Shortest gap that is an outage: longer than a healthy machine's scheduler and a broker's garbage collector take.
pub(super) const MIN_GAP_NS: u64 = 200_000_000;

/// How many times the usual gap it must be as well: acknowledgements that come in large batches leave gaps of their own.
const USUAL_GAPS: u64 = 5;

/// Messages that must have been due and were not acknowledged: that none of 10 comes by chance has a probability of e⁻¹⁰.
const MIN_EXPECTED: f64 = 10.0;

/// Share of the mean of a gap's bins below which a bin of a schedule is a pause.
const PAUSE_SHARE: f64 = 0.1;

/// Share of the expected rate that must be acknowledged, and for how long, for the rate to be held.
const HELD_SHARE: f64 = 0.95;
const HELD_FOR_NS: u64 = 1_000_000_000;

/// How long before an outage the rate of a closed loop is taken.
const RATE_FROM_NS: u64 = 5_000_000_000;

/// The outages of a trial that were not over when its window began: one of the warm-up belongs to them if a gap of it reaches into the window.
pub(super) fn outages(load: &Load, outcome: &Outcome) -> Vec<Outage> {
    let begin_ns = outcome.times.measure_start_ns;
    let measured = |outage: &Found| outage.last_gap_end_ns > begin_ns;
    let outages = AckTimeline::new(load, outcome).outages();
    outages.into_iter().filter(measured).map(|outage| outage.record(begin_ns)).collect()
}

/// The longest time without an acknowledgement that ends in the window, if it is longer than a bin. What follows the load does not count:
/// nothing is due then.
pub(super) fn longest_gap_ns(outcome: &Outcome) -> Option<u64> {
    let times = &outcome.times;
    let timeline = AckTimeline::new(&Load::Closed, outcome);
    let in_window = |gap: &Gap| gap.end_ns > times.measure_start_ns && gap.begin_ns < timeline.load_end_ns;
    let gaps = timeline.gaps().into_iter().filter(in_window);
    gaps.map(|gap| gap.end_ns.min(timeline.load_end_ns) - gap.begin_ns).max().filter(|longest_ns| *longest_ns >= BIN_NS)
}

/// A load and its acknowledgements over time; times are in nanoseconds since the trial's epoch.
struct AckTimeline<'a> {
    bins: &'a [Bin],
    /// `None` in a closed loop.
    schedule: Option<&'a Schedule>,
    /// Share of the due messages that the broker should acknowledge. It never acknowledges messages of transactions that the scenario aborts.
    acknowledged_share: f64,
    load_start_ns: u64,
    /// Nothing is due from here on.
    load_end_ns: u64,
    /// What is measured.
    window: Range<u64>,
    /// When the client stood still.
    pauses: &'a [LongPause],
}

/// The time from one acknowledgement to the next.
#[derive(Clone, Copy)]
struct Gap {
    begin_ns: u64,
    /// Where the load ended if no acknowledgement followed.
    end_ns: u64,
    acknowledged: bool,
}

struct Found {
    begin_ns: u64,
    /// End of its first gap.
    gap_end_ns: u64,
    last_gap_end_ns: u64,
    longest_gap_ns: u64,
    /// Longest part of a gap that lies in the window, without the pauses of the client.
    in_window_ns: u64,
    /// Part of the longest gap in which the client stood still.
    client_paused_ns: u64,
    /// Whether a gap would be long enough without the pauses of the client.
    lasts_without_pauses: bool,
    acknowledged: bool,
    recovered_ns: Option<u64>,
    expected_per_second: f64,
}

impl Found {
    fn note_gap(&mut self, gap: GapWithPauses, least_gap_ns: u64) {
        if gap.length_ns > self.longest_gap_ns {
            (self.longest_gap_ns, self.client_paused_ns) = (gap.length_ns, gap.paused_ns);
        }
        self.last_gap_end_ns = gap.end_ns;
        self.in_window_ns = self.in_window_ns.max(gap.in_window_ns);
        self.lasts_without_pauses |= gap.length_ns - gap.paused_ns >= least_gap_ns;
    }

    fn record(&self, measure_start_ns: u64) -> Outage {
        let begin_ns = self.begin_ns.max(measure_start_ns);
        Outage {
            begin_ns: begin_ns - measure_start_ns,
            longest_gap_ns: self.longest_gap_ns,
            in_window_ns: self.in_window_ns,
            first_acknowledgement_ns: self.acknowledged.then(|| self.gap_end_ns.saturating_sub(begin_ns)),
            recovered_ns: self.recovered_ns.map(|recovered_ns| recovered_ns.saturating_sub(begin_ns)),
            expected_per_second: self.expected_per_second,
            client_paused_ns: self.client_paused_ns,
            caused_by_client: !self.lasts_without_pauses,
        }
    }
}

#[derive(Clone, Copy)]
struct GapWithPauses {
    end_ns: u64,
    length_ns: u64,
    paused_ns: u64,
    /// What of it lies in the window, without the pauses.
    in_window_ns: u64,
}

/// What should be acknowledged.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Schedule(&'a Schedule),
    PerSecond(f64),
}

impl<'a> AckTimeline<'a> {
    fn new(load: &'a Load, outcome: &'a Outcome) -> Self {
        let (times, window) = (&outcome.times, &outcome.totals.window);
        AckTimeline {
            bins: outcome.totals.outcomes.timeline.bins(),
            schedule: match load {
                Load::Open(schedule) => Some(schedule),
                Load::Closed => None,
            },
            acknowledged_share: acknowledged_share(outcome),
            load_start_ns: times.load_start_ns,
            load_end_ns: times.load_end_ns.map_or(times.load_ended_ns, |end_ns| end_ns.min(times.load_ended_ns)),
            window: times.load_start_ns + window.begin_ns..times.load_start_ns + window.end_ns,
            pauses: &outcome.usage.long_pauses,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        let between = |pair: &[Bin]| Gap { begin_ns: pair[0].last_ns, end_ns: pair[1].first_ns, acknowledged: true };
        let last = self.bins.last().filter(|last| last.last_ns < self.load_end_ns);
        let last = last.map(|last| Gap { begin_ns: last.last_ns, end_ns: self.load_end_ns, acknowledged: false });
        self.bins.windows(2).map(between).chain(last).collect()
    }

    fn outages(&self) -> Vec<Found> {
        let least_gap_ns = self.least_gap_ns();
        let mut found: Vec<Found> = Vec::new();
        for gap in self.gaps() {
            if gap.end_ns - gap.begin_ns < least_gap_ns {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.recovered_ns.is_none_or(|at_ns| gap.begin_ns < at_ns) => {
                    last.note_gap(self.with_pauses(gap.begin_ns, gap.end_ns), least_gap_ns);
                }
                last => {
                    let since_ns = last.and_then(|last| last.recovered_ns).unwrap_or(self.load_start_ns);
                    found.extend(self.outage(gap, since_ns, least_gap_ns));
                }
            }
        }
        found
    }

    fn with_pauses(&self, begin_ns: u64, end_ns: u64) -> GapWithPauses {
        let (first_ns, last_ns) = (begin_ns.max(self.window.start), end_ns.min(self.window.end));
        let in_window_ns = last_ns.saturating_sub(first_ns);
        GapWithPauses {
            end_ns,
            length_ns: end_ns - begin_ns,
            paused_ns: paused_ns(self.pauses, begin_ns, end_ns),
            in_window_ns: in_window_ns.saturating_sub(paused_ns(self.pauses, first_ns, last_ns)),
        }
    }

    /// The outage that begins with `gap`, if it is one. The rate was held since `since_ns`.
    fn outage(&self, gap: Gap, since_ns: u64, least_gap_ns: u64) -> Option<Found> {
        let expected = self.expected(gap.begin_ns, since_ns);
        let begin_ns = self.broken_from(gap.begin_ns, gap.end_ns, expected, least_gap_ns)?;
        let length_ns = gap.end_ns - begin_ns;
        let recovered = || self.held_from(gap.end_ns, expected, least_gap_ns);
        let mut found = Found {
            begin_ns,
            gap_end_ns: gap.end_ns,
            last_gap_end_ns: gap.end_ns,
            longest_gap_ns: 0,
            in_window_ns: 0,
            client_paused_ns: 0,
            lasts_without_pauses: false,
            acknowledged: gap.acknowledged,
            recovered_ns: gap.acknowledged.then(recovered).flatten(),
            expected_per_second: self.count(expected, begin_ns, gap.end_ns) * 1e9 / length_ns as f64,
        };
        found.note_gap(self.with_pauses(begin_ns, gap.end_ns), least_gap_ns);
        Some(found)
    }

    fn least_gap_ns(&self) -> u64 {
        let mut gaps: Vec<u64> = self.bins.windows(2).map(|pair| pair[1].first_ns - pair[0].last_ns).collect();
        gaps.sort_unstable();
        let usual_ns = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
        MIN_GAP_NS.max(USUAL_GAPS * usual_ns)
    }

    fn expected(&self, at_ns: u64, since_ns: u64) -> Expected<'a> {
        if let Some(schedule) = self.schedule {
            return Expected::Schedule(schedule);
        }
        let from_ns = since_ns.max(at_ns.saturating_sub(RATE_FROM_NS).next_multiple_of(BIN_NS));
        let messages = self.acknowledged(from_ns, at_ns + 1);
        Expected::PerSecond(messages as f64 * 1e9 / (at_ns - from_ns).max(BIN_NS) as f64)
    }

    /// Messages whose acknowledgements are expected between two moments.
    fn count(&self, expected: Expected<'_>, from_ns: u64, until_ns: u64) -> f64 {
        let in_load = |at_ns: u64| at_ns.clamp(self.load_start_ns, self.load_end_ns) - self.load_start_ns;
        let (from_ns, until_ns) = (in_load(from_ns), in_load(until_ns.max(from_ns)));
        match expected {
            Expected::Schedule(schedule) => {
                let due = |offset_ns| schedule.count_until(Duration::from_nanos(offset_ns));
                (due(until_ns) - due(from_ns)) as f64 * self.acknowledged_share
            }
            Expected::PerSecond(rate) => rate * (until_ns - from_ns) as f64 / 1e9,
        }
    }

    /// Whether acknowledgements failed to come between two of them: from when on messages were due, if enough of them were, and
    /// long enough before the end.
    fn broken_from(&self, from_ns: u64, until_ns: u64, expected: Expected<'_>, least_gap_ns: u64) -> Option<u64> {
        let overdue_ns = until_ns.saturating_sub(MIN_GAP_NS);
        if until_ns.saturating_sub(from_ns) < least_gap_ns || self.count(expected, from_ns, overdue_ns) < MIN_EXPECTED {
            return None;
        }
        // What comes before the first bin with a good part of what was due is a pause of the schedule.
        let bins = (until_ns - from_ns) as f64 / BIN_NS as f64;
        let paused = PAUSE_SHARE * self.count(expected, from_ns, until_ns) / bins;
        let mut begin_ns = from_ns;
        while self.count(expected, begin_ns, begin_ns + BIN_NS) < paused {
            begin_ns += BIN_NS;
        }
        Some(begin_ns).filter(|begin_ns| until_ns.saturating_sub(*begin_ns) >= least_gap_ns)
    }

    /// Messages acknowledged in the bins that begin between two moments.
    fn acknowledged(&self, from_ns: u64, until_ns: u64) -> u64 {
        self.bins_between(from_ns, until_ns).iter().map(|bin| bin.messages).sum()
    }

    fn bins_between(&self, from_ns: u64, until_ns: u64) -> &'a [Bin] {
        let index = |at_ns: u64| self.bins.partition_point(|bin| bin.first_ns < at_ns);
        &self.bins[index(from_ns)..index(until_ns)]
    }

    /// The first acknowledgement, at `from_ns` at the earliest, from which on the rate was held.
    fn held_from(&self, from_ns: u64, expected: Expected<'_>, least_gap_ns: u64) -> Option<u64> {
        let last_ns = self.load_end_ns.checked_sub(HELD_FOR_NS)?;
        let candidates = (from_ns / BIN_NS..=last_ns / BIN_NS).map(|number| number * BIN_NS);
        let held = candidates.into_iter().find(|begin_ns| {
            let end_ns = begin_ns + HELD_FOR_NS;
            let wanted = self.count(expected, *begin_ns, end_ns);
            wanted > 0.0
                && self.acknowledged(*begin_ns, end_ns) as f64 >= HELD_SHARE * wanted
                && self.is_unbroken(from_ns.max(*begin_ns), end_ns, expected, least_gap_ns)
        });
        self.bins_between(held?, self.load_end_ns).first().map(|bin| bin.first_ns)
    }

    fn is_unbroken(&self, from_ns: u64, until_ns: u64, expected: Expected<'_>, least_gap_ns: u64) -> bool {
        let mut last_ns = from_ns;
        let mut broken = |next_ns: u64, after_ns: u64| {
            let begin_ns = std::mem::replace(&mut last_ns, after_ns);
            self.broken_from(begin_ns, next_ns, expected, least_gap_ns).is_some()
        };
        let bins = self.bins_between(from_ns, until_ns);
        !bins.iter().any(|bin| broken(bin.first_ns, bin.last_ns)) && !broken(until_ns, until_ns)
    }
}

/// Acknowledged messages / (acknowledged + aborted by the scenario), of the measured ones. Messages that failed otherwise, or were not sent, are
/// assumed to have the same share.
fn acknowledged_share(outcome: &Outcome) -> f64 {
    let mut errors = outcome.totals.outcomes.errors.iter();
    let aborted = errors.find(|(class, _)| *class == FailureClass::Aborted).map_or(0, |(_, tally)| tally.count);
    let acknowledged = outcome.ledger.measured.acknowledged;
    if acknowledged == 0 { 1.0 } else { acknowledged as f64 / (acknowledged + aborted) as f64 }
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/outage.rs"]
mod tests;
