//! brokermark deletes only topics that it created: the topics of a real Kafka before and after a run.

#![cfg(feature = "kafka")]

use std::collections::BTreeSet;

use brokermark::record::Status;

use crate::harness::kafka::{self, make_topic, remove_topic, topics};
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_delivered, eventually, record_of};

fn scenario(client: &str, topology: &str, more: &str) -> String {
    let address = kafka::address();
    format!(
        "broker = {{ kind = \"kafka\", client = \"{client}\", address = \"{address}\" }}\n[topology]\n{topology}\n{more}"
    )
}

/// The topics whose names begin with `prefix`.
fn named(prefix: &str) -> BTreeSet<String> {
    topics(&kafka::address()).into_iter().filter(|topic| topic.starts_with(prefix)).collect()
}

fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}

for_each_kafka_client! {
    real_topics_without_a_name_are_removed_afterwards,
    real_topics_go_and_record_stays_after_a_second_signal,
    real_topics_of_a_name_are_removed_unless_kept,
    real_topic_that_was_there_stays_with_what_is_in_it,
}

fn real_topics_without_a_name_are_removed_afterwards(client: &str) {
    let name = format!("unnamed-{client}");
    let load = "[producers]\ncount = 2\n[load]\nrate = \"200/s\"\n[run]\nduration = \"10min\"";
    let bench = Bench::new(&format!("name = \"{name}\"\n{}", scenario(client, "topics = 2", load)));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let made = || named(&format!("brokermark-{name}-"));
    assert_eq!(made().len(), 2);
    // Also when interrupted.
    run.signal(libc::SIGINT);
    run.finish(PATIENCE).expect(130);
    eventually("they are gone", || made().is_empty());
}

fn real_topics_go_and_record_stays_after_a_second_signal(client: &str) {
    let name = format!("urgent-{client}");
    let load = "[load]\nrate = \"200/s\"\n[consumers]\n[run]\nduration = \"10min\"";
    let bench = Bench::new(&format!("name = \"{name}\"\n{}", scenario(client, "", load)));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let made = || named(&format!("brokermark-{name}-"));
    assert_eq!(made().len(), 1);
    run.signal(libc::SIGINT);
    run.await_stderr("once more");
    run.signal(libc::SIGINT);
    let record = run.finish(PATIENCE).expect(130).record();
    assert_eq!(record.status, Status::Interrupted);
    eventually("they are gone", || made().is_empty());
}

fn real_topics_of_a_name_are_removed_unless_kept(client: &str) {
    let load = "[producers]\ncount = 2\n[run]\nmessages = 10";
    let prefix = format!("topics-made-{client}-");
    let made = scenario(client, &format!("name = \"{prefix}\"\ntopics = 2"), load);
    assert_acknowledged(&record_of(&made), 10);
    eventually("they are gone", || named(&prefix).is_empty());

    let prefix = format!("topics-kept-{client}-");
    let kept = scenario(client, &format!("name = \"{prefix}\"\ntopics = 2\nkeep = true"), load);
    assert_acknowledged(&record_of(&kept), 10);
    let there = named(&prefix);
    there.iter().for_each(|topic| remove_topic(&kafka::address(), topic));
    assert_eq!(there, set(&[format!("{prefix}0"), format!("{prefix}1")]));
}

/// One of the two is somebody else's.
fn real_topic_that_was_there_stays_with_what_is_in_it(client: &str) {
    let prefix = format!("topics-shared-{client}-");
    let shared = format!("{prefix}1");
    make_topic(&kafka::address(), &shared, 1);
    let scenario = |from: &str| {
        let load = "[producers]\ncount = 2\nbatch = 50\nround_barrier = true";
        let more = format!("{load}\n[consumers]\nfrom = \"{from}\"\n[run]\nmessages = 100");
        scenario(client, &format!("name = \"{prefix}\"\ntopics = 2"), &more)
    };
    let first = record_of(&scenario("latest"));
    assert_delivered(&first, 100, 1);
    eventually("the run's own topic is gone", || named(&prefix) == set(std::slice::from_ref(&shared)));
    let second = record_of(&scenario("earliest"));
    let third = record_of(&scenario("latest"));
    remove_topic(&kafka::address(), &shared);

    // The second run meets what the first has left in the topic that stayed, and does not take it for its own.
    let found = second.verification.as_ref().unwrap();
    assert_fields!(found, { foreign: 50, received: 100, lost: 0 });
    assert_eq!(second.counts.consumed, Some(100));
    assert_delivered(&third, 100, 1);
}
