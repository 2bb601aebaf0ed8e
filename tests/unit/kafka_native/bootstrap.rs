//! The way back to a cluster whose nodes have changed: by the addresses that the scenario names.

use kafka_protocol::messages::ApiKey;

use super::bench::{Bench, one_message_a_batch};
use super::scripted::{NOT_LEADER, Scripted};

/// Node 0 answers, and knows no cluster any more (KIP-1102).
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_without_its_cluster_sends_the_client_to_another_address() {
    let mut broker = Scripted::start(2, 1).await;
    broker.know_only(ApiKey::Metadata, 0, 13);
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(1).await;
    let asked = broker.next().await;
    broker.lose_cluster(0);
    broker.move_leader(0, 1);
    asked.answer(NOT_LEADER);
    broker.next_at(1).await.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}

/// The metadata names node 1 only, which is where it was asked for last, and then node 2 only (KIP-899).
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_known_node_the_addresses_of_the_scenario_are_asked() {
    let mut broker = Scripted::start(3, 1).await;
    broker.move_leader(0, 1);
    broker.hide(0, true);
    broker.hide(2, true);
    let mut bench = Bench::new(broker.addresses()[..1].to_vec(), one_message_a_batch()).await;
    bench.send(1).await;
    let asked = broker.next().await;
    broker.hang_up(0, true);
    asked.answer(NOT_LEADER);
    let asked = broker.next().await;
    assert_eq!(asked.node, 1);
    broker.hang_up(0, false);
    broker.hang_up(1, true);
    broker.hide(1, true);
    broker.hide(2, false);
    broker.move_leader(0, 2);
    asked.answer(NOT_LEADER);
    broker.next_at(2).await.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}
