//! How far a rank's clock is from rank 0's, by round trips.
//!
//! A rank answers a ping with its time. That time lies between the sending and the arrival of the answer by rank 0's clock, so the middle
//! of both is off by half the round trip at most. The shortest round trip of a stage has the narrowest bound (RFC 5905, clock filter).
//! Ranks on one host read one clock, so the round trips to all of them are about that clock.

use crate::record::RankClock;

/// When a round trip was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Before,
    During,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When it was sent, by rank 0's clock.
    pub sent_ns: u64,
    pub arrived_ns: u64,
    /// When it was answered, by the rank's clock.
    pub answered_ns: u64,
}

impl RoundTrip {
    fn length_ns(&self) -> u64 {
        self.arrived_ns.saturating_sub(self.sent_ns)
    }

    /// How much the rank's clock is ahead.
    fn offset_ns(&self) -> i64 {
        let middle_ns = self.sent_ns + self.length_ns() / 2;
        self.answered_ns.wrapping_sub(middle_ns) as i64
    }

    /// Most that the offset may be off.
    fn error_ns(&self) -> u64 {
        self.length_ns().div_ceil(2)
    }
}

/// The round trips of one trial, to one clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundTrips {
    shortest: [Option<RoundTrip>; 3],
    count: u64,
}

impl RoundTrips {
    pub fn add(&mut self, stage: Stage, found: RoundTrip) {
        self.count += 1;
        keep_shorter(&mut self.shortest[stage as usize], found);
    }

    /// Adds those of another process that reads the same clock.
    pub fn add_all(&mut self, other: &RoundTrips) {
        self.count += other.count;
        for (shortest, found) in self.shortest.iter_mut().zip(other.shortest) {
            if let Some(found) = found {
                keep_shorter(shortest, found);
            }
        }
    }

    /// How much the rank's clock was ahead before the trial.
    pub fn offset_ns(&self) -> i64 {
        self.shortest[Stage::Before as usize].map_or(0, |found| found.offset_ns())
    }

    /// What is known of the clock whose times were corrected by `corrected_ns`. `None` without a round trip.
    /// `is_same`: it is rank 0's own clock.
    pub fn clock(&self, corrected_ns: i64, is_same: bool) -> Option<RankClock> {
        let found = || self.shortest.iter().flatten();
        let off = |trip: &RoundTrip| trip.offset_ns().abs_diff(corrected_ns) + trip.error_ns();
        let drift = match self.shortest {
            [Some(before), _, Some(after)] if after.sent_ns > before.sent_ns && !is_same => {
                let seconds = (after.sent_ns - before.sent_ns) as f64 / 1e9;
                Some((after.offset_ns() - before.offset_ns()) as f64 / seconds)
            }
            _ => None,
        };
        Some(RankClock {
            offset_ns: corrected_ns,
            error_ns: if is_same { 0 } else { found().map(off).max()? },
            drift_ns_per_second: drift,
            round_trip_ns: found().map(RoundTrip::length_ns).min()?,
            round_trips: self.count,
        })
    }
}

fn keep_shorter(shortest: &mut Option<RoundTrip>, found: RoundTrip) {
    if shortest.is_none_or(|shortest| found.length_ns() < shortest.length_ns()) {
        *shortest = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    proptest! {
        /// Whatever the ways there and back take, the bound contains the clock's true distance at each round trip.
        #[test]
        fn the_bound_contains_the_truth(
            ahead in -50_000_000i64..50_000_000,
            drift_per_trip in -2_000i64..2_000,
            ways in proptest::collection::vec((1_000u64..5_000_000, 1_000u64..5_000_000), 3..60),
        ) {
            let mut trips = RoundTrips::default();
            let mut truths = Vec::new();
            let third = ways.len() / 3;
            for (index, (there, back)) in ways.iter().enumerate() {
                let sent_ns = 1_000 * SECOND + index as u64 * SECOND;
                let true_ahead = ahead + drift_per_trip * index as i64;
                truths.push(true_ahead);
                let stage = [Stage::Before, Stage::During, Stage::After][(index / third.max(1)).min(2)];
                let answered_ns = (sent_ns + there).saturating_add_signed(true_ahead);
                trips.add(stage, RoundTrip { sent_ns, arrived_ns: sent_ns + there + back, answered_ns });
            }
            let corrected = trips.offset_ns();
            let clock = trips.clock(corrected, false).unwrap();
            // A stage's bound is exact at its shortest round trip; in between the clock drifts by at most this.
            let drifted = drift_per_trip.unsigned_abs() * ways.len() as u64;
            for truth in truths {
                prop_assert!(truth.abs_diff(corrected) <= clock.error_ns + drifted, "{truth} {corrected} {clock:?}");
            }
        }
    }

    #[test]
    fn a_drift_is_found_and_widens_the_bound() {
        let mut trips = RoundTrips::default();
        let trip = |sent_ns: u64, ahead: u64| RoundTrip {
            sent_ns,
            arrived_ns: sent_ns + 200,
            answered_ns: sent_ns + 100 + ahead,
        };
        trips.add(Stage::Before, trip(10 * SECOND, 5_000));
        trips.add(Stage::After, trip(20 * SECOND, 9_000));
        let clock = trips.clock(trips.offset_ns(), false).unwrap();
        let drift_ns_per_second = Some(400.0);
        let expected =
            RankClock { offset_ns: 5_000, error_ns: 4_100, drift_ns_per_second, round_trip_ns: 200, round_trips: 2 };
        assert_eq!(clock, expected);
        assert_eq!(trips.clock(0, true).unwrap().error_ns, 0, "one clock does not differ from itself");
    }
}
