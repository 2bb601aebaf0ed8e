//! Consuming from a scripted cluster: what is fetched is cut off, damaged, of aborted transactions, or not there any more.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::asked::{Asked, name};
use super::bench::{Bench, TIMEOUT, one_message_a_batch};
use super::payloads;
use super::scripted::{NOT_LEADER, Scripted};
use crate::broker::kafka_native::codec::batch::{Author, Batch, Headers, Memory, Record, at};
use crate::broker::kafka_native::codec::compression::PayloadChecksums;
use crate::broker::kafka_native::consume::consumer::KafkaNativeConsumer;
use crate::broker::{Consumer, Offsets, ReceiveError};

const OUT_OF_RANGE: i16 = 1;

/// The attribute bits of a transaction's batch, and of one that marks a transaction's end.
const TRANSACTIONAL: u8 = 0x10;
const CONTROL: u8 = 0x30;

/// A batch whose messages are the numbers of their offsets.
fn batch(offsets: std::ops::Range<u64>, attributes: u8, producer_id: i64) -> Vec<u8> {
    padded(offsets, 0, attributes, producer_id)
}

/// The same, with so many bytes behind each number.
fn padded(offsets: std::ops::Range<u64>, padding: usize, attributes: u8, producer_id: i64) -> Vec<u8> {
    let (headers, mut batch) = (Headers::new(&[]), Batch::in_memory_of(Memory::default()));
    for offset in offsets.clone() {
        let value = [&offset.to_be_bytes()[..], &vec![0; padding]].concat();
        let value = Some(&value[..]);
        batch.push(&Record { key: None, value, shared: None, headers: &headers, trace_header: None, timestamp_ms: 0 });
    }
    batch.seal(
        attributes,
        Author { producer_id, epoch: 0, sequence: 0 },
        &payloads(),
        &PayloadChecksums::new(&payloads(), 0),
    );
    let mut bytes = batch.own_bytes().to_vec();
    bytes[..8].copy_from_slice(&offsets.start.to_be_bytes());
    bytes
}

pub fn plain(offsets: std::ops::Range<u64>) -> Vec<u8> {
    batch(offsets, 0, -1)
}

/// One message of so many bytes and its number.
pub fn large(offset: u64, bytes: usize) -> Vec<u8> {
    padded(offset..offset + 1, bytes, 0, -1)
}

pub fn answer(asked: &Asked, partitions: Vec<PartitionData>) -> Bytes {
    let topic = FetchableTopicResponse::default().with_topic(name()).with_partitions(partitions);
    asked.frame::<FetchRequest>(&FetchResponse::default().with_responses(vec![topic]))
}

/// Of partition 0.
pub fn data(records: Vec<u8>) -> PartitionData {
    PartitionData::default().with_records(Some(records.into()))
}

pub async fn next(consumer: &mut KafkaNativeConsumer) -> (Vec<u64>, Option<ReceiveError>) {
    tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
    let mut numbers = Vec::new();
    let taken = consumer.take(|message| {
        let number = u64::from_be_bytes(message.payload.try_into().unwrap());
        assert_eq!(number, message.offset);
        numbers.push(number);
    });
    (numbers, taken.err())
}

pub async fn reading(nodes: usize) -> (Scripted, Bench, KafkaNativeConsumer) {
    let broker = Scripted::start(nodes, 1).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let consumer = bench.consumer(1).await;
    (broker, bench, consumer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fetch_of_partial_batches_resumes_at_the_right_offset() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    assert_eq!(asked.positions(), [(0, 0)]);
    let records = [plain(0..5), plain(5..9)[..80].to_vec()].concat();
    asked.send(answer(&asked, vec![data(records)]));
    assert_eq!(next(&mut consumer).await, ((0..5).collect(), None));
    let asked = broker.next().await;
    assert_eq!(asked.positions(), [(0, 5)]);
    // A batch is returned whole: this one was compacted with what came before the position.
    asked.send(answer(&asked, vec![data(plain(3..9))]));
    assert_eq!(next(&mut consumer).await, ((5..9).collect(), None));
    assert_eq!(broker.next().await.positions(), [(0, 9)]);
}

/// A consumer of a limited group takes what is due; the rest is not received yet, also where it is in the same batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn few_messages_are_taken_and_those_behind_them_stay() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    asked.send(answer(&asked, vec![data([plain(0..3), plain(3..5), plain(5..9)].concat())]));
    let mut taken = Vec::new();
    for most in [1, 1, 2, 4, 9] {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        let mut offsets = Vec::new();
        consumer.take_some(most, |message| offsets.push(message.offset)).unwrap();
        taken.push((offsets, consumer.assigned().unwrap()[0].1));
    }
    let wanted = [(0..1, 1), (1..2, 2), (2..4, 4), (4..8, 8), (8..9, 9)];
    assert_eq!(taken, wanted.map(|(offsets, next)| (offsets.collect(), Some(next))));
}

/// The batches of a transaction that was aborted stay hidden, wherever the taking stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_taken_singly_are_of_no_aborted_transaction() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    let records =
        [batch(0..2, TRANSACTIONAL, 21), batch(2..4, TRANSACTIONAL, 22), batch(4..5, CONTROL, 21), plain(5..8)];
    let aborted = AbortedTransaction::default().with_producer_id(21.into()).with_first_offset(0);
    asked.send(answer(&asked, vec![data(records.concat()).with_aborted_transactions(Some(vec![aborted]))]));
    let mut offsets = Vec::new();
    while offsets.len() < 5 {
        tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
        assert_eq!(consumer.take_some(1, |message| offsets.push(message.offset)), Ok(1));
    }
    assert_eq!(offsets, [2, 3, 5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_damaged_batch_is_reported_and_its_messages_are_not_taken() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    let mut records = plain(0..5);
    *records.last_mut().unwrap() ^= 1;
    asked.send(answer(&asked, vec![data(records)]));
    let (numbers, error) = next(&mut consumer).await;
    assert!(numbers.is_empty() && error.unwrap().message.contains("wrong checksum"));
    let asked = broker.next().await;
    asked.send(answer(&asked, vec![data(plain(5..6))]));
    assert_eq!(next(&mut consumer).await, (vec![5], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_of_aborted_transactions_and_their_marks_are_hidden() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    let mut mark = batch(4..5, CONTROL, 21);
    // It holds a record, which is not for consumers.
    assert_eq!(mark[at::RECORD_COUNT + 3], 1);
    let records = [
        batch(0..2, TRANSACTIONAL, 21),
        batch(2..4, TRANSACTIONAL, 22),
        std::mem::take(&mut mark),
        batch(5..7, TRANSACTIONAL, 21),
        plain(7..8),
    ]
    .concat();
    let aborted = AbortedTransaction::default().with_producer_id(21.into()).with_first_offset(0);
    asked.send(answer(&asked, vec![data(records).with_aborted_transactions(Some(vec![aborted]))]));
    assert_eq!(next(&mut consumer).await, (vec![2, 3, 5, 6, 7], None));
}

/// The broker names an aborted transaction with each fetch that has a part of it (`collectAbortedTransactions`), up to the one with its
/// mark. A transaction of the same producer that comes later was committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn aborted_transaction_over_several_fetches_is_hidden() {
    let (mut broker, _bench, mut consumer) = reading(1).await;
    let aborted = || AbortedTransaction::default().with_producer_id(21.into()).with_first_offset(0);
    let parts = [
        // The producer's batches only, and no mark; then one of another producer between them; then the mark, and what comes after it.
        batch(0..2, TRANSACTIONAL, 21),
        [batch(2..3, TRANSACTIONAL, 22), batch(3..5, TRANSACTIONAL, 21)].concat(),
        [batch(5..6, CONTROL, 22), batch(6..7, CONTROL, 21), batch(7..9, TRANSACTIONAL, 21)].concat(),
    ];
    for (part, from) in parts.into_iter().zip([0, 2, 5]) {
        let asked = broker.next().await;
        assert_eq!(asked.positions(), [(0, from)]);
        let part = data(part).with_aborted_transactions(Some(vec![aborted()]));
        asked.send(answer(&asked, vec![part]));
    }
    let asked = broker.next().await;
    assert_eq!(asked.positions(), [(0, 9)]);
    let part = data(batch(9..10, TRANSACTIONAL, 21)).with_aborted_transactions(Some(vec![]));
    asked.send(answer(&asked, vec![part]));
    let mut numbers = Vec::new();
    while numbers.len() < 4 {
        let (taken, error) = next(&mut consumer).await;
        assert_eq!(error, None);
        numbers.extend(taken);
    }
    assert_eq!(numbers, [2, 7, 8, 9]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fetch_out_of_range_restarts_and_follows_the_leader() {
    let (mut broker, _bench, mut consumer) = reading(2).await;
    let asked = broker.next().await;
    asked.send(answer(&asked, vec![data(plain(0..5))]));
    assert_eq!(next(&mut consumer).await.0.len(), 5);
    let asked = broker.next().await;
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(OUT_OF_RANGE)]));
    let (taken, error) = next(&mut consumer).await;
    let error = error.unwrap().message;
    assert!(taken.is_empty() && error.contains("truncated from offset 5 to 0"), "{error}");
    let asked = broker.next().await;
    assert_eq!(asked.node, 0);
    assert_eq!(asked.positions(), vec![(0, 0)]);
    broker.move_leader(0, 1);
    asked.send(answer(&asked, vec![PartitionData::default().with_error_code(NOT_LEADER)]));
    let asked = broker.next().await;
    assert_eq!(asked.node, 1);
    assert_eq!(asked.positions(), vec![(0, 0)]);
    asked.send(answer(&asked, vec![data(plain(0..2))]));
    assert_eq!(next(&mut consumer).await, (vec![0, 1], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_quota_delays_the_next_fetch_and_is_counted() {
    let (mut broker, bench, mut consumer) = reading(1).await;
    let asked = broker.next().await;
    let answered = std::time::Instant::now();
    // As Kafka does it: the response is empty.
    asked.send(asked.frame::<FetchRequest>(&FetchResponse::default().with_throttle_time_ms(300)));
    let asked = broker.next().await;
    // A lower bound: a slow machine makes it longer.
    assert!(answered.elapsed() >= Duration::from_millis(300), "{:?}", answered.elapsed());
    assert_eq!(asked.positions(), [(0, 0)]);
    asked.send(answer(&asked, vec![data(plain(0..1))]));
    assert_eq!(next(&mut consumer).await, (vec![0], None));
    let wire = bench.admin.fetched.take();
    assert_eq!(wire.fetches, 2);
    assert_eq!(wire.throttled_fetches, 1);
}

/// The session and the epoch of a fetch, the positions that it names, and the partitions that it forgets.
fn session(asked: &Asked) -> (i32, i32, Vec<(i32, i64)>, Vec<i32>) {
    let request = asked.request::<FetchRequest>();
    let forgotten = request.forgotten_topics_data.into_iter().flat_map(|topic| topic.partitions).collect();
    (request.session_id, request.session_epoch, asked.positions(), forgotten)
}

/// In session 9.
pub fn answer_in_session(asked: &Asked, code: i16, partitions: Vec<(i32, PartitionData)>) {
    let partitions = partitions.into_iter().map(|(index, data)| data.with_partition_index(index)).collect();
    let topic = FetchableTopicResponse::default().with_topic(name()).with_partitions(partitions);
    let response = FetchResponse::default().with_session_id(9).with_error_code(code).with_responses(vec![topic]);
    asked.send(asked.frame::<FetchRequest>(&response));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fetch_session_names_changes_and_restarts_when_lost() {
    const SESSION_NOT_FOUND: i16 = 70;
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut broker, mut consumer) = (broker, bench.consumer(2).await);
    let asked = broker.next().await;
    assert_eq!(session(&asked), (0, 0, vec![(0, 0), (1, 0)], vec![]));
    answer_in_session(&asked, 0, vec![(0, data(plain(0..3))), (1, data(vec![]))]);
    let asked = broker.next().await;
    assert_eq!(session(&asked), (9, 1, vec![(0, 3)], vec![]));
    answer_in_session(&asked, 0, vec![]);
    let asked = broker.next().await;
    assert_eq!(session(&asked), (9, 2, vec![], vec![]));
    answer_in_session(&asked, 0, vec![(1, data(plain(0..2)))]);
    let asked = broker.next().await;
    assert_eq!(session(&asked), (9, 3, vec![(1, 2)], vec![]));
    answer_in_session(&asked, SESSION_NOT_FOUND, vec![]);
    let asked = broker.next().await;
    assert_eq!(session(&asked), (0, 0, vec![(0, 3), (1, 2)], vec![]));
    // What is not answered is not known: the session ends with the next fetch.
    answer_in_session(&asked, 0, vec![(0, data(plain(3..4))), (1, data(vec![]))]);
    broker.next().await.close();
    let asked = broker.next().await;
    assert_eq!(session(&asked), (9, 0, vec![(0, 4), (1, 2)], vec![]));
    let mut numbers = Vec::new();
    while numbers.len() < 6 {
        numbers.extend(next(&mut consumer).await.0);
    }
    assert_eq!(numbers, [0, 1, 2, 0, 1, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fetch_session_forgets_a_partition_whose_leader_moves() {
    let broker = Scripted::start(2, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut broker, mut consumer) = (broker, bench.consumer(2).await);
    let asked = broker.next().await;
    answer_in_session(&asked, 0, vec![(0, data(plain(0..3))), (1, data(vec![]))]);
    let asked = broker.next().await;
    assert_eq!(asked.node, 0);
    assert_eq!(session(&asked), (9, 1, vec![(0, 3)], vec![]));
    broker.move_leader(1, 1);
    answer_in_session(&asked, 0, vec![(1, PartitionData::default().with_error_code(NOT_LEADER))]);
    let mut asked = [broker.next().await, broker.next().await];
    asked.sort_by_key(|asked| asked.node);
    assert_eq!(asked.each_ref().map(|asked| asked.node), [0, 1]);
    assert_eq!(session(&asked[0]), (9, 2, vec![], vec![1]));
    assert_eq!(session(&asked[1]), (0, 0, vec![(1, 0)], vec![]));
    asked[1].send(asked[1].frame::<FetchRequest>(&FetchResponse::default()));
    answer_in_session(&asked[0], 0, vec![(0, data(plain(3..5)))]);
    let mut numbers = Vec::new();
    while numbers.len() < 5 {
        numbers.extend(next(&mut consumer).await.0);
    }
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn unreadable_partition_holds_up_no_other_of_its_node() {
    const STORAGE_ERROR: i16 = 56;
    let broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut broker, mut consumer) = (broker, bench.consumer(2).await);
    let refused = || PartitionData::default().with_error_code(STORAGE_ERROR);
    let asked = broker.next().await;
    answer_in_session(&asked, 0, vec![(0, refused()), (1, data(plain(0..2)))]);
    assert_eq!(next(&mut consumer).await, (vec![0, 1], None));
    // On the same connection, at once, without the partition that failed.
    let asked = broker.next().await;
    assert_eq!(session(&asked), (9, 1, vec![(1, 2)], vec![0]));
    // The other one comes back when metadata still names this node.
    answer_in_session(&asked, 0, vec![(1, data(plain(2..3)))]);
    let mut asked = broker.next().await;
    while !asked.positions().contains(&(0, 0)) {
        answer_in_session(&asked, 0, vec![]);
        asked = broker.next().await;
    }
    answer_in_session(&asked, 0, vec![(0, data(plain(0..1)))]);
    let mut numbers = Vec::new();
    while numbers.len() < 2 {
        numbers.extend(next(&mut consumer).await.0);
    }
    assert_eq!(numbers, [2, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_fails_ends_no_fetch_from_another() {
    let broker = Scripted::start(2, 2).await;
    broker.move_leader(1, 1);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let (mut broker, mut consumer) = (broker, bench.consumer(2).await);
    let mut asked = [broker.next().await, broker.next().await];
    asked.sort_by_key(|asked| asked.node);
    let [waiting, failing] = asked;
    failing.close();
    let again = broker.next().await;
    assert_eq!(again.node, 1);
    assert_eq!(again.positions(), vec![(1, 0)]);
    // What was asked before is answered now.
    answer_in_session(&waiting, 0, vec![(0, data(plain(0..3)))]);
    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        numbers.extend(next(&mut consumer).await.0);
    }
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(session(&broker.next().await), (9, 1, vec![(0, 3)], vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn malformed_fetch_response_is_reported_and_retried() {
    for announced in [i32::MAX, -2] {
        let (mut broker, _bench, mut consumer) = reading(1).await;
        let asked = broker.next().await;
        let mut bytes = answer(&asked, vec![data(plain(0..1))]).to_vec();
        // The number of topics is behind the length, the correlation, the time of throttling, the code and the session.
        let topics = 4 + 4 + 4 + 2 + 4;
        bytes[topics..topics + 4].copy_from_slice(&announced.to_be_bytes());
        asked.send(bytes.into());
        let (numbers, error) = next(&mut consumer).await;
        assert!(numbers.is_empty() && error.unwrap().message.contains("malformed"));
        let asked = broker.next().await;
        asked.send(answer(&asked, vec![data(plain(0..1))]));
        assert_eq!(next(&mut consumer).await, (vec![0], None));
    }
}
