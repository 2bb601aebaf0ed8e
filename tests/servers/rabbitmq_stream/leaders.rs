//! Streams that get another leader, and nodes that do not answer: publishers and consumers go where the leader is.

use std::sync::{Arc, Mutex};

use brokermark::broker::FailureClass;

use super::{BATCHES, broker, confirmed, failed};
use crate::harness::scripted_rabbitmq::frames::{confirm_of, metadata_update};
use crate::harness::scripted_rabbitmq::network::{BlackHole, load_balancer};
use crate::harness::scripted_rabbitmq::{Cluster, Reaction, Refusing, SUPER_STREAM, Scripted, Tuning};
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_balanced, eventually, record_of};

const TOPOLOGY: &str = "[topology]\nname = \"moving\"\nkeep = true\n";

fn cluster_scenario(addresses: &str, options: &str) -> String {
    broker("", options).replace("address = \"\"", &format!("addresses = {addresses}"))
}

/// Of each `Publish` frame, its node.
type Log = Arc<Mutex<Vec<usize>>>;

#[test]
fn publishers_follow_a_leader_that_moved() {
    for hang_up in [false, true] {
        let log = Log::default();
        let noted = log.clone();
        let cluster = Cluster::start(2, 0, move |published| {
            let mut log = noted.lock().unwrap();
            log.push(published.node);
            match log.len() {
                5 => Reaction { frames: vec![metadata_update(0x06, "moving")], hang_up, leader: Some(1) },
                _ => confirmed(published),
            }
        });
        let load = format!("{TOPOLOGY}{BATCHES}[run]\nmessages = 1000\n");
        let record = record_of(&format!("{}{load}", cluster_scenario(&cluster.addresses(), "")));
        assert_balanced(&record);
        assert_eq!(record.counts.unresolved, 0);
        assert!(record.counts.failed <= 20, "{:?}", record.errors);
        assert_eq!(failed(&record, FailureClass::UnknownTopic), record.counts.failed, "{:?}", record.errors);
        let log = log.lock().unwrap();
        let late = log.iter().rposition(|node| *node == 0).unwrap();
        // A frame may have been on its way.
        assert!((4..=5).contains(&late), "published to the old node: {log:?}");
        assert!(log.len() > 90, "{log:?}");
    }
}

#[test]
fn publishers_and_consumers_leave_a_node_that_no_longer_answers() {
    let log = Log::default();
    let noted = log.clone();
    // The heartbeat is what notices it.
    let cluster = Cluster::start(2, 1, move |published| {
        noted.lock().unwrap().push(published.node);
        confirmed(published)
    });
    let load = "[load]\nrate = \"200/s\"\n[producers]\nbatch = 10\n[payload]\nkind = \"zeros\"\nsize = \"50B\"\n";
    let run = "[consumers]\n[run]\nduration = \"10s\"\ndrain_deadline = \"1s\"\ncatch_up_deadline = \"1s\"\n";
    let options = "heartbeat = \"1s\"";
    let bench = Bench::new(&format!("{}{TOPOLOGY}{load}{run}", cluster_scenario(&cluster.addresses(), options)));
    let running = bench.start(&[]);
    let [first, second] = &cluster.nodes[..] else { panic!() };
    eventually("both work", || first.has_given_credit() && !log.lock().unwrap().is_empty());
    cluster.lead(1);
    cluster.silence(0);
    let record = running.finish(PATIENCE).record();
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), record.counts.failed, "{:?}", record.errors);
    assert!(log.lock().unwrap().contains(&1), "nothing was published to the new leader");
    assert!(second.has_given_credit(), "nothing was subscribed to at the new leader: {:?}", record.receive_errors);
}

#[test]
fn an_address_that_is_dead_or_does_not_answer_is_passed_over() {
    let hole = BlackHole::open();
    for dead in ["127.0.0.1:1", &hole.address()] {
        for connect_to in ["leader", "addresses"] {
            let server = Scripted::start(0, confirmed);
            let addresses = format!("{:?}", [dead, server.address()]);
            let scenario = cluster_scenario(&addresses, &format!("connect_to = \"{connect_to}\""));
            let run = "[consumers]\nverify = false\n[run]\nmessages = 1000\ncatch_up_deadline = \"1s\"\n";
            let record = record_of(&format!("{scenario}{TOPOLOGY}{BATCHES}{run}"));
            assert_acknowledged(&record, 1000);
            assert!(server.has_given_credit());
        }
    }
}

#[test]
fn consumers_try_replicas_of_an_unreachable_leader() {
    let cluster = Cluster::start(2, 0, confirmed);
    // Metadata that is out of date: node 0 is still said to lead.
    cluster.silence(0);
    let scenario = cluster_scenario(&format!("{:?}", [cluster.nodes[1].address()]), "");
    let run = "[consumers]\nverify = false\n[run]\nmessages = 1000\ncatch_up_deadline = \"1s\"\n";
    let record = record_of(&format!("{scenario}{TOPOLOGY}{BATCHES}{run}"));
    assert_acknowledged(&record, 1000);
    assert!(cluster.nodes[1].has_given_credit());
}

#[test]
fn consumers_read_from_replicas_where_they_are_to() {
    let cluster = Cluster::start(2, 0, confirmed);
    let scenario = cluster_scenario(&cluster.addresses(), "consume_from = \"replica\"");
    let run = "[consumers]\nverify = false\n[run]\nmessages = 1000\ncatch_up_deadline = \"1s\"\n";
    assert_acknowledged(&record_of(&format!("{scenario}{TOPOLOGY}{BATCHES}{run}")), 1000);
    let [leader, replica] = &cluster.nodes[..] else { panic!() };
    assert_eq!((leader.subscriptions().len(), replica.subscriptions().len()), (0, 1));
    assert_eq!((leader.publishing_connections(), replica.publishing_connections()), (1, 0));
}

#[test]
fn the_leader_is_reached_through_a_load_balancer() {
    let cluster = Cluster::start(3, 0, confirmed);
    cluster.lead(2);
    let nodes: Vec<&str> = cluster.nodes.iter().map(Scripted::address).collect();
    let balancer = load_balancer(&nodes);
    let scenario = cluster_scenario(&format!("{:?}", [&balancer]), "connect_to = \"load-balancer\"");
    let run = "[consumers]\nverify = false\n[run]\nmessages = 1000\ncatch_up_deadline = \"1s\"\n";
    assert_acknowledged(&record_of(&format!("{scenario}{TOPOLOGY}{BATCHES}{run}")), 1000);
    let work = |node: &Scripted| (node.publishing_connections(), node.subscriptions().len());
    assert_eq!(cluster.nodes.iter().map(work).collect::<Vec<_>>(), [(0, 0), (0, 0), (1, 1)]);
}

#[test]
fn batches_without_keys_pass_over_a_stream_without_a_publisher() {
    // Both streams are declared. After that, the server declares none.
    let refuses = Some(Refusing { key: 1, code: 0x06, after: 2 });
    let server = Scripted::tuned(Tuning { refuses, ..Tuning::default() }, |published| {
        let mut frames = confirm_of(published.publisher, &published.ids);
        if published.publisher == 0 {
            frames.extend(metadata_update(0x06, &format!("{SUPER_STREAM}-0")));
        }
        Reaction { frames: vec![frames], ..Reaction::default() }
    });
    let topology = format!("[topology]\nname = \"{SUPER_STREAM}\"\npartitions = 2\nkeep = true\n");
    let scenario = format!("{}{topology}{BATCHES}[run]\nmessages = 100\n", broker(server.address(), ""));
    assert_acknowledged(&record_of(&scenario), 100);
}

#[test]
fn keyed_batches_stay_whole_with_several_leaders() {
    // Messages of each frame.
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = log.clone();
    let cluster = Cluster::start(3, 0, move |published| {
        noted.lock().unwrap().push(published.ids.len());
        confirmed(published)
    });
    let topology = format!("[topology]\nname = \"{SUPER_STREAM}\"\npartitions = 6\nkeep = true\n");
    let load = "[producers]\nin_flight = 1200\nbatch = 300\nkeys = { kind = \"random\", distinct = 1000 }\n\
                [payload]\nkind = \"zeros\"\nsize = \"50B\"\n[run]\nmessages = 6000\n";
    for options in ["", "sub_entry = 1"] {
        log.lock().unwrap().clear();
        let scenario = cluster_scenario(&cluster.addresses(), options);
        assert_acknowledged(&record_of(&format!("{scenario}{topology}{load}")), 6000);
        // 20 batches, each with at most one frame for each of the 6 streams.
        let frames = log.lock().unwrap().len();
        assert!(frames <= 120, "{frames} frames for 20 batches");
    }
}
