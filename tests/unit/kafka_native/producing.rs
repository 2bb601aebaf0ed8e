//! Producing to a scripted cluster: requests whose answers come partly, late, in another order, or not at all.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::ProduceRequest;

use super::asked::Asked;
use super::bench::{Bench, TIMEOUT, TOPIC, classes, one_message_a_batch};
use super::scripted::{NOT_LEADER, Scripted};
use crate::broker::FailureClass;
use crate::broker::kafka_native::codec::batch::at;
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_options::RequiredAcks;

/// Codes of Kafka's protocol.
const TOO_LARGE: i16 = 10;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const UNKNOWN_PRODUCER_ID: i16 = 59;

fn idempotent() -> KafkaNativeOptions {
    KafkaNativeOptions { idempotence: Some(true), ..one_message_a_batch() }
}

/// Takes so many requests of one message each, without an answer.
async fn take(broker: &mut Scripted, requests: usize) -> Vec<Asked> {
    let mut taken = Vec::new();
    for _ in 0..requests {
        taken.push(broker.next().await);
    }
    taken
}

/// Answers every request until all `messages` were written once, and returns their numbers as they were written.
async fn take_all(broker: &mut Scripted, node: usize, messages: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < messages {
        let asked = broker.next_at(node).await;
        numbers.extend(asked.numbers());
        asked.answer(0);
    }
    numbers
}

/// One message is sent and written: the leader knows the producer.
async fn begin(bench: &mut Bench, broker: &mut Scripted) {
    bench.send(1).await;
    broker.next().await.answer(0);
    bench.outcomes().await;
}

/// A leader that knows nothing of a producer takes a batch with any number, and it may not be ready for the first one yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idempotent_first_batch_is_written_before_the_next() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), idempotent()).await;
    bench.send(4).await;
    let first = broker.next().await;
    assert_eq!(first.numbers(), [0]);
    first.answer(NOT_LEADER);
    assert_eq!(take_all(&mut broker, 0, 4).await, [0, 1, 2, 3]);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pipelined_requests_keep_their_order_when_the_leader_moves() {
    for idempotence in [false, true] {
        let mut broker = Scripted::start(2, 1).await;
        let options = KafkaNativeOptions { idempotence: Some(idempotence), ..one_message_a_batch() };
        let mut bench = Bench::new(broker.addresses(), options).await;
        begin(&mut bench, &mut broker).await;
        bench.send(8).await;
        let pipeline = take(&mut broker, 5).await;
        broker.move_leader(0, 1);
        pipeline[0].answer(0);
        pipeline[1..].iter().for_each(|asked| asked.answer(NOT_LEADER));
        // The sixth request was sent when the first was answered, or not.
        let moved = take_all(&mut broker, 1, 7).await;
        assert_eq!(moved, (2..9).collect::<Vec<u64>>(), "idempotence = {idempotence}");
        let outcomes = bench.outcomes().await;
        assert_eq!(outcomes.measured.acknowledged, 8);
        assert_eq!(outcomes.measured.failed, 0);
    }
}

/// As the finding of messages in another order advises. The leader refuses what follows a batch that it lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idempotent_producer_keeps_the_order_that_retries_change() {
    const REQUEST_TIMED_OUT: i16 = 7;
    const OUT_OF_ORDER: i16 = 45;
    for (idempotence, answer, again) in [(false, 0, vec![1]), (true, OUT_OF_ORDER, vec![1, 2, 3])] {
        let mut broker = Scripted::start(1, 1).await;
        let options = KafkaNativeOptions { idempotence: Some(idempotence), ..one_message_a_batch() };
        let mut bench = Bench::new(broker.addresses(), options).await;
        begin(&mut bench, &mut broker).await;
        bench.send(3).await;
        let pipeline = take(&mut broker, 3).await;
        pipeline[0].answer(REQUEST_TIMED_OUT);
        pipeline[1..].iter().for_each(|asked| asked.answer(answer));
        assert_eq!(take_all(&mut broker, 0, again.len()).await, again, "idempotence = {idempotence}");
        assert_eq!(bench.outcomes().await.measured.acknowledged, 3);
    }
}

/// With five requests on their way, the sixth message waits for the connection, here until that ends because nothing is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_is_full_while_messages_wait_for_responses() {
    let mut broker = Scripted::start(1, 1).await;
    let silence = Duration::from_millis(500);
    let options = KafkaNativeOptions { request_timeout: silence, ..one_message_a_batch() };
    let mut bench = Bench::new(broker.addresses(), options).await;
    begin(&mut bench, &mut broker).await;
    let alone = bench.client.traffic.take();
    assert_eq!(alone.connections, 1);
    assert_eq!(alone.connections_full_ns, 0);
    let before = Instant::now();
    bench.send(8).await;
    take(&mut broker, 5).await;
    take_all(&mut broker, 0, 8).await;
    assert_eq!(bench.outcomes().await.measured.acknowledged, 8);
    let full = Duration::from_nanos(bench.client.traffic.take().connections_full_ns);
    assert!(full > silence / 2 && full < before.elapsed(), "{full:?}");
}

/// Metadata is asked for because of another partition, while the former leader has not answered what it may have written.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_leader_gets_nothing_before_the_former_one_has_answered() {
    for idempotence in [false, true] {
        let mut broker = Scripted::start(3, 2).await;
        broker.move_leader(1, 2);
        let options = KafkaNativeOptions { idempotence: Some(idempotence), ..one_message_a_batch() };
        let mut bench = Bench::new(broker.addresses(), options).await;
        for partition in [0, 1] {
            bench.send_to(1, |_| partition).await;
            broker.next().await.answer(0);
        }
        bench.outcomes().await;
        bench.send_to(2, |_| 0).await;
        let unanswered = take(&mut broker, 2).await;
        bench.send_to(1, |_| 1).await;
        let moves = broker.next().await;
        [0, 1].into_iter().for_each(|partition| broker.move_leader(partition, 1));
        moves.answer(NOT_LEADER);
        assert_eq!(take_all(&mut broker, 1, 1).await, [4], "the client knows the new leader of both partitions");
        bench.send_to(1, |_| 0).await;
        bench.send_to(1, |_| 1).await;
        assert_eq!(take_all(&mut broker, 1, 1).await, [6], "that of the other partition does not wait");
        unanswered.iter().for_each(|asked| asked.answer(NOT_LEADER));
        assert_eq!(take_all(&mut broker, 1, 3).await, [2, 3, 5], "idempotence = {idempotence}");
        let outcomes = bench.outcomes().await;
        assert_eq!(outcomes.measured.acknowledged, 5);
        assert_eq!(outcomes.measured.failed, 0);
    }
}

/// What does not fit into the buffers of the connection is never written, so that no response is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn leader_that_reads_nothing_is_left_when_another_leads() {
    for acks in [RequiredAcks::None, RequiredAcks::All] {
        let mut broker = Scripted::start(2, 1).await;
        broker.deafen(1);
        broker.move_leader(0, 1);
        let options = KafkaNativeOptions { acks, request_timeout: Duration::from_millis(500), ..one_message_a_batch() };
        let mut bench = Bench::new(broker.addresses(), options).await;
        // More than the buffers of a connection hold.
        bench.send_padded(16 << 20).await;
        broker.move_leader(0, 0);
        let moved = tokio::time::timeout(TIMEOUT / 2, take_all(&mut broker, 0, 1)).await;
        assert_eq!(moved, Ok(vec![0]), "{acks:?}");
        assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn leader_that_says_nothing_is_left_when_another_leads() {
    let mut broker = Scripted::start(2, 1).await;
    let options = KafkaNativeOptions { request_timeout: Duration::from_millis(500), ..idempotent() };
    let mut bench = Bench::new(broker.addresses(), options).await;
    bench.send(1).await;
    broker.next().await.answer(0);
    bench.outcomes().await;
    broker.silence(0);
    bench.send(3).await;
    broker.move_leader(0, 1);
    // Far less than a connection that is being opened may take.
    let moved = tokio::time::timeout(TIMEOUT / 2, take_all(&mut broker, 1, 3)).await;
    assert_eq!(moved, Ok(vec![1, 2, 3]));
    assert_eq!(bench.outcomes().await.measured.acknowledged, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_node_is_asked_where_one_hears_of_no_election() {
    let mut broker = Scripted::start(2, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    broker.isolate(0);
    broker.move_leader(0, 1);
    bench.send(1).await;
    assert_eq!(take_all(&mut broker, 1, 1).await, [0]);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_of_an_older_epoch_is_not_believed() {
    let broker = Scripted::start(2, 1).await;
    broker.set_leader_epoch(5);
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    broker.move_leader(0, 1);
    for (epoch, leader) in [(4, 0), (5, 1), (6, 1)] {
        broker.set_leader_epoch(epoch);
        let metadata = bench.admin.cluster.metadata(&[TOPIC]).await.unwrap();
        assert_eq!(metadata.topics[TOPIC].leaders, [Some(leader)], "epoch {epoch}");
    }
}

/// Consumers of the trial ask for metadata too, and what they hear is not the producers' to know.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn late_leader_is_found_when_others_asked_meanwhile() {
    let mut broker = Scripted::start(1, 2).await;
    broker.move_leader(0, -1);
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    broker.move_leader(0, 0);
    bench.admin.cluster.metadata(&[TOPIC]).await.unwrap();
    bench.send_to(1, |_| 0).await;
    let written = tokio::time::timeout(TIMEOUT / 2, broker.next()).await.expect("the message is sent");
    written.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_in_another_order_acknowledge_nothing() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), idempotent()).await;
    begin(&mut bench, &mut broker).await;
    bench.send(3).await;
    let pipeline = take(&mut broker, 3).await;
    pipeline[1].answer(0);
    let again = take_all(&mut broker, 0, 3).await;
    assert_eq!(again, [1, 2, 3]);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 3);
    assert!(bench.client.last_error().unwrap().contains("malformed response"), "{:?}", bench.client.last_error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answer_in_pieces_is_joined_and_omissions_are_resent() {
    let mut broker = Scripted::start(1, 2).await;
    let lingering = KafkaNativeOptions { linger: Duration::from_millis(100), ..KafkaNativeOptions::default() };
    let mut bench = Bench::new(broker.addresses(), lingering).await;
    bench.send_to(4, |number| number as u32 % 2).await;
    let mut left = 4;
    let omitted = broker.next().await;
    omitted.send(omitted.produced(&[], 0));
    let first = broker.next().await;
    for byte in first.produced(&[(0, 0)], 0) {
        first.send(Bytes::from(vec![byte]));
    }
    left -= first.written().iter().filter(|written| written.partition == 0).map(|one| one.numbers.len()).sum::<usize>();
    while left > 0 {
        let asked = broker.next().await;
        left -= asked.numbers().len();
        asked.answer(0);
    }
    let told = bench.client.last_error().unwrap();
    assert!(told.ends_with("the broker's response does not name the partition"), "{told}");
    assert_eq!(bench.outcomes().await.measured.acknowledged, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn partitions_of_one_request_have_outcomes_of_their_own() {
    let mut broker = Scripted::start(1, 3).await;
    // A message in each partition, in one request: the batches are full at the same time.
    let lingering = KafkaNativeOptions { linger: Duration::from_millis(200), ..KafkaNativeOptions::default() };
    let mut bench = Bench::new(broker.addresses(), lingering).await;
    bench.send_to(3, |number| number as u32).await;
    let (mut again, mut answered) = (Vec::new(), 0);
    while answered < 3 {
        let asked = broker.next().await;
        let code = |partition| match partition {
            1 => TOO_LARGE,
            2 if !again.contains(&2) => NOT_ENOUGH_REPLICAS,
            _ => 0,
        };
        let codes: Vec<(i32, i16)> =
            asked.written().iter().map(|written| (written.partition, code(written.partition))).collect();
        asked.send(asked.produced(&codes, 0));
        answered += codes.iter().filter(|(_, code)| *code != NOT_ENOUGH_REPLICAS).count();
        again.extend(codes.iter().map(|(partition, _)| *partition));
    }
    let outcomes = bench.outcomes().await;
    assert_eq!(outcomes.measured.acknowledged, 2);
    assert_eq!(classes(&outcomes), vec![(FailureClass::TooLarge, 1)]);
    again.sort_unstable();
    assert_eq!(again, [0, 1, 2, 2], "only what was refused for now is sent again");
}

/// The open batch has waited for `linger` while its partition had no identity.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_due_before_another_identity_came_is_sent_with_it() {
    let mut broker = Scripted::start(1, 1).await;
    let options =
        KafkaNativeOptions { idempotence: Some(true), linger: Duration::from_millis(10), ..Default::default() };
    let mut bench = Bench::new(broker.addresses(), options).await;
    bench.send(1).await;
    let first = broker.next().await;
    // The client asks again for longer than the second message waits.
    broker.refuse_identities(&[COORDINATOR_LOAD_IN_PROGRESS; 6]);
    first.answer(TOO_LARGE);
    bench.send(1).await;
    let second = tokio::time::timeout(TIMEOUT / 2, broker.next()).await.expect("the message is sent");
    assert_eq!(second.numbers(), [1]);
    second.answer(0);
    let outcomes = bench.outcomes().await;
    assert_eq!(outcomes.measured.acknowledged, 1);
    assert_eq!(classes(&outcomes), vec![(FailureClass::TooLarge, 1)]);
}

/// A broker forgets a producer when all that it wrote is older than the topic's retention (KIP-360).
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn forgotten_producer_resends_with_another_identity() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), idempotent()).await;
    begin(&mut bench, &mut broker).await;
    bench.send(3).await;
    let pipeline = take(&mut broker, 3).await;
    pipeline[0].answer(UNKNOWN_PRODUCER_ID);
    pipeline[1].answer(UNKNOWN_PRODUCER_ID);
    pipeline[2].answer(OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(take_all(&mut broker, 0, 3).await, [1, 2, 3]);
    let outcomes = bench.outcomes().await;
    assert_eq!(outcomes.measured.acknowledged, 3, "{:?}", classes(&outcomes));
    assert_eq!(outcomes.measured.failed, 0, "{:?}", classes(&outcomes));
}

/// The leader may write a batch and answer that its followers were late.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_may_be_written_keeps_its_number_behind_a_batch_that_failed() {
    const REQUEST_TIMED_OUT: i16 = 7;
    let epoch = |asked: &Asked| {
        let request = asked.request::<ProduceRequest>();
        let batch = request.topic_data[0].partition_data[0].records.clone().unwrap();
        i16::from_be_bytes(batch[at::PRODUCER_EPOCH..][..2].try_into().unwrap())
    };
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), idempotent()).await;
    begin(&mut bench, &mut broker).await;
    bench.send(2).await;
    let pipeline = take(&mut broker, 2).await;
    pipeline[0].answer(TOO_LARGE);
    pipeline[1].answer(REQUEST_TIMED_OUT);
    let again = broker.next().await;
    assert_eq!((again.numbers(), epoch(&again)), (vec![2], 0));
    again.answer(OUT_OF_ORDER_SEQUENCE_NUMBER);
    let renumbered = broker.next().await;
    assert_eq!((renumbered.numbers(), epoch(&renumbered)), (vec![2], 1));
    renumbered.answer(0);
    let outcomes = bench.outcomes().await;
    assert_eq!(outcomes.measured.acknowledged, 1);
    assert_eq!(classes(&outcomes), vec![(FailureClass::TooLarge, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_quota_delays_the_next_request_and_is_counted() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), KafkaNativeOptions { max_in_flight: 1, ..idempotent() }).await;
    bench.send(2).await;
    let first = broker.next().await;
    let answered = Instant::now();
    first.send(first.produced(&[(0, 0)], 300));
    broker.next().await.answer(0);
    // A lower bound: a slow machine makes it longer.
    assert!(answered.elapsed() >= Duration::from_millis(300), "{:?}", answered.elapsed());
    assert_eq!(bench.outcomes().await.measured.acknowledged, 2);
    let wire = bench.client.traffic.take().wire.unwrap();
    assert_eq!(wire.requests, 2);
    assert_eq!(wire.quota_refusals, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_no_answer_ends_the_connection_and_is_asked_again() {
    let correct = |asked: &Asked| asked.produced(&[(0, 0)], 0).to_vec();
    let with = |asked: &Asked, at: usize, value: &[u8]| {
        let mut bytes = correct(asked);
        bytes[at..at + value.len()].copy_from_slice(value);
        Bytes::from(bytes)
    };
    // A response is its length, the correlation, the number of topics, a topic's name after its length, the number of partitions.
    let partitions = 4 + 4 + 4 + 2 + TOPIC.len();
    for (number, what) in
        ["length", "correlation", "topics", "name", "partitions", "cut off", "closed"].iter().enumerate()
    {
        let mut broker = Scripted::start(1, 1).await;
        let mut bench = Bench::new(broker.addresses(), idempotent()).await;
        bench.send(1).await;
        let asked = broker.next().await;
        match number {
            0 => asked.send(with(&asked, 0, &[0xff; 4])),
            1 => asked.send(with(&asked, 4, &[0x7f; 4])),
            2 => asked.send(with(&asked, 8, &i32::MAX.to_be_bytes())),
            3 => asked.send(with(&asked, 12, &i16::MAX.to_be_bytes())),
            4 => asked.send(with(&asked, partitions, &i32::MAX.to_be_bytes())),
            5 => asked.send(Bytes::from([&[0, 0, 0, 6], &correct(&asked)[4..10]].concat())),
            _ => asked.close(),
        }
        assert_eq!(take_all(&mut broker, 0, 1).await, [0], "{what}");
        assert_eq!(bench.outcomes().await.measured.acknowledged, 1, "{what}");
    }
}
