//! How far one consumer has come in each partition: the next offset, and each producer's latest message. The broker promises order
//! only within a partition, so it is checked per partition and producer, in bounded memory.

use super::budget::Budget;

/// The partition of messages for which the broker promises no order: none of them is ever found reordered.
pub const UNORDERED_PARTITION: u32 = u32::MAX;

/// Bytes that the tables of all consumers of a trial may take together.
pub const PARTITION_BYTES: usize = 64 << 20;

/// How a message lies in the order of its producer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Kept,
    /// A later message of the same producer came before it in the same partition.
    Broken,
    /// The broker promises none.
    NotPromised,
    /// Not checked: the memory budget was used up.
    Unchecked,
}

/// One consumer's partitions. A partition is read by one consumer of a group at a time.
#[derive(Debug)]
pub struct Partitions {
    partitions: Vec<Partition>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Partition {
    /// The offset after the last message that was received.
    next_offset: u64,
    /// The sequence after the latest message of each producer; 0: none came.
    next_sequences: Vec<u64>,
}

impl Partitions {
    pub fn new(budget: Budget) -> Self {
        Partitions { partitions: Vec::new(), budget }
    }

    /// A message was received at `offset` of `partition` that does not show its producer's order: a repetition, a damaged
    /// message, or a message of another program.
    #[inline]
    pub fn pass(&mut self, partition: u32, offset: u64) {
        if partition != UNORDERED_PARTITION && self.has_partition(partition as usize) {
            let partition = &mut self.partitions[partition as usize];
            partition.next_offset = partition.next_offset.max(offset + 1);
        }
    }

    /// A message arrived for the first time, at `offset` of `partition`.
    #[inline]
    pub fn arrived(&mut self, partition: u32, offset: u64, producer: u32, sequence: u64) -> Order {
        if partition == UNORDERED_PARTITION {
            return Order::NotPromised;
        }
        let (index, producer) = (partition as usize, producer as usize);
        let is_known = self.partitions.get(index).is_some_and(|partition| producer < partition.next_sequences.len());
        let has_entry = is_known || self.has_partition(index) && self.has_producer(index, producer);
        if !has_entry {
            self.pass(partition, offset);
            return Order::Unchecked;
        }
        let partition = &mut self.partitions[index];
        partition.next_offset = partition.next_offset.max(offset + 1);
        let (latest, next) = (&mut partition.next_sequences[producer], sequence + 1);
        if next < *latest {
            return Order::Broken;
        }
        *latest = next;
        Order::Kept
    }

    /// The offset after the last message of `partition` that was received; 0: none was.
    pub fn next_offset(&self, partition: u32) -> u64 {
        self.partitions.get(partition as usize).map_or(0, |partition| partition.next_offset)
    }

    /// The sequence after the producer's latest message in `partition`; 0: none came.
    pub fn next_sequence(&self, partition: u32, producer: u32) -> u64 {
        let partition = self.partitions.get(partition as usize);
        partition.and_then(|partition| partition.next_sequences.get(producer as usize)).copied().unwrap_or(0)
    }

    /// Partitions that may have been seen are numbered below it.
    pub fn count(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// Adds the partition, as far as the budget allows.
    #[inline]
    fn has_partition(&mut self, partition: usize) -> bool {
        if self.partitions.len() <= partition {
            let missing = partition + 1 - self.partitions.len();
            if !self.budget.take(missing.saturating_mul(size_of::<Partition>())) {
                return false;
            }
            self.partitions.resize_with(partition + 1, Partition::default);
        }
        true
    }

    /// Adds the producer to the partition, as far as the budget allows.
    fn has_producer(&mut self, partition: usize, producer: usize) -> bool {
        let sequences = &mut self.partitions[partition].next_sequences;
        let wanted = (producer + 1).next_power_of_two().max(sequences.len());
        let missing = wanted - sequences.len();
        if !self.budget.take(missing.saturating_mul(size_of::<u64>())) {
            return false;
        }
        sequences.reserve_exact(missing);
        sequences.resize(wanted, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_per_partition_and_producer() {
        let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
        assert_eq!(partitions.arrived(0, 0, 0, 5), Order::Kept);
        assert_eq!(partitions.arrived(1, 0, 0, 3), Order::Kept, "another partition");
        assert_eq!(partitions.arrived(0, 0, 1, 0), Order::Kept, "another producer");
        assert_eq!(partitions.arrived(0, 0, 0, 4), Order::Broken);
        assert_eq!(partitions.arrived(0, 0, 0, 6), Order::Kept);
        assert_eq!(partitions.arrived(UNORDERED_PARTITION, 0, 0, 1), Order::NotPromised);
        assert_eq!(
            (partitions.next_sequence(0, 0), partitions.next_sequence(1, 0), partitions.next_sequence(7, 9)),
            (7, 4, 0)
        );
    }

    #[test]
    fn offsets_are_kept_per_partition_and_never_go_back() {
        let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
        partitions.pass(2, 10);
        partitions.pass(2, 4);
        partitions.pass(UNORDERED_PARTITION, 99);
        assert_eq!((partitions.next_offset(2), partitions.next_offset(0), partitions.count()), (11, 0, 3));
    }

    #[test]
    fn tables_stay_within_their_budget_and_say_what_they_did_not_check() {
        let budget = Budget::new(10_000);
        let mut partitions = [Partitions::new(budget.clone()), Partitions::new(budget.clone())];
        let mut unchecked = 0;
        for partition in 0..100 {
            for producer in 0..100 {
                unchecked += u32::from(
                    partitions[partition as usize % 2].arrived(partition, 0, producer, 0) == Order::Unchecked,
                );
            }
        }
        let bytes = |partitions: &Partitions| {
            let tables =
                partitions.partitions.iter().map(|partition| partition.next_sequences.capacity() * size_of::<u64>());
            partitions.partitions.len() * size_of::<Partition>() + tables.sum::<usize>()
        };
        assert!(partitions.iter().map(bytes).sum::<usize>() <= 10_000);
        assert!(unchecked > 9_000, "{unchecked}");
        assert_eq!(partitions[0].arrived(u32::MAX - 1, 0, 0, 0), Order::Unchecked, "a partition no topic has");
        assert_eq!(partitions[0].arrived(0, 0, 0, 1), Order::Kept, "what is in the tables goes on");
    }
}
