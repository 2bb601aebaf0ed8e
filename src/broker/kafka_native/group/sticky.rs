//! The strategy `cooperative-sticky`: shares are as equal as what members read permits, and members keep what they can.
//!
//! Source: KIP-54 and KIP-429; Kafka's `AbstractStickyAssignor` and `CooperativeStickyAssignor`, whose results have the same properties, but
//! need not be the same.

use std::collections::{BTreeMap, BTreeSet};

use super::member_messages::{Members, Partitions, Shares};

/// A partition: its topic, and its number there.
type Place<'a> = (&'a str, i32);

/// The shares, without what another member has to return first: it gets none of these partitions, returns them, and joins again, and so
/// the group shares them out next.
pub fn cooperative(members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
    let claims = claims(members);
    let mut shares = balanced(members, partitions);
    for (member, share) in &mut shares {
        let is_free = |place: Place<'_>| {
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
fn claims(members: &Members) -> BTreeMap<Place<'_>, Vec<(i32, &str)>> {
    let mut claims: BTreeMap<Place<'_>, Vec<(i32, &str)>> = BTreeMap::new();
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
    held: BTreeMap<&'a str, BTreeSet<Place<'a>>>,
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

    fn give(&mut self, member: &'a str, place: Place<'a>) {
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
    fn improvement(&self, giver: &'a str) -> Option<(&'a str, &'a str, Place<'a>)> {
        let held = self.held.get(giver)?;
        let topics: BTreeSet<&str> = held.iter().map(|(topic, _)| *topic).collect();
        let takers = topics.into_iter().filter_map(|topic| Some((topic, self.least_loaded(topic)?)));
        let (topic, taker) = takers.min_by_key(|(_, taker)| self.load(taker))?;
        if self.load(taker) + 2 > held.len() {
            return None;
        }
        // What it did not have before, if there is such.
        let owned = self.members.get(giver).and_then(|member| member.owned.get(topic));
        let was_owned = |place: &&Place<'_>| owned.is_some_and(|owned| owned.contains(&place.1));
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
mod tests;
