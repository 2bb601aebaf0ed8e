use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaApiKey;

use super::*;
use crate::broker::kafka::producer::{Connection, HeaderSets, KafkaProducer};
use crate::broker::{Outgoing, Producer};
use crate::measure::{Acks, Clock, Conditions, Interval, SendTag};

const LONG: Duration = Duration::from_secs(3600);

struct Bench {
    cluster: MockCluster<'static, DefaultProducerContext>,
    acks: Acks,
    producer: KafkaProducer,
}

impl Bench {
    fn new(options: TransactionOptions) -> Self {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 1, 1).unwrap();
        let addresses = cluster.bootstrap_servers();
        let properties = [("bootstrap.servers", addresses.as_str()), ("transactional.id", "transactions")];
        let acks = Acks::new(Clock::start(), 1, false);
        let connection =
            Arc::new(Connection::new(properties, acks.recorder(), true, None, Conditions::default()).unwrap());
        connection.begin_transactions(options, Duration::from_secs(60)).unwrap();
        let header_sets = HeaderSets::new(&[Vec::new()]);
        Bench { cluster, acks, producer: KafkaProducer::new(connection, "topic", header_sets).unwrap() }
    }

    async fn send(&mut self, messages: usize) -> usize {
        let send_tag = SendTag::new(0, 0, 0, 0, true);
        let message = Outgoing { payload: b"message", key: None, trace_header: None, attributes: None, send_tag };
        let taken = self.producer.submit(&vec![message; messages]).await.unwrap();
        self.acks.window(0).submit(taken as u64);
        taken
    }

    async fn resolved(&self, messages: u64) {
        assert!(self.acks.window(0).resolved_reaches(messages, self.acks.stopped()).await);
    }

    fn outcomes(&self) -> Interval {
        let mut outcomes = Interval::default();
        self.acks.close(&mut outcomes, &mut Interval::default());
        outcomes
    }
}

fn options(messages: usize, interval: Duration) -> TransactionOptions {
    TransactionOptions { messages, interval, abort_share: 0.0 }
}

/// Committed and aborted transactions, and acknowledged and failed messages.
fn counts(outcomes: &Interval) -> (u64, u64, u64, u64) {
    let found = outcomes.transactions.as_ref().unwrap();
    (found.committed, found.aborted, outcomes.measured.acknowledged, outcomes.measured.failed)
}

#[tokio::test]
async fn transactions_have_their_size_and_share_of_aborts() {
    let mut bench = Bench::new(TransactionOptions { abort_share: 0.5, ..options(3, LONG) });
    assert_eq!(bench.send(5).await, 3, "the rest belongs to the next one");
    assert_eq!((bench.send(2).await, bench.send(2).await), (2, 1));
    bench.resolved(6).await;
    assert_eq!(bench.send(1).await, 1);
    bench.producer.finish();
    bench.resolved(7).await;
    let outcomes = bench.outcomes();
    assert_eq!(counts(&outcomes), (2, 1, 4, 3));
    assert_eq!(outcomes.transactions.unwrap().commit.histogram().len(), 2);
    assert!(outcomes.errors.iter().all(|(class, _)| class == FailureClass::Aborted));
}

#[tokio::test]
async fn a_transaction_that_stays_small_is_ended_by_its_interval() {
    let mut bench = Bench::new(options(1000, Duration::from_millis(1)));
    bench.send(2).await;
    bench.resolved(2).await;
    let (_, aborted, acknowledged, failed) = counts(&bench.outcomes());
    assert_eq!(aborted, 0);
    assert_eq!(acknowledged, 2);
    assert_eq!(failed, 0);
}

/// librdkafka finds in the next one that the failed message's sequence number is missing, aborts it as well, and takes a new epoch.
#[tokio::test]
async fn transaction_with_a_failed_message_aborts_later_commits() {
    let mut bench = Bench::new(options(2, LONG));
    bench.cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    for transaction in 1..=3 {
        bench.send(2).await;
        bench.resolved(2 * transaction).await;
    }
    let outcomes = bench.outcomes();
    let errors = &outcomes.errors;
    assert_eq!(counts(&outcomes), (1, 2, 2, 4), "{errors:?}");
    let classes: Vec<_> = errors.iter().map(|(class, tally)| (class, tally.count)).collect();
    assert_eq!(classes, [(FailureClass::TooLarge, 2), (FailureClass::Refused, 2)]);
    assert_eq!(bench.producer.fatal_error(), None);
}

#[tokio::test]
async fn fenced_producer_sends_nothing_more() {
    let mut bench = Bench::new(options(2, LONG));
    bench.cluster.request_errors(RDKafkaApiKey::EndTxn, &[Code::RD_KAFKA_RESP_ERR_PRODUCER_FENCED]);
    bench.send(2).await;
    bench.resolved(2).await;
    let outcomes = bench.outcomes();
    assert_eq!(counts(&outcomes), (0, 1, 0, 2));
    assert!(outcomes.errors.iter().all(|(class, _)| class == FailureClass::Fenced));
    let send_tag = SendTag::new(0, 0, 0, 0, true);
    let message = Outgoing { payload: b"message", key: None, trace_header: None, attributes: None, send_tag };
    bench.producer.submit(&[message]).await.unwrap_err();
    let reason = bench.producer.fatal_error().unwrap();
    assert!(reason.to_lowercase().contains("fenced"), "{reason}");
}
