use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

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
