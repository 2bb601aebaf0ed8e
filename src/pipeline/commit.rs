//! Up to which offset a partition is done: batches end in any order, and a partition is done up to its first message that is
//! not done.

use std::collections::{BTreeMap, VecDeque};

/// The batches of one member that are not done, partition by partition.
#[derive(Debug, Default)]
pub struct Commits {
    partitions: BTreeMap<u32, Partition>,
}

#[derive(Debug, Default)]
struct Partition {
    /// In the order in which they were taken: the batch, the offset after it, and whether it is done.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_behind_a_gap_is_committed() {
        let mut commits = Commits::default();
        commits.begin(1, 0, 7, 10);
        commits.begin(2, 0, 10, 20);
        commits.begin(2, 1, 0, 5);
        commits.finish(2);
        assert_eq!(commits.due(), [(1, 5)]);
        assert_eq!((commits.open_from(0), commits.open_from(1)), (Some(7), None));
        commits.finish(1);
        assert_eq!(commits.due(), [(0, 20)]);
        assert_eq!(commits.due(), [], "once is enough");
        assert_eq!(commits.done(), [(0, 20), (1, 5)]);
    }

    proptest! {
        /// Every message before the committed offset is finished, and the one at it is not.
        #[test]
        fn commits_exactly_the_contiguous_beginning(
            batches in proptest::collection::vec(proptest::collection::vec((0..3u32, 1..4u64), 1..4), 1..20),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..30),
        ) {
            let mut commits = Commits::default();
            let mut ends = [0u64; 3];
            // Of each partition, the batch of every message.
            let mut owners: [Vec<usize>; 3] = Default::default();
            for (number, parts) in batches.iter().enumerate() {
                let mut touched = BTreeMap::new();
                for (partition, count) in parts {
                    ends[*partition as usize] += count;
                    owners[*partition as usize].extend(std::iter::repeat_n(number, *count as usize));
                    touched.insert(*partition, ends[*partition as usize]);
                }
                for (partition, next) in touched {
                    commits.begin(number as u64, partition, 0, next);
                }
            }
            let mut finished = vec![false; batches.len()];
            let mut committed = [0u64; 3];
            for index in order {
                let number = index.index(batches.len());
                finished[number] = true;
                commits.finish(number as u64);
                for (partition, next) in commits.due() {
                    prop_assert!(next > committed[partition as usize]);
                    committed[partition as usize] = next;
                }
                for partition in 0..3 {
                    let expected = owners[partition].iter().take_while(|owner| finished[**owner]).count() as u64;
                    prop_assert_eq!(committed[partition], expected);
                }
            }
        }
    }
}
