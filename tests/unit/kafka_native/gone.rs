//! Nodes that have left the cluster are forgotten.

use std::sync::atomic::Ordering;

use super::bench::{Bench, one_message_a_batch};
use super::scripted::{NOT_LEADER, Scripted};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_the_metadata_no_longer_names_gets_its_answers_and_is_left() {
    let mut broker = Scripted::start(2, 2).await;
    broker.move_leader(0, 1);
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send_to(1, |_| 0).await;
    let of_leaving = broker.next_at(1).await;
    broker.move_leader(0, 0);
    broker.hide(1, true);
    bench.send_to(1, |_| 1).await;
    broker.next_at(0).await.answer(NOT_LEADER);
    broker.next_at(0).await.answer(0);
    while bench.client.nodes.lock().len() > 1 {
        tokio::task::yield_now().await;
    }
    // It has taken a message before.
    assert_eq!(bench.client.traffic.connections.load(Ordering::Relaxed), 2);
    of_leaving.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 2);
    while bench.client.traffic.connections.load(Ordering::Relaxed) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.client.traffic.take().wire.unwrap().retried, 1);
}
