//! Transactions on a scripted cluster: what the coordinator hears and when, what it refuses, and what becomes of the messages.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey, EndTxnRequest, EndTxnResponse, ProduceRequest,
};
use kafka_protocol::protocol::Request;

use super::asked::{Asked, name};
use super::bench::{Bench, TIMEOUT, TRANSACTIONS, classes};
use super::scripted::Scripted;
use crate::broker::FailureClass;
use crate::broker::kafka_native::codec::batch::{Headers, Record, at};
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::produce::transactions::TRANSACTION_TIMEOUT;
use crate::broker::kafka_options::TransactionOptions;
use crate::measure::{Interval, SendTag};

/// Codes of Kafka's protocol.
const UNKNOWN_TOPIC: i16 = 3;
const TOO_LARGE: i16 = 10;
const NOT_COORDINATOR: i16 = 16;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_STATE: i16 = 48;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const UNKNOWN_SERVER_ERROR: i16 = -1;
const PRODUCER_FENCED: i16 = 90;

/// The longest that a scenario may have.
const LONG: Duration = Duration::from_secs(30);

fn options(messages: usize, interval: Duration, abort_share: f64) -> KafkaNativeOptions {
    let transactions = Some(TransactionOptions { messages, interval, abort_share });
    KafkaNativeOptions { transactions, ..KafkaNativeOptions::default() }
}

/// A cluster of so many nodes, and a client of it that sends two messages in a transaction.
async fn in_twos(nodes: usize) -> (Scripted, Bench) {
    let broker = Scripted::start(nodes, 3).await;
    let bench = Bench::new(broker.addresses(), options(2, LONG, 0.0)).await;
    (broker, bench)
}

async fn next<R: Request>(broker: &mut Scripted) -> (Asked, R) {
    let asked = broker.next().await;
    assert_eq!(asked.key, ApiKey::try_from(R::KEY).unwrap());
    let request = asked.request::<R>();
    (asked, request)
}

/// The coordinator is told of these partitions, and answers with these codes.
async fn add(broker: &mut Scripted, expected: &[i32], codes: &[i16]) {
    let (asked, request) = next::<AddPartitionsToTxnRequest>(broker).await;
    assert_eq!(request.v3_and_below_transactional_id.as_str(), TRANSACTIONS);
    assert_eq!(request.v3_and_below_topics.len(), 1);
    let mut partitions = request.v3_and_below_topics[0].partitions.clone();
    partitions.sort_unstable();
    assert_eq!(partitions, expected);
    let result = |(index, code): (&i32, &i16)| {
        AddPartitionsToTxnPartitionResult::default().with_partition_index(*index).with_partition_error_code(*code)
    };
    let results = expected.iter().zip(codes).map(result).collect();
    let topic = AddPartitionsToTxnTopicResult::default().with_name(name()).with_results_by_partition(results);
    let response = AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic]);
    asked.send(asked.frame::<AddPartitionsToTxnRequest>(&response));
}

/// The next produce request, which is of the transactions, and of its first batch the producer's epoch and the first sequence.
async fn produced(broker: &mut Scripted) -> (Asked, i16, i32) {
    let (asked, request) = next::<ProduceRequest>(broker).await;
    assert_eq!(request.transactional_id.as_ref().map(|id| id.as_str()), Some(TRANSACTIONS));
    let batch = request.topic_data[0].partition_data[0].records.clone().unwrap();
    assert_eq!(batch[at::ATTRIBUTES + 1] & 0x10, 0x10, "the batch is part of a transaction");
    let epoch = i16::from_be_bytes(batch[at::PRODUCER_EPOCH..][..2].try_into().unwrap());
    let sequence = i32::from_be_bytes(batch[at::BASE_SEQUENCE..][..4].try_into().unwrap());
    (asked, epoch, sequence)
}

fn answer_end(asked: &Asked, code: i16) {
    asked.send(asked.frame::<EndTxnRequest>(&EndTxnResponse::default().with_error_code(code)));
}

/// The coordinator ends a transaction.
async fn end(broker: &mut Scripted, is_committed: bool) {
    let (asked, request) = next::<EndTxnRequest>(broker).await;
    assert_eq!(request.transactional_id.as_str(), TRANSACTIONS);
    assert_eq!(request.committed, is_committed);
    answer_end(&asked, 0);
}

/// Committed and aborted transactions, and acknowledged and failed messages.
fn counts(outcomes: &Interval) -> (u64, u64, u64, u64) {
    let found = outcomes.transactions.as_ref().unwrap();
    (found.committed, found.aborted, outcomes.measured.acknowledged, outcomes.measured.failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn transaction_adds_partitions_first_and_commit_acknowledges() {
    let (mut broker, mut bench) = in_twos(1).await;
    bench.send_to(2, |_| 1).await;
    add(&mut broker, &[1], &[0]).await;
    let (asked, epoch, sequence) = produced(&mut broker).await;
    assert_eq!(asked.numbers(), vec![0, 1]);
    assert_eq!(epoch, 0);
    assert_eq!(sequence, 0);
    asked.answer(0);
    let (asked, request) = next::<EndTxnRequest>(&mut broker).await;
    assert!(request.committed);
    assert_eq!(bench.acks.resolved(), 0, "it is not committed yet");
    answer_end(&asked, 0);
    assert_eq!(counts(&bench.outcomes().await), (1, 0, 2, 0));
    // The next one, while the marks of this one are being written.
    bench.send_to(2, |_| 1).await;
    add(&mut broker, &[1], &[CONCURRENT_TRANSACTIONS]).await;
    add(&mut broker, &[1], &[0]).await;
    let (asked, epoch, sequence) = produced(&mut broker).await;
    assert_eq!(asked.numbers(), vec![2, 3]);
    assert_eq!(epoch, 0);
    assert_eq!(sequence, 2);
    asked.answer(NOT_ENOUGH_REPLICAS);
    let (asked, ..) = produced(&mut broker).await;
    asked.answer(0);
    end(&mut broker, true).await;
    assert_eq!(counts(&bench.outcomes().await), (1, 0, 2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn aborted_share_of_transactions_keeps_the_sequence() {
    let mut broker = Scripted::start(1, 3).await;
    let mut bench = Bench::new(broker.addresses(), options(1, LONG, 0.5)).await;
    for (number, is_committed) in [(0, true), (1, false), (2, true)] {
        bench.send_to(1, |_| 0).await;
        add(&mut broker, &[0], &[0]).await;
        let (asked, epoch, sequence) = produced(&mut broker).await;
        assert_eq!(epoch, 0);
        assert_eq!(sequence, number);
        asked.answer(0);
        end(&mut broker, is_committed).await;
        let outcomes = bench.outcomes().await;
        let expected = if is_committed { (1, 0, 1, 0) } else { (0, 1, 0, 1) };
        assert_eq!(counts(&outcomes), expected);
        assert!(classes(&outcomes).iter().all(|(class, _)| *class == FailureClass::Aborted));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn small_transaction_ends_by_interval_or_with_the_load() {
    let mut broker = Scripted::start(1, 3).await;
    for (interval, is_finished) in [(Duration::from_millis(1), false), (LONG, true)] {
        let mut bench = Bench::new(broker.addresses(), options(1000, interval, 0.0)).await;
        bench.send_to(1, |_| 2).await;
        if is_finished {
            crate::broker::Producer::finish(&mut bench.producer);
        }
        add(&mut broker, &[2], &[0]).await;
        produced(&mut broker).await.0.answer(0);
        end(&mut broker, true).await;
        assert_eq!(counts(&bench.outcomes().await), (1, 0, 1, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn failed_message_aborts_and_the_next_epoch_is_new() {
    let (mut broker, mut bench) = in_twos(1).await;
    for (partition, code) in [(1, 0), (0, TOO_LARGE)] {
        bench.send_to(1, |_| partition as u32).await;
        add(&mut broker, &[partition], &[0]).await;
        let (asked, epoch, sequence) = produced(&mut broker).await;
        assert_eq!(epoch, 0);
        assert_eq!(sequence, 0);
        asked.answer(code);
    }
    end(&mut broker, false).await;
    let outcomes = bench.outcomes().await;
    assert_eq!(counts(&outcomes), (0, 1, 0, 2));
    assert_eq!(classes(&outcomes), vec![(FailureClass::TooLarge, 2)]);
    bench.send_to(2, |_| 1).await;
    add(&mut broker, &[1], &[0]).await;
    let (asked, epoch, sequence) = produced(&mut broker).await;
    assert_eq!(epoch, 1);
    assert_eq!(sequence, 0);
    asked.answer(0);
    end(&mut broker, true).await;
    assert_eq!(counts(&bench.outcomes().await), (1, 0, 2, 0));
    assert!(bench.client.fatal().is_none());
}

/// It counts as one of measured messages all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_transaction_of_which_nothing_is_written_counts_as_aborted() {
    let (mut broker, mut bench) = in_twos(1).await;
    for (code, is_committed) in [(TOO_LARGE, false), (0, true)] {
        bench.send_to(2, |_| 0).await;
        add(&mut broker, &[0], &[0]).await;
        produced(&mut broker).await.0.answer(code);
        end(&mut broker, is_committed).await;
    }
    assert_eq!(counts(&bench.outcomes().await), (1, 1, 2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refused_partitions_fail_the_transaction_unwritten() {
    let (mut broker, mut bench) = in_twos(1).await;
    bench.send_to(2, |_| 0).await;
    add(&mut broker, &[0], &[UNKNOWN_TOPIC]).await;
    add(&mut broker, &[0], &[TOPIC_AUTHORIZATION_FAILED]).await;
    let (asked, request) = next::<EndTxnRequest>(&mut broker).await;
    assert!(!request.committed);
    // The coordinator knows of no transaction.
    answer_end(&asked, INVALID_STATE);
    let outcomes = bench.outcomes().await;
    assert_eq!(counts(&outcomes), (0, 1, 0, 2));
    assert_eq!(classes(&outcomes), vec![(FailureClass::Authorisation, 2)]);
    assert!(bench.client.fatal().is_none());
}

/// No answer to a batch comes that would wake the producer.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_producer_gets_the_memory_of_abandoned_messages() {
    let (mut broker, mut bench) = in_twos(1).await;
    let (client, full) = (bench.client.clone(), 1 << 30);
    bench.send_to(1, |_| 0).await;
    client.buffer(1, full);
    bench.acks.window(0).submit(1);
    let send_tag = SendTag::new(0, 1, 0, 0, true);
    let headers = &Headers::new(&[]);
    let record = Record { key: None, value: None, shared: None, headers, trace_header: None, timestamp_ms: 0 };
    let messages = std::iter::once((record, send_tag, full));
    client.partitions()[0].append(&client.limits, &client.buffers, messages);
    bench.sent += 1;
    let mut admitted = pin!(client.admit());
    assert_eq!(admitted.as_mut().now_or_never(), None);
    add(&mut broker, &[0], &[TOPIC_AUTHORIZATION_FAILED]).await;
    // It abandons what it has not sent before it aborts the transaction.
    let (asked, _) = next::<EndTxnRequest>(&mut broker).await;
    assert_eq!(admitted.as_mut().now_or_never(), Some(Ok(())));
    answer_end(&asked, INVALID_STATE);
    assert_eq!(counts(&bench.outcomes().await), (0, 1, 0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fenced_producer_sends_nothing_more() {
    for is_writing in [true, false] {
        let (mut broker, mut bench) = in_twos(1).await;
        bench.send_to(2, |_| 0).await;
        add(&mut broker, &[0], &[0]).await;
        let (asked, ..) = produced(&mut broker).await;
        if is_writing {
            asked.answer(INVALID_PRODUCER_EPOCH);
        } else {
            asked.answer(0);
            // While the other takes the place, Kafka 4.1 fails at its own states.
            answer_end(&next::<EndTxnRequest>(&mut broker).await.0, UNKNOWN_SERVER_ERROR);
            answer_end(&next::<EndTxnRequest>(&mut broker).await.0, PRODUCER_FENCED);
        }
        let outcomes = bench.outcomes().await;
        assert_eq!(outcomes.measured.acknowledged, 0);
        assert_eq!(classes(&outcomes), vec![(FailureClass::Fenced, 2)]);
        let reason = crate::broker::Producer::fatal_error(&bench.producer).unwrap();
        assert!(reason.to_lowercase().contains("fenced"), "{reason}");
        let refused = bench.client.admit().await.unwrap_err();
        assert_eq!(refused.class, FailureClass::Fenced);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_coordinator_that_moves_or_is_lost_is_found_again() {
    let (mut broker, mut bench) = in_twos(2).await;
    bench.send_to(2, |_| 0).await;
    add(&mut broker, &[0], &[NOT_COORDINATOR]).await;
    add(&mut broker, &[0], &[0]).await;
    produced(&mut broker).await.0.answer(0);
    let (asked, _) = next::<EndTxnRequest>(&mut broker).await;
    assert_eq!(asked.node, 0);
    broker.move_coordinator(1);
    asked.close();
    let (asked, request) = next::<EndTxnRequest>(&mut broker).await;
    assert_eq!(asked.node, 1);
    assert!(request.committed);
    answer_end(&asked, CONCURRENT_TRANSACTIONS);
    end(&mut broker, true).await;
    assert_eq!(counts(&bench.outcomes().await), (1, 0, 2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_id_that_the_coordinator_gives_later_is_awaited() {
    let mut broker = Scripted::start(1, 3).await;
    broker.refuse_identities(&[CONCURRENT_TRANSACTIONS, NOT_COORDINATOR]);
    let mut bench = Bench::new(broker.addresses(), options(1, LONG, 0.0)).await;
    bench.send_to(1, |_| 0).await;
    add(&mut broker, &[0], &[0]).await;
    produced(&mut broker).await.0.answer(0);
    end(&mut broker, true).await;
    assert_eq!(counts(&tokio::time::timeout(TIMEOUT, bench.outcomes()).await.unwrap()), (1, 0, 1, 0));
}

/// A coordinator ends a transaction that is open for its timeout, and fences its producer.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn message_fails_before_its_transaction_times_out() {
    let (_broker, bench) = in_twos(1).await;
    let last = LONG + bench.client.limits.delivery_timeout;
    assert!(last <= TRANSACTION_TIMEOUT - Duration::from_secs(10), "{last:?}");
    assert!(bench.client.limits.delivery_timeout >= Duration::from_secs(10));
}
