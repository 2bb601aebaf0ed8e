use proptest::prelude::*;

use super::*;

#[test]
fn nothing_behind_a_gap_is_committed() {
    let mut commits = Commits::default();
    commits.begin(1, 0, 7, 10);
    commits.begin(2, 0, 10, 20);
    commits.begin(2, 1, 0, 5);
    commits.finish(2);
    assert_eq!(commits.due(), [(1, 5)]);
    assert_eq!((commits.open_from(0), commits.open_from(1)), (Some(7), None));
    commits.finish(1);
    assert_eq!(commits.due(), [(0, 20)]);
    assert_eq!(commits.due(), [], "once is enough");
    assert_eq!(commits.done(), [(0, 20), (1, 5)]);
}

proptest! {
    /// Every message before the committed offset is finished, and the one at it is not.
    #[test]
    fn commits_exactly_the_contiguous_beginning(
        batches in proptest::collection::vec(proptest::collection::vec((0..3u32, 1..4u64), 1..4), 1..20),
        order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..30),
    ) {
        let mut commits = Commits::default();
        let mut ends = [0u64; 3];
        // Of each partition, the batch of every message.
        let mut owners: [Vec<usize>; 3] = Default::default();
        for (number, parts) in batches.iter().enumerate() {
            let mut touched = BTreeMap::new();
            for (partition, count) in parts {
                ends[*partition as usize] += count;
                owners[*partition as usize].extend(std::iter::repeat_n(number, *count as usize));
                touched.insert(*partition, ends[*partition as usize]);
            }
            for (partition, next) in touched {
                commits.begin(number as u64, partition, 0, next);
            }
        }
        let mut finished = vec![false; batches.len()];
        let mut committed = [0u64; 3];
        for index in order {
            let number = index.index(batches.len());
            finished[number] = true;
            commits.finish(number as u64);
            for (partition, next) in commits.due() {
                prop_assert!(next > committed[partition as usize]);
                committed[partition as usize] = next;
            }
            for partition in 0..3 {
                let expected = owners[partition].iter().take_while(|owner| finished[**owner]).count() as u64;
                prop_assert_eq!(committed[partition], expected);
            }
        }
    }
}

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
    assert!(assignment.is_assigned());
    assert!(!assignment.is_complete());
    assert_eq!(lag(), None);
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
fn an_instance_that_ends_while_it_waits_for_partitions_hides_no_lag() {
    let assignment = Assignment::new(2, 3);
    let now = Instant::now();
    assignment.report(0, having(&[(0, 10), (1, 20), (2, 30)]), now);
    assignment.report(0, having(&[(0, 10)]), now);
    assignment.report(1, InstanceProgress::default(), now);
    assert_eq!(assignment.consumer_lag(&ENDS, now), None);
    assignment.ended(1);
    assert_eq!(assignment.consumer_lag(&ENDS, now), Some(0));
    assignment.ended(0);
    assert_eq!(assignment.consumer_lag(&[13, 20, 30], now), Some(3), "it keeps what it had");
}

#[test]
fn partitions_without_a_member_here_belong_to_others() {
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
