//! How the leader of a classic group shares partitions among its members.
//!
//! Source: Kafka's `RangeAssignor` and `RoundRobinAssignor`. Of `cooperative-sticky`: KIP-54 and KIP-429; Kafka's `AbstractStickyAssignor`
//! and `CooperativeStickyAssignor`, whose results have the same properties, but need not be the same.

use std::collections::{BTreeMap, BTreeSet};

use super::member_messages::{Members, Partitions, Shares};

/// How partitions are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each member has neighbouring partitions of a topic.
    Range,
    /// Members take the partitions of all topics in turn.
    RoundRobin,
    /// Members keep what they can, and go on reading it while they join again (KIP-429).
    CooperativeSticky,
}

impl Strategy {
    pub const ALL: [Strategy; 3] = [Strategy::Range, Strategy::RoundRobin, Strategy::CooperativeSticky];

    /// As members offer them, best first: those of librdkafka's default.
    pub const DEFAULT: [Strategy; 2] = [Strategy::Range, Strategy::RoundRobin];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "range",
            Strategy::RoundRobin => "roundrobin",
            Strategy::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub fn by_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// The shares of members. `partitions`: how many each topic has.
    pub fn share(self, members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
        match self {
            Strategy::Range | Strategy::RoundRobin => self.share_anew(members, partitions),
            Strategy::CooperativeSticky => cooperative(members, partitions),
        }
    }

    fn share_anew(self, members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
        let mut shares: Shares = members.keys().map(|member| (member.clone(), Partitions::new())).collect();
        let topics: BTreeSet<&String> = members.values().flat_map(|member| &member.topics).collect();
        let mut turn = 0;
        for topic in topics {
            let readers: Vec<&String> =
                members.iter().filter(|(_, one)| one.topics.contains(topic)).map(|(member, _)| member).collect();
            let count = partitions.get(topic).copied().unwrap_or(0);
            for partition in 0..count {
                let reader = match self {
                    Strategy::Range => range(partition, count, readers.len()),
                    _ => turn % readers.len(),
                };
                turn += 1;
                let share = shares.entry(readers[reader].clone()).or_default();
                share.entry(topic.clone()).or_default().push(partition as i32);
            }
        }
        shares
    }
}

/// The reader of a partition: the first ones have one more, if they cannot have equally many.
fn range(partition: usize, partitions: usize, readers: usize) -> usize {
    let (each, more) = (partitions / readers, partitions % readers);
    let of_larger = more * (each + 1);
    if partition < of_larger { partition / (each + 1) } else { more + (partition - of_larger) / each }
}

/// A partition: its topic, and its number there.
type TopicPartition<'a> = (&'a str, i32);

/// The shares, without what another member has to return first: it gets none of these partitions, returns them, and joins again, and so
/// the group shares them out next.
pub fn cooperative(members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
    let claims = claims(members);
    let mut shares = balanced(members, partitions);
    for (member, share) in &mut shares {
        let is_free = |place: TopicPartition<'_>| {
            claims.get(&place).is_none_or(|owners| owners.iter().all(|(_, owner)| *owner == member.as_str()))
        };
        for (topic, numbers) in &mut *share {
            numbers.retain(|number| is_free((topic.as_str(), *number)));
        }
        share.retain(|_, numbers| !numbers.is_empty());
    }
    shares
}

/// Who says that it owns a partition, each with the generation in which it got it.
fn claims(members: &Members) -> BTreeMap<TopicPartition<'_>, Vec<(i32, &str)>> {
    let mut claims: BTreeMap<TopicPartition<'_>, Vec<(i32, &str)>> = BTreeMap::new();
    for (member, subscription) in members {
        for (topic, numbers) in &subscription.owned {
            for number in numbers {
                claims.entry((topic, *number)).or_default().push((subscription.generation, member));
            }
        }
    }
    claims
}

/// As equal as they can be, with as much as possible where it is.
fn balanced(members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
    let mut balance = Balance::new(members);
    let mut free = Vec::new();
    let claims = claims(members);
    for (topic, count) in partitions {
        for number in 0..*count as i32 {
            let place = (topic.as_str(), number);
            let owner = claims.get(&place).and_then(|claims| newest(claims));
            match owner.filter(|owner| balance.reads(owner, topic)) {
                Some(owner) => balance.give(owner, place),
                None => free.push(place),
            }
        }
    }
    for place in free {
        if let Some(reader) = balance.least_loaded(place.0) {
            balance.give(reader, place);
        }
    }
    while balance.improve() {}
    let shares = members.keys().map(|member| (member.clone(), balance.share(member)));
    shares.collect()
}

/// The owner of the latest generation; `None`: there are several of it, of which at most one is right.
fn newest<'a>(claims: &[(i32, &'a str)]) -> Option<&'a str> {
    let latest = claims.iter().map(|(generation, _)| *generation).max()?;
    let mut owners = claims.iter().filter(|(generation, _)| *generation == latest);
    owners.next().filter(|_| owners.next().is_none()).map(|(_, owner)| *owner)
}

/// Who reads what, and who has what.
struct Balance<'a> {
    members: &'a Members,
    readers: BTreeMap<&'a str, Vec<&'a str>>,
    held: BTreeMap<&'a str, BTreeSet<TopicPartition<'a>>>,
}

impl<'a> Balance<'a> {
    fn new(members: &'a Members) -> Self {
        let mut readers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (member, subscription) in members {
            // A member may name a topic twice.
            for topic in subscription.topics.iter().collect::<BTreeSet<_>>() {
                readers.entry(topic).or_default().push(member);
            }
        }
        let held = members.keys().map(|member| (member.as_str(), BTreeSet::new())).collect();
        Balance { members, readers, held }
    }

    fn reads(&self, member: &str, topic: &str) -> bool {
        self.readers.get(topic).is_some_and(|readers| readers.contains(&member))
    }

    fn load(&self, member: &str) -> usize {
        self.held.get(member).map_or(0, BTreeSet::len)
    }

    fn give(&mut self, member: &'a str, place: TopicPartition<'a>) {
        self.held.entry(member).or_default().insert(place);
    }

    fn least_loaded(&self, topic: &str) -> Option<&'a str> {
        self.readers.get(topic)?.iter().copied().min_by_key(|reader| self.load(reader))
    }

    /// Moves a partition from a member to one that has at least two fewer, if there are such. Each time, the sum of the squares of loads
    /// becomes less, so that this ends.
    fn improve(&mut self) -> bool {
        let mut givers: Vec<&str> = self.held.keys().copied().collect();
        givers.sort_by_key(|member| std::cmp::Reverse(self.load(member)));
        let Some((giver, taker, place)) = givers.into_iter().find_map(|giver| self.improvement(giver)) else {
            return false;
        };
        if let Some(held) = self.held.get_mut(giver) {
            held.remove(&place);
        }
        self.give(taker, place);
        true
    }

    /// What the member would better give to whom.
    fn improvement(&self, giver: &'a str) -> Option<(&'a str, &'a str, TopicPartition<'a>)> {
        let held = self.held.get(giver)?;
        let topics: BTreeSet<&str> = held.iter().map(|(topic, _)| *topic).collect();
        let takers = topics.into_iter().filter_map(|topic| Some((topic, self.least_loaded(topic)?)));
        let (topic, taker) = takers.min_by_key(|(_, taker)| self.load(taker))?;
        if self.load(taker) + 2 > held.len() {
            return None;
        }
        // What it did not have before, if there is such.
        let owned = self.members.get(giver).and_then(|member| member.owned.get(topic));
        let was_owned = |place: &&TopicPartition<'_>| owned.is_some_and(|owned| owned.contains(&place.1));
        let place = held.iter().filter(|place| place.0 == topic).min_by_key(was_owned)?;
        Some((giver, taker, *place))
    }

    fn share(&self, member: &str) -> Partitions {
        let mut share = Partitions::new();
        for (topic, number) in self.held.get(member).into_iter().flatten() {
            share.entry((*topic).to_owned()).or_default().push(*number);
        }
        share
    }
}

#[cfg(test)]
mod tests {
    use super::super::member_messages::Subscription;
    use super::*;

    fn shares(strategy: Strategy, members: &[(&str, &[&str])], topics: &[(&str, usize)]) -> Vec<String> {
        let members = members.iter().map(|(member, topics)| {
            let topics = topics.iter().map(|one| (*one).to_owned()).collect();
            ((*member).to_owned(), Subscription { topics, ..Subscription::new("") })
        });
        let topics = topics.iter().map(|(topic, partitions)| ((*topic).to_owned(), *partitions));
        let shares = strategy.share(&members.collect(), &topics.collect());
        shares.into_iter().map(|(member, share)| format!("{member} {share:?}")).collect()
    }

    /// The examples of the documentation of Kafka's `RangeAssignor` and `RoundRobinAssignor`.
    #[test]
    fn partitions_are_shared_as_kafkas_own_clients_share_them() {
        let both: &[(&str, &[&str])] = &[("C0", &["t0", "t1"]), ("C1", &["t0", "t1"])];
        let topics = [("t0", 3), ("t1", 3)];
        assert_eq!(
            shares(Strategy::Range, both, &topics),
            [r#"C0 {"t0": [0, 1], "t1": [0, 1]}"#, r#"C1 {"t0": [2], "t1": [2]}"#]
        );
        assert_eq!(
            shares(Strategy::RoundRobin, both, &topics),
            [r#"C0 {"t0": [0, 2], "t1": [1]}"#, r#"C1 {"t0": [1], "t1": [0, 2]}"#]
        );
        let more: &[(&str, &[&str])] = &[("a", &["t0"]), ("b", &["t0"]), ("c", &["t0"])];
        assert_eq!(shares(Strategy::Range, more, &[("t0", 2)]), [r#"a {"t0": [0]}"#, r#"b {"t0": [1]}"#, "c {}"]);
    }
}

#[cfg(test)]
mod sticky_tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::super::member_messages::{Members, Partitions, Shares, Subscription};
    use super::{balanced, cooperative};

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
}
