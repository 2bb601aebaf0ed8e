//! What consumers record. Each has a recorder of its own; a group's verification finds which arrivals are the first.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::arrival_state::{Consumer, Group, GroupLap, GroupProgress, Shard, Shared};
use super::budget::Budget;
use super::clock::Clock;
use super::consumer_tally::SubscriptionIndex;
use super::consumer_tally::{ConsumerTally, MAX_TIMED};
use super::partitions::{PARTITION_BYTES, Partitions};
use super::receiving::ArrivalRecorder;
use super::reception::{Arrived, Reception};
use super::verification::Verification;

/// One trial's consumption: hands out recorders and holds each group's account.
#[derive(Clone)]
pub struct Arrivals {
    shared: Arc<Shared>,
}

impl Arrivals {
    /// For a trial whose messages carry `run_tag`, received by `groups`.
    pub fn new(clock: Clock, run_tag: u32, groups: usize, verification: Option<Arc<Verification>>) -> Self {
        Arrivals::across_processes(clock, 0, 0..u32::MAX, run_tag, groups, verification)
    }

    /// As [`Arrivals::new`], where the messages of other processes arrive, too: the times in trace headers are those of `clock` plus
    /// `header_offset_ns`. Only messages of the producers `timed` get an end-to-end latency.
    pub fn across_processes(
        clock: Clock,
        header_offset_ns: u64,
        timed: Range<u32>,
        run_tag: u32,
        groups: usize,
        verification: Option<Arc<Verification>>,
    ) -> Self {
        let groups = (0..groups).map(|_| Group::default()).collect();
        let (partition_budget, consumers) = (Budget::of_bytes(PARTITION_BYTES), Mutex::default());
        let shared =
            Shared { clock, header_offset_ns, timed, run_tag, verification, groups, partition_budget, consumers };
        Arrivals { shared: Arc::new(shared) }
    }

    /// A recorder for the only consumer of a subscription.
    pub fn recorder(&self, subscription: SubscriptionIndex) -> ArrivalRecorder {
        self.recorder_of(subscription, 0)
    }

    /// A recorder for one consumer: the subscription's member of this number, from 0.
    pub fn recorder_of(&self, subscription: SubscriptionIndex, member: usize) -> ArrivalRecorder {
        let partitions = Partitions::new(self.shared.partition_budget.clone());
        let shard = Arc::new(Mutex::new(Shard { reception: Reception::default(), partitions }));
        let mut consumers = self.shared.consumers.lock();
        let tally = ConsumerTally::new(subscription, member, consumers.len() < MAX_TIMED);
        consumers.push(Consumer { shard: shard.clone(), tally });
        drop(consumers);
        ArrivalRecorder::new(self.shared.clone(), subscription.group, shard)
    }

    /// Everything received since the last call, inside the measured window or not, merged into `into`; `into` and `spare` must be clear.
    pub fn collect(&self, is_in_window: bool, into: &mut Reception, spare: &mut Reception) {
        let is_verified = self.shared.verification.is_some();
        for Consumer { shard, tally } in self.shared.consumers.lock().iter_mut() {
            mem::swap(&mut shard.lock().reception, spare);
            into.merge(spare);
            let latencies = tally.add(spare, is_in_window, is_verified);
            if let Some(group) = self.shared.groups.get(tally.subscription.group) {
                *group.arrived.lock() += &spare.arrived;
                group.add_latencies(latencies);
            }
            spare.clear();
        }
    }

    /// What each group has received by the last call of [`Arrivals::collect`].
    pub fn groups(&self) -> Vec<Arrived> {
        self.shared.groups.iter().map(|group| *group.arrived.lock()).collect()
    }

    /// What each group has received since the last call of this, by the last call of [`Arrivals::collect`].
    pub fn laps(&self) -> Vec<GroupLap> {
        self.shared.groups.iter().map(Group::lap).collect()
    }

    /// What each consumer has received by the last call of [`Arrivals::collect`], by group, topic and member.
    pub fn consumers(&self) -> Vec<ConsumerTally> {
        let mut tallies: Vec<ConsumerTally> =
            self.shared.consumers.lock().iter().map(|consumer| consumer.tally.clone()).collect();
        tallies.sort_by_key(|tally| (tally.subscription.group, tally.subscription.topic, tally.member));
        tallies
    }

    /// How far each group is.
    pub fn progress(&self) -> Vec<GroupProgress> {
        let read = |group: &Group| GroupProgress {
            deliveries: group.deliveries.load(Ordering::Acquire),
            first: group.first.load(Ordering::Acquire),
            corrupt: group.corrupt.load(Ordering::Acquire),
            errors: group.errors.load(Ordering::Acquire),
        };
        self.shared.groups.iter().map(read).collect()
    }

    /// Messages of this trial that have arrived, over all groups, without the repetitions that verification found.
    pub fn received(&self) -> u64 {
        self.progress().iter().map(|group| group.first + group.corrupt).sum()
    }

    /// What was acknowledged and what arrived, if anything is verified.
    pub fn verification(&self) -> Option<&Verification> {
        self.shared.verification.as_deref()
    }

    /// The offsets after the last message that the consumers of `subscription` received, by partition; 0: none was.
    pub fn next_offsets(&self, subscription: SubscriptionIndex) -> Vec<u64> {
        let mut next = Vec::new();
        self.at(subscription, |partitions| {
            next.resize(next.len().max(partitions.count() as usize), 0);
            for (partition, next) in (0..partitions.count()).zip(&mut next) {
                *next = partitions.next_offset(partition).max(*next);
            }
        });
        next
    }

    /// Of each producer, the number from which on no message is known to have been passed by the consumers of `subscription` in all
    /// of `partitions`: its latest message in the partition that is the furthest behind.
    pub fn passed_until(&self, subscription: SubscriptionIndex, partitions: &[u32], producers: usize) -> Vec<u64> {
        let mut passed = vec![u64::MAX; producers];
        for partition in partitions {
            let mut latest = vec![0; producers];
            self.at(subscription, |partitions| {
                for (producer, latest) in latest.iter_mut().enumerate() {
                    *latest = partitions.next_sequence(*partition, producer as u32).max(*latest);
                }
            });
            for (passed, latest) in passed.iter_mut().zip(latest) {
                *passed = latest.min(*passed);
            }
        }
        passed
    }

    fn at(&self, subscription: SubscriptionIndex, mut each: impl FnMut(&Partitions)) {
        for Consumer { shard, tally } in self.shared.consumers.lock().iter() {
            if tally.subscription == subscription {
                each(&shard.lock().partitions);
            }
        }
    }
}

#[cfg(test)]
mod tests;
