//! Outcomes that became known at the same moment: counted once for all messages that were sent together.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::ack_state::{Shard, Shared};
use super::failure::FailureClass;
use super::partition_tally::{PartitionIndex, PartitionNames};
use super::send_run::SendRun;
use super::send_tag::SendTag;
use super::timeline::Slowest;
use super::verification::Span;

/// So many stretches are marked at once at the latest.
const MAX_SPANS: usize = 4096;

/// Outcomes that became known at the same moment. Windows open when it is dropped.
pub struct AckBatch<'a> {
    now_ns: u64,
    shared: &'a Shared,
    shard: MutexGuard<'a, Shard>,
    closed: bool,
    verified: bool,
    /// Where messages are counted besides, if partitions have figures of their own.
    partitions: Option<&'a PartitionNames>,
    /// The partition of the messages that are acknowledged next.
    partition: PartitionIndex,
    /// The message acknowledged last. Messages that were sent together have one latency, and are counted at once.
    last: SendTag,
    /// Acknowledged messages of the same producer, of the warm-up or not, that are not in the tally yet.
    messages: u64,
    payload_bytes: u64,
    /// Of these messages, those whose latency is counted.
    timed: u64,
    /// Messages that the batch acknowledged, of the measured phase and of the warm-up.
    acknowledged: u64,
    acknowledged_in_warm_up: u64,
    /// The longest latencies of the measured ones.
    slowest: SlowestOfBatch,
}

/// In nanoseconds.
#[derive(Default)]
struct SlowestOfBatch {
    response_ns: u64,
    service_ns: u64,
    schedule_delay_ns: u64,
}

impl<'a> AckBatch<'a> {
    pub(super) fn begin(shared: &'a Shared, shard: &'a Mutex<Shard>, now_ns: u64) -> Self {
        let shard = shard.lock();
        AckBatch {
            now_ns,
            shared,
            closed: shard.closed,
            shard,
            verified: shared.verification.is_some(),
            partitions: shared.partitions.as_ref(),
            partition: PartitionIndex::UNKNOWN,
            last: SendTag::new(0, 0, 0, 0, false),
            messages: 0,
            payload_bytes: 0,
            timed: 0,
            acknowledged: 0,
            acknowledged_in_warm_up: 0,
            slowest: SlowestOfBatch::default(),
        }
    }

    /// When these outcomes became known, in nanoseconds since the trial's epoch.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The messages that are acknowledged from here on were written to `partition`.
    #[inline]
    pub fn to_partition(&mut self, partition: PartitionIndex) {
        if partition != self.partition {
            self.count_latency();
            self.partition = partition;
        }
    }

    /// The broker acknowledged a message of `payload_bytes`.
    #[inline]
    pub fn acknowledged(&mut self, send_tag: SendTag, payload_bytes: usize) {
        self.acknowledged_from(send_tag, 1, payload_bytes as u64);
    }

    /// The broker acknowledged messages that were sent together.
    #[inline]
    pub fn acknowledged_run(&mut self, run: &SendRun) {
        self.acknowledged_from(run.first, run.messages, u64::from(run.payload_bytes));
    }

    /// So many messages from `send_tag` on, which were sent together, of `payload_bytes` in all.
    #[inline(always)]
    fn acknowledged_from(&mut self, send_tag: SendTag, messages: u32, payload_bytes: u64) {
        if self.closed {
            return;
        }
        if !send_tag.is_counted_with(self.last) {
            self.count_latency();
            self.count_messages();
            self.last = send_tag;
        } else if send_tag.measured() && !send_tag.was_sent_with(self.last) {
            self.count_latency();
            self.last = send_tag;
        }
        self.messages += u64::from(messages);
        self.payload_bytes += payload_bytes;
        if self.verified {
            self.note(send_tag, u64::from(messages));
        }
    }

    /// Counts the latency of the messages that were sent with the last one.
    #[inline(always)]
    fn count_latency(&mut self) {
        let messages = self.messages - self.timed;
        if messages == 0 || !self.last.measured() {
            return;
        }
        self.timed = self.messages;
        let service_ns = self.last.service_ns(self.now_ns);
        let interval = &mut self.shard.interval;
        interval.service.record_n(service_ns, messages);
        let mut headline_ns = service_ns;
        self.slowest.service_ns = self.slowest.service_ns.max(service_ns);
        if self.shared.open_loop {
            let delay_ns = self.last.schedule_delay_ns();
            headline_ns += delay_ns;
            self.slowest.response_ns = self.slowest.response_ns.max(headline_ns);
            self.slowest.schedule_delay_ns = self.slowest.schedule_delay_ns.max(delay_ns);
            interval.response.record_n(headline_ns, messages);
            interval.schedule_delay.record_n(delay_ns, messages);
            if let Some(ends) = self.shared.part_ends.get() {
                interval.parts.record(ends, self.now_ns, headline_ns, messages);
            }
        }
        if let Some(names) = self.partitions {
            let partition = names.of_message(self.partition, self.last.producer_index());
            self.shard.partitions.count(names, partition, self.now_ns, headline_ns, messages);
        }
    }

    /// Counts what was acknowledged of the last message's producer, whose window opens.
    #[inline(never)]
    fn count_messages(&mut self) {
        if self.messages == 0 {
            return;
        }
        let interval = &mut self.shard.interval;
        let tally = if self.last.measured() {
            self.acknowledged += self.messages;
            &mut interval.measured
        } else {
            self.acknowledged_in_warm_up += self.messages;
            &mut interval.warm_up
        };
        tally.acknowledged += self.messages;
        tally.payload_bytes += self.payload_bytes;
        self.shared.windows[self.last.producer_index()].resolve(self.messages);
        (self.messages, self.payload_bytes, self.timed) = (0, 0, 0);
    }

    /// Notes acknowledged messages from `send_tag` on, to be marked with their neighbours.
    #[inline(never)]
    fn note(&mut self, send_tag: SendTag, messages: u64) {
        let (producer_index, sequence) = (send_tag.producer_index() as u32, send_tag.sequence());
        let spans = &mut self.shard.spans;
        match spans.last_mut() {
            Some(last) if last.producer_index == producer_index && last.end == sequence => last.end += messages,
            _ => {
                spans.push(Span { producer_index, begin: sequence, end: sequence + messages });
                if spans.len() >= MAX_SPANS {
                    self.mark();
                }
            }
        }
    }

    fn mark(&mut self) {
        if let Some(verification) = &self.shared.verification {
            verification.acknowledge(&mut self.shard.spans);
            self.shard.spans.clear();
        }
    }

    /// A transaction of measured messages has ended: committed in so much time, or aborted.
    pub fn transaction_ended(&mut self, committed: Option<Duration>) {
        if self.closed {
            return;
        }
        let transactions = self.shard.interval.transactions.get_or_insert_default();
        match committed {
            Some(took) => {
                transactions.committed += 1;
                transactions.commit.record(took.as_nanos() as u64);
            }
            None => transactions.aborted += 1,
        }
    }

    /// A message failed. `message` is the client's or broker's reason.
    pub fn failed(&mut self, send_tag: SendTag, class: FailureClass, message: impl FnOnce() -> String) {
        if self.closed {
            return;
        }
        let now_ns = self.now_ns;
        let interval = &mut self.shard.interval;
        if send_tag.measured() {
            interval.measured.failed += 1;
            interval.errors.record(class, now_ns, message);
        } else {
            interval.warm_up.failed += 1;
        }
        self.shared.windows[send_tag.producer_index()].resolve(1);
    }
}

impl Drop for AckBatch<'_> {
    fn drop(&mut self) {
        self.count_latency();
        self.count_messages();
        if self.acknowledged > 0 {
            let interval = &mut self.shard.interval;
            interval.moments += 1;
            interval.last_acknowledged_ns = self.now_ns;
        }
        let all = self.acknowledged + self.acknowledged_in_warm_up;
        if all > 0 {
            let slowest = Slowest {
                response_ns: self.slowest.response_ns as f32,
                service_ns: self.slowest.service_ns as f32,
                schedule_delay_ns: self.slowest.schedule_delay_ns as f32,
                end_to_end_ns: 0.0,
            };
            self.shard.interval.timeline.add(self.now_ns, all, slowest);
        }
        if !self.shard.spans.is_empty() {
            self.mark();
        }
    }
}
