//! Groups that commit, and groups whose members share the streams of a topic.

use super::{broker, confirmed, real};
use crate::harness::rabbitmq::{self, Detour, Stranger};
use crate::harness::scripted_rabbitmq::frames::{consumer_update, deliver};
use crate::harness::scripted_rabbitmq::{Scripted, Tuning, UpdateResponse};
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_balanced, eventually, record_of};
use brokermark::record::{Pipeline, Record};

const SHARED: &str = "single_active_consumer = true";

/// A super stream that outlives runs, until the test ends; its name is that of its group.
struct SuperStream {
    name: String,
    partitions: u32,
}

impl SuperStream {
    fn new(name: &str, partitions: u32) -> Self {
        // Asked here, where it may say what is missing: it cannot when a test that failed drops the stream.
        rabbitmq::address();
        SuperStream { name: format!("{name}-{}", std::process::id()), partitions }
    }

    fn topology(&self) -> String {
        format!("[topology]\nname = \"{}\"\npartitions = {}\nkeep = true\n", self.name, self.partitions)
    }

    /// A pipeline of the group, without databases.
    fn pipeline(&self, options: &str, keys: &str, run: &str) -> String {
        let group = format!("[pipeline]\nparse = \"none\"\nbatch = 50\ngroup = \"{}\"\n{keys}\n", self.name);
        let topology = match keys.contains("producer_mode = \"none\"") {
            true => format!("[topology]\nname = \"{}\"\n", self.name),
            false => self.topology(),
        };
        format!("{}{topology}{group}{run}", real(options))
    }

    /// How many offsets are done. The server's own entries have offsets as well, so it is at least the number of messages.
    fn committed(&self) -> u64 {
        let mut stranger = Stranger::arrive();
        let stored = |number| stranger.stored_offset(&self.name, &format!("{}-{number}", self.name));
        (0..self.partitions).map(stored).map(|stored| stored.map_or(0, |last| last + 1)).sum()
    }
}

impl Drop for SuperStream {
    fn drop(&mut self) {
        Stranger::arrive().delete_super_stream(&self.name);
    }
}

fn pipeline(record: &Record) -> &Pipeline {
    record.pipeline.as_ref().unwrap()
}

#[test]
fn real_group_goes_on_behind_the_last_message_it_committed() {
    let stream = SuperStream::new("kept", 2);
    for options in ["", SHARED] {
        let before = stream.committed();
        let with_producers = "[producers]\nbatch = 10\n[run]\nmessages = 2000\n";
        let record = record_of(&stream.pipeline(options, "", with_producers));
        assert_acknowledged(&record, 2000);
        assert_eq!((pipeline(&record).consumed, pipeline(&record).consumer_lag_at_end), (2000, Some(0)));
        assert!(stream.committed() >= before + 2000);
        let rest = "producer_mode = \"none\"";
        let record = record_of(&stream.pipeline(options, rest, "[run]\nduration = \"60s\"\n"));
        assert_eq!((pipeline(&record).consumed, pipeline(&record).consumer_lag_at_end), (0, Some(0)));
        let filled = format!("{}{}[producers]\nbatch = 10\n[run]\nmessages = 500\n", real(""), stream.topology());
        assert_acknowledged(&record_of(&filled), 500);
        let record = record_of(&stream.pipeline(options, rest, "[run]\nduration = \"60s\"\n"));
        assert_eq!((pipeline(&record).consumed, pipeline(&record).consumer_lag_at_end), (500, Some(0)));
    }
}

#[test]
fn real_leaving_member_loses_and_doubles_nothing() {
    let stream = SuperStream::new("leaves", 4);
    let load = |rate: &str, duration: &str| {
        format!(
            "[load]\nrate = \"{rate}\"\n[producers]\nbatch = 10\n[run]\nduration = \"{duration}\"\ndrain_deadline = \"10s\"\n"
        )
    };
    let stays = Bench::new(&stream.pipeline(SHARED, "", &load("2k/s", "12s")));
    let leaves = Bench::new(&stream.pipeline(SHARED, "", &load("1k/s", "3s")));
    let mut staying = stays.start(&[]);
    staying.await_stderr(" p99 ");
    let first = leaves.start(&[]).finish(PATIENCE).expect(0).record();
    let second = staying.finish(PATIENCE).expect(0).record();
    let consumed = [&first, &second].map(|record| pipeline(record).consumed);
    let sent: u64 = [&first, &second].iter().map(|record| record.counts.acknowledged).sum();
    assert!(consumed.iter().all(|consumed| *consumed > 0), "both had streams: {consumed:?}");
    assert_eq!(consumed.iter().sum::<u64>(), sent, "{consumed:?}");
    assert!(stream.committed() >= sent);
}

#[test]
fn real_cut_members_read_the_uncommitted_again() {
    let detour = Detour::open();
    let options = format!("{SHARED}\nconnect_to = \"addresses\"");
    let run = "[load]\nrate = \"2k/s\"\n[producers]\nbatch = 10\n[topology]\npartitions = 3\n[run]\nduration = \"5s\"\ndrain_deadline = \"20s\"\n";
    let group = "[pipeline]\nparse = \"none\"\nbatch = 50\ninstances = 2\n";
    let bench = Bench::new(&format!("{}{group}{run}", broker(&detour.address(), &options)));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    for _ in 0..3 {
        detour.cut();
        eventually("messages come through again", || detour.heard() > 20_000);
    }
    let record = running.finish(PATIENCE).record();
    assert_balanced(&record);
    assert!(record.receive_errors.iter().map(|error| error.count).sum::<u64>() > 0, "it was never cut");
    let found = record.verification.as_ref().unwrap();
    assert_fields!(found, { lost: 0, unread: 0, corrupt: 0 }, "{found:?}");
}

#[test]
fn real_members_without_commits_receive_each_once() {
    let load = "[topology]\npartitions = 3\n[producers]\nbatch = 10\n[consumers]\nmembers = 2\ngroups = 2\n[run]\nmessages = 3000\n";
    let record = record_of(&format!("{}{load}", real(SHARED)));
    crate::harness::assert_delivered(&record, 3000, 2);
}

/// A pipeline of a group, on a topic of a scripted server. It is to be interrupted.
fn scripted(server: &Scripted, options: &str) -> Bench {
    let run = "[load]\nrate = \"10/s\"\n[run]\nduration = \"300s\"\ndrain_deadline = \"1s\"\n";
    let topology = "[topology]\nname = \"scripted\"\nkeep = true\n";
    let group = "[pipeline]\nparse = \"none\"\nbatch = 5\ngroup = \"readers\"\n";
    Bench::new(&format!("{}{topology}{group}{run}", broker(server.address(), options)))
}

#[test]
fn member_begins_behind_stored_offset_commits_at_end() {
    let server = Scripted::tuned(Tuning { has_stored: true, ..Tuning::default() }, confirmed);
    let bench = scripted(&server, &format!("{SHARED}\nbody = \"binary\""));
    let mut running = bench.start(&[]);
    eventually("the member has subscribed", || !server.subscriptions().is_empty());
    server.tell_subscribers(&consumer_update(70, 0, true));
    eventually("it reads", || server.update_responses().len() == 1);
    running.await_stderr("measuring");
    server.tell_subscribers(&deliver(0, 5, &[&b"message"[..]; 10]));
    server.tell_subscribers(&consumer_update(71, 0, false));
    eventually("it has stopped", || server.update_responses().len() == 2);
    let expected = [
        UpdateResponse { correlation: 70, from: (4, 5), stored: None },
        UpdateResponse { correlation: 71, from: (0, 0), stored: Some(14) },
    ];
    assert_eq!(server.update_responses(), expected);
    let properties = ["single-active-consumer", "true", "name", "readers"];
    assert_eq!(server.subscription_properties(), properties);
    running.signal(libc::SIGINT);
    assert_eq!(pipeline(&running.finish(PATIENCE).record()).consumed, 10);
}

#[test]
fn a_commit_that_the_server_lost_is_repeated_until_it_is_stored() {
    let server = Scripted::tuned(Tuning { has_stored: true, loses_stored: 3, ..Tuning::default() }, confirmed);
    let bench = scripted(&server, "body = \"binary\"");
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    eventually("the member has given credit", || server.has_given_credit());
    assert_eq!(server.subscriptions(), [(4, 5)], "behind the stored offset");
    server.tell_subscribers(&deliver(0, 5, &[&b"message"[..]; 10]));
    eventually("it has committed", || !server.stored().is_empty());
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).record();
    assert_eq!(pipeline(&record).consumed, 10);
    assert!(pipeline(&record).commit_errors.is_empty(), "{:?}", pipeline(&record).commit_errors);
    let stored = server.stored();
    assert!(stored.len() > 3 && stored.last() == Some(&("scripted".to_owned(), 14)), "{stored:?}");
}
