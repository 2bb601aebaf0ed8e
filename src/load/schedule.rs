//! A schedule as a whole: its rate over time, the inverse (when the n-th message is due), and the segments of one that changes its rate, each
//! of which gets a result of its own.
//!
//! Every schedule without chance is a sequence of pieces with a linear rate, possibly repeated in a cycle. Both
//! directions are closed forms of the message's number or of the time, so no error accumulates however long a load
//! runs. Within a piece that starts with rate `r` and changes by `s` per second, `m = r·t + s·t²/2` messages are due
//! after `t` seconds, and the `m`-th is due after `t = 2m / (r + √(r² + 2·s·m))`: the quadratic formula in the form
//! that cancels nothing and holds for `s = 0` as well (Press et al., *Numerical Recipes*, 5.6).

use std::time::Duration;

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

/// What repeats for ever.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cycle {
    length_ns: u64,
    count: f64,
}

/// A rate over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    /// Never empty; the first starts at 0, the last lasts for ever or to the end of the cycle.
    pieces: Box<[Piece]>,
    cycle: Option<Cycle>,
}

/// Puts pieces one after another.
pub(super) struct CurveBuilder {
    pieces: Vec<Piece>,
    end_ns: u64,
    end_count: f64,
}

impl CurveBuilder {
    pub(super) fn new() -> Self {
        CurveBuilder { pieces: Vec::new(), end_ns: 0, end_count: 0.0 }
    }

    /// A piece of `length_ns` in which the rate goes linearly from one value to another, in messages per second.
    pub(super) fn piece(mut self, from: f64, to: f64, length_ns: u64) -> Self {
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
    pub(super) fn then_for_ever(mut self, rate: f64) -> Curve {
        self.pieces.push(Piece { start_ns: self.end_ns, start_count: self.end_count, rate, slope: 0.0 });
        Curve { pieces: self.pieces.into(), cycle: None }
    }

    /// Ends by starting again. There must be a piece.
    pub(super) fn repeated(self) -> Curve {
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
    pub(super) fn intended_ns(&self, number: u64) -> u64 {
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
    pub(super) fn count_until(&self, offset_ns: u64) -> u64 {
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

    /// Messages per second at `offset_ns`.
    #[cfg(test)]
    pub(super) fn rate_at(&self, offset_ns: u64) -> f64 {
        let (_, piece, seconds) = self.locate(offset_ns);
        piece.rate + piece.slope * seconds
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

/// Parts a ramp is divided into.
const PARTS_OF_A_RAMP: u64 = 10;

/// Parts that get a result of their own: one takes some 200 KB while the trial lasts.
const MAX_PARTS: usize = 100;

/// A stretch of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleSegment {
    /// Begin and end since the load began.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Which result it belongs to: all bursts share one, and all that lies between them another.
    pub result: usize,
    pub kind: SegmentKind,
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    Step,
    Ramp,
    Burst,
    Base,
}

impl Schedule {
    /// The parts between two moments since the load began, in their order and without gaps; none where the rate does not
    /// change, or changes more often than there can be results.
    pub fn parts(&self, from_ns: u64, until_ns: u64) -> Vec<ScheduleSegment> {
        let mut begin_ns = from_ns;
        let mut parts = Vec::new();
        for (end_ns, result, kind) in self.stretches(from_ns, until_ns) {
            let end_ns = end_ns.min(until_ns);
            if end_ns > begin_ns {
                parts.push(ScheduleSegment { begin_ns, end_ns, result, kind });
                begin_ns = end_ns;
            }
        }
        let results = parts.iter().map(|part| part.result).max().map_or(0, |most| most + 1);
        if results > MAX_PARTS { Vec::new() } else { parts }
    }

    /// Each stretch by its end, in nanoseconds since the load began, with its result and its kind.
    fn stretches(&self, from_ns: u64, until_ns: u64) -> Vec<(u64, usize, SegmentKind)> {
        match self {
            Schedule::Constant { .. } | Schedule::Poisson { .. } => Vec::new(),
            Schedule::Steps(steps) => {
                let ends = steps.iter().scan(0u64, |end_ns, (_, length)| {
                    *end_ns = end_ns.saturating_add(nanoseconds(*length));
                    Some(*end_ns)
                });
                let last = steps.len() - 1;
                // The last rate stays.
                ends.enumerate()
                    .map(|(index, end_ns)| (if index == last { u64::MAX } else { end_ns }, index, SegmentKind::Step))
                    .collect()
            }
            Schedule::Ramp { over, .. } => {
                let over_ns = nanoseconds(*over);
                let tenth = |index| over_ns / PARTS_OF_A_RAMP * index;
                let mut parts: Vec<_> =
                    (1..PARTS_OF_A_RAMP).map(|index| (tenth(index), index as usize - 1, SegmentKind::Ramp)).collect();
                parts.push((over_ns, PARTS_OF_A_RAMP as usize - 1, SegmentKind::Ramp));
                parts.push((u64::MAX, PARTS_OF_A_RAMP as usize, SegmentKind::Base));
                parts
            }
            Schedule::Bursts { every, length, .. } => {
                let (every, length) = (nanoseconds(*every), nanoseconds(*length));
                let first = from_ns / every;
                let periods = (until_ns / every).saturating_sub(first) + 1;
                if periods > MAX_PARTS as u64 * 100 {
                    return Vec::new();
                }
                let both = |period| {
                    let begin_ns = period * every;
                    [(begin_ns + length, 0, SegmentKind::Burst), (begin_ns + every, 1, SegmentKind::Base)]
                };
                (first..first + periods).flat_map(both).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ends(schedule: &Schedule, from: u64, until: u64) -> Vec<(u64, usize)> {
        let parts = schedule.parts(from * SECOND, until * SECOND);
        assert!(parts.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns), "{parts:?}");
        parts.iter().map(|part| (part.end_ns / SECOND, part.result)).collect()
    }

    #[test]
    fn steps_are_cut_to_what_is_measured_and_the_last_stays() {
        let steps = [10, 20, 5].map(|length| (1000.0, Duration::from_secs(length)));
        let steps = Schedule::Steps(steps.to_vec());
        assert_eq!(ends(&steps, 0, 60), [(10, 0), (30, 1), (60, 2)]);
        assert_eq!(ends(&steps, 12, 20), [(20, 1)]);
    }

    #[test]
    fn a_ramp_has_ten_parts_and_what_follows_it() {
        let ramp = Schedule::Ramp { from: 10.0, to: 20.0, over: Duration::from_secs(20) };
        let parts = ends(&ramp, 0, 30);
        assert_eq!((parts.len(), parts[0], parts[9], parts[10]), (11, (2, 0), (20, 9), (30, 10)));
    }

    #[test]
    fn all_bursts_share_a_result_and_an_even_rate_has_no_parts() {
        let (every, length) = (Duration::from_secs(10), Duration::from_secs(1));
        let bursts = Schedule::Bursts { base: 1.0, burst: 10.0, every, length };
        assert_eq!(ends(&bursts, 5, 22), [(10, 1), (11, 0), (20, 1), (21, 0), (22, 1)]);
        assert_eq!(ends(&Schedule::Constant { rate: 1.0 }, 0, 10), []);
    }
}
