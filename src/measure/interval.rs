//! The counts of a trial. What one recording thread saw since it was last asked: messages, latencies, errors by class, transactions, and response
//! times by the segment of the schedule in which messages were intended, whenever they were acknowledged.
//!
//! And each producer's window: how many of its messages await their outcome, and waiting for that to change.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use atomic_waker::AtomicWaker;

use super::errors::Errors;
use super::histogram::{Distribution, Timeline};
use super::tags::TICK_NS;

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
    /// Response times by segment, of a schedule that changes its rate.
    pub segments: SegmentResponses,
}

impl Interval {
    /// The latency that is told first, as the interval log names it: without a schedule there is no response time.
    pub fn headline(&self) -> &'static str {
        if self.response.is_empty() { "service" } else { "response" }
    }

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
        self.segments.merge(&other.segments);
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
        self.segments.clear();
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

/// The segments of a schedule, in their order and without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentEnds(Box<[(u64, usize)]>);

impl SegmentEnds {
    /// From each segment's end, in nanoseconds since the trial's epoch, and the result that it belongs to.
    pub fn new(ends: impl Iterator<Item = (u64, usize)>) -> Self {
        SegmentEnds(ends.collect())
    }

    /// The result to which a message belongs that was intended at `intended_ns`, which is exact to a tick.
    #[inline]
    fn result_at(&self, intended_ns: u64) -> Option<usize> {
        let later = self.0.partition_point(|(end_ns, _)| *end_ns <= intended_ns + TICK_NS);
        self.0.get(later).or(self.0.last()).map(|(_, result)| *result)
    }
}

/// Response times of messages that were intended in the segments of one result.
#[derive(Debug, Clone)]
pub struct SegmentResponse {
    pub result: usize,
    pub response: Distribution,
    /// Moments of acknowledgement, as in [`Interval::moments`].
    pub moments: u64,
    /// The latest of these moments.
    last_ns: u64,
}

/// Response times of an interval: of few results, as most messages are acknowledged soon.
#[derive(Debug, Clone, Default)]
pub struct SegmentResponses(Vec<SegmentResponse>);

impl SegmentResponses {
    /// Counts `messages` that were intended at one time and acknowledged at `now_ns`.
    pub(super) fn record(&mut self, ends: &SegmentEnds, now_ns: u64, response_ns: u64, messages: u64) {
        let Some(result) = ends.result_at(now_ns.saturating_sub(response_ns)) else { return };
        let segment = self.response_mut(result);
        segment.response.record_n(response_ns, messages);
        if segment.last_ns != now_ns {
            segment.last_ns = now_ns;
            segment.moments += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &SegmentResponses) {
        for theirs in &other.0 {
            let mine = self.response_mut(theirs.result);
            mine.response.merge(&theirs.response);
            mine.moments += theirs.moments;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &SegmentResponse> {
        self.0.iter()
    }

    fn response_mut(&mut self, result: usize) -> &mut SegmentResponse {
        let index = self.0.iter().position(|segment| segment.result == result).unwrap_or_else(|| {
            self.0.push(SegmentResponse { result, response: Distribution::new(), moments: 0, last_ns: 0 });
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// No producer waits.
const NO_TARGET: u64 = u64::MAX;

/// Counts one producer's messages handed over and resolved. Padded to a cache line: neighbours are written by other
/// threads.
#[derive(Debug)]
#[repr(align(64))]
pub struct Window {
    submitted: AtomicU64,
    /// Messages of the warm-up among them.
    warm_up: AtomicU64,
    resolved: AtomicU64,
    awaited: AtomicU64,
    waker: AtomicWaker,
}

impl Window {
    /// The producer hands over `count` messages. Only its own task calls this, before the client can resolve them.
    #[inline]
    pub fn submit(&self, count: u64) {
        let submitted = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(submitted + count, Ordering::Release);
    }

    /// Of the messages handed over so far, so many belong to the warm-up. Only the producer's own task calls this.
    pub fn set_warm_up(&self, count: u64) {
        self.warm_up.store(count, Ordering::Release);
    }

    /// Messages of the warm-up handed over so far.
    pub fn warm_up(&self) -> u64 {
        self.warm_up.load(Ordering::Acquire)
    }

    /// The last `count` messages were not handed over after all.
    pub fn withdraw(&self, count: u64) {
        let submitted = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(submitted - count, Ordering::Release);
    }

    /// Messages handed over so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// `count` messages have their outcome.
    #[inline]
    pub fn resolve(&self, count: u64) {
        // SeqCst on both counters: either this sees the waiter's target, or the waiter sees this count.
        let resolved = self.resolved.fetch_add(count, Ordering::SeqCst) + count;
        if self.awaited.load(Ordering::SeqCst) <= resolved {
            self.waker.wake();
        }
    }

    /// Messages whose outcome is known.
    #[inline]
    pub fn resolved(&self) -> u64 {
        self.resolved.load(Ordering::SeqCst)
    }

    /// Messages handed over whose outcome is not known.
    pub fn in_flight(&self) -> u64 {
        let resolved = self.resolved();
        self.submitted().saturating_sub(resolved)
    }

    /// Resolves when `target` messages have their outcome (true) or `stopped` is set and [`Window::wake`] called (false).
    pub async fn resolved_reaches(&self, target: u64, stopped: &AtomicBool) -> bool {
        if self.resolved() >= target {
            return true;
        }
        let reached = poll_fn(|context| {
            self.waker.register(context.waker());
            self.awaited.store(target, Ordering::SeqCst);
            if self.resolved() >= target {
                Poll::Ready(true)
            } else if stopped.load(Ordering::SeqCst) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await;
        self.awaited.store(NO_TARGET, Ordering::SeqCst);
        reached
    }

    /// Wakes the waiting producer to check again.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

impl Default for Window {
    fn default() -> Self {
        let [submitted, warm_up, resolved] = [0; 3].map(AtomicU64::new);
        Window { submitted, warm_up, resolved, awaited: AtomicU64::new(NO_TARGET), waker: AtomicWaker::new() }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/interval.rs"]
mod tests;
