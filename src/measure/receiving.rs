//! Records what one consumer receives, a batch at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use super::arrival_state::{GroupProgress, Shard, Shared};
use super::partitions::Order;
use super::reception::{Arrived, Received, Reception};
use super::sequences::Mark;
use super::timeline::Slowest;
use super::trace_header::{Opened, TRACE_HEADER_BYTES, TraceHeader};

/// Payload after which the clock is read again: a fraction of a millisecond to check and unpack. A client may hand over tens of MB at once,
/// and what it hands over last has waited for all before it.
const BYTES_A_READING: usize = 256 << 10;

/// Records what one consumer receives.
pub struct ArrivalRecorder {
    shared: Arc<Shared>,
    group: usize,
    shard: Arc<Mutex<Shard>>,
}

impl ArrivalRecorder {
    pub(super) fn new(shared: Arc<Shared>, group: usize, shard: Arc<Mutex<Shard>>) -> Self {
        ArrivalRecorder { shared, group, shard }
    }

    /// Begins a batch of messages. They arrive when the first of them is handed over, which is when the time is taken: not now, as they may
    /// still be fetched. While many are handed over, it is taken again.
    pub fn batch(&mut self) -> ArrivalBatch<'_> {
        ArrivalBatch {
            now_ns: 0,
            bytes_left: 0,
            shared: &self.shared,
            group: self.group,
            before: GroupProgress::default(),
            consumed_before: 0,
            shard: self.shard.lock(),
        }
        .begun()
    }

    /// Receiving failed: the group may not have been offered what is there.
    pub fn failed(&self) {
        if let Some(group) = self.shared.groups.get(self.group) {
            group.errors.fetch_add(1, Ordering::Release);
        }
    }
}

/// Messages that are handed over together.
pub struct ArrivalBatch<'a> {
    /// 0 before the first message.
    now_ns: u64,
    /// Payload until the clock is read again.
    bytes_left: usize,
    shared: &'a Shared,
    group: usize,
    /// What the shard held when the batch began.
    before: GroupProgress,
    consumed_before: u64,
    shard: MutexGuard<'a, Shard>,
}

impl ArrivalBatch<'_> {
    fn begun(mut self) -> Self {
        self.before = self.counted();
        self.consumed_before = self.shard.reception.arrived.consumed;
        self
    }

    fn counted(&self) -> GroupProgress {
        let Arrived { messages: deliveries, first, corrupt, .. } = self.shard.reception.arrived;
        GroupProgress { deliveries, first, corrupt, errors: 0 }
    }

    /// When the latest messages of this batch arrived, in nanoseconds since the trial's epoch; 0 before the first message.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The messages that follow arrived at `now_ns`, which need not be now.
    pub fn arrived_at(&mut self, now_ns: u64) {
        (self.now_ns, self.bytes_left) = (now_ns, usize::MAX);
    }

    /// Counts, opens and verifies one message; returns its trace header if the message is of this trial and intact.
    #[inline]
    pub fn received(&mut self, message: Received<'_>) -> Option<TraceHeader> {
        if self.bytes_left == 0 {
            (self.now_ns, self.bytes_left) = (self.shared.clock.now_ns(), BYTES_A_READING);
        }
        self.bytes_left = self.bytes_left.saturating_sub(message.payload.len().max(1));
        let arrived = &mut self.shard.reception.arrived;
        arrived.messages += 1;
        arrived.payload_bytes += message.payload.len() as u64;
        let (sealed, content) = match message.trace_header {
            Some(trace_header) => (trace_header, message.payload),
            None => (message.payload, message.payload.get(TRACE_HEADER_BYTES..).unwrap_or_default()),
        };
        match TraceHeader::open(sealed, content, self.shared.run_tag) {
            Opened::Intact(trace_header) => {
                self.intact(&message, &trace_header);
                return Some(trace_header);
            }
            Opened::Corrupt => {
                arrived.received += 1;
                arrived.corrupt += 1;
            }
            Opened::Foreign => arrived.foreign += 1,
        }
        self.shard.partitions.pass(message.partition, message.offset);
        None
    }

    #[inline]
    fn intact(&mut self, message: &Received<'_>, trace_header: &TraceHeader) {
        let Shard { reception, partitions } = &mut *self.shard;
        let arrived = &mut reception.arrived;
        let Some(verification) = &self.shared.verification else {
            arrived.received += 1;
            return first(reception, trace_header, self.now_ns, self.shared);
        };
        let Some(mark) = verification.arrive(self.group, trace_header.producer, trace_header.sequence) else {
            arrived.foreign += 1;
            return partitions.pass(message.partition, message.offset);
        };
        arrived.received += 1;
        match mark {
            Mark::First => {
                match partitions.arrived(
                    message.partition,
                    message.offset,
                    trace_header.producer,
                    trace_header.sequence,
                ) {
                    Order::Kept => {}
                    Order::Broken => arrived.reordered += 1,
                    Order::NotPromised => arrived.unordered += 1,
                    Order::Unchecked => arrived.order_unchecked += 1,
                }
                return first(reception, trace_header, self.now_ns, self.shared);
            }
            Mark::Repeated if message.redelivered => arrived.redelivered += 1,
            Mark::Repeated => arrived.duplicated += 1,
            // Its range of sequences was abandoned: it counts only as `received`.
            Mark::Unknown => {}
        }
        partitions.pass(message.partition, message.offset);
    }
}

/// Only what arrived for the first time has a latency: that of a repetition would be about something else.
#[inline]
fn first(reception: &mut Reception, trace_header: &TraceHeader, now_ns: u64, shared: &Shared) {
    reception.arrived.first += 1;
    reception.arrived.last_first_ns = now_ns;
    if trace_header.measured {
        reception.arrived.consumed += 1;
        reception.arrived.last_consumed_ns = now_ns;
        if !shared.timed.contains(&trace_header.producer) {
            return;
        }
        let received_ns = now_ns + shared.header_offset_ns;
        let since_intended_ns = received_ns.checked_sub(trace_header.intended_ns);
        if since_intended_ns.is_none() {
            let arrived = &mut reception.arrived;
            arrived.before_intended += 1;
            arrived.most_before_intended_ns =
                arrived.most_before_intended_ns.max(trace_header.intended_ns - received_ns);
        }
        let since_intended_ns = since_intended_ns.unwrap_or(0);
        reception.end_to_end.record(since_intended_ns);
        reception.slowest_of_batch_ns = reception.slowest_of_batch_ns.max(since_intended_ns);
    }
}

impl Drop for ArrivalBatch<'_> {
    fn drop(&mut self) {
        let now = self.counted();
        let reception = &mut self.shard.reception;
        let consumed = reception.arrived.consumed - self.consumed_before;
        if consumed > 0 {
            let end_to_end_ns = std::mem::take(&mut reception.slowest_of_batch_ns) as f32;
            reception.moments += 1;
            reception.timeline.add(self.now_ns, consumed, Slowest { end_to_end_ns, ..Slowest::default() });
        }
        if let Some(group) = self.shared.groups.get(self.group)
            && now.deliveries > self.before.deliveries
        {
            group.corrupt.fetch_add(now.corrupt - self.before.corrupt, Ordering::Release);
            group.first.fetch_add(now.first - self.before.first, Ordering::Release);
            group.deliveries.fetch_add(now.deliveries - self.before.deliveries, Ordering::Release);
        }
    }
}
