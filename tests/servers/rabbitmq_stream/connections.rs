//! What a server may expect of every connection: answers, its end, heartbeats.

use std::collections::BTreeMap;

use super::{BATCHES, broker, confirmed, real, refused};
use crate::harness::scripted_rabbitmq::frames::close;
use crate::harness::scripted_rabbitmq::{CLOSE, CLOSE_RESPONSE, Cluster, HEARTBEAT, SUPER_STREAM, Scripted, Tuning};
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_delivered, eventually, record_of};

const TOPOLOGY: &str = "[topology]\nname = \"polite\"\nkeep = true\n";

const CONSUMERS: &str = "[consumers]\nverify = false\n";

/// The commands of each connection.
fn by_connection(server: &Scripted) -> BTreeMap<usize, Vec<u16>> {
    let mut connections = BTreeMap::<usize, Vec<u16>>::new();
    server.frames().into_iter().for_each(|(number, key)| connections.entry(number).or_default().push(key));
    connections
}

#[test]
fn every_connection_takes_leave() {
    let server = Scripted::start(0, confirmed);
    let load = format!("{TOPOLOGY}{BATCHES}{CONSUMERS}[run]\nmessages = 1000\ncatch_up_deadline = \"1s\"\n");
    assert_acknowledged(&record_of(&format!("{}{load}", broker(server.address(), ""))), 1000);
    let connections = by_connection(&server);
    // For administration, to see what the stream holds, to publish, to consume.
    assert_eq!(connections.len(), 4, "{connections:?}");
    assert!(connections.values().all(|keys| keys.last() == Some(&CLOSE)), "{connections:?}");
}

#[test]
fn a_close_is_answered_during_the_login_and_by_consumers() {
    let server = Scripted::start(0, confirmed);
    let bench = Bench::new(&format!(
        "{}{TOPOLOGY}{BATCHES}{CONSUMERS}[run]\nduration = \"2s\"\ncatch_up_deadline = \"1s\"\n",
        broker(server.address(), "")
    ));
    let running = bench.start(&[]);
    eventually("the consumer has subscribed", || server.has_given_credit());
    server.tell_subscribers(&close(1, "maintenance"));
    let record = running.finish(PATIENCE).record();
    assert!(record.receive_errors[0].first_message.contains("maintenance"), "{:?}", record.receive_errors);
    let answered = |server: &Scripted| server.frames().iter().any(|(_, key)| *key == CLOSE_RESPONSE);
    assert!(answered(&server));

    let server = Scripted::tuned(Tuning { closes_at_login: true, ..Tuning::default() }, confirmed);
    let error = refused(&format!("{}{BATCHES}[run]\nmessages = 1\n", broker(server.address(), "")));
    assert!(error.contains("maintenance"), "{error}");
    assert!(answered(&server));
}

#[test]
fn stream_taken_away_is_subscribed_to_again() {
    let tuning = Tuning { removes_first_subscription: true, ..Tuning::default() };
    let cluster = Cluster::tuned(1, tuning, confirmed);
    let topology = format!("[topology]\nname = \"{SUPER_STREAM}\"\npartitions = 2\nkeep = true\n");
    let scenario = broker(cluster.nodes[0].address(), "");
    let run = format!("{CONSUMERS}[run]\nduration = \"2s\"\ncatch_up_deadline = \"1s\"\n");
    let record = Bench::new(&format!("{scenario}{topology}{BATCHES}{run}")).run(&[]).record();
    assert_eq!(record.receive_errors.iter().map(|error| error.count).sum::<u64>(), 1, "{:?}", record.receive_errors);
    // Both streams of the connection.
    assert_eq!(cluster.nodes[0].subscriptions().len(), 4);
}

#[test]
fn the_ends_of_streams_are_looked_for_together() {
    let tuning = Tuning { withholds_chunks: true, ..Tuning::default() };
    let cluster = Cluster::tuned(1, tuning, confirmed);
    let topology = format!("[topology]\nname = \"{SUPER_STREAM}\"\npartitions = 2\nkeep = true\n");
    let scenario = broker(cluster.nodes[0].address(), "start = \"next\"");
    let run = format!("{CONSUMERS}[run]\nmessages = 100\ncatch_up_deadline = \"1s\"\n");
    assert_acknowledged(&record_of(&format!("{scenario}{topology}{BATCHES}{run}")), 100);
    let connections = by_connection(&cluster.nodes[0]);
    // An earlier one has looked at what the streams hold.
    let keys = connections.values().rfind(|keys| keys.contains(&7)).unwrap();
    // Subscribe is 7, Unsubscribe 12.
    let subscriptions: Vec<u16> = keys.iter().copied().filter(|key| [7, 12].contains(key)).collect();
    assert_eq!(subscriptions, [7, 7, 12, 12, 7, 7], "both wait at the same time");
    // 2 is the last chunk, 4 an offset: without a delivery, that of the last chunk.
    assert_eq!(cluster.nodes[0].subscriptions()[2..], [(2, 0), (2, 0), (4, 7), (4, 7)]);
}

#[test]
fn consumers_send_heartbeats_as_often_as_the_server_wants_them() {
    let server = Scripted::start(1, confirmed);
    let run = format!("{TOPOLOGY}{BATCHES}{CONSUMERS}[run]\nduration = \"3s\"\ncatch_up_deadline = \"1s\"\n");
    Bench::new(&format!("{}{run}", broker(server.address(), "heartbeat = \"60s\""))).run(&[]);
    let connections = by_connection(&server);
    let consumer = connections.values().find(|keys| keys.contains(&7)).unwrap();
    assert!(consumer.contains(&HEARTBEAT), "{connections:?}");
}

#[test]
fn a_server_whose_frames_have_no_room_for_a_message_is_refused() {
    let server = Scripted::tuned(Tuning { frame_max: 20, ..Tuning::default() }, confirmed);
    let error = refused(&format!("{}{BATCHES}[run]\nmessages = 1\n", broker(server.address(), "")));
    assert!(error.contains("stream.frame_max"), "{error}");
}

/// The protocol numbers the publishers and the subscriptions of a connection in one byte.
#[test]
fn real_super_stream_of_300_partitions_is_written_and_read() {
    let load = "[topology]\npartitions = 300\n[producers]\ncount = 3\nbatch = 10\n[consumers]\nmembers = 1\n[run]\nmessages = 9000\n";
    let record = record_of(&format!("{}{load}", real("")));
    assert_delivered(&record, 9000, 1);
    let found = record.partitions.as_ref().unwrap();
    assert!(found.partitions == 300 && found.acknowledged.smallest > 0, "{found:?}");
}
