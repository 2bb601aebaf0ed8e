//! A topic of very many partitions: no step for each of them looks at all the others, which would take minutes here.

use std::sync::Arc;

use kafka_protocol::messages::ApiKey;
use kafka_protocol::messages::fetch_response::PartitionData;
use parking_lot::Mutex;

use super::bench::{Bench, TOPIC, one_message_a_batch};
use super::fetching::{answer_in_session, data, next, plain};
use super::scripted::Scripted;
use crate::broker::kafka_native::group::committed::StartOffsets;
use crate::broker::kafka_native::net::admin::End;
use crate::measure::Condition;

const COUNT: u32 = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn places_that_are_known_are_found_by_their_numbers() {
    let broker = Scripted::start(1, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let known = (0..COUNT).map(|partition| (partition, i64::from(partition) + 1)).collect();
    let start_offsets = StartOffsets {
        admin: bench.admin.clone(),
        topic: TOPIC.to_owned(),
        committed: None,
        left_off: Arc::new(Mutex::new(known)),
        end: End::Earliest,
    };
    let partitions: Vec<u32> = (0..COUNT).rev().collect();
    assert_eq!(start_offsets.positions(&partitions).await.unwrap().len(), COUNT as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_are_refused_and_then_read() {
    const STORAGE_ERROR: i16 = 56;
    let broker = Scripted::start(1, COUNT as usize).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut broker, mut consumer) = (broker, bench.consumer(COUNT).await);
    let asked = broker.await_of(ApiKey::Fetch).await;
    assert_eq!(asked.positions().len(), COUNT as usize);
    let all = |data: PartitionData| (0..COUNT as i32).map(|partition| (partition, data.clone())).collect();
    answer_in_session(&asked, 0, all(PartitionData::default().with_error_code(STORAGE_ERROR)));
    bench.held_up(|lasting| lasting.iter().any(|one| one.now == u64::from(COUNT))).await;
    let asked = broker.await_of(ApiKey::Fetch).await;
    answer_in_session(&asked, 0, all(data(plain(0..1))));
    let mut received = 0;
    while received < COUNT as usize {
        received += next(&mut consumer).await.0.len();
    }
    bench.held_up(<[Condition]>::is_empty).await;
}
