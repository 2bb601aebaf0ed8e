use super::*;
use crate::record::{ConsumerSpread, Extent, Partitions, sample};

fn unequal() -> Record {
    let consumer = |member: usize| ConsumerFigures {
        topic: "orders".to_owned(),
        member,
        consumed: 1000 * (member as u64 + 1),
        end_to_end_p50_ns: Some(1_000_000),
        end_to_end_p99_ns: Some(2_000_000 * (8 - member as u64)),
        ..ConsumerFigures::default()
    };
    let extent = |smallest, largest| Extent { smallest, largest };
    let spread = ConsumerSpread {
        group: 0,
        consumers: 8,
        consumed: extent(1000, 8000),
        end_to_end_p50_ns: Some(extent(1_000_000, 1_000_000)),
        end_to_end_p99_ns: Some(extent(2_000_000, 16_000_000)),
    };
    let consumers = Consumers { groups: vec![spread], listed: (0..8).map(consumer).collect() };
    Record { consumers: Some(consumers), ..sample::record() }
}

fn sentences(record: &Record) -> Vec<String> {
    let section = section(record).expect("they differ");
    section.blocks.iter().flat_map(Block::figures).map(|figure| figure.sentence.clone()).collect()
}

#[test]
fn the_sentences_name_the_extremes() {
    assert_eq!(
        sentences(&unequal()),
        [
            "Most messages were received by consumer 7 (8,000), fewest by consumer 0 (1,000).",
            "Slowest is consumer 0 (p99 16.0 ms), fastest consumer 7 (2.00 ms)."
        ]
    );
    let mut record = unequal();
    let consumers = record.consumers.as_mut().unwrap();
    consumers.groups[0].consumers = 100;
    consumers.listed.iter_mut().for_each(|of| of.end_to_end_p99_ns = None);
    let sentences = sentences(&record);
    assert!(sentences[0].ends_with("Shown are 8 of 100 consumers, those that differ the most."), "{sentences:?}");
    assert!(sentences[1].contains("(median 1.00 ms)"), "{sentences:?}");
}

#[test]
fn partitions_have_numbers_and_topics_have_names() {
    let partition = |topic: &str, partition: Option<u32>, acknowledged: u64| PartitionFigures {
        topic: topic.to_owned(),
        partition,
        acknowledged,
        p50_ns: Some(1_000_000 * (acknowledged + 1)),
        p99_ns: None,
    };
    let of = |listed: Vec<PartitionFigures>| {
        let acknowledged = Extent { smallest: 0, largest: 9 };
        let partitions = Partitions { partitions: 2, acknowledged, listed, ..Partitions::default() };
        sentences(&Record { partitions: Some(partitions), ..sample::record() })
    };
    let one = of(vec![partition("orders", Some(0), 9), partition("orders", Some(1), 0)]);
    assert_eq!(one[0], "Most messages were taken by partition 0 (9), fewest by partition 1 (0).");
    let several = of(vec![partition("a", Some(0), 9), partition("b", Some(0), 0)]);
    assert!(several[0].contains("by partition a/0 (9)"), "{several:?}");
    let topics = of(vec![partition("a", None, 9), partition("b", None, 0)]);
    assert!(topics[0].contains("by topic a (9)") && topics[1].contains("topic a (median "), "{topics:?}");
}

#[test]
fn consumers_that_are_alike_have_no_section() {
    let mut record = unequal();
    let group = &mut record.consumers.as_mut().unwrap().groups[0];
    let alike = Extent { smallest: 1000, largest: 1050 };
    (group.consumed, group.end_to_end_p99_ns) = (alike, Some(alike));
    assert_eq!(section(&record), None);
    assert_eq!(section(&sample::record()), None);
}
