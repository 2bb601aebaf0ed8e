//! Connections that a broker closes because nothing has come for a while (`connections.max.idle.ms`): they are opened again without a word.

use std::sync::atomic::Ordering;

use kafka_protocol::messages::ApiKey;

use super::bench::{Bench, TIMEOUT, one_message_a_batch};
use super::fetching::{answer, data, large, next, plain, reading};
use super::scripted::Scripted;
use crate::broker::Consumer;
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_options::RequiredAcks;
use crate::measure::ConditionKind;

async fn until_closed(bench: &Bench) {
    while bench.client.traffic.connections.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_producer_sends_again_as_if_nothing_had_happened() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(1).await;
    let asked = broker.next().await;
    asked.answer(0);
    bench.outcomes().await;
    asked.close();
    until_closed(&bench).await;
    bench.send(1).await;
    broker.next().await.answer(0);
    bench.outcomes().await;
    assert_eq!(bench.client.last_error(), None);
    assert_eq!(bench.client.traffic.take().wire.unwrap().retried, 0);
    assert_eq!(bench.client.connector.conditions.all(), []);
}

/// A broker closes it as well, when it refuses what no task waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_acknowledgements_the_end_of_a_connection_is_told() {
    let mut broker = Scripted::start(1, 1).await;
    let acks = RequiredAcks::None;
    let mut bench = Bench::new(broker.addresses(), KafkaNativeOptions { acks, ..one_message_a_batch() }).await;
    bench.send(1).await;
    broker.next().await.close();
    until_closed(&bench).await;
    while bench.client.connector.conditions.all().iter().all(|one| one.kind != ConditionKind::Connecting) {
        tokio::task::yield_now().await;
    }
}

/// More is not fetched while the consumer has so much to take. On one thread, the consumer takes it when the task that fetches waits.
#[tokio::test]
async fn a_consumer_that_was_behind_fetches_again_as_if_nothing_had_happened() {
    let (mut broker, bench, mut consumer) = reading(1).await;
    let asked = broker.await_of(ApiKey::Fetch).await;
    asked.send(answer(&asked, vec![data(large(0, 32 << 20))]));
    asked.close();
    tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
    assert_eq!(consumer.take(|_| {}), Ok(1));
    let answering = async {
        loop {
            // The first one may come on the connection whose other half is closed.
            let asked = broker.await_of(ApiKey::Fetch).await;
            assert_eq!(asked.positions(), [(0, 1)]);
            asked.send(answer(&asked, vec![data(plain(1..2))]));
        }
    };
    tokio::select! {
        taken = next(&mut consumer) => assert_eq!(taken, (vec![1], None)),
        () = answering => {}
    }
    assert_eq!(bench.client.connector.conditions.all(), []);
}
