//! When a partition is sent to, and whose sequence breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::kafka_native::codec::batch::{Author, Headers, Record};
use crate::broker::kafka_native::produce::accumulator::{Leader, Limits, Partition, Turn};
use crate::broker::kafka_native::produce::client::Node;
use crate::broker::kafka_native::produce::producer_batch::{BufferPool, Return};
use crate::measure::SendTag;

const HOUR: Duration = Duration::from_secs(3600);

fn append(partition: &Arc<Partition>, limits: &Limits, sequence: u64, sent: Duration) {
    append_with(&Headers::new(&[]), partition, limits, sequence, sent);
}

fn append_with(headers: &Headers, partition: &Arc<Partition>, limits: &Limits, sequence: u64, sent: Duration) {
    let send_tag = SendTag::new(0, sequence, sent.as_nanos() as u64, 0, true);
    let record =
        Record { key: None, value: Some(b"value"), shared: None, headers, trace_header: None, timestamp_ms: 0 };
    partition.append(limits, &BufferPool::default(), std::iter::once((record, send_tag, 5)));
}

/// A batch that its headers make larger than the broker takes is refused whole.
#[test]
fn headers_count_for_the_size_of_a_batch() {
    let limits = Limits { batch_bytes: 1000, linger: Duration::ZERO, delivery_timeout: HOUR };
    let (partition, leader) =
        (Arc::new(Partition::new("orders".into(), 0, None, usize::MAX)), Arc::<Leader>::default());
    partition.set_leader(Some(leader.clone()), limits.linger);
    let headers = Headers::new(&[("tenant".to_owned(), "x".repeat(300))]);
    for sequence in 0..4 {
        append_with(&headers, &partition, &limits, sequence, Duration::ZERO);
    }
    let mut batches = Vec::new();
    while let Turn::Batch(batch, _) = partition.take(&leader, &limits, Instant::now(), &mut Vec::new()) {
        batches.push(batch.sent.messages());
    }
    assert_eq!(batches, [2, 2]);
}

/// A response has one outcome for a partition. Two threads add messages while a third one makes requests.
#[test]
fn a_request_has_one_batch_of_a_partition_while_producers_add_more() {
    const MESSAGES: u64 = 1_000_000;
    let limits = Limits { batch_bytes: 1000, linger: Duration::ZERO, delivery_timeout: HOUR };
    let node = Node::new("127.0.0.1:9092".to_owned());
    let partitions: Vec<_> =
        (0..8).map(|index| Arc::new(Partition::new("orders".into(), index, None, usize::MAX))).collect();
    partitions.iter().for_each(|partition| partition.set_leader(Some(node.ready.clone()), limits.linger));
    std::thread::scope(|scope| {
        for producer in 0..2 {
            let (partitions, limits) = (&partitions, &limits);
            scope.spawn(move || {
                for sequence in (producer..MESSAGES).step_by(2) {
                    append(&partitions[sequence as usize % 8], limits, sequence, Duration::ZERO);
                }
            });
        }
        let mut messages = 0;
        while messages < MESSAGES {
            let batches = node.gather(&limits, &mut Vec::new());
            let mut indexes: Vec<i32> = batches.iter().map(|(partition, _)| partition.index).collect();
            indexes.sort_unstable();
            assert!(indexes.windows(2).all(|pair| pair[0] < pair[1]), "{indexes:?}");
            messages += batches.iter().map(|(_, batch)| batch.sent.messages() as u64).sum::<u64>();
        }
    });
}

/// The topic's own limit is below the one of the client.
#[test]
fn batches_are_no_larger_than_the_topic_takes() {
    let limits = Limits { batch_bytes: 1 << 20, linger: Duration::ZERO, delivery_timeout: HOUR };
    let (partition, leader) = (Arc::new(Partition::new("orders".into(), 0, None, 200)), Arc::<Leader>::default());
    partition.set_leader(Some(leader.clone()), limits.linger);
    (0..20).for_each(|sequence| append(&partition, &limits, sequence, Duration::ZERO));
    let mut messages = 0;
    while let Turn::Batch(batch, _) = partition.take(&leader, &limits, Instant::now(), &mut Vec::new()) {
        assert!(batch.encoded.len() <= 200, "{} bytes", batch.encoded.len());
        assert!(batch.sent.messages() > 1);
        messages += batch.sent.messages();
    }
    assert_eq!(messages, 20);
}

/// A message that was sent at this time is appended to a partition that waits for an hour.
#[test]
fn a_message_that_comes_when_its_batch_is_due_sends_it() {
    let limits = Limits { batch_bytes: 1 << 20, linger: HOUR, delivery_timeout: 2 * HOUR };
    let (partition, leader) =
        (Arc::new(Partition::new("orders".into(), 0, None, usize::MAX)), Arc::<Leader>::default());
    partition.set_leader(Some(leader.clone()), HOUR);
    let append = |sequence, sent| append(&partition, &limits, sequence, sent);
    append(0, HOUR);
    append(1, 2 * HOUR - Duration::from_secs(1));
    assert!(leader.next().is_none(), "it waits");
    append(2, 2 * HOUR);
    let due = leader.next().expect("it is due");
    let mut expired = Vec::new();
    let turn = due.take(&leader, &limits, Instant::now(), &mut expired);
    assert!(matches!(turn, Turn::Batch(batch, false) if batch.sent.messages() == 3));
    assert!(expired.is_empty());
}

/// Partitions are looked at one after the other, and what is too old for each comes onto one list.
#[test]
fn expired_batch_breaks_the_sequence_of_no_other_partition() {
    let limits = Limits { batch_bytes: 1 << 20, linger: Duration::ZERO, delivery_timeout: HOUR };
    let leader = Arc::<Leader>::default();
    let partitions = [0, 1].map(|index| Arc::new(Partition::new("orders".into(), index, Some((7, 0)), usize::MAX)));
    let (now, mut expired) = (Instant::now(), Vec::new());
    for partition in &partitions {
        partition.set_leader(Some(leader.clone()), limits.linger);
        append(partition, &limits, 0, Duration::ZERO);
        let Turn::Batch(sent, _) = partition.take(&leader, &limits, now, &mut expired) else { panic!("it is due") };
        partition.give_back(sent, now, Return::InDoubt);
    }
    let [first, second] = &partitions;
    assert!(first.expire(&limits, now + 2 * HOUR, &mut expired));
    assert_eq!(expired.len(), 1);
    assert!(!second.expire(&limits, now, &mut expired), "its own batch is not too old");
    assert!(!second.needs_identity());
}

/// Of three batches that were sent, the first one gets too old, the second one has no answer, and the third one was refused for now.
#[test]
fn a_batch_that_may_be_stored_keeps_its_number_when_an_earlier_one_expires() {
    let limits = Limits { batch_bytes: 1, linger: Duration::ZERO, delivery_timeout: HOUR };
    let author = |epoch, sequence| Some(Author { producer_id: 7, epoch, sequence });
    let (partition, leader) =
        (Arc::new(Partition::new("orders".into(), 0, Some((7, 0)), usize::MAX)), Arc::<Leader>::default());
    partition.set_leader(Some(leader.clone()), limits.linger);
    let take = |now| match partition.take(&leader, &limits, now, &mut Vec::new()) {
        Turn::Batch(batch, _) => Some(batch),
        _ => None,
    };
    append(&partition, &limits, 0, Duration::ZERO);
    take(Instant::now()).expect("the first one goes alone");
    assert!(!partition.settle(false));
    (1..4).for_each(|sequence| append(&partition, &limits, sequence, Duration::ZERO));
    let mut sent: Vec<_> = std::iter::from_fn(|| take(Instant::now())).collect();
    let now = Instant::now();
    sent[1..].iter_mut().for_each(|batch| batch.created += 2 * HOUR);
    for (batch, back) in sent.into_iter().zip([Return::InDoubt, Return::InDoubt, Return::Absent]) {
        assert!(!partition.give_back(batch, now, back));
    }
    let (later, mut expired) = (now + HOUR, Vec::new());
    assert!(!partition.expire(&limits, later, &mut expired), "one may be stored");
    assert_eq!(expired.len(), 1);
    assert_eq!(take(later).expect("it is asked for").author, author(0, 2));
    assert!(take(later).is_none(), "the other one waits");
    assert!(partition.settle(false), "nothing is in doubt");
    assert!(take(later).is_none(), "it waits for the other identity");
    partition.renew((7, 1));
    assert_eq!(take(later).expect("it is sent").author, author(1, 0));
}
