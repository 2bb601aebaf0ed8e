//! What some messages of a producer have beside payload and key: a partition or headers of their own, or no payload.

use std::num::NonZeroU32;

use crate::broker::Attributes;
use crate::load::TombstoneSource;
use crate::scenario::Partitioning;

/// Decides message by message of one producer, by numbers that stand for the attributes, so that a batch's messages can borrow them.
pub struct AttributeSource {
    /// For each set of headers and each partition, of a message with a payload and of one without.
    table: Box<[Attributes]>,
    /// The places in the table that the next message's partition and headers have.
    partition: InTurn,
    header_set: InTurn,
    tombstones: TombstoneSource,
    /// No message has attributes.
    plain: bool,
}

/// Goes through so many places in turn, or stays at the first.
struct InTurn {
    places: usize,
    next: usize,
}

impl InTurn {
    fn advance(&mut self) -> usize {
        let place = self.next;
        self.next = (self.next + 1) % self.places;
        place
    }
}

/// A message's attributes, by their place in the table counted from 1, so that having none takes no room.
#[derive(Debug, Clone, Copy)]
pub struct Chosen(NonZeroU32);

impl AttributeSource {
    /// Of the producer that is the `place`-th of those on its topic, which has `partitions`. `header_sets`: how many different
    /// headers messages have. `tombstones`: which messages have no payload, if any.
    pub fn new(
        partitioning: Partitioning,
        place: usize,
        partitions: u32,
        header_sets: usize,
        tombstones: Option<TombstoneSource>,
    ) -> Self {
        let own = place as u32 % partitions.max(1);
        let (choice, next) = match partitioning {
            Partitioning::Client => (vec![None], 0),
            Partitioning::Own => (vec![Some(own)], 0),
            // Producers begin at different ones.
            Partitioning::RoundRobin => ((0..partitions.max(1)).map(Some).collect(), own as usize),
        };
        let mut table = Vec::new();
        for header_set in 0..header_sets as u32 {
            for partition in &choice {
                let partition = *partition;
                table.extend([false, true].map(|null_payload| Attributes { header_set, partition, null_payload }));
            }
        }
        AttributeSource {
            table: table.into(),
            partition: InTurn { places: choice.len(), next },
            header_set: InTurn { places: header_sets, next: place % header_sets },
            plain: partitioning == Partitioning::Client && header_sets == 1 && tombstones.is_none(),
            tombstones: tombstones.unwrap_or_else(|| TombstoneSource::new(0.0, 0, 0)),
        }
    }

    /// The next message's attributes, if it has any.
    #[inline]
    pub fn choose(&mut self) -> Option<Chosen> {
        if self.plain { None } else { self.choose_any() }
    }

    fn choose_any(&mut self) -> Option<Chosen> {
        let pair = self.header_set.advance() * self.partition.places + self.partition.advance();
        let chosen = pair * 2 + usize::from(self.tombstones.next_is_tombstone());
        if self.table[chosen] == Attributes::default() { None } else { NonZeroU32::new(chosen as u32 + 1).map(Chosen) }
    }

    pub fn get(&self, chosen: Chosen) -> &Attributes {
        &self.table[chosen.0.get() as usize - 1]
    }

    /// Whether no message has attributes.
    pub fn is_none(&self) -> bool {
        self.plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(mut source: AttributeSource, messages: usize) -> Vec<Option<Attributes>> {
        (0..messages).map(|_| source.choose().map(|chosen| *source.get(chosen))).collect()
    }

    fn partitions(partitioning: Partitioning, place: usize) -> Vec<Option<u32>> {
        let chosen = chosen(AttributeSource::new(partitioning, place, 3, 1, None), 4);
        chosen.into_iter().map(|attributes| attributes.and_then(|attributes| attributes.partition)).collect()
    }

    #[test]
    fn a_producer_has_one_partition_or_all_in_turn() {
        assert_eq!(partitions(Partitioning::Client, 1), [None; 4]);
        assert_eq!(partitions(Partitioning::Own, 1), [Some(1); 4]);
        assert_eq!(partitions(Partitioning::Own, 5), [Some(2); 4]);
        assert_eq!(partitions(Partitioning::RoundRobin, 4), [Some(1), Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn headers_go_in_turn_and_every_partition_has_all_of_them() {
        let all = chosen(AttributeSource::new(Partitioning::Own, 1, 3, 2, None), 3);
        let sets: Vec<_> = all.into_iter().flatten().map(|one| (one.header_set, one.partition)).collect();
        assert_eq!(sets, [(1, Some(1)), (0, Some(1)), (1, Some(1))]);
        let all = chosen(AttributeSource::new(Partitioning::RoundRobin, 0, 2, 3, None), 6);
        let mut sets: Vec<_> = all.into_iter().map(|one| one.map(|one| (one.header_set, one.partition))).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 6, "{sets:?}");
    }

    #[test]
    fn messages_with_a_payload_and_without_a_partition_have_no_attributes() {
        let tombstones = Some(TombstoneSource::new(0.5, 0, 1));
        let all = chosen(AttributeSource::new(Partitioning::Client, 0, 3, 1, tombstones), 100);
        assert!(all.contains(&None) && all.contains(&Some(Attributes { null_payload: true, ..Attributes::default() })));
        assert!(!all.contains(&Some(Attributes::default())));
    }
}
