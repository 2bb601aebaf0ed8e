use super::*;

#[test]
fn a_message_belongs_to_the_part_in_which_it_was_intended() {
    let ends = PartEnds::new([(1_000_000, 0), (2_000_000, 1), (3_000_000, 0)].into_iter());
    let mut responses = PartResponses::default();
    // Intended at 0.5 ms, 1 ms (by a tick that was cut off), 1.5 ms, 2.5 ms and after the last part.
    for (now_ns, response_ns) in
        [(5_000_000, 4_500_000), (5_000_000, 4_000_050), (5_000_000, 3_500_000), (6_000_000, 3_500_000)]
    {
        responses.record(&ends, now_ns, response_ns, 10);
    }
    responses.record(&ends, 9_000_000, 1_000_000, 10);
    let found: Vec<_> =
        responses.iter().map(|part| (part.result, part.response.histogram().len(), part.moments)).collect();
    assert_eq!(found, [(0, 30, 3), (1, 20, 1)]);
    let mut sum = responses.clone();
    sum.merge(&responses);
    assert_eq!(sum.iter().map(|part| part.response.histogram().len()).sum::<u64>(), 100);
    let mut none = PartResponses::default();
    none.record(&PartEnds::default(), 5, 1, 1);
    assert_eq!(none.iter().count(), 0);
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
