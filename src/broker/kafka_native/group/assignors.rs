//! How the leader of a classic group shares partitions among its members.
//!
//! Source: Kafka's `RangeAssignor` and `RoundRobinAssignor`; `sticky` has the third strategy.

use std::collections::{BTreeMap, BTreeSet};

use super::member_messages::{Members, Partitions, Shares};
use super::sticky;

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
            Strategy::CooperativeSticky => sticky::cooperative(members, partitions),
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

#[cfg(test)]
mod tests {
    use super::super::member_messages::Subscription;
    use super::*;

    fn shares(strategy: Strategy, members: &[(&str, &[&str])], topics: &[(&str, usize)]) -> Vec<String> {
        let members = members.iter().map(|(member, topics)| {
            let topics = topics.iter().map(|one| (*one).to_owned()).collect();
            ((*member).to_owned(), Subscription { topics, ..Subscription::of("") })
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
