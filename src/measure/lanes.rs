//! How far one consumer has come in each lane: the next position, and each producer's latest message. Order is only promised
//! within a lane (a partition), so it is checked per lane and producer, in bounded memory.

use super::budget::Budget;

/// The lane of messages for which the broker promises no order: none of them is ever found reordered.
pub const LANE_WITHOUT_ORDER: u32 = u32::MAX;

/// Bytes that the tables of all consumers of a trial may take together.
pub const LANE_BYTES: usize = 64 << 20;

/// How a message lies in the order of its producer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Kept,
    /// A later message of the same producer came before it in the same lane.
    Broken,
    /// The broker promises none.
    NotPromised,
    /// There was no memory left to look.
    Unchecked,
}

/// One consumer's lanes. A lane is read by one consumer of a group at a time.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Lane {
    /// The position after the last message that was received.
    next_position: u64,
    /// By producer: the sequence after its latest message; 0: none came.
    next_sequences: Vec<u64>,
}

impl Lanes {
    pub fn new(budget: Budget) -> Self {
        Lanes { lanes: Vec::new(), budget }
    }

    /// A message was received at `position` of `lane` that says nothing of its producer's order: a repetition, one that is
    /// damaged, or one of somebody else.
    #[inline]
    pub fn pass(&mut self, lane: u32, position: u64) {
        if lane != LANE_WITHOUT_ORDER && self.has_lane(lane as usize) {
            let lane = &mut self.lanes[lane as usize];
            lane.next_position = lane.next_position.max(position + 1);
        }
    }

    /// A message arrived for the first time, at `position` of `lane`.
    #[inline]
    pub fn arrived(&mut self, lane: u32, position: u64, producer: u32, sequence: u64) -> Order {
        if lane == LANE_WITHOUT_ORDER {
            return Order::NotPromised;
        }
        let (index, producer) = (lane as usize, producer as usize);
        let is_known = self.lanes.get(index).is_some_and(|lane| producer < lane.next_sequences.len());
        let has_room = is_known || self.has_lane(index) && self.has_room(index, producer);
        if !has_room {
            self.pass(lane, position);
            return Order::Unchecked;
        }
        let lane = &mut self.lanes[index];
        lane.next_position = lane.next_position.max(position + 1);
        let (latest, next) = (&mut lane.next_sequences[producer], sequence + 1);
        if next < *latest {
            return Order::Broken;
        }
        *latest = next;
        Order::Kept
    }

    /// The position after the last message of `lane` that was received; 0: none was.
    pub fn next_position(&self, lane: u32) -> u64 {
        self.lanes.get(lane as usize).map_or(0, |lane| lane.next_position)
    }

    /// The sequence after the producer's latest message in `lane`; 0: none came.
    pub fn next_sequence(&self, lane: u32, producer: u32) -> u64 {
        let lane = self.lanes.get(lane as usize);
        lane.and_then(|lane| lane.next_sequences.get(producer as usize)).copied().unwrap_or(0)
    }

    /// Lanes that may have been seen are numbered below it.
    pub fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Makes room for the lane, as far as the budget goes.
    #[inline]
    fn has_lane(&mut self, lane: usize) -> bool {
        if self.lanes.len() <= lane {
            let missing = lane + 1 - self.lanes.len();
            if !self.budget.take(missing.saturating_mul(size_of::<Lane>())) {
                return false;
            }
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        true
    }

    /// Makes room for the producer in the lane, as far as the budget goes.
    fn has_room(&mut self, lane: usize, producer: usize) -> bool {
        let sequences = &mut self.lanes[lane].next_sequences;
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
    fn order_is_kept_per_lane_and_producer() {
        let mut lanes = Lanes::new(Budget::of_bytes(LANE_BYTES));
        assert_eq!(lanes.arrived(0, 0, 0, 5), Order::Kept);
        assert_eq!(lanes.arrived(1, 0, 0, 3), Order::Kept, "another lane");
        assert_eq!(lanes.arrived(0, 0, 1, 0), Order::Kept, "another producer");
        assert_eq!(lanes.arrived(0, 0, 0, 4), Order::Broken);
        assert_eq!(lanes.arrived(0, 0, 0, 6), Order::Kept);
        assert_eq!(lanes.arrived(LANE_WITHOUT_ORDER, 0, 0, 1), Order::NotPromised);
        assert_eq!((lanes.next_sequence(0, 0), lanes.next_sequence(1, 0), lanes.next_sequence(7, 9)), (7, 4, 0));
    }

    #[test]
    fn positions_are_kept_per_lane_and_never_go_back() {
        let mut lanes = Lanes::new(Budget::of_bytes(LANE_BYTES));
        lanes.pass(2, 10);
        lanes.pass(2, 4);
        lanes.pass(LANE_WITHOUT_ORDER, 99);
        assert_eq!((lanes.next_position(2), lanes.next_position(0), lanes.count()), (11, 0, 3));
    }

    #[test]
    fn tables_stay_within_their_budget_and_say_what_they_did_not_check() {
        let budget = Budget::of_bytes(10_000);
        let mut lanes = [Lanes::new(budget.clone()), Lanes::new(budget.clone())];
        let mut unchecked = 0;
        for lane in 0..100 {
            for producer in 0..100 {
                unchecked += u32::from(lanes[lane as usize % 2].arrived(lane, 0, producer, 0) == Order::Unchecked);
            }
        }
        let bytes = |lanes: &Lanes| {
            let tables = lanes.lanes.iter().map(|lane| lane.next_sequences.capacity() * size_of::<u64>());
            lanes.lanes.len() * size_of::<Lane>() + tables.sum::<usize>()
        };
        assert!(lanes.iter().map(bytes).sum::<usize>() <= 10_000);
        assert!(unchecked > 9_000, "{unchecked}");
        assert_eq!(lanes[0].arrived(u32::MAX - 1, 0, 0, 0), Order::Unchecked, "a lane no topic has");
        assert_eq!(lanes[0].arrived(0, 0, 0, 1), Order::Kept, "what is in the tables goes on");
    }
}
