//! The segments of a schedule that changes its rate, each of which gets a result of its own.

use super::schedule::nanoseconds;
use crate::scenario::Schedule;

/// Parts a ramp is divided into.
const SEGMENTS_OF_A_RAMP: u64 = 10;

/// Parts that get a result of their own: one takes some 200 KB while the trial lasts.
const MAX_SEGMENTS: usize = 100;

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

/// What a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    Step,
    Ramp,
    Burst,
    Base,
}

impl Schedule {
    /// The segments between two moments since the load began, in their order and without gaps; none where the rate does not
    /// change, or changes more often than there can be results.
    pub fn segments(&self, from_ns: u64, until_ns: u64) -> Vec<ScheduleSegment> {
        let mut begin_ns = from_ns;
        let mut segments = Vec::new();
        for (end_ns, result, kind) in self.stretches(from_ns, until_ns) {
            let end_ns = end_ns.min(until_ns);
            if end_ns > begin_ns {
                segments.push(ScheduleSegment { begin_ns, end_ns, result, kind });
                begin_ns = end_ns;
            }
        }
        let results = segments.iter().map(|segment| segment.result).max().map_or(0, |most| most + 1);
        if results > MAX_SEGMENTS { Vec::new() } else { segments }
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
                let tenth = |index| over_ns / SEGMENTS_OF_A_RAMP * index;
                let mut segments: Vec<_> = (1..SEGMENTS_OF_A_RAMP)
                    .map(|index| (tenth(index), index as usize - 1, SegmentKind::Ramp))
                    .collect();
                segments.push((over_ns, SEGMENTS_OF_A_RAMP as usize - 1, SegmentKind::Ramp));
                segments.push((u64::MAX, SEGMENTS_OF_A_RAMP as usize, SegmentKind::Base));
                segments
            }
            Schedule::Bursts { every, length, .. } => {
                let (every, length) = (nanoseconds(*every), nanoseconds(*length));
                let first = from_ns / every;
                let periods = (until_ns / every).saturating_sub(first) + 1;
                if periods > MAX_SEGMENTS as u64 * 100 {
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
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ends(schedule: &Schedule, from: u64, until: u64) -> Vec<(u64, usize)> {
        let segments = schedule.segments(from * SECOND, until * SECOND);
        assert!(segments.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns), "{segments:?}");
        segments.iter().map(|segment| (segment.end_ns / SECOND, segment.result)).collect()
    }

    #[test]
    fn steps_are_cut_to_what_is_measured_and_the_last_stays() {
        let steps = [10, 20, 5].map(|length| (1000.0, Duration::from_secs(length)));
        let steps = Schedule::Steps(steps.to_vec());
        assert_eq!(ends(&steps, 0, 60), [(10, 0), (30, 1), (60, 2)]);
        assert_eq!(ends(&steps, 12, 20), [(20, 1)]);
    }

    #[test]
    fn a_ramp_has_ten_segments_and_what_follows_it() {
        let ramp = Schedule::Ramp { from: 10.0, to: 20.0, over: Duration::from_secs(20) };
        let segments = ends(&ramp, 0, 30);
        assert_eq!(segments.len(), 11);
        assert_eq!(segments[0], (2, 0));
        assert_eq!(segments[9], (20, 9));
        assert_eq!(segments[10], (30, 10));
    }

    #[test]
    fn all_bursts_share_a_result_and_an_even_rate_has_no_segments() {
        let (every, length) = (Duration::from_secs(10), Duration::from_secs(1));
        let bursts = Schedule::Bursts { base: 1.0, burst: 10.0, every, length };
        assert_eq!(ends(&bursts, 5, 22), [(10, 1), (11, 0), (20, 1), (21, 0), (22, 1)]);
        assert_eq!(ends(&Schedule::Constant { rate: 1.0 }, 0, 10), []);
    }
}
