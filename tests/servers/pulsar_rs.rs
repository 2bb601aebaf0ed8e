//! The crate `pulsar` as a client, and as a second reader and writer of what our own client writes and reads.

#![cfg(feature = "pulsar-rs")]

use std::path::Path;
use std::time::Duration;

use crate::harness::server::variable;
use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_delivered, pulsar, record_of, records_of};
use crate::pulsar::VERIFIED;
use brokermark::broker::pulsar::{PulsarBroker, PulsarCrateBroker};
use brokermark::broker::{
    Broker, Consumer, Created, Outgoing, Producer, Progress, Setup, Subscription, Topic, registry,
};
use brokermark::load::PayloadPool;
use brokermark::measure::{Acks, Clock, Interval, SendTag};
use brokermark::scenario::{Scenario, StartFrom, parse_for};

const MESSAGES: usize = 300;
const BATCH: usize = 30;

/// A scenario for `client`, with `options` of `[broker.pulsar]` and further tables.
fn scenario(client: &str, options: &str, tables: &str) -> String {
    let (address, admin) = (pulsar::address(), pulsar::admin());
    format!(
        "[broker]\nkind = \"pulsar\"\nclient = \"{client}\"\naddress = \"{address}\"\n[broker.pulsar]\nadmin = \"{admin}\"\n\
         {options}\n{tables}\n"
    )
}

fn plan(client: &str, options: &str) -> Scenario {
    let text = scenario(
        client,
        options,
        "[producers]\nheaders = { tenant = \"blue\", trace = \"a=b c\" }\n[run]\nmessages = 1",
    );
    let plan = parse_for(brokermark::engine::kinds(), &text, "exchange.toml", &[], Path::new(""));
    plan.unwrap_or_else(|error| panic!("{error}")).trials.remove(0).scenario
}

async fn connected<B: Broker>(options: &str, acks: &Acks) -> B {
    let client = B::DESCRIPTOR.client.unwrap();
    let scenario = plan(client, options);
    let setup = Setup {
        payloads: PayloadPool::build(&scenario.payload, 0).unwrap().into(),
        options: registry::options::<B>(scenario.broker.options.clone()).unwrap(),
        config: scenario.broker,
        acks: acks.clone(),
        conditions: brokermark::measure::Conditions::default(),
        run_id: format!("exchange-{client}"),
        header_sets: scenario.producers.header_sets,
        topic_config: Vec::new(),
        producers: 1,
        first_producer: 0,
        places_on_topics: vec![0],
        groups: 1,
        in_flight: MESSAGES,
        timeout: PATIENCE,
    };
    B::connect(setup).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Of many sizes, and not the same at any place.
fn payload(index: usize) -> Vec<u8> {
    (0..index * 7 % 501).map(|at| ((at * at / 3 + index) % 251) as u8).collect()
}

/// Every third message has none; the others have ASCII and other text.
fn key(index: usize) -> Option<String> {
    (!index.is_multiple_of(3)).then(|| format!("Schlüssel {}", index % 20))
}

/// What a reader sees of a message.
#[derive(Debug, PartialEq)]
struct Seen {
    payload: Vec<u8>,
    key: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
}

fn expected(index: usize) -> Seen {
    let mut headers = vec![("tenant".to_owned(), b"blue".to_vec()), ("trace".to_owned(), b"a=b c".to_vec())];
    headers.sort();
    Seen { payload: payload(index), key: key(index).map(String::into_bytes), headers }
}

async fn write(broker: &impl Broker, acks: &Acks, topic: &Topic) {
    let mut producer = broker.producer(0, topic).await.unwrap();
    let messages: Vec<_> = (0..MESSAGES).map(|index| (payload(index), key(index))).collect();
    let messages: Vec<Outgoing<'_>> = messages
        .iter()
        .enumerate()
        .map(|(index, (payload, key))| Outgoing {
            payload,
            key: key.as_deref().map(str::as_bytes),
            trace_header: None,
            attributes: None,
            send_tag: SendTag::new(0, index as u64, 0, 0, true),
        })
        .collect();
    for batch in messages.chunks(BATCH) {
        acks.window(0).submit(batch.len() as u64);
        assert_eq!(producer.submit(batch).await, Ok(batch.len()));
    }
    producer.finish();
    assert!(acks.window(0).resolved_reaches(MESSAGES as u64, acks.stopped()).await);
    producer.close().await;
}

async fn read(broker: &impl Broker, topic: &Topic) -> Vec<Seen> {
    let subscription = Subscription {
        number: 0,
        group: "readers".to_owned(),
        topic: topic.clone(),
        from: StartFrom::Earliest,
        members: 1,
        member: 0,
        consumer_number: 0,
        is_divided: false,
        properties: Vec::new(),
        progress: Progress::Uncommitted,
    };
    let mut consumer = broker.consumer(&subscription).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < MESSAGES {
        consumer.ready().await.unwrap();
        let took = consumer.take(|received| {
            let mut headers = received.details.headers();
            // The crate keeps them in a map.
            headers.sort();
            let key = received.details.key().map(|key| key.into_owned());
            seen.push(Seen { payload: received.payload.to_vec(), key, headers });
        });
        took.unwrap();
    }
    consumer.close().await;
    seen
}

/// Writes with one client and reads with the other.
async fn exchange<W: Broker, R: Broker>(options: &str) {
    let (writer, reader) = (W::DESCRIPTOR.client.unwrap(), R::DESCRIPTOR.client.unwrap());
    let acks = Acks::new(Clock::start(), 1, false);
    let name = format!("exchange-{writer}-{}", std::process::id());
    let topic = Topic { name, partitions: 1, replication: 1 };
    let writing: W = connected(options, &acks).await;
    let reading: R = connected(options, &acks).await;
    assert_eq!(writing.create_topic(&topic).await, Ok(Created::New));
    assert_eq!(reading.create_topic(&topic).await, Ok(Created::Existing(topic.clone())));
    write(&writing, &acks, &topic).await;
    let mut outcomes = Interval::default();
    acks.close(&mut outcomes, &mut Interval::default());
    assert_eq!((outcomes.measured.acknowledged, outcomes.measured.failed), (MESSAGES as u64, 0), "{options}");
    let seen = read(&reading, &topic).await;
    reading.close().await.unwrap();
    writing.delete_topic(&topic).await.unwrap();
    writing.close().await.unwrap();
    for (index, seen) in seen.into_iter().enumerate() {
        assert_eq!(seen, expected(index), "message {index} from {writer} to {reader} with {options}");
    }
}

#[test]
fn real_messages_of_either_client_are_read_by_the_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Snappy is not the same in the crate, which is why it is refused there.
    for compression in ["none", "lz4", "zlib", "zstd"] {
        for batching in [true, false] {
            let options = format!("compression = \"{compression}\"\nbatching = {batching}");
            runtime.block_on(exchange::<PulsarBroker, PulsarCrateBroker>(&options));
            runtime.block_on(exchange::<PulsarCrateBroker, PulsarBroker>(&options));
        }
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
}

#[test]
fn real_clients_are_compared_by_a_sweep() {
    let sweep =
        "[sweep.over]\n\"broker.client\" = [\"native\", \"pulsar-rs\"]\n\"broker.pulsar.batching\" = [true, false]";
    let records = records_of(&scenario("native", "", &format!("{VERIFIED}\n{sweep}")));
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_delivered(record, 5000, 2);
    }
    let clients: Vec<&str> =
        records.iter().map(|record| record.environment.client_library.as_deref().unwrap()).collect();
    assert!(clients[..2].iter().all(|client| client.starts_with("brokermark ")), "{clients:?}");
    assert_eq!(clients[2..], ["pulsar 6.9.1"; 2]);
}

#[test]
fn real_crate_serves_partitions_and_every_subscription() {
    let tables = VERIFIED.replace("batch = 50", "batch = 50\nkeys = { kind = \"round-robin\", distinct = 20 }");
    let sweep = "[topology]\npartitions = 3\n[sweep]\ncombine = \"zipped\"\n[sweep.over]\n\
                 \"broker.connections\" = [1, 2, 3, 2]\n\"consumers.members\" = [1, 2, 2, 2]\n\
                 \"broker.pulsar.subscription\" = [\"exclusive\", \"failover\", \"shared\", \"key-shared\"]";
    let records = records_of(&scenario("pulsar-rs", "", &format!("{tables}\n{sweep}")));
    let [exclusive, failover, shared, key_shared] = &records[..] else { panic!("{} records", records.len()) };
    assert_delivered(exclusive, 5000, 2);
    assert_delivered(failover, 5000, 2);
    // Members who share a partition keep no order among them.
    for record in [shared, key_shared] {
        assert_acknowledged(record, 5000);
        let found = record.verification.as_ref().unwrap();
        assert_eq!(
            (found.received, found.unread + found.lost + found.duplicated + found.corrupt),
            (10_000, 0),
            "{found:?}"
        );
    }
}

#[test]
fn real_crate_logs_in_with_tls_and_refuses_wrong_token() {
    let tls = |token: &str| {
        let text = scenario("pulsar-rs", &format!("token = {{ env = \"{token}\" }}"), VERIFIED);
        let authority = variable("BROKERMARK_PULSAR_CA");
        let text = text.replace(&pulsar::address(), &variable("BROKERMARK_PULSAR_TLS"));
        format!("{text}\n[broker.security.tls]\nca = \"{authority}\"\n")
    };
    assert_delivered(&Bench::new(&tls("BROKERMARK_PULSAR_TOKEN")).run(&[]).expect(0).record(), 5000, 2);
    Bench::new(&tls("BROKERMARK_PULSAR_WRONG_TOKEN")).run(&[]).expect(1).complains_of(&["refused the credentials"]);
}

/// The broker may deliver a second too early, which is its tick (`delayedDeliveryTickTimeMillis`).
#[test]
fn real_crate_delivers_later_when_asked_to() {
    let tables = "[load]\nrate = \"100/s\"\n[consumers]\n[run]\nmessages = 100\ndrain_deadline = \"30s\"";
    let record = record_of(&scenario("pulsar-rs", "deliver_after = \"4s\"\nsubscription = \"shared\"", tables));
    assert_acknowledged(&record, 100);
    let least = record.latency.end_to_end.as_ref().unwrap().min_ns;
    assert!(least >= 2_500_000_000, "{least}");
}
