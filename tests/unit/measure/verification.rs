use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn span(producer_index: u32, begin: u64, end: u64) -> Span {
    Span { producer_index, begin, end }
}

proptest! {
    #[test]
    fn the_account_is_what_sets_say(
        runs in proptest::collection::vec((0..3u32, 0..5000u64, 0..400u64), 0..60),
        arrivals in proptest::collection::vec((0..2usize, 0..3u32, 0..5000u64), 0..3000),
        passed in proptest::array::uniform3(0..6000u64),
    ) {
        let verification = Verification::new(3, 2);
        let mut acknowledged = BTreeSet::new();
        let mut arrived = [BTreeSet::new(), BTreeSet::new()];
        for runs in runs.chunks(7) {
            acknowledged.extend(runs.iter().flat_map(|(producer_index, begin, length)| {
                (*begin..begin + length).map(|sequence| (*producer_index, sequence))
            }));
            let span = |(producer_index, begin, length): &(u32, u64, u64)| span(*producer_index, *begin, begin + length);
            verification.acknowledge(&mut runs.iter().map(span).collect::<Vec<Span>>());
        }
        for (group, producer, sequence) in arrivals {
            let expected = if arrived[group].insert((producer, sequence)) { Mark::First } else { Mark::Repeated };
            prop_assert_eq!(verification.arrive(group, producer, sequence), Some(expected));
        }
        for (group, arrived) in arrived.iter().enumerate() {
            let missing = || acknowledged.difference(arrived);
            let was_passed = |(producer, sequence): &&(u32, u64)| *sequence < passed[*producer as usize];
            let lost = missing().filter(was_passed).count() as u64;
            let missing = missing().count() as u64;
            let expected = GroupAccount {
                lost,
                unread: missing - lost,
                not_acknowledged_but_stored: arrived.difference(&acknowledged).count() as u64,
                ..GroupAccount::default()
            };
            prop_assert_eq!(verification.account(group, |producer| passed[producer as usize]), expected);
            prop_assert!(verification.misses_at_most(group, missing));
            prop_assert!(missing == 0 || !verification.misses_at_most(group, missing - 1));
        }
    }
}

/// Compared with a model that knows everything: what is reported never exceeds it.
#[test]
fn what_is_given_up_is_undecided_and_the_rest_are_lower_bounds() {
    let verification = Verification::within(20_000, 1, 1);
    let last = 200 * CHUNK_SEQUENCES;
    verification.acknowledge(&mut [span(0, 0, last)]);
    let (mut lost, mut duplicated) = (0, 0);
    for sequence in 0..last {
        if sequence % 1000 == 7 {
            lost += 1;
        } else {
            assert_eq!(verification.arrive(0, 0, sequence), Some(Mark::First));
        }
    }
    for sequence in (0..last).step_by(4096) {
        duplicated += u64::from(verification.arrive(0, 0, sequence) == Some(Mark::Repeated));
    }
    let account = verification.account(0, |_| u64::MAX);
    assert!(account.saturated);
    assert!(account.lost > 0 && account.lost < lost, "{account:?}");
    assert!(duplicated > 0 && duplicated < 50, "{duplicated}");
    assert_eq!((account.missing(), account.unread), (lost, 0), "{account:?}");
}

#[test]
fn an_unknown_producer_or_group_is_not_counted() {
    let verification = Verification::new(2, 1);
    assert_eq!(verification.arrive(0, 2, 0), None);
    assert_eq!(verification.arrive(1, 0, 0), None);
    verification.acknowledge(&mut [span(2, 0, 5)]);
    assert_eq!(verification.account(0, |_| u64::MAX), GroupAccount::default());
}

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
        prop_assert_eq!(set.marked, model.len() as u64);
        prop_assert_eq!((set.given_up_until, set.unknown), (0, 0));
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
    assert_eq!(set.marked, 100 * (CHUNK_SEQUENCES - 1));
    assert_eq!((set.given_up_until, budget.is_overdrawn()), (84, false));
    assert_eq!(set.mark(5), Mark::Unknown, "it was marked, but that was given up");
    assert_eq!(set.mark(7), Mark::Unknown, "it was not marked, and that was given up as well");
    assert_eq!((set.mark(99 * CHUNK_SEQUENCES), set.unknown), (Mark::Repeated, 2));
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
    assert_eq!((modest.given_up_until, modest.marked), (0, 100 * CHUNK_SEQUENCES));
}

#[test]
fn unfilled_gap_keeps_the_table_of_full_chunks_bounded() {
    let mut set = SequenceSet::new(Budget::new(1 << 10));
    for number in 1..10_000 {
        set.mark_all(number * CHUNK_SEQUENCES, (number + 1) * CHUNK_SEQUENCES);
    }
    assert!(set.chunks.len() <= 64, "{}", set.chunks.len());
    assert_eq!(set.marked, 9_999 * CHUNK_SEQUENCES);
    assert_eq!(set.given_up_until, 1);
    assert_eq!(set.mark(5), Mark::Unknown);
    assert_eq!(set.mark(9_000 * CHUNK_SEQUENCES), Mark::Repeated);
}

#[test]
fn a_number_that_no_producer_can_have_reached_is_not_believed() {
    let mut set = SequenceSet::new(Budget::new(1 << 10));
    assert_eq!(set.mark(u64::MAX), Mark::Unknown);
    assert_eq!((set.chunks.len(), set.marked), (0, 0));
}
