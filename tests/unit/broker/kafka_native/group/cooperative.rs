use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::{Members, Partitions, Shares, Subscription, balanced, cooperative};

/// How many partitions each topic has.
fn topics() -> impl Strategy<Value = BTreeMap<String, usize>> {
    btree_map("[a-c]", 0..9_usize, 1..4)
}

/// Members that read some topics and say that they own something, which may be wrong: too many partitions, those of others, or of topics
/// that they do not read.
fn members() -> impl Strategy<Value = Members> {
    let owned = btree_map("[a-c]", btree_set(0..11, 0..8), 0..3);
    let one = (btree_set("[a-c]", 1..4), owned, -1..4).prop_map(|(topics, owned, generation)| Subscription {
        topics: topics.into_iter().collect(),
        owned: owned.into_iter().map(|(topic, numbers)| (topic, numbers.into_iter().collect())).collect(),
        generation,
    });
    btree_map("m[0-9]", one, 1..7)
}

/// Members that read one topic of so many partitions, and own different ones of it.
fn members_of_one_topic() -> impl Strategy<Value = (Members, usize)> {
    let owners = |count| (1..7_usize, vec(proptest::option::of(0..7_usize), count));
    (0..24_usize).prop_flat_map(owners).prop_map(|(members, owners)| {
        let of = |member: usize| {
            let owns = |(_, owner): &(usize, &Option<usize>)| **owner == Some(member);
            let owned = owners.iter().enumerate().filter(owns).map(|(number, _)| number as i32).collect();
            (format!("m{member}"), owning("t", owned))
        };
        ((0..members).map(of).collect(), owners.len())
    })
}

fn owning(topic: &str, owned: Vec<i32>) -> Subscription {
    Subscription { owned: [(topic.to_owned(), owned)].into(), generation: 1, ..Subscription::new(topic) }
}

fn load(share: &Partitions) -> usize {
    share.values().map(Vec::len).sum()
}

/// The partitions that the group has, once each, and who has them.
fn holders(shares: &Shares) -> BTreeMap<(String, i32), String> {
    let mut holders = BTreeMap::new();
    for (member, share) in shares {
        for (topic, numbers) in share {
            for number in numbers {
                let earlier = holders.insert((topic.clone(), *number), member.clone());
                assert_eq!(earlier, None, "{topic} {number} has two holders");
            }
        }
    }
    holders
}

/// The same members, when they have done what they were told.
fn after(members: &Members, shares: &Shares) -> Members {
    let next = |(member, subscription): (&String, &Subscription)| {
        let (owned, generation) = (shares[member].clone(), subscription.generation.max(4) + 1);
        (member.clone(), Subscription { owned, generation, ..subscription.clone() })
    };
    members.iter().map(next).collect()
}

proptest! {
    #[test]
    fn balanced_gives_each_partition_one_reader_and_best_loads(
        members in members(),
        topics in topics(),
    ) {
        let shares = balanced(&members, &topics);
        let holders = holders(&shares);
        for (topic, count) in &topics {
            let is_read = members.values().any(|member| member.topics.contains(topic));
            for number in 0..*count as i32 {
                let holder = holders.get(&(topic.clone(), number));
                prop_assert_eq!(holder.is_some(), is_read);
                let Some(holder) = holder else { continue };
                prop_assert!(members[holder].topics.contains(topic));
                for (other, subscription) in &members {
                    let would_be_better = load(&shares[other]) + 1 < load(&shares[holder]);
                    prop_assert!(!(subscription.topics.contains(topic) && would_be_better), "{shares:?}");
                }
            }
        }
        let existing: usize = topics.iter().filter(|(topic, _)| members.values().any(|one| one.topics.contains(*topic))).map(|(_, count)| *count).sum();
        prop_assert_eq!(holders.len(), existing);
    }

    /// No share can be both equal and keep more: each member keeps the smaller share, and as many as get one more keep that too.
    #[test]
    fn members_of_one_topic_keep_all_that_equal_shares_permit((members, count) in members_of_one_topic()) {
        let shares = balanced(&members, &[("t".to_owned(), count)].into());
        let (each, more) = (count / members.len(), count % members.len());
        let owned = |member: &String| members[member].owned["t"].len();
        let most: usize = members.keys().map(|member| owned(member).min(each)).sum();
        let most = most + more.min(members.keys().filter(|member| owned(member) > each).count());
        let kept = |(member, share): (&String, &Partitions)| {
            let has = share.get("t").cloned().unwrap_or_default();
            has.iter().filter(|number| members[member].owned["t"].contains(number)).count()
        };
        prop_assert_eq!(shares.iter().map(kept).sum::<usize>(), most, "{:?}", shares);
        prop_assert!(shares.values().all(|share| (each..=each + 1).contains(&load(share))));
    }

    #[test]
    fn a_group_that_has_not_changed_keeps_its_shares(members in members(), topics in topics()) {
        let shares = balanced(&members, &topics);
        prop_assert_eq!(cooperative(&after(&members, &shares), &topics), shares);
    }

    /// Until its owner has returned a partition, it goes to no other member.
    #[test]
    fn cooperative_gives_no_partition_that_another_still_owns(members in members(), topics in topics()) {
        let shares = cooperative(&members, &topics);
        for ((topic, number), holder) in holders(&shares) {
            for (other, subscription) in members.iter().filter(|(other, _)| **other != holder) {
                let owns = subscription.owned.get(&topic).is_some_and(|owned| owned.contains(&number));
                prop_assert!(!owns, "{topic} {number} is given to {holder} and is still with {other}");
            }
        }
    }

    #[test]
    fn the_second_time_nothing_is_left_over((members, count) in members_of_one_topic()) {
        let topics = [("t".to_owned(), count)].into();
        let first = cooperative(&members, &topics);
        let second = cooperative(&after(&members, &first), &topics);
        prop_assert_eq!(holders(&second).len(), count);
        let loads: BTreeSet<usize> = second.values().map(load).collect();
        prop_assert!(loads.last().unwrap() - loads.first().unwrap() <= 1, "{second:?}");
        for (member, share) in &first {
            for number in share.get("t").into_iter().flatten() {
                prop_assert!(second[member]["t"].contains(number), "what was given is kept");
            }
        }
    }
}

/// The example of KIP-429: a third member comes to two that have three partitions each.
#[test]
fn new_member_gets_its_share_once_others_return_it() {
    let mut members: Members = [("a", vec![0, 1, 2]), ("b", vec![3, 4, 5])]
        .into_iter()
        .map(|(member, owned)| (member.to_owned(), owning("t", owned)))
        .collect();
    members.insert("c".to_owned(), Subscription::new("t"));
    let topics = [("t".to_owned(), 6)].into();
    let first = cooperative(&members, &topics);
    assert_eq!(first.values().map(load).collect::<Vec<_>>(), [2, 2, 0]);
    let second = cooperative(&after(&members, &first), &topics);
    assert_eq!(second.values().map(load).collect::<Vec<_>>(), [2, 2, 2]);
}

/// One of two members that both say that they have partition 1 was away for longer. The other one has it, and keeps it.
#[test]
fn of_two_members_that_have_the_same_the_later_one_is_believed() {
    let earlier = Subscription { generation: 0, ..owning("t", vec![0, 1]) };
    let members: Members = [("a".to_owned(), earlier), ("b".to_owned(), owning("t", vec![1, 2]))].into();
    let topics = [("t".to_owned(), 3)].into();
    let all = balanced(&members, &topics);
    assert_eq!(all["a"]["t"], [0]);
    assert_eq!(all["b"]["t"], [1, 2]);
    // The first one may read it still.
    assert_eq!(cooperative(&members, &topics)["b"]["t"], [2]);
}

/// Half of them move.
#[test]
fn many_partitions_are_balanced_one_after_the_other() {
    const COUNT: usize = 100_000;
    let members: Members =
        [("first".to_owned(), owning("t", (0..COUNT as i32).collect())), ("second".to_owned(), Subscription::new("t"))]
            .into();
    let shares = balanced(&members, &[("t".to_owned(), COUNT)].into());
    let counts: Vec<usize> = shares.values().map(|share| share["t"].len()).collect();
    assert_eq!(counts, [COUNT / 2, COUNT / 2]);
}
