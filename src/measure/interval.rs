//! What one recording thread saw since it was last asked: counts, latencies, errors by class, transactions, and response times by the part of
//! the schedule in which messages were intended, whenever they were acknowledged.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::histogram::{Distribution, Timeline};
use super::send_tag::TICK_NS;

/// How many messages came to which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub acknowledged: u64,
    pub failed: u64,
    /// Payload bytes of the acknowledged ones.
    pub payload_bytes: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.payload_bytes += other.payload_bytes;
    }

    /// Messages whose outcome is known.
    pub fn resolved(&self) -> u64 {
        self.acknowledged + self.failed
    }
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorTally {
    pub count: u64,
    /// The first one's message and when it came, in nanoseconds since the trial's epoch.
    pub first: Option<(u64, String)>,
}

/// Failures by class, in the order of [`FailureClass::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors([ErrorTally; FailureClass::ALL.len()]);

impl Errors {
    pub fn record(&mut self, class: FailureClass, at_ns: u64, message: impl FnOnce() -> String) {
        let tally = &mut self.0[class as usize];
        tally.count += 1;
        if tally.first.is_none() {
            tally.first = Some((at_ns, message()));
        }
    }

    pub fn merge(&mut self, other: &Errors) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.count += theirs.count;
            if let Some((at_ns, message)) = &theirs.first
                && mine.first.as_ref().is_none_or(|(first, _)| at_ns < first)
            {
                mine.first = Some((*at_ns, message.clone()));
            }
        }
    }

    /// The classes that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (FailureClass, &ErrorTally)> {
        FailureClass::ALL.into_iter().zip(&self.0).filter(|(_, tally)| tally.count > 0)
    }
}

/// Outcomes of a stretch of time, as one thread or all of them saw it.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Messages whose intended time lies in the measured phase.
    pub measured: Tally,
    /// Messages of the warm-up: counted, and nothing more.
    pub warm_up: Tally,
    /// Acknowledged − intended; empty in a closed loop, which has no intended times.
    pub response: Distribution,
    /// Acknowledged − sent.
    pub service: Distribution,
    /// Sent − intended; empty in a closed loop.
    pub schedule_delay: Distribution,
    /// Moments at which measured messages were acknowledged: one for each [`AckBatch`](super::AckBatch) that had some. Messages
    /// whose outcome became known at one moment share a fate, so this is how many of their latencies are independent.
    pub moments: u64,
    /// Errors of measured messages.
    pub errors: Errors,
    /// When the last measured message was acknowledged, in nanoseconds since the trial's epoch; 0: none was.
    pub last_acknowledged_ns: u64,
    /// When messages were acknowledged, warm-up included, and how slow they were, without it.
    pub timeline: Timeline,
    /// Transactions, where producers send in some.
    pub transactions: Option<Box<Transactions>>,
    /// Response times by part, of a schedule that changes its rate.
    pub parts: PartResponses,
}

impl Interval {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Interval) {
        self.measured.add(other.measured);
        self.warm_up.add(other.warm_up);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.schedule_delay.merge(&other.schedule_delay);
        self.moments += other.moments;
        self.errors.merge(&other.errors);
        self.last_acknowledged_ns = self.last_acknowledged_ns.max(other.last_acknowledged_ns);
        self.timeline.merge(&other.timeline);
        if let Some(transactions) = &other.transactions {
            self.transactions.get_or_insert_default().merge(transactions);
        }
        self.parts.merge(&other.parts);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.measured = Tally::default();
        self.warm_up = Tally::default();
        self.response.clear();
        self.service.clear();
        self.schedule_delay.clear();
        self.moments = 0;
        self.errors = Errors::default();
        self.last_acknowledged_ns = 0;
        self.timeline.clear();
        if let Some(transactions) = &mut self.transactions {
            transactions.clear();
        }
        self.parts.clear();
    }
}

/// Why a message failed, in classes that mean the same for every broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// No answer within the client's time limit.
    Timeout,
    /// The client's own queue had no room.
    QueueFull,
    /// Larger than the client or the broker takes.
    TooLarge,
    /// The broker does not allow it to these credentials.
    Authorisation,
    /// The topic or partition is not, or no longer, there.
    UnknownTopic,
    /// The connection broke before the answer.
    ConnectionLost,
    /// The broker answered with a refusal of another kind.
    Refused,
    /// Another producer has taken this one's place.
    Fenced,
    /// Its transaction was aborted, as the scenario asks for.
    Aborted,
    /// The server has no room left.
    Full,
    /// Failed on purpose, by the null broker's script.
    Injected,
    /// A consumer crashed and received nothing more.
    Crashed,
    /// Anything else; the message of the error is in the record.
    Other,
}

impl FailureClass {
    pub const ALL: [FailureClass; 13] = [
        FailureClass::Timeout,
        FailureClass::QueueFull,
        FailureClass::TooLarge,
        FailureClass::Authorisation,
        FailureClass::UnknownTopic,
        FailureClass::ConnectionLost,
        FailureClass::Refused,
        FailureClass::Fenced,
        FailureClass::Aborted,
        FailureClass::Full,
        FailureClass::Injected,
        FailureClass::Crashed,
        FailureClass::Other,
    ];
}

/// As in a record.
impl fmt::Display for FailureClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// Transactions of measured messages that ended in a stretch of time.
#[derive(Debug, Clone, Default)]
pub struct Transactions {
    pub committed: u64,
    pub aborted: u64,
    /// Time from the call that commits, when all messages are written, to the broker's confirmation.
    pub commit: Distribution,
}

impl Transactions {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Transactions) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.commit.merge(&other.commit);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        (self.committed, self.aborted) = (0, 0);
        self.commit.clear();
    }
}

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
    /// Moments of acknowledgement, as in [`Interval::moments`].
    pub moments: u64,
    /// The latest of these moments.
    last_ns: u64,
}

impl PartResponse {
    fn new(result: usize) -> Self {
        PartResponse { result, response: Distribution::new(), moments: 0, last_ns: 0 }
    }
}

/// Response times of an interval: of few results, as most messages are acknowledged soon.
#[derive(Debug, Clone, Default)]
pub struct PartResponses(Vec<PartResponse>);

impl PartResponses {
    /// Counts `messages` that were intended at one time and acknowledged at `now_ns`.
    pub(super) fn record(&mut self, ends: &PartEnds, now_ns: u64, response_ns: u64, messages: u64) {
        let Some(result) = ends.result_at(now_ns.saturating_sub(response_ns)) else { return };
        let part = self.response_mut(result);
        part.response.record_n(response_ns, messages);
        if part.last_ns != now_ns {
            part.last_ns = now_ns;
            part.moments += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &PartResponses) {
        for theirs in &other.0 {
            let mine = self.response_mut(theirs.result);
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

    fn response_mut(&mut self, result: usize) -> &mut PartResponse {
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
