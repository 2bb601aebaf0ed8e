//! A rate over time, and its inverse: when the n-th message is due.
//!
//! Every schedule without chance is a sequence of pieces with a linear rate, possibly repeated in a cycle. Both
//! directions are closed forms of the message's number or of the time, so no error accumulates however long a load
//! runs. Within a piece that starts with rate `r` and changes by `s` per second, `m = r·t + s·t²/2` messages are due
//! after `t` seconds, and the `m`-th is due after `t = 2m / (r + √(r² + 2·s·m))`: the quadratic formula in the form
//! that cancels nothing and holds for `s = 0` as well (Press et al., *Numerical Recipes*, 5.6).

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
