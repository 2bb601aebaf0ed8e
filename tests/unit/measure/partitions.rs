use super::*;

#[test]
fn order_is_kept_per_partition_and_producer() {
    let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
    assert_eq!(partitions.arrived(0, 0, 0, 5), Order::Kept);
    assert_eq!(partitions.arrived(1, 0, 0, 3), Order::Kept, "another partition");
    assert_eq!(partitions.arrived(0, 0, 1, 0), Order::Kept, "another producer");
    assert_eq!(partitions.arrived(0, 0, 0, 4), Order::Broken);
    assert_eq!(partitions.arrived(0, 0, 0, 6), Order::Kept);
    assert_eq!(partitions.arrived(UNORDERED_PARTITION, 0, 0, 1), Order::NotPromised);
    assert_eq!(
        (partitions.next_sequence(0, 0), partitions.next_sequence(1, 0), partitions.next_sequence(7, 9)),
        (7, 4, 0)
    );
}

#[test]
fn offsets_are_kept_per_partition_and_never_go_back() {
    let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
    partitions.pass(2, 10);
    partitions.pass(2, 4);
    partitions.pass(UNORDERED_PARTITION, 99);
    assert_eq!((partitions.next_offset(2), partitions.next_offset(0), partitions.count()), (11, 0, 3));
}

#[test]
fn tables_within_budget_report_what_was_unchecked() {
    let budget = Budget::new(10_000);
    let mut partitions = [Partitions::new(budget.clone()), Partitions::new(budget.clone())];
    let mut unchecked = 0;
    for partition in 0..100 {
        for producer in 0..100 {
            unchecked +=
                u32::from(partitions[partition as usize % 2].arrived(partition, 0, producer, 0) == Order::Unchecked);
        }
    }
    let bytes = |partitions: &Partitions| {
        let tables =
            partitions.partitions.iter().map(|partition| partition.next_sequences.capacity() * size_of::<u64>());
        partitions.partitions.len() * size_of::<Partition>() + tables.sum::<usize>()
    };
    assert!(partitions.iter().map(bytes).sum::<usize>() <= 10_000);
    assert!(unchecked > 9_000, "{unchecked}");
    assert_eq!(partitions[0].arrived(u32::MAX - 1, 0, 0, 0), Order::Unchecked, "a partition no topic has");
    assert_eq!(partitions[0].arrived(0, 0, 0, 1), Order::Kept, "what is in the tables goes on");
}

fn names(topics: &[&str]) -> PartitionNames {
    PartitionNames::new(topics.iter().map(|topic| Arc::from(*topic)))
}

#[test]
fn a_partition_has_one_index_however_often_it_is_named() {
    let names = names(&["only", "only"]);
    let first = names.index_of("only", Some(0));
    assert_ne!(first, names.index_of("only", Some(1)));
    assert_ne!(first, names.index_of("other", Some(0)));
    assert_eq!(first, names.index_of("only", Some(0)));
    assert_eq!(names.for_message(PartitionIndex::UNKNOWN, 1), PartitionIndex::UNKNOWN, "one topic says nothing");
    assert_eq!(names.for_message(first, 1), first);
}

#[test]
fn unknown_partition_counts_for_the_topic_of_its_producer() {
    let names = names(&["a", "b", "a"]);
    let of = |producer| names.for_message(PartitionIndex::UNKNOWN, producer);
    assert_eq!((of(0), of(2)), (names.index_of("a", None), of(0)));
    assert_eq!(of(1), names.index_of("b", None));
    assert_eq!(of(3), PartitionIndex::UNKNOWN, "a producer that there is not");
}

#[test]
fn partitions_beyond_the_limit_count_as_unknown() {
    let names = names(&["only"]);
    let indices: Vec<_> = (0..=MAX_PARTITIONS as u32).map(|number| names.index_of("only", Some(number))).collect();
    assert_eq!(indices[MAX_PARTITIONS], PartitionIndex::UNKNOWN);
    assert_eq!(names.index_of("only", Some(0)), indices[0]);
    let mut shard = PartitionShard::default();
    indices.iter().for_each(|index| shard.count(&names, *index, 1, 1_000_000, 2));
    let mut all = Acknowledged::in_partitions(&names);
    all.add(&shard);
    assert_eq!((all.unknown, all.partitions.len()), (2, MAX_PARTITIONS));
    assert!(all.partitions.iter().all(|of| (of.acknowledged, of.moments) == (2, 1)));
    let timed = all.partitions.iter().filter(|of| of.latency.is_some()).count();
    assert_eq!(timed, LATENCY_BYTES / CompactDistribution::BYTES);
}

#[test]
fn what_several_recorders_know_of_a_partition_adds_up() {
    let names = names(&["only"]);
    let [first, second] = [0, 1].map(|number| names.index_of("only", Some(number)));
    let mut shards = [PartitionShard::default(), PartitionShard::default()];
    shards[0].count(&names, first, 5, 1_000_000, 99);
    shards[1].count(&names, first, 6, 80_000_000, 1);
    shards[1].count(&names, first, 6, 80_000_000, 1);
    let mut all = Acknowledged::in_partitions(&names);
    shards.iter().for_each(|shard| all.add(shard));
    let [of_first, of_second] = all.partitions.as_slice() else { panic!("{all:?}") };
    assert_eq!((of_first.acknowledged, of_first.moments), (101, 2));
    let latency = of_first.latency.as_ref().unwrap();
    assert!(latency.value_at_quantile(0.5) < 2_000_000 && latency.value_at_quantile(0.99) > 70_000_000);
    assert_eq!((of_second.acknowledged, of_second.name.partition), (0, Some(1)), "named, and never written to");
    assert_ne!(first, second);
}
