//! A group of a topic: which member has which partition, and what the script does on the way to it.
//!
//! A group that commits keeps each message until it is committed: whichever member has the partition next receives it again.
//! Members join and leave at once. A scripted rebalance goes as on a real broker: it requests all partitions back, waits until
//! every member has revoked them, and assigns each to the next member.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::member::Member;
use super::message::Queued;
use super::script::GroupOptions;
use crate::broker::fraction::FractionSampler;

pub struct Group {
    /// Each with whether it has revoked its partitions for the rebalance that is due.
    members: Vec<(Arc<Member>, bool)>,
    lose: FractionSampler,
    duplicate: FractionSampler,
    redeliver: FractionSampler,
    flag: FractionSampler,
    /// `None`: the group does not commit.
    offsets: Option<GroupOffsets>,
    /// Of a group that does not commit: what came before its first member.
    waiting: VecDeque<Queued>,
    rebalance_every: Option<Duration>,
    began: Instant,
    /// Rebalances so far.
    generation: usize,
}

/// By partition.
struct GroupOffsets {
    committed: Vec<u64>,
    uncommitted: Vec<VecDeque<Queued>>,
}

impl Group {
    /// A group that begins at the offsets `committed`; `None`: it does not commit.
    pub fn new(options: GroupOptions, committed: Option<Vec<u64>>, rebalance_every: Option<Duration>) -> Self {
        let offsets = |committed: Vec<u64>| GroupOffsets {
            uncommitted: committed.iter().map(|_| VecDeque::new()).collect(),
            committed,
        };
        Group {
            members: Vec::new(),
            lose: FractionSampler::new(options.lose),
            duplicate: FractionSampler::new(options.duplicate),
            redeliver: FractionSampler::new(options.redeliver),
            flag: FractionSampler::new(options.flag),
            offsets: committed.map(offsets),
            waiting: VecDeque::new(),
            rebalance_every,
            began: Instant::now(),
            generation: 0,
        }
    }

    pub fn join(&mut self, member: Arc<Member>) {
        for queued in std::mem::take(&mut self.waiting) {
            member.push_waiting(queued);
        }
        self.members.push((member, false));
        self.assign();
    }

    /// A member ends. In a group that commits, the others receive again what it has not committed.
    pub fn leave(&mut self, member: &Arc<Member>) {
        if self.offsets.is_none() {
            return;
        }
        self.members.retain(|(one, _)| !Arc::ptr_eq(one, member));
        self.assign();
    }

    /// Sends a message to the partition's member.
    pub fn deliver(&mut self, mut queued: Queued) {
        if self.lose.takes_next() {
            return;
        }
        queued.redelivered = self.flag.takes_next();
        if let Some(offsets) = &mut self.offsets {
            offsets.uncommitted[queued.partition as usize].push_back(queued.clone());
        }
        if self.offsets.is_none() && self.members.is_empty() {
            self.waiting.push_back(queued);
            return;
        }
        let Some(member) = self.owner(queued.partition) else { return };
        if self.duplicate.takes_next() {
            member.push(queued.clone());
        }
        if self.redeliver.takes_next() {
            member.push(queued.clone());
            queued.redelivered = true;
        }
        member.push(queued);
    }

    pub fn assigned(&self, member: &Arc<Member>) -> Option<Vec<(u32, Option<u64>)>> {
        let (index, (_, revoked)) = self.members.iter().enumerate().find(|(_, (one, _))| Arc::ptr_eq(one, member))?;
        let partitions = self.offsets.as_ref().map_or(0, |offsets| offsets.committed.len());
        let own = (0..partitions).filter(|partition| self.owner_index(*partition) == index);
        (!revoked).then(|| own.map(|partition| (partition as u32, member.next(partition))).collect())
    }

    pub fn commit(&mut self, next: &[(u32, u64)]) {
        let Some(offsets) = &mut self.offsets else { return };
        for (partition, next) in next {
            let partition = *partition as usize;
            offsets.committed[partition] = offsets.committed[partition].max(*next);
            let uncommitted = &mut offsets.uncommitted[partition];
            while uncommitted.front().is_some_and(|queued| queued.offset < *next) {
                uncommitted.pop_front();
            }
        }
    }

    pub fn is_revocation_requested(&self, member: &Arc<Member>) -> bool {
        let Some(every) = self.rebalance_every.filter(|_| self.offsets.is_some()) else { return false };
        let is_due = self.began.elapsed() >= every * (self.generation as u32 + 1);
        is_due && self.members.iter().any(|(one, revoked)| Arc::ptr_eq(one, member) && !revoked)
    }

    pub fn revoke(&mut self, member: &Arc<Member>) {
        member.discard();
        for (one, revoked) in &mut self.members {
            *revoked |= Arc::ptr_eq(one, member);
        }
        if self.members.iter().all(|(_, revoked)| *revoked) {
            self.generation += 1;
            self.assign();
        }
    }

    /// Assigns all partitions anew, from the committed offsets on, as far as the group commits.
    fn assign(&mut self) {
        let Some(offsets) = &self.offsets else { return };
        for (member, revoked) in &mut self.members {
            member.restart(&offsets.committed);
            *revoked = false;
        }
        for queued in offsets.uncommitted.iter().flatten() {
            if let Some(member) = self.owner(queued.partition) {
                member.push(queued.clone());
            }
        }
    }

    /// The partition's member, if it has one and has not revoked the partition.
    fn owner(&self, partition: u32) -> Option<&Member> {
        let (member, revoked) = self.members.get(self.owner_index(partition as usize))?;
        (!revoked).then_some(&**member)
    }

    fn owner_index(&self, partition: usize) -> usize {
        (partition + self.generation) % self.members.len().max(1)
    }
}
