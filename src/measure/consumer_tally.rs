//! What single consumers received: added up once a second from what their recorders hold, so that a message costs nothing more.

use super::compact::CompactDistribution;
use super::reception::Reception;

/// Consumers of a trial whose latencies are kept apart: 256 take under 2 MiB, and adding theirs up takes some milliseconds a second.
pub(super) const MAX_TIMED: usize = 256;

/// Where a consumer is at work: its group, and which of the trial's topics it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionIndex {
    pub group: usize,
    pub topic: usize,
}

/// What one consumer received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerTally {
    pub subscription: SubscriptionIndex,
    /// Which of its group's members on the topic it is, from 0.
    pub member: usize,
    /// As [`Arrived::consumed`](super::Arrived::consumed).
    pub consumed: u64,
    /// Messages that arrived inside the measured window: for the first time, where that is verified.
    pub in_window: u64,
    /// As [`Reception::moments`].
    pub moments: u64,
    /// As [`Reception::end_to_end`]; `None`: the trial has too many consumers to keep it of this one.
    pub end_to_end: Option<CompactDistribution>,
}

impl ConsumerTally {
    pub(super) fn new(subscription: SubscriptionIndex, member: usize, is_timed: bool) -> Self {
        let end_to_end = is_timed.then(CompactDistribution::new);
        ConsumerTally { subscription, member, consumed: 0, in_window: 0, moments: 0, end_to_end }
    }

    /// Adds what was received since the last time: inside the measured window or not, with first arrivals told apart or not. Its latencies,
    /// if they are kept.
    pub(super) fn add(
        &mut self,
        received: &Reception,
        is_in_window: bool,
        is_verified: bool,
    ) -> Option<CompactDistribution> {
        self.consumed += received.arrived.consumed;
        if is_in_window {
            self.in_window += if is_verified { received.arrived.first } else { received.arrived.messages };
        }
        self.moments += received.moments;
        let end_to_end = self.end_to_end.as_mut()?;
        let mut latencies = CompactDistribution::new();
        if !received.end_to_end.is_empty() {
            latencies.add(&received.end_to_end);
            end_to_end.merge(&latencies);
        }
        Some(latencies)
    }
}
