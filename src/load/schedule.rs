//! When messages are due: a schedule's rate over time, its inverse (when the n-th message is due), and each producer's own times.
//!
//! Every schedule without chance is a sequence of pieces with a linear rate, possibly repeated in a cycle. Both
//! directions are closed forms of the message's number or of the time, so no error accumulates however long a load
//! runs. Within a piece that starts with rate `r` and changes by `s` per second, `m = r·t + s·t²/2` messages are due
//! after `t` seconds, and the `m`-th is due after `t = 2m / (r + √(r² + 2·s·m))`: the quadratic formula in the form
//! that cancels nothing and holds for `s = 0` as well (Press et al., *Numerical Recipes*, 5.6).

use std::time::Duration;

use rand::RngExt;
use rand_distr::Exp1;

use super::random::{Generator, Purpose, generator};
use crate::scenario::Schedule;

impl Schedule {
    /// Messages of all producers together that are due before `offset` from the start of the load: exactly as many as
    /// the producers' [`SendSchedule`]s put there, but for [`Schedule::Poisson`] the number to expect
    /// (its standard deviation is the square root of it).
    pub fn count_until(&self, offset: Duration) -> u64 {
        self.curve().count_until(nanoseconds(offset))
    }

    /// The rate over time; for [`Schedule::Poisson`] that of its mean.
    fn curve(&self) -> Curve {
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
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const NS_PER_SECOND: f64 = 1e9;

/// A stretch of time in which the rate is linear.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    /// Nanoseconds since the curve (or its cycle) began.
    start_ns: u64,
    /// Messages due before the piece; a fraction if the pieces before hold no whole number.
    start_count: f64,
    /// Messages per second when the piece begins.
    rate: f64,
    /// By how much the rate changes each second.
    slope: f64,
}

/// What repeats until the load ends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cycle {
    length_ns: u64,
    count: f64,
}

/// A rate over time.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    /// Never empty; the first starts at 0, the last one ends with the load or the cycle.
    pieces: Box<[Piece]>,
    cycle: Option<Cycle>,
}

/// Puts pieces one after another.
struct CurveBuilder {
    pieces: Vec<Piece>,
    end_ns: u64,
    end_count: f64,
}

impl CurveBuilder {
    fn new() -> Self {
        CurveBuilder { pieces: Vec::new(), end_ns: 0, end_count: 0.0 }
    }

    /// A piece of `length_ns` in which the rate goes linearly from one value to another, in messages per second.
    fn piece(mut self, from: f64, to: f64, length_ns: u64) -> Self {
        if length_ns > 0 {
            let seconds = length_ns as f64 / NS_PER_SECOND;
            let slope = (to - from) / seconds;
            self.pieces.push(Piece { start_ns: self.end_ns, start_count: self.end_count, rate: from, slope });
            self.end_ns = self.end_ns.saturating_add(length_ns);
            self.end_count += (from + to) / 2.0 * seconds;
        }
        self
    }

    /// Ends with a rate that stays.
    fn then_for_ever(mut self, rate: f64) -> Curve {
        self.pieces.push(Piece { start_ns: self.end_ns, start_count: self.end_count, rate, slope: 0.0 });
        Curve { pieces: self.pieces.into(), cycle: None }
    }

    /// Ends by starting again. There must be a piece.
    fn repeated(self) -> Curve {
        debug_assert!(!self.pieces.is_empty());
        let cycle = Cycle { length_ns: self.end_ns, count: self.end_count };
        Curve { pieces: self.pieces.into(), cycle: Some(cycle) }
    }
}

impl Curve {
    /// When message `number` (from 0) is due, in nanoseconds since the start; `u64::MAX` if the rate has come to rest
    /// before it. Right to a nanosecond or two units in the last place of an `f64`, whichever is more: 0.2 µs after
    /// thirty years.
    #[inline]
    fn intended_ns(&self, number: u64) -> u64 {
        let (origin_ns, count) = match self.cycle {
            None => (0, number as f64),
            Some(cycle) => {
                let turn = (number as f64 / cycle.count) as u64;
                (turn.saturating_mul(cycle.length_ns), number as f64 - turn as f64 * cycle.count)
            }
        };
        let next = self.pieces.partition_point(|piece| piece.start_count <= count).max(1);
        let piece = &self.pieces[next - 1];
        let behind = count - piece.start_count;
        let seconds = if behind > 0.0 {
            let discriminant = piece.rate * piece.rate + 2.0 * piece.slope * behind;
            2.0 * behind / (piece.rate + discriminant.max(0.0).sqrt())
        } else {
            // A number that rounding has put a hair before its piece, or a piece that starts at rest.
            0.0
        };
        let due_ns = piece.start_ns.saturating_add((seconds * NS_PER_SECOND + 0.5) as u64);
        // Rounding must not carry a message beyond the one that opens the next piece.
        origin_ns.saturating_add(due_ns.min(self.end_ns(next)))
    }

    /// Messages due before `offset_ns`, exactly as many as [`Curve::intended_ns`] puts there.
    fn count_until(&self, offset_ns: u64) -> u64 {
        let mut count = self.area(offset_ns) as u64;
        // The area is right but for rounding to whole nanoseconds, which is settled by asking the inverse.
        while count > 0 && self.intended_ns(count - 1) >= offset_ns {
            count -= 1;
        }
        while count < u64::MAX && self.intended_ns(count) < offset_ns {
            count += 1;
        }
        count
    }

    /// The integral of the rate up to `offset_ns`, in messages.
    fn area(&self, offset_ns: u64) -> f64 {
        let (before, piece, seconds) = self.locate(offset_ns);
        before + piece.start_count + (piece.rate + piece.slope * seconds / 2.0) * seconds
    }

    /// Messages of the cycles before `offset_ns`, the piece it falls into, and how far into it, in seconds.
    fn locate(&self, offset_ns: u64) -> (f64, &Piece, f64) {
        let (before, rest_ns) = match self.cycle {
            None => (0.0, offset_ns),
            Some(cycle) => ((offset_ns / cycle.length_ns) as f64 * cycle.count, offset_ns % cycle.length_ns),
        };
        let next = self.pieces.partition_point(|piece| piece.start_ns <= rest_ns);
        let piece = &self.pieces[next - 1];
        (before, piece, (rest_ns - piece.start_ns) as f64 / NS_PER_SECOND)
    }

    /// Where the piece before `next` ends.
    #[inline]
    fn end_ns(&self, next: usize) -> u64 {
        match (self.pieces.get(next), self.cycle) {
            (Some(piece), _) => piece.start_ns,
            (None, Some(cycle)) => cycle.length_ns,
            (None, None) => u64::MAX,
        }
    }
}

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
#[path = "../../tests/unit/load/schedule.rs"]
mod tests;
