//! When one producer's messages are due.

use rand::RngExt;
use rand_distr::Exp1;

use super::random::{Generator, Purpose, generator};
use super::schedule::Curve;
use crate::scenario::Schedule;

/// The intended times of one producer's messages, as a pure function of the schedule: no clock is read.
///
/// Producer `producer_index` of `producers` has the messages `producer_index`, `producer_index + producers`, `producer_index + 2 · producers`, … of the
/// schedule's global send schedule, each time computed from the message's number alone. A Poisson process is split the way
/// that keeps it one: every producer has an independent stream of exponential gaps at its share of the rate.
#[derive(Debug, Clone)]
pub struct SendSchedule {
    arrival_process: ArrivalProcess,
    next_ns: u64,
}

#[derive(Debug, Clone)]
enum ArrivalProcess {
    Curve { curve: Curve, number: u64, producers: u64 },
    Poisson { mean_gap_ns: f64, fraction_ns: f64, generator: Generator },
}

impl SendSchedule {
    /// Of producer `producer_index` (from 0) of `producers`.
    pub fn new(schedule: &Schedule, producer_index: usize, producers: usize) -> Self {
        match schedule {
            Schedule::Poisson { rate, seed } => {
                let arrival_process = ArrivalProcess::Poisson {
                    mean_gap_ns: 1e9 * producers as f64 / rate,
                    fraction_ns: 0.0,
                    generator: generator(*seed, Purpose::Arrivals, producer_index as u64),
                };
                let mut send_schedule = SendSchedule { arrival_process, next_ns: 0 };
                // The process starts with a gap, not with a message of every producer at once.
                send_schedule.advance();
                send_schedule
            }
            _ => {
                let curve = schedule.curve();
                let number = producer_index as u64;
                let next_ns = curve.intended_ns(number);
                SendSchedule {
                    arrival_process: ArrivalProcess::Curve { curve, number, producers: producers as u64 },
                    next_ns,
                }
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
        match &mut self.arrival_process {
            ArrivalProcess::Curve { curve, number, producers } => {
                *number += *producers;
                self.next_ns = curve.intended_ns(*number);
            }
            ArrivalProcess::Poisson { mean_gap_ns, fraction_ns, generator } => {
                let gap_ns: f64 = generator.sample(Exp1);
                // Whole nanoseconds are summed as integers and the rest is carried, so that nothing is rounded away.
                let gap_ns = gap_ns * *mean_gap_ns + *fraction_ns;
                let whole_ns = gap_ns as u64;
                *fraction_ns = gap_ns - whole_ns as f64;
                self.next_ns = self.next_ns.saturating_add(whole_ns);
            }
        }
    }

    /// Goes on to the first message that is due at `until_ns` or later, and returns how many were due before it.
    pub fn skip_until(&mut self, until_ns: u64) -> u64 {
        if let ArrivalProcess::Curve { curve, number, producers } = &mut self.arrival_process {
            // As many as there are numbers of this producer among the first of all.
            let skipped = curve.count_until(until_ns).saturating_sub(*number).div_ceil(*producers);
            *number += skipped * *producers;
            self.next_ns = curve.intended_ns(*number);
            return skipped;
        }
        let mut skipped = 0;
        while self.next_ns < until_ns {
            self.advance();
            skipped += 1;
        }
        skipped
    }
}

/// The most arrivals of a Poisson process that are drawn before a load begins: it waits for them, 0.2 s at most.
const MAX_DRAWN_AHEAD: u64 = 10_000_000;

/// When the schedule has all of `messages` due that come at `from_ns` or later, of all `producers` together: one nanosecond
/// after the last of them, both since the load started. `u64::MAX` if the rate comes to rest before.
///
/// A closed form, but for a Poisson process, whose arrivals are drawn once more: about 10 ns each. `None`: there are more than
/// `MAX_DRAWN_AHEAD` of them.
pub fn due_by(schedule: &Schedule, producers: usize, from_ns: u64, messages: u64) -> Option<u64> {
    if messages == 0 {
        return Some(from_ns);
    }
    let curve = schedule.curve();
    let Schedule::Poisson { rate, .. } = schedule else {
        let last = curve.count_until(from_ns).saturating_add(messages - 1);
        return Some(curve.intended_ns(last).saturating_add(1));
    };
    if curve.count_until(from_ns).saturating_add(messages) > MAX_DRAWN_AHEAD {
        return None;
    }
    let mut send_schedules: Vec<SendSchedule> =
        (0..producers).map(|producer_index| SendSchedule::new(schedule, producer_index, producers)).collect();
    send_schedules.iter_mut().for_each(|send_schedule| _ = send_schedule.skip_until(from_ns));
    let (mut left, mut until_ns) = (messages, from_ns);
    loop {
        // A stretch in which about as many come as are left, so that a few stretches are enough.
        let stretch_ns = ((left as f64 + 1.0) / rate * 1e9).max(1.0);
        let end_ns = until_ns.saturating_add(stretch_ns as u64).max(until_ns + 1);
        let before: Vec<SendSchedule> = send_schedules.clone();
        let came: u64 = send_schedules.iter_mut().map(|send_schedule| send_schedule.skip_until(end_ns)).sum();
        if came >= left {
            return Some(nth_arrival(before, left, end_ns).saturating_add(1));
        }
        left -= came;
        until_ns = end_ns;
    }
}

/// When the `number`-th message (from 1) of all send schedules together is due; it is before `end_ns`. Finds it by halving, so that
/// no list of all arrivals is needed.
fn nth_arrival(mut send_schedules: Vec<SendSchedule>, number: u64, end_ns: u64) -> u64 {
    let mut left = number;
    let mut begin_ns = send_schedules.iter().map(SendSchedule::peek).min().unwrap_or(end_ns);
    let mut end_ns = end_ns;
    while end_ns - begin_ns > 1 {
        let middle_ns = begin_ns + (end_ns - begin_ns) / 2;
        let mut ahead = send_schedules.clone();
        let came: u64 = ahead.iter_mut().map(|send_schedule| send_schedule.skip_until(middle_ns)).sum();
        if came >= left {
            end_ns = middle_ns;
        } else {
            left -= came;
            send_schedules = ahead;
            begin_ns = middle_ns;
        }
    }
    begin_ns
}

#[cfg(test)]
#[path = "../../tests/unit/load/send_schedule.rs"]
mod tests;
