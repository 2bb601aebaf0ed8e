//! Response times by the part of the schedule in which messages were intended, whenever they were acknowledged.

use super::histogram::Distribution;
use super::send_tag::TICK_NS;

/// The parts of a schedule, in their order and without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartEnds(Box<[(u64, usize)]>);

impl PartEnds {
    /// From each part's end, in nanoseconds since the trial's epoch, and the result that it belongs to.
    pub fn new(ends: impl Iterator<Item = (u64, usize)>) -> Self {
        PartEnds(ends.collect())
    }

    /// The result to which a message belongs that was intended at `intended_ns`, which is exact to a tick.
    #[inline]
    fn result_at(&self, intended_ns: u64) -> Option<usize> {
        let later = self.0.partition_point(|(end_ns, _)| *end_ns <= intended_ns + TICK_NS);
        self.0.get(later).or(self.0.last()).map(|(_, result)| *result)
    }
}

/// Response times of messages that were intended in the parts of one result.
#[derive(Debug, Clone)]
pub struct PartResponse {
    pub result: usize,
    pub response: Distribution,
    /// As in [`Interval::moments`](super::Interval::moments).
    pub moments: u64,
    /// The latest of these moments.
    last_ns: u64,
}

impl PartResponse {
    fn new(result: usize) -> Self {
        PartResponse { result, response: Distribution::new(), moments: 0, last_ns: 0 }
    }
}

/// Those of an interval: of few results, as most messages are acknowledged soon.
#[derive(Debug, Clone, Default)]
pub struct PartResponses(Vec<PartResponse>);

impl PartResponses {
    /// Counts `messages` that were intended at one time and acknowledged at `now_ns`.
    pub(super) fn record(&mut self, ends: &PartEnds, now_ns: u64, response_ns: u64, messages: u64) {
        let Some(result) = ends.result_at(now_ns.saturating_sub(response_ns)) else { return };
        let part = self.of(result);
        part.response.record_n(response_ns, messages);
        if part.last_ns != now_ns {
            part.last_ns = now_ns;
            part.moments += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &PartResponses) {
        for theirs in &other.0 {
            let mine = self.of(theirs.result);
            mine.response.merge(&theirs.response);
            mine.moments += theirs.moments;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &PartResponse> {
        self.0.iter()
    }

    fn of(&mut self, result: usize) -> &mut PartResponse {
        let index = self.0.iter().position(|part| part.result == result).unwrap_or_else(|| {
            self.0.push(PartResponse::new(result));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_belongs_to_the_part_in_which_it_was_intended() {
        let ends = PartEnds::new([(1_000_000, 0), (2_000_000, 1), (3_000_000, 0)].into_iter());
        let mut responses = PartResponses::default();
        // Intended at 0.5 ms, 1 ms (by a tick that was cut off), 1.5 ms, 2.5 ms and after the last part.
        for (now_ns, response_ns) in
            [(5_000_000, 4_500_000), (5_000_000, 4_000_050), (5_000_000, 3_500_000), (6_000_000, 3_500_000)]
        {
            responses.record(&ends, now_ns, response_ns, 10);
        }
        responses.record(&ends, 9_000_000, 1_000_000, 10);
        let found: Vec<_> =
            responses.iter().map(|part| (part.result, part.response.histogram().len(), part.moments)).collect();
        assert_eq!(found, [(0, 30, 3), (1, 20, 1)]);
        let mut sum = responses.clone();
        sum.merge(&responses);
        assert_eq!(sum.iter().map(|part| part.response.histogram().len()).sum::<u64>(), 100);
        let mut none = PartResponses::default();
        none.record(&PartEnds::default(), 5, 1, 1);
        assert_eq!(none.iter().count(), 0);
    }
}
