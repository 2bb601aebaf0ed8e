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
    assert_eq!(partitions.next_sequence(0, 0), 7);
    assert_eq!(partitions.next_sequence(1, 0), 4);
    assert_eq!(partitions.next_sequence(7, 9), 0);
}

#[test]
fn offsets_are_kept_per_partition_and_never_go_back() {
    let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
    partitions.pass(2, 10);
    partitions.pass(2, 4);
    partitions.pass(UNORDERED_PARTITION, 99);
    assert_eq!(partitions.next_offset(2), 11);
    assert_eq!(partitions.next_offset(0), 0);
    assert_eq!(partitions.count(), 3);
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
