use super::*;

#[test]
fn merged_percentiles_are_those_of_all_values() {
    let (mut fast, mut slow) = (Distribution::new(), Distribution::new());
    fast.record_n(1_000, 99);
    slow.record(1_000_000_000);
    slow.record(MAX_LATENCY_NS * 3);
    fast.merge(&slow);
    assert_eq!(fast.histogram().len(), 100);
    assert!(fast.histogram().value_at_quantile(0.5).abs_diff(1_000) < 64);
    assert!(fast.histogram().max() >= 1_000_000_000);
    assert_eq!(fast.beyond_range(), 1);
    fast.clear();
    assert!(fast.is_empty());
}

#[test]
fn three_digits_from_a_microsecond_on() {
    for value in [1_000u64, 12_345, 9_876_543, 400_000_000_000] {
        let mut one = Distribution::new();
        one.record(value);
        let told = one.histogram().value_at_quantile(0.5);
        assert!(told.abs_diff(value) <= (value / 1000).max(64), "{told} for {value}");
    }
}

#[test]
fn every_value_is_found_again_within_two_percent() {
    let mut value = 1u64;
    while value <= MAX_LATENCY_NS {
        for value in [value, value + value / 3, value * 2 - 1] {
            let mut one = CompactDistribution::new();
            one.record_n(value, 1);
            let found = one.value_at_quantile(0.99);
            assert!(found.abs_diff(value) <= (value / 60).max(33), "{found} for {value}");
        }
        value *= 2;
    }
    const { assert!(CompactDistribution::BYTES < 8 << 10) };
}

#[test]
fn cells_are_in_the_order_of_their_values() {
    let cells: Vec<usize> = (0..2_000_000u64).step_by(7).map(cell_of).collect();
    assert!(cells.is_sorted());
    assert_eq!(cells.windows(2).map(|pair| pair[1] - pair[0]).max(), Some(1), "no cell is left out");
}

#[test]
fn quantiles_of_merged_ones_are_those_of_all_values() {
    let (mut fast, mut slow) = (CompactDistribution::new(), Distribution::new());
    assert_eq!((fast.value_at_quantile(0.5), fast.is_empty()), (0, true));
    fast.record_n(1_000_000, 98);
    slow.record(50_000_000);
    slow.record(MAX_LATENCY_NS * 3);
    let mut all = CompactDistribution::new();
    all.add(&slow);
    all.merge(&fast);
    assert_eq!(all.len(), 100);
    assert!(all.value_at_quantile(0.98).abs_diff(1_000_000) < 20_000);
    assert!(all.value_at_quantile(0.99).abs_diff(50_000_000) < 1_000_000);
    assert!(all.value_at_quantile(1.0) > MAX_LATENCY_NS, "what is beyond the range is slower than all others");
}

fn timeline(moments: &[(u64, u64)]) -> Timeline {
    let mut timeline = Timeline::default();
    moments.iter().for_each(|(at_ms, messages)| timeline.add(at_ms * 1_000_000, *messages, Slowest::default()));
    timeline
}

fn bins(timeline: &Timeline) -> Vec<(u64, u64, u64)> {
    timeline.bins().iter().map(|bin| (bin.first_ns / 1_000_000, bin.last_ns / 1_000_000, bin.messages)).collect()
}

#[test]
fn a_bin_has_the_first_and_the_last_moment_and_all_messages() {
    assert_eq!(
        bins(&timeline(&[(210, 1), (250, 2), (299, 3), (300, 4), (900, 5)])),
        [(210, 299, 6), (300, 300, 4), (900, 900, 5)]
    );
}

#[test]
fn timelines_of_recorders_merge_in_order_of_time() {
    let mut all = timeline(&[(50, 1), (450, 1)]);
    all.merge(&timeline(&[(20, 1), (120, 1), (480, 1)]));
    all.merge(&timeline(&[(130, 1), (990, 1)]));
    assert_eq!(bins(&all), [(20, 50, 2), (120, 130, 2), (450, 480, 2), (990, 990, 1)]);
    all.clear();
    assert_eq!(bins(&all), []);
}

#[test]
fn a_bin_has_the_slowest_messages_of_all_recorders() {
    let slowest = |response_ns, service_ns| Slowest { response_ns, service_ns, ..Slowest::default() };
    let (mut all, mut other) = (Timeline::default(), Timeline::default());
    all.add(10_000_000, 1, slowest(7.0, 2.0));
    other.add(20_000_000, 1, slowest(5.0, 4.0));
    other.add(BIN_NS, 1, slowest(9.0, 9.0));
    all.merge(&other);
    let found: Vec<Slowest> = all.bins().iter().map(|bin| bin.slowest).collect();
    assert_eq!(found, [slowest(7.0, 4.0), slowest(9.0, 9.0)]);
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
