//! Up to which offset a partition is done, which instance has which partition of the topic, and how far each of them is.
//!
//! Batches end in any order, and a partition is done up to its first message that is not done.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The batches of one member that are not done, partition by partition.
#[derive(Debug, Default)]
pub struct Commits {
    partitions: BTreeMap<u32, Partition>,
}

#[derive(Debug, Default)]
struct Partition {
    /// Batches in the order in which they were taken: the batch, the offset after it, and whether it is done.
    open: VecDeque<(u64, u64, bool)>,
    /// The first offset of the first batch.
    first: u64,
    done: Option<u64>,
    committed: Option<u64>,
}

impl Commits {
    /// Batch `number` holds messages of `partition` from `first` until before `next`. Batches begin in the order in which they
    /// were taken.
    pub fn begin(&mut self, number: u64, partition: u32, first: u64, next: u64) {
        let partition = self.partitions.entry(partition).or_insert_with(|| Partition { first, ..Partition::default() });
        partition.open.push_back((number, next, false));
    }

    /// Batch `number` is done.
    pub fn finish(&mut self, number: u64) {
        for partition in self.partitions.values_mut() {
            for (_, _, done) in partition.open.iter_mut().filter(|(open, _, _)| *open == number) {
                *done = true;
            }
            while let Some((_, next, true)) = partition.open.front() {
                partition.done = Some(*next);
                partition.open.pop_front();
            }
        }
    }

    /// The offsets up to which partitions are done, of those that have advanced since the last call.
    pub fn due(&mut self) -> Vec<(u32, u64)> {
        let due = self.partitions.iter_mut().filter(|(_, partition)| partition.done != partition.committed);
        due.filter_map(|(number, partition)| {
            partition.committed = partition.done;
            partition.done.map(|next| (*number, next))
        })
        .collect()
    }

    /// The offset up to which each partition is done.
    pub fn done(&self) -> Vec<(u32, u64)> {
        self.partitions.iter().filter_map(|(number, partition)| partition.done.map(|next| (*number, next))).collect()
    }

    /// The first message of `partition` that is not done, if there is one.
    pub fn open_from(&self, partition: u32) -> Option<u64> {
        let partition = self.partitions.get(&partition).filter(|partition| !partition.open.is_empty())?;
        Some(partition.done.unwrap_or(partition.first))
    }

    /// The partitions have been revoked.
    pub fn clear(&mut self) {
        self.partitions.clear();
    }
}

/// Within this time a member of a group hears of the partitions that another one has returned: twice the default of Kafka's
/// `group.consumer.heartbeat.interval.ms`, for the heartbeat of the one and that of the other.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(10);

/// What the instances have reported.
pub struct Assignment {
    instances: Vec<Mutex<InstanceProgress>>,
    /// The first message of each partition that was not done when an instance last had it.
    reached: Mutex<Vec<Option<u64>>>,
    /// When an instance last got or returned a partition.
    changed: Mutex<Instant>,
}

/// The progress of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceProgress {
    /// The group has assigned its partitions.
    pub is_assigned: bool,
    /// Each with the first message that is not done; `None`: not assigned, or the broker has no offsets.
    pub partitions: Option<Vec<(u32, Option<u64>)>>,
}

impl Assignment {
    /// Of instances that have nothing yet.
    pub fn new(instances: usize, partitions: usize) -> Self {
        let instances = (0..instances).map(|_| Mutex::default()).collect();
        Assignment { instances, reached: Mutex::new(vec![None; partitions]), changed: Mutex::new(Instant::now()) }
    }

    /// Takes note of where an instance is now.
    pub fn report(&self, instance: usize, progress: InstanceProgress, now: Instant) {
        let mut before = self.instances[instance].lock();
        if !before.numbers().eq(progress.numbers()) {
            *self.changed.lock() = now;
        }
        let mut reached = self.reached.lock();
        for (partition, next) in progress.partitions.iter().flatten() {
            if let Some(found) = reached.get_mut(*partition as usize) {
                *found = *next;
            }
        }
        *before = progress;
    }

    /// An instance has ended: if it waited for partitions, it gets none any more.
    pub fn ended(&self, instance: usize) {
        let mut progress = self.instances[instance].lock();
        if !progress.is_assigned {
            *progress = InstanceProgress { is_assigned: true, partitions: Some(Vec::new()) };
        }
    }

    /// Whether the group has assigned every instance its partitions, or none of them.
    pub fn is_assigned(&self) -> bool {
        self.instances.iter().all(|progress| progress.lock().is_assigned)
    }

    /// Whether every partition has an instance. A partition of a group that the server shares out has no member until one hears
    /// that another one has returned it.
    pub fn is_complete(&self) -> bool {
        match self.without_instance() {
            Some(partitions) => partitions.is_empty(),
            None => self.is_assigned(),
        }
    }

    /// Partitions that no instance has; `None`: an instance does not know its partitions.
    fn without_instance(&self) -> Option<Vec<usize>> {
        let mut has_instance = vec![false; self.reached.lock().len()];
        for progress in &self.instances {
            let progress = progress.lock();
            progress.partitions.as_ref()?;
            for partition in progress.numbers() {
                if let Some(found) = has_instance.get_mut(partition as usize) {
                    *found = true;
                }
            }
        }
        Some((0..has_instance.len()).filter(|partition| !has_instance[*partition]).collect())
    }

    /// How many messages the partitions of these instances are behind their `ends`; `None`: not known right now. A partition
    /// without an instance is not behind if it is empty, or if the last instance had reached its end. The others are those of the
    /// group's other members, once nothing has changed for a while.
    pub fn consumer_lag(&self, ends: &[u64], now: Instant) -> Option<u64> {
        let mut consumer_lag = 0;
        for progress in &self.instances {
            for (partition, next) in progress.lock().partitions.iter().flatten() {
                consumer_lag += ends.get(*partition as usize)?.saturating_sub((*next)?);
            }
        }
        let without_instance = self.without_instance()?;
        let reached = self.reached.lock();
        let is_done = |partition: &usize| match (reached[*partition], ends.get(*partition)) {
            (next, Some(end)) => next.unwrap_or(0) >= *end,
            (_, None) => false,
        };
        let is_known = without_instance.iter().all(is_done) || now >= *self.changed.lock() + PASSED_ON_WITHIN;
        // The partitions without an instance can only add to it.
        (is_known || consumer_lag > 0).then_some(consumer_lag)
    }
}

impl InstanceProgress {
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.partitions.iter().flatten().map(|(partition, _)| *partition)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pipeline/commit.rs"]
mod tests;
