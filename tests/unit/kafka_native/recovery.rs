//! Consumers whose place is gone: by retention, with a leader that lacks messages, or with the topic.

use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{ApiKey, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::asked::{Asked, name};
use super::bench::{Bench, TIMEOUT, one_message_a_batch};
use super::fetching::{answer, data, next, plain};
use super::scripted::{NOT_LEADER, Scripted};
use crate::broker::Consumer;
use crate::broker::kafka_native::codec::batch::at;
use crate::broker::kafka_native::consume::consumer::KafkaNativeConsumer;

const OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC: i16 = 3;

/// A consumer that has read messages 0 to 4 of epoch 7, from node 0 of two.
async fn five_read() -> (Scripted, Bench, KafkaNativeConsumer) {
    let mut broker = Scripted::start(2, 1).await;
    broker.know_only(ApiKey::OffsetForLeaderEpoch, 2, 4);
    broker.set_leader_epoch(7);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut consumer = bench.consumer(1).await;
    let asked = broker.next_of(ApiKey::Fetch).await;
    let mut batch = plain(0..5);
    batch[at::LEADER_EPOCH..at::MAGIC].copy_from_slice(&7_i32.to_be_bytes());
    asked.send(answer(&asked, vec![data(batch)]));
    assert_eq!(next(&mut consumer).await, ((0..5).collect(), None));
    (broker, bench, consumer)
}

/// The next fetch is refused, and the error that the consumer is told.
async fn told_after(code: i16, broker: &mut Scripted, consumer: &mut KafkaNativeConsumer) -> String {
    let asked = broker.next_of(ApiKey::Fetch).await;
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(code)]));
    let (taken, error) = next(consumer).await;
    assert!(taken.is_empty());
    error.unwrap().message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_that_retention_took_are_counted() {
    let (mut broker, _bench, mut consumer) = five_read().await;
    broker.set_ends(12, 20);
    let error = told_after(OUT_OF_RANGE, &mut broker, &mut consumer).await;
    assert!(error.contains("7 messages of partition 0, from offset 5") && error.contains("offset 12"), "{error}");
    assert_eq!(broker.next_of(ApiKey::Fetch).await.positions(), [(0, 12)]);
}

/// Nothing is read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn behind_the_end_of_the_log_reading_goes_on_at_the_end() {
    let (mut broker, _bench, mut consumer) = five_read().await;
    broker.set_ends(0, 3);
    let error = told_after(OUT_OF_RANGE, &mut broker, &mut consumer).await;
    assert!(error.contains("truncated from offset 5 to 3") && error.contains("2 messages"), "{error}");
    assert_eq!(broker.next_of(ApiKey::Fetch).await.positions(), [(0, 3)]);
}

/// The new leader has written messages of its own where others were read before.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_leader_is_asked_what_it_has_of_the_epoch_that_was_read() {
    let (mut broker, _bench, mut consumer) = five_read().await;
    let asked = broker.next_of(ApiKey::Fetch).await;
    broker.move_leader(0, 1);
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(NOT_LEADER)]));
    let asked = broker.next_of(ApiKey::OffsetForLeaderEpoch).await;
    assert_eq!(asked.node, 1);
    answer_epoch(&asked, 2);
    let asked = broker.next_of(ApiKey::Fetch).await;
    assert_eq!(asked.positions(), [(0, 2)]);
    let error = next(&mut consumer).await.1.unwrap().message;
    assert!(error.contains("truncated from offset 5 to 2, as by an unclean election"), "{error}");
    asked.send(answer(&asked, vec![data(plain(2..4))]));
    assert_eq!(next(&mut consumer).await, (vec![2, 3], None));
}

/// Of the epoch that was read, the leader has the messages up to this offset.
fn answer_epoch(asked: &Asked, end: i64) {
    let request = asked.request::<OffsetForLeaderEpochRequest>();
    assert_eq!(request.topics[0].partitions[0].leader_epoch, 7);
    let end = EpochEndOffset::default().with_leader_epoch(6).with_end_offset(end);
    let topic = OffsetForLeaderTopicResult::default().with_topic(name()).with_partitions(vec![end]);
    let response = OffsetForLeaderEpochResponse::default().with_topics(vec![topic]);
    asked.send(asked.frame::<OffsetForLeaderEpochRequest>(&response));
}

/// The same node leads again, after another one has, and the connection to it is still there. KIP-320: only the epoch tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn leader_of_another_epoch_is_asked_repetitions_are_marked() {
    const FENCED_LEADER_EPOCH: i16 = 74;
    const UNKNOWN_LEADER_EPOCH: i16 = 75;
    for code in [FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH] {
        let (mut broker, _bench, mut consumer) = five_read().await;
        let asked = broker.next_of(ApiKey::Fetch).await;
        assert_eq!(asked.leader_epochs(), [7]);
        broker.set_leader_epoch(8);
        asked.send(answer(&asked, vec![PartitionData::default().with_error_code(code)]));
        let asked = broker.next_of(ApiKey::OffsetForLeaderEpoch).await;
        assert_eq!(asked.request::<OffsetForLeaderEpochRequest>().topics[0].partitions[0].current_leader_epoch, 8);
        answer_epoch(&asked, 3);
        let asked = broker.next_of(ApiKey::Fetch).await;
        assert_eq!((asked.positions(), asked.leader_epochs()), (vec![(0, 3)], vec![8]));
        assert!(next(&mut consumer).await.1.unwrap().message.contains("truncated from offset 5 to 3"));
        asked.send(answer(&asked, vec![data(plain(3..7))]));
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        let mut again = Vec::new();
        consumer.take(|message| again.push(message.redelivered)).unwrap();
        assert_eq!(again, [true, true, false, false]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_topic_that_another_client_replaced_is_read_from_its_begin() {
    for code in [UNKNOWN_TOPIC, OUT_OF_RANGE] {
        let (mut broker, _bench, mut consumer) = five_read().await;
        broker.replace_topic();
        let error = told_after(code, &mut broker, &mut consumer).await;
        assert!(error.contains("created it again"), "{error}");
        assert_eq!(broker.next_of(ApiKey::Fetch).await.positions(), [(0, 0)]);
    }
}
