use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::measure::Span;

const PRODUCERS: usize = 3;

/// A share with these acknowledged and received messages, of one topic with one partition.
fn share(
    first: usize,
    acknowledged: &[(u32, u64, u64)],
    arrived: &[(u32, u64)],
    ends: Option<u64>,
) -> Arc<MessageSets> {
    let verification = Verification::for_process(PRODUCERS, 1, first);
    let span = |(producer_index, begin, length): &(u32, u64, u64)| Span {
        producer_index: *producer_index,
        begin: *begin,
        end: begin + length,
    };
    verification.acknowledge(&mut acknowledged.iter().map(span).collect::<Vec<_>>());
    arrived.iter().for_each(|(producer, sequence)| _ = verification.arrive(0, *producer, *sequence));
    let mut latest = vec![0; PRODUCERS];
    arrived.iter().for_each(|(producer, sequence)| {
        let latest = &mut latest[*producer as usize];
        *latest = (*latest).max(sequence + 1);
    });
    let (acknowledged, mut of_groups) = verification.stored();
    let group = GroupSets {
        arrived: of_groups.remove(0),
        has_consumers: true,
        has_order: true,
        takes_turns: false,
        was_offered_all: false,
        next_offsets: vec![vec![arrived.len() as u64]],
        next_sequences: vec![vec![latest]],
    };
    Arc::new(MessageSets {
        topic_of_producer: vec![0; PRODUCERS],
        acknowledged,
        groups: vec![group],
        topics: vec![TopicSets { starts: Vec::new(), ends: ends.map(|end| vec![end]) }],
    })
}

proptest! {
    /// What several shares saw of it is what one process would have seen.
    #[test]
    fn shares_together_come_to_what_one_process_comes_to(
        acknowledged in proptest::collection::vec((0..PRODUCERS as u32, 0..3000u64, 0..300u64), 0..20),
        arrived in proptest::collection::btree_set((0..PRODUCERS as u32, 0..3000u64), 0..500),
        at in proptest::collection::vec(0..3usize, 500),
    ) {
        let one = Verification::new(PRODUCERS, 1);
        let spans = acknowledged.iter().map(|(producer_index, begin, length)| {
            Span { producer_index: *producer_index, begin: *begin, end: begin + length }
        });
        one.acknowledge(&mut spans.collect::<Vec<_>>());
        arrived.iter().for_each(|(producer, sequence)| _ = one.arrive(0, *producer, *sequence));
        let arrived: Vec<(u32, u64)> = arrived.into_iter().collect();
        // Share n has producer n, which it calls 0.
        let shares: Vec<Arc<MessageSets>> = (0..3).map(|number| {
            let own = acknowledged.iter().filter(|(producer, ..)| *producer as usize == number);
            let own: Vec<_> = own.map(|(_, begin, length)| (0, *begin, *length)).collect();
            let here = arrived.iter().zip(&at).filter(|(_, at)| **at == number).map(|(message, _)| *message);
            share(number, &own, &here.collect::<Vec<_>>(), Some(0))
        }).collect();
        let merged = merge_groups(&shares).unwrap();
        prop_assert_eq!(merged, [MergedGroup { account: one.account(0, |_| u64::MAX), repeated: 0 }]);
        let text = serde_json::to_string(shares[0].as_ref()).unwrap();
        prop_assert_eq!(&serde_json::from_str::<MessageSets>(&text).unwrap(), shares[0].as_ref());
    }
}

#[test]
fn a_message_that_two_shares_received_is_repeated() {
    let shares = [share(0, &[(0, 0, 10)], &[(0, 1), (0, 2)], None), share(1, &[], &[(0, 2), (0, 3)], None)];
    assert_eq!(merge_groups(&shares).unwrap()[0].repeated, 1);
}

#[test]
fn what_no_share_passed_is_unread_and_what_one_passed_is_lost() {
    let all = [(0, 0, 10)];
    let seen = [(0u32, 0u64), (0, 1), (0, 5)];
    let account = |ends| {
        let shares = [share(0, &all, &seen, ends), share(1, &[], &[], None)];
        let account = merge_groups(&shares).unwrap()[0].account;
        (account.lost, account.unread)
    };
    assert_eq!(account(None), (3, 4), "2, 3 and 4 were passed");
    assert_eq!(account(Some(3)), (7, 0), "the end was reached");
    assert_eq!(account(Some(10)), (3, 4), "the end was not reached");
}

#[test]
fn the_end_that_one_member_in_turn_has_reached_shows_no_loss() {
    let account = |was_offered_all| {
        let shares = [share(0, &[(0, 0, 10)], &[(0, 5), (0, 9)], Some(2)), share(1, &[], &[], None)].map(|share| {
            let mut share = Arc::unwrap_or_clone(share);
            let group = &mut share.groups[0];
            (group.has_order, group.takes_turns, group.was_offered_all) = (false, true, was_offered_all);
            Arc::new(share)
        });
        let account = merge_groups(&shares).unwrap()[0].account;
        (account.lost, account.unread)
    };
    assert_eq!(account(false), (0, 8), "the other member may have been given them");
    assert_eq!(account(true), (8, 0), "nothing came any more");
}

#[test]
fn shares_of_other_scenarios_are_refused() {
    let other = MessageSets { topic_of_producer: vec![0], ..MessageSets::default() };
    assert!(merge_groups(&[share(0, &[], &[], None), Arc::new(other)]).is_err());
}

/// Whether a number is in a set that has given up nothing.
fn holds(set: &SequenceSet, number: u64) -> bool {
    const CHUNK_SEQUENCES: u64 = 64 * CHUNK_WORDS as u64;
    let bit = number % CHUNK_SEQUENCES;
    set.bits(number / CHUNK_SEQUENCES).word((bit / 64) as usize) >> (bit % 64) & 1 == 1
}

const MAX: u64 = 12_000;

fn set(runs: &[(u64, u64)], step: u64) -> (SequenceSet, BTreeSet<u64>) {
    let mut set = SequenceSet::new(Budget::new(1 << 20));
    let mut model = BTreeSet::new();
    for (begin, length) in runs {
        for number in (*begin..begin + length).step_by(step as usize) {
            set.mark(number);
            model.insert(number);
        }
    }
    (set, model)
}

proptest! {
    #[test]
    fn sets_are_read_as_they_were_stored_and_united_as_sets_are(
        runs in proptest::collection::vec(
            (proptest::collection::vec((0..8000u64, 0..4000u64), 0..5), 1..4u64), 1..4),
    ) {
        let (sets, models): (Vec<SequenceSet>, Vec<BTreeSet<u64>>) =
            runs.iter().map(|(runs, step)| set(runs, *step)).unzip();
        let restored: Vec<SequenceSet> = sets.iter().map(|set| set.store().restore().unwrap()).collect();
        for (set, model) in restored.iter().zip(&models) {
            prop_assert_eq!(set.marked, model.len() as u64);
            prop_assert!((0..MAX).all(|number| holds(set, number) == model.contains(&number)));
        }
        let (all, repeated) = union(&restored);
        let expected: BTreeSet<u64> = models.iter().flatten().copied().collect();
        prop_assert_eq!(all.marked, expected.len() as u64);
        prop_assert_eq!(repeated, models.iter().map(|model| model.len() as u64).sum::<u64>() - all.marked);
        prop_assert!((0..MAX).all(|number| holds(&all, number) == expected.contains(&number)));
    }
}

#[test]
fn stored_set_without_gaps_is_small_and_damage_is_refused() {
    let mut long = SequenceSet::new(Budget::new(1 << 20));
    long.mark_all(1, 100_000_000);
    let stored = long.store();
    assert!(stored.chunks.len() < 400, "{}", stored.chunks.len());
    let cut_off = StoredSet { chunks: stored.chunks[..8].to_owned(), ..stored };
    assert!(cut_off.restore().is_err());
}
