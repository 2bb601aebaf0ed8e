//! What arrived: one message, the counts and latencies of many, and what single consumers received.
//!
//! The latter is added up once a second from what the consumers' recorders hold, so that a message costs nothing more.

use std::borrow::Cow;
use std::fmt;
use std::ops::AddAssign;

use super::histogram::{CompactDistribution, Distribution, Timeline};

/// A message that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    pub payload: &'a [u8],
    /// The engine's trace header, if the message carries one beside its payload.
    pub trace_header: Option<&'a [u8]>,
    /// Counted from 0 per topic: the broker promises order only within a partition;
    /// [`UNORDERED_PARTITION`](super::UNORDERED_PARTITION): it promises none.
    pub partition: u32,
    /// 0 from a broker without offsets.
    pub offset: u64,
    /// The broker flags this message as delivered before.
    pub redelivered: bool,
    pub details: &'a dyn Details,
}

/// What a message carries beside its payload. The client decodes a part when it is asked for, so that a receiver that does
/// not ask pays nothing.
pub trait Details: fmt::Debug {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// When the broker stored the message or the producer's client made it, whichever the broker keeps, in nanoseconds since
    /// 1970.
    fn timestamp_unix_ns(&self) -> Option<u64> {
        None
    }

    /// Each header's name and value, in the message's order, without the trace header.
    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

/// The details of a message that has none, or whose client does not decode any.
#[derive(Debug)]
pub struct NoDetails;

impl Details for NoDetails {}

/// What arrived in a stretch of time: at one consumer, or at all of a group, or at all there are. In messages, warm-up
/// included unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// Every message handed over, of this trial or not.
    pub messages: u64,
    pub payload_bytes: u64,
    /// Messages of this trial, intact or corrupt, repetitions included.
    pub received: u64,
    /// Intact messages that had not arrived at the group before. Where nothing is verified, repetitions cannot be distinguished and are
    /// among them.
    pub first: u64,
    /// Messages of `first` whose intended time lies in the measured phase.
    pub consumed: u64,
    /// Repetitions that the broker did not announce as such.
    pub duplicated: u64,
    /// Repetitions that the broker announced.
    pub redelivered: u64,
    /// First arrivals after a later message of the same producer in the same partition.
    pub reordered: u64,
    /// First arrivals whose order was not checked: the broker promises none.
    pub unordered: u64,
    /// First arrivals whose order was not checked: there was no memory left to.
    pub order_unchecked: u64,
    /// The checksum is not the one sent.
    pub corrupt: u64,
    /// Not of this trial.
    pub foreign: u64,
    /// Messages of `consumed` that arrived before their intended time, by clocks that differ: their latency is recorded as 0.
    pub before_intended: u64,
    /// Most that one of them did, in nanoseconds.
    pub most_before_intended_ns: u64,
    /// When the last of `first` arrived, in nanoseconds since the trial's epoch; 0: none did.
    pub last_first_ns: u64,
    /// The same of `consumed`.
    pub last_consumed_ns: u64,
}

impl AddAssign<&Arrived> for Arrived {
    fn add_assign(&mut self, other: &Arrived) {
        self.messages += other.messages;
        self.payload_bytes += other.payload_bytes;
        self.received += other.received;
        self.first += other.first;
        self.consumed += other.consumed;
        self.duplicated += other.duplicated;
        self.redelivered += other.redelivered;
        self.reordered += other.reordered;
        self.unordered += other.unordered;
        self.order_unchecked += other.order_unchecked;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.before_intended += other.before_intended;
        self.most_before_intended_ns = self.most_before_intended_ns.max(other.most_before_intended_ns);
        self.last_first_ns = self.last_first_ns.max(other.last_first_ns);
        self.last_consumed_ns = self.last_consumed_ns.max(other.last_consumed_ns);
    }
}

/// What arrived, and when.
#[derive(Debug, Clone, Default)]
pub struct Reception {
    pub arrived: Arrived,
    /// Received − intended, of the messages in [`Arrived::consumed`].
    pub end_to_end: Distribution,
    /// Moments at which such messages arrived: one for each batch that had some, as in
    /// [`Interval::moments`](super::Interval::moments).
    pub moments: u64,
    /// When they arrived, and how slow they were.
    pub timeline: Timeline,
    /// The longest of [`Reception::end_to_end`] in the batch that arrives now, in nanoseconds.
    pub(super) slowest_of_batch_ns: u64,
}

impl Reception {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Reception) {
        self.arrived += &other.arrived;
        self.end_to_end.merge(&other.end_to_end);
        self.moments += other.moments;
        self.timeline.merge(&other.timeline);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.arrived = Arrived::default();
        self.end_to_end.clear();
        self.moments = 0;
        self.timeline.clear();
    }
}

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
    /// Moments of arrival, as [`Reception::moments`].
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
