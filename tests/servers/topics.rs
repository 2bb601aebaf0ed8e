//! brokermark deletes only topics that it created: the topics of a real Kafka before and after a run.

#![cfg(feature = "kafka")]

use std::collections::BTreeSet;

use brokermark::record::Status;

use crate::harness::kafka::{self, make_topic, remove_topic, topics};
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_delivered, eventually, record_of};

fn scenario(topology: &str, more: &str) -> String {
    let address = kafka::address();
    format!("[broker]\nkind = \"kafka\"\naddress = \"{address}\"\n[topology]\n{topology}\n{more}")
}

/// The topics whose names begin with `prefix`.
fn named(prefix: &str) -> BTreeSet<String> {
    topics(&kafka::address()).into_iter().filter(|topic| topic.starts_with(prefix)).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

mod real_kafka {
    use super::*;

    #[test]
    fn topics_without_a_name_are_removed_afterwards() {
        let scenario =
            scenario("topics = 2", "[producers]\ncount = 2\n[load]\nrate = \"200/s\"\n[run]\nduration = \"10min\"");
        let bench = Bench::new(&format!("name = \"topics-unnamed\"\n{scenario}"));
        let mut run = bench.start(&[]);
        run.await_stderr("measuring");
        assert_eq!(named("brokermark-topics-unnamed-").len(), 2);
        // Also when interrupted.
        run.signal(libc::SIGINT);
        run.finish(PATIENCE).expect(130);
        eventually("they are gone", || named("brokermark-topics-unnamed-").is_empty());
    }

    #[test]
    fn topics_are_removed_and_the_record_kept_after_the_second_signal() {
        let scenario = scenario("", "[load]\nrate = \"200/s\"\n[consumers]\n[run]\nduration = \"10min\"");
        let bench = Bench::new(&format!("name = \"topics-urgent\"\n{scenario}"));
        let mut run = bench.start(&[]);
        run.await_stderr("measuring");
        assert_eq!(named("brokermark-topics-urgent-").len(), 1);
        run.signal(libc::SIGINT);
        run.await_stderr("once more");
        run.signal(libc::SIGINT);
        let record = run.finish(PATIENCE).expect(130).record();
        assert_eq!(record.status, Status::Interrupted);
        eventually("they are gone", || named("brokermark-topics-urgent-").is_empty());
    }

    #[test]
    fn topics_made_under_a_name_are_removed_and_with_keep_are_not() {
        let made = scenario("name = \"topics-made-\"\ntopics = 2", "[producers]\ncount = 2\n[run]\nmessages = 10");
        assert_acknowledged(&record_of(&made), 10);
        eventually("they are gone", || named("topics-made-").is_empty());

        let kept = scenario(
            "name = \"topics-kept-\"\ntopics = 2\nkeep = true",
            "[producers]\ncount = 2\n[run]\nmessages = 10",
        );
        assert_acknowledged(&record_of(&kept), 10);
        let there = named("topics-kept-");
        there.iter().for_each(|topic| remove_topic(&kafka::address(), topic));
        assert_eq!(there, set(&["topics-kept-0", "topics-kept-1"]));
    }

    /// One of the two is somebody else's.
    #[test]
    fn a_topic_that_was_there_stays_with_what_is_in_it() {
        make_topic(&kafka::address(), "topics-shared-1", 1);
        let scenario = |from: &str| {
            scenario(
                "name = \"topics-shared-\"\ntopics = 2",
                &format!(
                    "[producers]\ncount = 2\nbatch = 50\nround_barrier = true\n[consumers]\nfrom = \"{from}\"\n[run]\nmessages = 100"
                ),
            )
        };
        let first = record_of(&scenario("latest"));
        assert_delivered(&first, 100, 1);
        eventually("the run's own topic is gone", || named("topics-shared-") == set(&["topics-shared-1"]));
        let second = record_of(&scenario("earliest"));
        let third = record_of(&scenario("latest"));
        remove_topic(&kafka::address(), "topics-shared-1");

        // The second run meets what the first has left in the topic that stayed, and does not take it for its own.
        let found = second.verification.as_ref().unwrap();
        assert_eq!((found.foreign, found.received, found.lost), (50, 100, 0));
        assert_eq!(second.counts.consumed, Some(100));
        assert_delivered(&third, 100, 1);
    }
}
