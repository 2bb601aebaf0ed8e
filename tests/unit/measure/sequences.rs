use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn finds_exactly_what_a_set_finds(
        steps in proptest::collection::vec((0..5000u64, 0..3000u64, any::<bool>()), 0..400),
    ) {
        let mut set = SequenceSet::new(Budget::new(1 << 20));
        let mut model = BTreeSet::new();
        for (sequence, length, run) in steps {
            if run {
                set.mark_all(sequence, sequence + length);
                model.extend(sequence..sequence + length);
            } else {
                let expected = if model.insert(sequence) { Mark::First } else { Mark::Repeated };
                prop_assert_eq!(set.mark(sequence), expected);
            }
        }
        prop_assert_eq!(set.marked(), model.len() as u64);
        prop_assert_eq!((set.known_from(), set.unknown()), (0, 0));
        for from in 0..set.end() + 1 {
            prop_assert_eq!(set.marked_from(from), model.range(from * CHUNK_SEQUENCES..).count() as u64);
        }
        let held = (0..set.end() * CHUNK_SEQUENCES).filter(|sequence| {
            let bit = sequence % CHUNK_SEQUENCES;
            set.bits(sequence / CHUNK_SEQUENCES).word((bit / 64) as usize) >> (bit % 64) & 1 == 1
        });
        prop_assert!(held.eq(model.iter().copied()));
    }
}

#[test]
fn sequence_set_with_gaps_everywhere_stays_within_memory() {
    let budget = Budget::new(16 * (CHUNK_BYTES + PLACE_BYTES));
    let mut set = SequenceSet::new(budget.clone());
    for sequence in (0..100 * CHUNK_SEQUENCES).filter(|sequence| sequence % CHUNK_SEQUENCES != 7) {
        assert_eq!(set.mark(sequence), Mark::First);
    }
    assert!(set.partial <= 16 && set.chunks.len() <= 16, "{} {}", set.partial, set.chunks.len());
    assert_eq!(set.marked(), 100 * (CHUNK_SEQUENCES - 1));
    assert_eq!((set.known_from(), budget.is_overdrawn()), (84, false));
    assert_eq!(set.mark(5), Mark::Unknown, "it was marked, but that was given up");
    assert_eq!(set.mark(7), Mark::Unknown, "it was not marked, and that was given up, too");
    assert_eq!((set.mark(99 * CHUNK_SEQUENCES), set.unknown()), (Mark::Repeated, 2));
}

#[test]
fn sequence_set_returns_its_budget_when_gaps_are_filled() {
    let budget = Budget::new(1 << 20);
    let mut set = SequenceSet::new(budget.clone());
    for step in [2, 1] {
        for sequence in (0..100 * CHUNK_SEQUENCES).step_by(step) {
            set.mark(sequence);
        }
    }
    set.mark_all(0, 100 * CHUNK_SEQUENCES);
    assert!(budget.take(1 << 20));
}

#[test]
fn sequence_set_takes_spare_budget_and_leaves_others_a_minimum() {
    let budget = Budget::new(100 * (CHUNK_BYTES + PLACE_BYTES));
    let mut hungry = SequenceSet::new(budget.clone());
    let mut modest = SequenceSet::new(budget.clone());
    for number in 0..1000 {
        hungry.mark(number * CHUNK_SEQUENCES);
    }
    assert_eq!(hungry.partial, 100);
    for sequence in 0..100 * CHUNK_SEQUENCES {
        assert_eq!(modest.mark(sequence ^ 1024), Mark::First, "two chunks in turn");
    }
    assert_eq!((modest.known_from(), modest.marked()), (0, 100 * CHUNK_SEQUENCES));
}

#[test]
fn unfilled_gap_keeps_the_table_of_full_chunks_bounded() {
    let mut set = SequenceSet::new(Budget::new(1 << 10));
    for number in 1..10_000 {
        set.mark_all(number * CHUNK_SEQUENCES, (number + 1) * CHUNK_SEQUENCES);
    }
    assert!(set.chunks.len() <= 64, "{}", set.chunks.len());
    assert_eq!(set.marked(), 9_999 * CHUNK_SEQUENCES);
    assert_eq!((set.known_from(), set.mark(5), set.mark(9_000 * CHUNK_SEQUENCES)), (1, Mark::Unknown, Mark::Repeated));
}

#[test]
fn a_number_that_no_producer_can_have_reached_is_not_believed() {
    let mut set = SequenceSet::new(Budget::new(1 << 10));
    assert_eq!(set.mark(u64::MAX), Mark::Unknown);
    assert_eq!((set.chunks.len(), set.marked()), (0, 0));
}
