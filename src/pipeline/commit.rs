//! Up to where a lane is done: batches end in any order, and a lane is done up to the first message that is not.

use std::collections::{BTreeMap, VecDeque};

/// The batches of one member that are not done, lane by lane.
#[derive(Debug, Default)]
pub struct Commits {
    lanes: BTreeMap<u32, Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    /// In the order in which they were taken: the batch, where the lane goes on behind it, and whether it is done.
    open: VecDeque<(u64, u64, bool)>,
    /// Where the first batch began.
    first: u64,
    done: Option<u64>,
    said: Option<u64>,
}

impl Commits {
    /// Batch `number` holds messages of `lane` from `first` on, behind which that goes on at `next`; batches come in the
    /// order in which they were taken.
    pub fn begin(&mut self, number: u64, lane: u32, first: u64, next: u64) {
        let lane = self.lanes.entry(lane).or_insert_with(|| Lane { first, ..Lane::default() });
        lane.open.push_back((number, next, false));
    }

    /// Batch `number` is done.
    pub fn finish(&mut self, number: u64) {
        for lane in self.lanes.values_mut() {
            for (_, _, done) in lane.open.iter_mut().filter(|(open, _, _)| *open == number) {
                *done = true;
            }
            while let Some((_, next, true)) = lane.open.front() {
                lane.done = Some(*next);
                lane.open.pop_front();
            }
        }
    }

    /// Where lanes are done up to, of those that have got on since the last call.
    pub fn due(&mut self) -> Vec<(u32, u64)> {
        let due = self.lanes.iter_mut().filter(|(_, lane)| lane.done != lane.said);
        due.filter_map(|(number, lane)| {
            lane.said = lane.done;
            lane.done.map(|next| (*number, next))
        })
        .collect()
    }

    /// Where every lane is done up to.
    pub fn done(&self) -> Vec<(u32, u64)> {
        self.lanes.iter().filter_map(|(number, lane)| lane.done.map(|next| (*number, next))).collect()
    }

    /// The first message of `lane` that is not done, if something of it is not.
    pub fn open_from(&self, lane: u32) -> Option<u64> {
        let lane = self.lanes.get(&lane).filter(|lane| !lane.open.is_empty())?;
        Some(lane.done.unwrap_or(lane.first))
    }

    /// The lanes are somebody else's now.
    pub fn clear(&mut self) {
        self.lanes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_behind_a_gap_is_said() {
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
        /// Whatever is finished in whatever order: every message before what is said has been finished, and the first one
        /// that is not said has not.
        #[test]
        fn says_exactly_the_contiguous_beginning(
            batches in proptest::collection::vec(proptest::collection::vec((0..3u32, 1..4u64), 1..4), 1..20),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..30),
        ) {
            let mut commits = Commits::default();
            let mut ends = [0u64; 3];
            // Of each lane, the batch of every message.
            let mut owners: [Vec<usize>; 3] = Default::default();
            for (number, parts) in batches.iter().enumerate() {
                let mut touched = BTreeMap::new();
                for (lane, count) in parts {
                    ends[*lane as usize] += count;
                    owners[*lane as usize].extend(std::iter::repeat_n(number, *count as usize));
                    touched.insert(*lane, ends[*lane as usize]);
                }
                for (lane, next) in touched {
                    commits.begin(number as u64, lane, 0, next);
                }
            }
            let mut finished = vec![false; batches.len()];
            let mut said = [0u64; 3];
            for index in order {
                let number = index.index(batches.len());
                finished[number] = true;
                commits.finish(number as u64);
                for (lane, next) in commits.due() {
                    prop_assert!(next > said[lane as usize]);
                    said[lane as usize] = next;
                }
                for lane in 0..3 {
                    let expected = owners[lane].iter().take_while(|owner| finished[**owner]).count() as u64;
                    prop_assert_eq!(said[lane], expected);
                }
            }
        }
    }
}
