//! Where publishers and consumers begin, and where they go on.

use std::time::Duration;

use brokermark::record::Record;

use super::{BATCHES, broker, confirmed, real, refused};
use crate::harness::rabbitmq::{self, Detour, Stranger};
use crate::harness::scripted_rabbitmq::Scripted;
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_balanced, assert_delivered, eventually, record_of};

/// A stream that outlives runs, until the test ends.
struct Stream {
    name: String,
}

impl Stream {
    fn new(name: &str) -> Self {
        // Asked here, where it may say what is missing: it cannot when a test that failed drops the stream.
        rabbitmq::address();
        Stream { name: format!("{name}-{}", std::process::id()) }
    }

    /// A scenario's beginning, on the stream.
    fn scenario(&self, broker: &str) -> String {
        format!("{broker}[topology]\nname = \"{}\"\nkeep = true\n{BATCHES}", self.name)
    }

    /// Publishes 500 messages.
    fn fill(&self) {
        assert_acknowledged(&record_of(&format!("{}[run]\nmessages = 500\n", self.scenario(&real("")))), 500);
    }

    /// Publishes 500 messages and reads from `start`.
    fn read_from(&self, start: &str) -> Record {
        let scenario = self.scenario(&real(&format!("start = {start}")));
        let record = Bench::new(&format!("{scenario}[consumers]\n[run]\nmessages = 500\n")).run(&[]).record();
        let found = record.verification.as_ref().unwrap();
        assert_fields!(found, { lost: 0, duplicated: 0, corrupt: 0 }, "{start}: {found:?}");
        assert_eq!(record.counts.acknowledged, 500);
        record
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        Stranger::arrive().delete_stream(&self.name);
    }
}

#[test]
fn real_consumers_begin_at_the_configured_offset() {
    let stream = Stream::new("begins");
    stream.fill();
    // The server finds a time by chunk and in milliseconds: the second run's chunks are to be of a later one.
    let filled = jiff::Timestamp::now();
    eventually("a millisecond has passed", || jiff::Timestamp::now().as_millisecond() > filled.as_millisecond());
    let between = jiff::Timestamp::now();
    stream.fill();
    // What was there before is read, and is not of the run. Each run adds its own 500.
    let foreign = |start: &str| stream.read_from(start).verification.unwrap().foreign;
    assert_eq!(foreign("\"first\""), 1000);
    assert_eq!(foreign("{ offset = 700 }"), 800);
    assert_eq!(foreign(&format!("{{ timestamp = \"{between}\" }}")), 1500);
    assert_eq!(foreign("{ timestamp = \"2020-01-01T00:00:00Z\" }"), 2500);
    assert_eq!(foreign("\"next\""), 0);
    let last = foreign("\"last\"");
    assert!((1..=500).contains(&last), "a chunk of the run before, and not {last} messages");
    assert_eq!(foreign("{ offset = 4000 }"), 0, "beyond the end is at the end");
}

#[test]
fn a_place_that_moves_is_asked_for_once() {
    for start in ["next", "last"] {
        let server = Scripted::start(0, confirmed);
        let scenario = broker(server.address(), &format!("start = \"{start}\""));
        let run = "[topology]\nname = \"moving\"\nkeep = true\n[consumers]\n[run]\nduration = \"2s\"\ndrain_deadline = \"1s\"\n";
        let bench = Bench::new(&format!("{scenario}{BATCHES}{run}"));
        let running = bench.start(&[]);
        eventually("the consumer has subscribed", || server.has_given_credit());
        server.hang_up_on_subscribers();
        let record = running.finish(PATIENCE).record();
        assert_eq!(record.receive_errors.len(), 1, "{:?}", record.receive_errors);
        // The stream is empty, so that both mean offset 0, which a new subscription keeps to.
        assert_eq!(server.subscriptions(), [(4, 0), (4, 0)], "{start}");
    }
}

#[test]
fn real_consumers_resume_after_a_cut_connection() {
    let stream = Stream::new("goes-on");
    stream.fill();
    // The last chunk has what came while the server wrote the one before: little, but for a pause of the machine. What both loads before have
    // sent is more than 4,000.
    for (start, foreign) in [("next", 0..=0), ("last", 1..=4_000), ("first", 4_001..=50_000)] {
        let detour = Detour::open();
        let options = format!("start = \"{start}\"\nconnect_to = \"addresses\"");
        let topology = format!("[topology]\nname = \"{}\"\nkeep = true\n", stream.name);
        let load = "[load]\nrate = \"2k/s\"\n[producers]\nbatch = 10\n[consumers]\n[run]\nduration = \"4s\"\n";
        let bench = Bench::new(&format!("{}{topology}{load}", broker(&detour.address(), &options)));
        let mut running = bench.start(&[]);
        // Both are connected, and nothing or little has been received.
        running.await_stderr("measuring");
        for _ in 0..8 {
            detour.cut();
            eventually("messages come through again", || detour.heard() > 20_000);
        }
        let record = running.finish(Duration::from_secs(60)).record();
        assert_balanced(&record);
        assert!(record.counts.acknowledged > 2000, "{:?}", record.counts);
        assert!(record.receive_errors.iter().map(|error| error.count).sum::<u64>() > 0, "it was never cut");
        let found = record.verification.as_ref().unwrap();
        assert_fields!(found, { lost: 0, duplicated: 0, corrupt: 0 }, "{start}: {found:?}");
        assert!(foreign.contains(&found.foreign), "{start}: {found:?}");
    }
}

#[test]
fn real_publishers_of_a_name_go_on_where_they_left_off() {
    let stream = Stream::new("named");
    let named = stream.scenario(&real("publisher = \"again\""));
    // No publisher had that name before, so that the first message has the first id, 1.
    assert_acknowledged(&record_of(&format!("{named}[run]\nmessages = 500\n")), 500);
    assert_eq!(Stranger::arrive().publisher_sequence("again", &stream.name), 500);
    // If the second began with ids the server has seen, it would drop the messages.
    let later = format!("{named}[consumers]\nfrom = \"latest\"\n[run]\nmessages = 500\n");
    assert_delivered(&record_of(&later), 500, 1);
    assert_eq!(Stranger::arrive().publisher_sequence("again", &stream.name), 1000);
}

#[test]
fn real_messages_that_are_sent_again_are_stored_once() {
    let stream = Stream::new("resent");
    for sub_entries in ["", "sub_entry = 5\n"] {
        let detour = Detour::open();
        let options = format!(
            "{sub_entries}publisher = \"again{}\"\nresend = true\nconnect_to = \"addresses\"",
            sub_entries.len()
        );
        let topology = format!("[topology]\nname = \"{}\"\nkeep = true\n", stream.name);
        let load = "[load]\nrate = \"5k/s\"\n[producers]\nbatch = 10\nin_flight = 5000\n";
        let run = "[consumers]\nfrom = \"latest\"\n[run]\nduration = \"4s\"\n";
        let bench = Bench::new(&format!("{}{topology}{load}{run}", broker(&detour.address(), &options)));
        let mut running = bench.start(&[]);
        running.await_stderr("measuring");
        for _ in 0..8 {
            detour.cut();
            eventually("messages come through again", || detour.heard() > 20_000);
        }
        let record = running.finish(Duration::from_secs(60)).record();
        assert_balanced(&record);
        let counts = &record.counts;
        assert_eq!((counts.failed, counts.unresolved), (0, 0), "{:?}", record.errors);
        assert!(record.receive_errors.iter().map(|error| error.count).sum::<u64>() > 0, "it was never cut");
        let found = record.verification.as_ref().unwrap();
        assert_fields!(found, { lost: 0, duplicated: 0, unordered: 0, corrupt: 0 }, "{found:?}");
    }
}

#[test]
fn real_stream_of_another_shape_is_refused_and_left_alone() {
    let stream = Stream::new("shape");
    stream.fill();
    let scenario = stream.scenario(&real("")).replace("keep", "partitions = 2\nkeep");
    let error = refused(&format!("{scenario}[run]\nmessages = 1\n"));
    assert!(error.contains("1 partition(s)") && error.contains("2 partition(s)"), "{error}");
    stream.fill();
}

#[test]
fn real_consumers_are_given_credit_for_every_chunk() {
    // Chunks of one message: far more of them than the server may send ahead.
    let load = "[producers]\nin_flight = 1\n[payload]\nkind = \"zeros\"\nsize = \"50B\"\n[consumers]\ngroups = 2\n";
    let record = record_of(&format!("{}{load}[run]\nmessages = 300\n", real("credit = 1")));
    assert_delivered(&record, 300, 2);
}

#[test]
fn real_idle_connections_are_kept_by_heartbeats() {
    // The server ends a connection on which it hears nothing for four seconds.
    let load = "[load]\nrate = \"0.2/s\"\n[payload]\nkind = \"zeros\"\nsize = \"50B\"\n[consumers]\n";
    let record = record_of(&format!("{}{load}[run]\nduration = \"7s\"\n", real("heartbeat = \"2s\"")));
    assert_delivered(&record, 2, 1);
    assert!(record.receive_errors.is_empty(), "{:?}", record.receive_errors);
}
