//! When one producer's messages are due.

use rand::RngExt;
use rand_distr::Exp1;

use super::curve::Curve;
use super::random::{Generator, Purpose, generator};
use crate::scenario::Schedule;

/// The intended times of one producer's messages, as a pure function of the schedule: no clock is read.
///
/// Producer `slot` of `producers` has the messages `slot`, `slot + producers`, `slot + 2 · producers`, … of the
/// schedule's global timetable, each time computed from the message's number alone. A Poisson process is split the way
/// that keeps it one: every producer has an independent stream of exponential gaps at its share of the rate.
#[derive(Debug, Clone)]
pub struct Timetable {
    law: Law,
    next_ns: u64,
}

#[derive(Debug, Clone)]
enum Law {
    Curve { curve: Curve, number: u64, producers: u64 },
    Poisson { mean_gap_ns: f64, fraction_ns: f64, generator: Generator },
}

impl Timetable {
    /// Of producer `slot` (from 0) of `producers`.
    pub fn new(schedule: &Schedule, slot: usize, producers: usize) -> Self {
        match schedule {
            Schedule::Poisson { rate, seed } => {
                let law = Law::Poisson {
                    mean_gap_ns: 1e9 * producers as f64 / rate,
                    fraction_ns: 0.0,
                    generator: generator(*seed, Purpose::Arrivals, slot as u64),
                };
                let mut timetable = Timetable { law, next_ns: 0 };
                // The process starts with a gap, not with a message of every producer at once.
                timetable.advance();
                timetable
            }
            _ => {
                let curve = schedule.curve();
                let number = slot as u64;
                let next_ns = curve.intended_ns(number);
                Timetable { law: Law::Curve { curve, number, producers: producers as u64 }, next_ns }
            }
        }
    }

    /// When the producer's next message is due, in nanoseconds since the load started; `u64::MAX`: never.
    #[inline]
    pub fn peek(&self) -> u64 {
        self.next_ns
    }

    /// Goes on to the message after.
    #[inline]
    pub fn advance(&mut self) {
        match &mut self.law {
            Law::Curve { curve, number, producers } => {
                *number += *producers;
                self.next_ns = curve.intended_ns(*number);
            }
            Law::Poisson { mean_gap_ns, fraction_ns, generator } => {
                let gap_ns: f64 = generator.sample(Exp1);
                // Whole nanoseconds are summed as integers and the rest is carried, so that nothing is rounded away.
                let gap_ns = gap_ns * *mean_gap_ns + *fraction_ns;
                let whole_ns = gap_ns as u64;
                *fraction_ns = gap_ns - whole_ns as f64;
                self.next_ns = self.next_ns.saturating_add(whole_ns);
            }
        }
    }
}
