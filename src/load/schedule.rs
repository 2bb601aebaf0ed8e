//! Figures of a schedule as a whole: its curve, and the number of messages due by a time.

use std::time::Duration;

use super::curve::{Curve, CurveBuilder};
use crate::scenario::Schedule;

impl Schedule {
    /// Messages of all producers together that are due before `offset` from the start of the load: exactly as many as
    /// the producers' [`SendSchedule`](super::SendSchedule)s put there, but for [`Schedule::Poisson`] the number to expect
    /// (its standard deviation is the square root of it).
    pub fn count_until(&self, offset: Duration) -> u64 {
        self.curve().count_until(nanoseconds(offset))
    }

    /// Messages per second of all producers together, `offset` after the start of the load.
    #[cfg(test)]
    pub(super) fn rate_at(&self, offset: Duration) -> f64 {
        self.curve().rate_at(nanoseconds(offset))
    }

    /// The rate over time; for [`Schedule::Poisson`] that of its mean.
    pub(super) fn curve(&self) -> Curve {
        let curve = CurveBuilder::new();
        match self {
            Schedule::Constant { rate } | Schedule::Poisson { rate, .. } => curve.then_for_ever(*rate),
            Schedule::Ramp { from, to, over } => curve.piece(*from, *to, nanoseconds(*over)).then_for_ever(*to),
            Schedule::Steps(steps) => {
                let last = steps.last().map_or(0.0, |(rate, _)| *rate);
                steps
                    .iter()
                    .fold(curve, |curve, (rate, length)| curve.piece(*rate, *rate, nanoseconds(*length)))
                    .then_for_ever(last)
            }
            Schedule::Bursts { base, burst, every, length } => {
                let (every, length) = (nanoseconds(*every), nanoseconds(*length));
                curve.piece(*burst, *burst, length).piece(*base, *base, every.saturating_sub(length)).repeated()
            }
        }
    }
}

/// Saturates after 584 years.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
