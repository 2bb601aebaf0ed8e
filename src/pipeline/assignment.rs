//! Which instance has which partition of the topic, and how far each of them is.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Within this time a member of a group hears of the partitions that another one has returned: twice the default of Kafka's
/// `group.consumer.heartbeat.interval.ms`, for the heartbeat of the one and that of the other.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(10);

/// What the instances have reported.
pub struct Assignment {
    /// Of the topic.
    partitions: usize,
    instances: Vec<Mutex<InstanceProgress>>,
    /// When an instance last got or returned a partition.
    changed: Mutex<Instant>,
}

/// The progress of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceProgress {
    /// The group has assigned its partitions.
    pub is_assigned: bool,
    /// Each with the first message that is not done; `None`: not assigned, or the broker has no offsets.
    pub partitions: Option<Vec<(u32, Option<u64>)>>,
}

impl Assignment {
    /// Of instances that have nothing yet.
    pub fn new(instances: usize, partitions: usize) -> Self {
        let instances = (0..instances).map(|_| Mutex::default()).collect();
        Assignment { partitions, instances, changed: Mutex::new(Instant::now()) }
    }

    /// Takes note of where an instance is now.
    pub fn report(&self, instance: usize, progress: InstanceProgress, now: Instant) {
        let mut before = self.instances[instance].lock();
        if !before.numbers().eq(progress.numbers()) {
            *self.changed.lock() = now;
        }
        *before = progress;
    }

    /// Whether the group has assigned every instance its partitions, or none of them.
    pub fn is_assigned(&self) -> bool {
        self.instances.iter().all(|progress| progress.lock().is_assigned)
    }

    /// Whether every partition has an instance. A partition of a group that the server shares out has no member until one hears
    /// that another one has returned it.
    pub fn is_complete(&self) -> bool {
        let mut has_instance = vec![false; self.partitions];
        for progress in &self.instances {
            let progress = progress.lock();
            if progress.partitions.is_none() {
                return progress.is_assigned;
            }
            for partition in progress.numbers() {
                if let Some(found) = has_instance.get_mut(partition as usize) {
                    *found = true;
                }
            }
        }
        has_instance.iter().all(|found| *found)
    }

    /// How many messages the partitions of these instances are behind their `ends`; `None`: not known right now. Partitions without an
    /// instance are those of the group's other members, once nothing has changed for a while.
    pub fn consumer_lag(&self, ends: &[u64], now: Instant) -> Option<u64> {
        let mut consumer_lag = 0;
        for progress in &self.instances {
            for (partition, next) in progress.lock().partitions.iter().flatten() {
                consumer_lag += ends.get(*partition as usize)?.saturating_sub((*next)?);
            }
        }
        let is_known = self.instances.iter().all(|progress| progress.lock().partitions.is_some());
        let is_settled = || now >= *self.changed.lock() + PASSED_ON_WITHIN;
        // What is behind is behind, whatever comes.
        (is_known && (consumer_lag > 0 || self.is_complete() || is_settled())).then_some(consumer_lag)
    }
}

impl InstanceProgress {
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.partitions.iter().flatten().map(|(partition, _)| *partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn having(partitions: &[(u32, u64)]) -> InstanceProgress {
        let partitions = partitions.iter().map(|(partition, next)| (*partition, Some(*next))).collect();
        InstanceProgress { is_assigned: true, partitions: Some(partitions) }
    }

    const ENDS: [u64; 3] = [10, 20, 30];

    #[test]
    fn a_lag_is_known_once_every_partition_has_an_instance() {
        let assignment = Assignment::new(2, 3);
        let now = Instant::now();
        let report = |instance, progress| assignment.report(instance, progress, now);
        let lag = || assignment.consumer_lag(&ENDS, now);
        assert_eq!((assignment.is_assigned(), lag()), (false, None));
        report(0, having(&[(0, 10), (1, 20)]));
        assert_eq!((assignment.is_assigned(), lag()), (false, None));
        // The first instance has returned the last partition, and the second one has not heard of it.
        report(1, having(&[]));
        assert_eq!((assignment.is_assigned(), assignment.is_complete(), lag()), (true, false, None));
        report(0, having(&[(0, 10), (1, 15)]));
        assert_eq!(lag(), Some(5), "it is behind in any case");
        report(0, having(&[(0, 10), (1, 20)]));
        report(1, having(&[(2, 27)]));
        assert_eq!((assignment.is_complete(), lag()), (true, Some(3)));
        report(1, having(&[(2, 30)]));
        assert_eq!(lag(), Some(0));
    }

    #[test]
    fn partitions_that_nobody_here_gets_are_those_of_other_members() {
        let assignment = Assignment::new(1, 3);
        let begin = Instant::now();
        let half = PASSED_ON_WITHIN / 2;
        assignment.report(0, having(&[(0, 10)]), begin);
        assignment.report(0, having(&[(0, 10), (2, 30)]), begin + half);
        // Progress alone changes nothing.
        assignment.report(0, having(&[(0, 9), (2, 30)]), begin + 2 * half);
        assignment.report(0, having(&[(0, 10), (2, 30)]), begin + 2 * half);
        assert_eq!(assignment.consumer_lag(&ENDS, begin + 2 * half), None, "another one may come");
        assert_eq!(assignment.consumer_lag(&ENDS, begin + 3 * half), Some(0));
        assert!(!assignment.is_complete());
    }

    #[test]
    fn without_offsets_nothing_is_waited_for_and_no_lag_is_known() {
        let assignment = Assignment::new(1, 3);
        let now = Instant::now();
        assert!(!assignment.is_complete());
        assignment.report(0, InstanceProgress { is_assigned: true, partitions: None }, now);
        assert_eq!((assignment.is_assigned(), assignment.is_complete()), (true, true));
        assert_eq!(assignment.consumer_lag(&ENDS, now), None);
    }
}
