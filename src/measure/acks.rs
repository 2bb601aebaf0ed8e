//! Where outcomes go: each thread that learns of them has a recorder of its own, and the trial reads them all.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::ack_batch::AckBatch;
use super::ack_state::{Shard, Shared};
use super::clock::Clock;
use super::failure::FailureClass;
use super::interval::Interval;
use super::part_tally::PartEnds;
use super::partition_tally::{Acknowledged, PartitionIndex, PartitionNames};
use super::send_tag::SendTag;
use super::verification::Verification;
use super::window::Window;

/// One trial's outcomes: hands out recorders and holds the producers' windows.
#[derive(Clone)]
pub struct Acks {
    shared: Arc<Shared>,
}

impl Acks {
    /// For a trial of `producers`, timed by `clock`, in which nothing is verified.
    pub fn new(clock: Clock, producers: usize, open_loop: bool) -> Self {
        Acks::verified(clock, producers, open_loop, None)
    }

    /// The same, with where to mark what was acknowledged.
    pub fn verified(clock: Clock, producers: usize, open_loop: bool, verification: Option<Arc<Verification>>) -> Self {
        Acks::of_partitions(clock, producers, open_loop, verification, None)
    }

    /// The same, with figures of single partitions.
    pub fn of_partitions(
        clock: Clock,
        producers: usize,
        open_loop: bool,
        verification: Option<Arc<Verification>>,
        partitions: Option<PartitionNames>,
    ) -> Self {
        let rejections = Arc::new(Mutex::new(Shard::default()));
        let windows = (0..producers).map(|_| Window::new()).collect();
        let stopped = AtomicBool::new(false);
        let shards = Mutex::new(vec![rejections.clone()]);
        Acks {
            shared: Arc::new(Shared {
                clock,
                open_loop,
                windows,
                stopped,
                verification,
                partitions,
                part_ends: OnceLock::new(),
                shards,
                rejections,
            }),
        }
    }

    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A recorder for one thread or task.
    pub fn recorder(&self) -> AckRecorder {
        let shard = Arc::new(Mutex::new(Shard::default()));
        self.shared.shards.lock().push(shard.clone());
        AckRecorder { shared: self.shared.clone(), shard }
    }

    /// Where messages are counted that are written to a partition: `None` is a topic without partitions.
    pub fn partition(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        self.shared.partition(topic, partition)
    }

    /// What was acknowledged in each partition; `None`: partitions have no figures of their own. Each recorder waits meanwhile, so this is
    /// for the end of a trial.
    pub fn by_partition(&self) -> Option<Acknowledged> {
        let mut all = Acknowledged::in_partitions(self.shared.partitions.as_ref()?);
        self.shared.shards.lock().iter().for_each(|shard| all.add(&shard.lock().partitions));
        Some(all)
    }

    /// Before the load begins: response times are counted by these parts, too.
    pub fn divide_into(&self, parts: PartEnds) {
        // Set once: a trial has one load.
        let _ = self.shared.part_ends.set(parts);
    }

    /// One producer's window.
    pub fn window(&self, producer_index: usize) -> &Window {
        &self.shared.windows[producer_index]
    }

    /// The windows of all producers, in the order of their indices.
    pub fn windows(&self) -> &[Window] {
        &self.shared.windows
    }

    /// Messages of all producers whose outcome is not known.
    pub fn in_flight(&self) -> u64 {
        self.shared.windows.iter().map(Window::in_flight).sum()
    }

    /// Messages of all producers whose outcome is known.
    pub fn resolved(&self) -> u64 {
        self.shared.windows.iter().map(Window::resolved).sum()
    }

    /// Messages that all producers have handed over.
    pub fn submitted(&self) -> u64 {
        self.shared.windows.iter().map(Window::submitted).sum()
    }

    /// Records that the client did not take a message.
    pub fn reject(&self, send_tag: SendTag, class: FailureClass, message: impl FnOnce() -> String) {
        AckBatch::begin(&self.shared, &self.shared.rejections, self.shared.clock.now_ns())
            .failed(send_tag, class, message);
    }

    /// The flag that ends every wait for a window.
    pub fn stopped(&self) -> &AtomicBool {
        &self.shared.stopped
    }

    /// Sets [`Acks::stopped`] and wakes all waiting producers to check it.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.windows.iter().for_each(Window::wake);
    }

    /// Everything recorded since the last call, merged into `into`, which must be clear. `spare` must be clear too and
    /// serves as each recorder's next interval in turn, so that no recorder is held up for longer than an exchange.
    pub fn collect(&self, into: &mut Interval, spare: &mut Interval) {
        self.take(into, spare, false);
    }

    /// As [`Acks::collect`], and closes the account: later outcomes stay unresolved.
    pub fn close(&self, into: &mut Interval, spare: &mut Interval) {
        self.take(into, spare, true);
    }

    fn take(&self, into: &mut Interval, spare: &mut Interval, close: bool) {
        for shard in self.shared.shards.lock().iter() {
            let mut shard_guard = shard.lock();
            mem::swap(&mut shard_guard.interval, spare);
            shard_guard.closed |= close;
            drop(shard_guard);
            into.merge(spare);
            spare.clear();
        }
    }
}

/// Records outcomes for one thread, task or connection; what it shares with others is locked once per batch.
pub struct AckRecorder {
    shared: Arc<Shared>,
    shard: Arc<Mutex<Shard>>,
}

impl AckRecorder {
    /// Whether outcomes must identify their message: their send tags need sequences.
    pub fn needs_sequences(&self) -> bool {
        self.shared.verification.is_some()
    }

    /// As [`Acks::partition`].
    pub fn partition(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        self.shared.partition(topic, partition)
    }

    /// The time since the trial's epoch.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// Begins a batch of outcomes that all became known now.
    pub fn batch(&self) -> AckBatch<'_> {
        self.batch_at(self.now_ns())
    }

    /// Begins a batch of outcomes that all became known at `now_ns`.
    pub fn batch_at(&self, now_ns: u64) -> AckBatch<'_> {
        AckBatch::begin(&self.shared, &self.shard, now_ns)
    }
}

#[cfg(test)]
mod tests;
