//! Transactions on a real Kafka, through each of the clients.

#![cfg(feature = "kafka")]

use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::{ReasonKind, Record, Status, Verification};
use rdkafka::producer::{BaseProducer, Producer};

use crate::harness::kafka::address;
use crate::harness::{Bench, PATIENCE, assert_balanced, reasons, record_of, sums};
use crate::rebalance::run_with;

/// A thousand messages in transactions of 50, with these keys of `[broker.kafka]` and these tables besides.
fn in_transactions(client: &str, keys: &str, abort_share: f64, tables: &str) -> Record {
    let address = address();
    let record = record_of(&format!(
        "[broker]\nkind = \"kafka\"\nclient = \"{client}\"\naddress = \"{address}\"\nconnections = 2\n\
         kafka = {{ {keys} transactions = {{ messages = 50, interval = \"30s\", abort_share = {abort_share} }} }}\n{tables}\n\
         [payload]\nkind = \"zeros\"\nsize = \"64B\"\n[consumers]\n[run]\nmessages = 1000\n"
    ));
    assert_balanced(&record);
    record
}

fn committed_is_delivered_once_and_aborted_never(client: &str) {
    let tables = "[producers]\ncount = 2\nbatch = 7\n[topology]\npartitions = 3";
    let record = in_transactions(client, "", 0.2, tables);
    let transactions = record.transactions.as_ref().unwrap();
    assert!(transactions.aborted >= 2 && transactions.committed >= 14, "{transactions:?}");
    assert_eq!(transactions.commit.as_ref().unwrap().count, transactions.committed);
    let counts = &record.counts;
    assert_eq!((counts.acknowledged + counts.failed, counts.unresolved), (1000, 0));
    assert_eq!(record.errors.iter().map(|error| error.class).collect::<Vec<_>>(), [FailureClass::Aborted]);
    assert_eq!(sums(&record), Verification { received: counts.acknowledged, ..Verification::default() });
    assert!(!reasons(&record).contains(&ReasonKind::MissingMessages), "{:?}", record.verdict);
}

/// Of 20 transactions, the ninth and the seventeenth are aborted: messages that come later are acknowledged, so that consumers are
/// waited for until they have passed these.
fn delivers_what_was_aborted_to_those_who_ask_for_it(client: &str) {
    for (isolation, received, stored) in [("", 900, 0), ("isolation = \"read-uncommitted\",", 1000, 100)] {
        let record = in_transactions(client, isolation, 0.12, "");
        let transactions = record.transactions.as_ref().unwrap();
        assert_eq!((transactions.committed, transactions.aborted), (18, 2));
        assert_eq!((record.counts.acknowledged, record.counts.failed), (900, 100));
        let expected = Verification { received, not_acknowledged_but_stored: stored, ..Verification::default() };
        assert_eq!(sums(&record), expected, "{isolation}");
    }
}

/// The run's only producer has the id of a producer that begins later.
fn fenced_producer_ends_the_load_with_the_reason(client: &str, partitions: usize) {
    let address = address();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", client = \"{client}\", address = \"{address}\", kafka.transactions.messages = 10 }}
        topology.partitions = {partitions}
        load.rate = \"200/s\"
        consumers = {{}}
        run.duration = \"10min\""
    ));
    let mut run = bench.start(&[]);
    run.await_stderr("measuring");
    let id = format!("{}-0", run_with(&address, partitions));
    let mut config = rdkafka::ClientConfig::new();
    let other: BaseProducer = config.set("bootstrap.servers", &address).set("transactional.id", &id).create().unwrap();
    other.init_transactions(PATIENCE).unwrap();
    if client == "native" {
        // librdkafka's load may end within the second in which progress would tell it.
        run.await_stderr("fenced by another client");
    }
    let record = run.finish(PATIENCE).expect(1).record();
    assert_balanced(&record);
    assert_eq!(record.status, Status::Failed);
    let error = record.error.as_deref().unwrap().to_lowercase();
    assert!(error.contains("could send nothing more") && error.contains("fenced"), "{error}");
    assert!(record.errors.iter().any(|error| error.class == FailureClass::Fenced), "{:?}", record.errors);
    assert!(record.conditions.iter().any(|one| one.kind == ConditionKind::Fenced), "{:?}", record.conditions);
    let received = record.counts.acknowledged;
    assert_eq!(sums(&record), Verification { received, ..Verification::default() });
}

#[test]
fn real_kafka_delivers_committed_once_and_aborted_never() {
    committed_is_delivered_once_and_aborted_never("librdkafka");
}

#[test]
fn real_kafka_delivers_what_was_aborted_to_those_who_ask_for_it() {
    delivers_what_was_aborted_to_those_who_ask_for_it("librdkafka");
}

#[test]
fn real_kafka_fenced_producer_ends_the_load() {
    fenced_producer_ends_the_load_with_the_reason("librdkafka", 19);
}

#[cfg(feature = "kafka-native")]
mod native {
    #[test]
    fn real_kafka_native_delivers_committed_once_aborted_never() {
        super::committed_is_delivered_once_and_aborted_never("native");
    }

    #[test]
    fn real_kafka_native_uncommitted_reader_gets_aborted() {
        super::delivers_what_was_aborted_to_those_who_ask_for_it("native");
    }

    #[test]
    fn real_kafka_native_fenced_producer_ends_the_load() {
        super::fenced_producer_ends_the_load_with_the_reason("native", 23);
    }
}
