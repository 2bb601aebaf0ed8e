//! Finds where acknowledgements stopped although messages were due, and from when on the rate was held again.

use std::time::Duration;

use crate::engine::Outcome;
use crate::measure::host::{LongPause, paused_ns};
use crate::measure::{BIN_NS, Bin};
use crate::record::Outage;
use crate::scenario::{Load, Schedule};

/// Shortest gap that is an outage: longer than a healthy machine's scheduler and a broker's garbage collector take.
const MIN_GAP_NS: u64 = 200_000_000;

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

/// The outages of a trial that were not over when its window began.
pub(super) fn outages(load: &Load, outcome: &Outcome) -> Vec<Outage> {
    let begin_ns = outcome.times.measure_start_ns;
    let measured = |outage: &Found| outage.gap_end_ns > begin_ns;
    let outages = AckTimeline::new(load, outcome).outages();
    outages.into_iter().filter(measured).map(|outage| outage.record(begin_ns)).collect()
}

/// The longest time without an acknowledgement that ends in the window, if it is longer than a bin.
pub(super) fn longest_gap_ns(outcome: &Outcome) -> Option<u64> {
    let times = &outcome.times;
    let timeline = AckTimeline::new(&Load::Closed, outcome);
    let in_window = |gap: &Gap| gap.end_ns > times.measure_start_ns && gap.begin_ns < timeline.load_end_ns;
    let gaps = timeline.gaps().into_iter().filter(in_window);
    gaps.map(|gap| gap.end_ns - gap.begin_ns).max().filter(|longest_ns| *longest_ns >= BIN_NS)
}

/// A load and its acknowledgements over time; times are in nanoseconds since the trial's epoch.
struct AckTimeline<'a> {
    bins: &'a [Bin],
    /// `None` in a closed loop.
    schedule: Option<&'a Schedule>,
    load_start_ns: u64,
    /// Nothing is due from here on.
    load_end_ns: u64,
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
    longest_gap_ns: u64,
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
        self.lasts_without_pauses |= gap.length_ns - gap.paused_ns >= least_gap_ns;
    }

    fn record(&self, measure_start_ns: u64) -> Outage {
        Outage {
            begin_ns: self.begin_ns.saturating_sub(measure_start_ns),
            longest_gap_ns: self.longest_gap_ns,
            first_acknowledgement_ns: self.acknowledged.then(|| self.gap_end_ns - self.begin_ns),
            recovered_ns: self.recovered_ns.map(|recovered_ns| recovered_ns - self.begin_ns),
            expected_per_second: self.expected_per_second,
            client_paused_ns: self.client_paused_ns,
            caused_by_client: !self.lasts_without_pauses,
        }
    }
}

#[derive(Clone, Copy)]
struct GapWithPauses {
    length_ns: u64,
    paused_ns: u64,
}

/// What should be acknowledged.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Schedule(&'a Schedule),
    PerSecond(f64),
}

impl<'a> AckTimeline<'a> {
    fn new(load: &'a Load, outcome: &'a Outcome) -> Self {
        let times = &outcome.times;
        AckTimeline {
            bins: outcome.totals.outcomes.timeline.bins(),
            schedule: match load {
                Load::Open(schedule) => Some(schedule),
                Load::Closed => None,
            },
            load_start_ns: times.load_start_ns,
            load_end_ns: times.load_end_ns.map_or(times.load_ended_ns, |end_ns| end_ns.min(times.load_ended_ns)),
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
        GapWithPauses { length_ns: end_ns - begin_ns, paused_ns: paused_ns(self.pauses, begin_ns, end_ns) }
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
            longest_gap_ns: 0,
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

    /// Messages expected between two moments.
    fn count(&self, expected: Expected<'_>, from_ns: u64, until_ns: u64) -> f64 {
        let in_load = |at_ns: u64| at_ns.clamp(self.load_start_ns, self.load_end_ns) - self.load_start_ns;
        let (from_ns, until_ns) = (in_load(from_ns), in_load(until_ns.max(from_ns)));
        match expected {
            Expected::Schedule(schedule) => {
                let due = |offset_ns| schedule.count_until(Duration::from_nanos(offset_ns));
                (due(until_ns) - due(from_ns)) as f64
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Slowest, Timeline};

    const MILLISECOND: u64 = 1_000_000;

    /// 10 s at 1,000 messages/s, of which `answer` says when each one is acknowledged, in milliseconds since the load began.
    fn found(
        schedule: Option<&Schedule>,
        answer: impl Fn(u64) -> Option<u64>,
    ) -> Vec<(u64, u64, Option<u64>, Option<u64>)> {
        let mut timeline = Timeline::default();
        let load_start_ns = 345 * MILLISECOND;
        let mut moments: Vec<u64> = (0..10_000).filter_map(answer).collect();
        moments.sort_unstable();
        moments.iter().for_each(|at_ms| timeline.add(load_start_ns + at_ms * MILLISECOND, 1, Slowest::default()));
        let load_end_ns = load_start_ns + 10_000 * MILLISECOND;
        let timeline = AckTimeline { bins: timeline.bins(), schedule, load_start_ns, load_end_ns, pauses: &[] };
        let figures = |outage: Found| {
            let outage = outage.record(load_start_ns);
            let [begin, gap] = [outage.begin_ns, outage.longest_gap_ns].map(|ns| ns / MILLISECOND);
            let since = |ns: Option<u64>| ns.map(|ns| ns / MILLISECOND);
            (begin, gap, since(outage.first_acknowledgement_ns), since(outage.recovered_ns))
        };
        timeline.outages().into_iter().map(figures).collect()
    }

    const CONSTANT: Schedule = Schedule::Constant { rate: 1000.0 };

    /// Acknowledged after 2 ms, or when a stall is over.
    fn stalled(stalls: &'static [(u64, u64)]) -> impl Fn(u64) -> Option<u64> {
        move |sent_ms| {
            let stall = stalls.iter().find(|(begin_ms, end_ms)| (*begin_ms..*end_ms).contains(&(sent_ms + 2)));
            Some(stall.map_or(sent_ms + 2, |(_, end_ms)| *end_ms))
        }
    }

    #[test]
    fn a_steady_load_has_no_outage_and_a_short_gap_is_not_one() {
        assert_eq!(found(Some(&CONSTANT), stalled(&[])), []);
        assert_eq!(found(None, stalled(&[])), []);
        assert_eq!(found(Some(&CONSTANT), stalled(&[(3000, 3150)])), []);
    }

    #[test]
    fn outage_lasts_between_two_acknowledgements() {
        let outages = found(Some(&CONSTANT), stalled(&[(3000, 4500), (7000, 7300)]));
        assert_eq!(outages, [(2999, 1501, Some(1501), Some(1501)), (6999, 301, Some(301), Some(301))]);
    }

    #[test]
    fn the_rate_is_held_again_when_it_is_carried_for_a_second() {
        // For 2 s after the gap every fourth message is dropped.
        let slow = |sent_ms: u64| match sent_ms {
            3000..4000 => None,
            4000..6000 if sent_ms.is_multiple_of(4) => None,
            _ => Some(sent_ms + 2),
        };
        let [(begin_ms, gap_ms, Some(first_ms), Some(recovered_ms))] = found(Some(&CONSTANT), slow)[..] else {
            panic!()
        };
        assert_eq!((begin_ms, gap_ms, first_ms), (3001, 1002, 1002));
        // A second has 95 % of its messages once it reaches no more than 200 ms into the 2 s.
        assert!((2800..=2900).contains(&recovered_ms), "{recovered_ms}");
    }

    #[test]
    fn gaps_before_the_rate_is_held_again_are_one_outage() {
        let outages = found(Some(&CONSTANT), stalled(&[(3000, 3500), (3600, 5000), (5100, 5500)]));
        assert_eq!(outages, [(2999, 1401, Some(501), Some(2501))]);
    }

    #[test]
    fn a_closed_loop_is_held_to_the_rate_before() {
        let faulty = |after_share: u64| {
            move |sent_ms: u64| match sent_ms {
                3000..4000 => None,
                4000.. if sent_ms % 100 >= after_share => None,
                _ => Some(sent_ms),
            }
        };
        let recovered = |after_share| found(None, faulty(after_share))[0];
        assert_eq!((recovered(97).0, recovered(97).1), (2999, 1001));
        assert!(recovered(97).3.is_some_and(|recovered_ms| recovered_ms <= 1101), "{:?}", recovered(97));
        assert_eq!(recovered(93), (2999, 1001, Some(1001), None));
    }

    #[test]
    fn an_outage_that_does_not_end_lasts_as_long_as_the_load() {
        let dead = |sent_ms| (sent_ms < 8000).then_some(sent_ms + 2);
        assert_eq!(found(Some(&CONSTANT), dead), [(8001, 1999, None, None)]);
        let late = |sent_ms: u64| Some(if sent_ms < 8000 { sent_ms + 2 } else { 12_000 });
        assert_eq!(found(Some(&CONSTANT), late), [(8001, 3999, Some(3999), None)]);
    }

    #[test]
    fn schedule_pauses_and_large_batches_are_not_outages() {
        let second = Duration::from_secs(1);
        let bursts = Schedule::Bursts { base: 0.5, burst: 1000.0, every: 2 * second, length: second };
        let in_bursts = |sent_ms: u64| (sent_ms % 2000 < 1000).then_some(sent_ms + 2);
        assert_eq!(found(Some(&bursts), in_bursts), []);
        let stalled =
            |sent_ms: u64| in_bursts(sent_ms).map(|at_ms| if (4000..4700).contains(&at_ms) { 4700 } else { at_ms });
        assert_eq!(found(Some(&bursts), stalled), [(4001, 699, Some(699), Some(699))]);
        let batches = |sent_ms: u64| Some((sent_ms / 300 + 1) * 300);
        assert_eq!(found(Some(&CONSTANT), batches), []);
    }

    #[test]
    fn an_outage_that_pauses_of_the_client_explain_is_its_own() {
        let mut timeline = Timeline::default();
        let mut moments: Vec<u64> =
            (0..10_000).filter_map(stalled(&[(3000, 3258), (6000, 6600), (6700, 7200)])).collect();
        moments.sort_unstable();
        moments.iter().for_each(|at_ms| timeline.add(at_ms * MILLISECOND, 1, Slowest::default()));
        let caused = |pauses: &[(u64, u64)]| {
            let pause = |(begin_ms, end_ms): &(u64, u64)| LongPause {
                begin_ns: begin_ms * MILLISECOND,
                end_ns: end_ms * MILLISECOND,
            };
            let pauses: Vec<LongPause> = pauses.iter().map(pause).collect();
            let (bins, schedule) = (timeline.bins(), Some(&CONSTANT));
            let timeline =
                AckTimeline { bins, schedule, load_start_ns: 0, load_end_ns: 10_000 * MILLISECOND, pauses: &pauses };
            let told = |outage: Found| {
                let outage = outage.record(0);
                (outage.client_paused_ns / MILLISECOND, outage.caused_by_client)
            };
            timeline.outages().into_iter().map(told).collect::<Vec<_>>()
        };
        assert_eq!(caused(&[]), [(0, false), (0, false)]);
        assert_eq!(caused(&[(3020, 3247), (9000, 9500)]), [(227, true), (0, false)]);
        assert_eq!(caused(&[(3000, 3050)]), [(50, false), (0, false)], "208 ms are left, an outage");
        assert_eq!(caused(&[(6000, 6600)]), [(0, false), (600, false)], "a gap that follows is the broker's");
        assert_eq!(caused(&[(6000, 6600), (6800, 7150)]), [(0, false), (600, true)]);
    }
}
