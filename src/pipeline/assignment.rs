//! Which instance has which partition of the topic, and how far each of them is.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Within this time a member of a group hears of the partitions that another one has returned: twice the default of Kafka's
/// `group.consumer.heartbeat.interval.ms`, for the heartbeat of the one and that of the other.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(10);

/// What the instances have reported.
pub struct Assignment {
    instances: Vec<Mutex<InstanceProgress>>,
    /// Of each partition, the first message that was not done when an instance last had it.
    reached: Mutex<Vec<Option<u64>>>,
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
        Assignment { instances, reached: Mutex::new(vec![None; partitions]), changed: Mutex::new(Instant::now()) }
    }

    /// Takes note of where an instance is now.
    pub fn report(&self, instance: usize, progress: InstanceProgress, now: Instant) {
        let mut before = self.instances[instance].lock();
        if !before.numbers().eq(progress.numbers()) {
            *self.changed.lock() = now;
        }
        let mut reached = self.reached.lock();
        for (partition, next) in progress.partitions.iter().flatten() {
            if let Some(found) = reached.get_mut(*partition as usize) {
                *found = *next;
            }
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
        match self.without_instance() {
            Some(partitions) => partitions.is_empty(),
            None => self.is_assigned(),
        }
    }

    /// Partitions that no instance has; `None`: an instance does not know its partitions.
    fn without_instance(&self) -> Option<Vec<usize>> {
        let mut has_instance = vec![false; self.reached.lock().len()];
        for progress in &self.instances {
            let progress = progress.lock();
            progress.partitions.as_ref()?;
            for partition in progress.numbers() {
                if let Some(found) = has_instance.get_mut(partition as usize) {
                    *found = true;
                }
            }
        }
        Some((0..has_instance.len()).filter(|partition| !has_instance[*partition]).collect())
    }

    /// How many messages the partitions of these instances are behind their `ends`; `None`: not known right now. A partition
    /// without an instance is not behind if it is empty, or if the last instance had reached its end. The others are those of the
    /// group's other members, once nothing has changed for a while.
    pub fn consumer_lag(&self, ends: &[u64], now: Instant) -> Option<u64> {
        let mut consumer_lag = 0;
        for progress in &self.instances {
            for (partition, next) in progress.lock().partitions.iter().flatten() {
                consumer_lag += ends.get(*partition as usize)?.saturating_sub((*next)?);
            }
        }
        let without_instance = self.without_instance()?;
        let reached = self.reached.lock();
        let is_done = |partition: &usize| match (reached[*partition], ends.get(*partition)) {
            (next, Some(end)) => next.unwrap_or(0) >= *end,
            (_, None) => false,
        };
        let is_known = without_instance.iter().all(is_done) || now >= *self.changed.lock() + PASSED_ON_WITHIN;
        // What is behind is behind, whatever comes.
        (is_known || consumer_lag > 0).then_some(consumer_lag)
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
    fn a_partition_that_was_returned_at_its_end_is_not_behind() {
        let assignment = Assignment::new(2, 3);
        let now = Instant::now();
        assignment.report(0, having(&[(0, 10), (1, 20), (2, 30)]), now);
        assignment.report(1, having(&[]), now);
        // On its way to the second instance.
        assignment.report(0, having(&[(0, 10), (1, 20)]), now);
        assert!(!assignment.is_complete());
        assert_eq!(assignment.consumer_lag(&ENDS, now), Some(0));
        assert_eq!(assignment.consumer_lag(&[10, 20, 31], now), None, "who has the rest is not known");
        let empty = Assignment::new(1, 2);
        empty.report(0, having(&[(0, 10)]), now);
        assert_eq!((empty.consumer_lag(&[10, 0], now), empty.consumer_lag(&[10, 1], now)), (Some(0), None));
    }

    #[test]
    fn partitions_that_no_member_here_gets_are_those_of_other_members() {
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
