//! Share groups (KIP-932) on a real Kafka through `client = "native"`: each message is accepted once, whatever becomes of its members.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use brokermark::broker::kafka_native::KafkaNativeBroker;
use brokermark::broker::{Broker, BrokerOptions, Consumer, ConsumerAnswers, Progress, Setup, Subscription, Topic};
use brokermark::load::PayloadPool;
use brokermark::measure::{Acks, Clock, Conditions};
use brokermark::record::Record;
use brokermark::scenario::{BrokerConfig, Content, Payload, Security, Size, StartFrom};
use tokio::time::timeout;

use crate::harness::{Bench, PATIENCE, kafka, record_of, sums};

const MESSAGES: u64 = 2000;

/// A load whose messages are received by a share group with these keys.
fn scenario(share_group: &str, tables: &str) -> String {
    let address = kafka::address();
    format!(
        "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"{address}\"\n[broker.kafka.share_group]\n{share_group}\n\
         [topology]\npartitions = 2\n[payload]\nsize = \"100B\"\n[consumers]\nmembers = 3\n{tables}\n[run]\nmessages = {MESSAGES}"
    )
}

/// Every message was received, and none came again without the broker having announced it.
fn assert_received(record: &Record) -> (u64, ConsumerAnswers) {
    let found = sums(record);
    let wrong = (found.lost, found.unread, found.duplicated, found.corrupt, found.undecided);
    assert_eq!(wrong, (0, 0, 0, 0, 0), "{found:#?}\n{:#?}", record.receive_errors);
    assert_eq!(found.received, MESSAGES + found.redelivered, "{found:#?}");
    assert_eq!(record.receive_errors, [], "{found:#?}");
    (found.redelivered, record.consumer_answers.clone().unwrap())
}

#[test]
fn real_share_group_accepts_each_message_once() {
    for acknowledge in ["implicit", "explicit"] {
        let text = scenario(&format!("acknowledge = \"{acknowledge}\""), "");
        let record = record_of(&text);
        let (redelivered, answers) = assert_received(&record);
        let expected = ConsumerAnswers {
            acknowledge: acknowledge.to_owned(),
            accepted: MESSAGES,
            most_deliveries: 1,
            ..ConsumerAnswers::default()
        };
        assert_eq!((redelivered, answers), (0, expected));
    }
}

/// What is released, or left until its lock expires, is delivered to the group again. What is rejected is not.
#[test]
fn real_share_group_delivers_again_what_was_not_accepted() {
    let shares =
        "acknowledge = \"explicit\"\nlock_duration = \"1s\"\nrelease = 0.1\nreject = 0.05\nrenew = 0.05\nexpire = 0.02";
    // The load lasts longer than the locks.
    let (redelivered, answers) = assert_received(&record_of(&scenario(shares, "[load]\nrate = \"500/s\"")));
    let about =
        |share: f64, count: u64| (share * MESSAGES as f64 - 3.0..=share * MESSAGES as f64).contains(&(count as f64));
    assert!(about(0.1, answers.released) && about(0.05, answers.rejected), "{answers:#?}");
    assert!(about(0.05, answers.renewed) && about(0.02, answers.left_to_expire), "{answers:#?}");
    assert!(answers.most_deliveries >= 2 && answers.unconfirmed == 0, "{answers:#?}");
    assert!(
        redelivered > answers.released && redelivered <= answers.released + answers.left_to_expire,
        "{redelivered} {answers:#?}"
    );
    assert!(answers.accepted + answers.rejected <= MESSAGES, "{answers:#?}");
}

fn options(text: &str) -> <KafkaNativeBroker as Broker>::Options {
    let options: <KafkaNativeBroker as Broker>::Options = toml::from_str(text).unwrap();
    options.check().unwrap();
    options
}

async fn connect(text: &str) -> KafkaNativeBroker {
    let content = Content::Random { size: Size::Uniform { min: 1, max: 1 }, compressibility: 0.0 };
    let payloads = PayloadPool::build(&Payload { content, pool: 1, seed: 1, tombstones: 0.0 }, 0).unwrap();
    let config = BrokerConfig {
        kind: "kafka".to_owned(),
        client: Some("native"),
        addresses: vec![kafka::address()],
        connections: 1,
        properties: Vec::new(),
        security: Security::default(),
        options: toml::Table::new(),
    };
    let setup = Setup {
        config,
        options: options(text),
        acks: Acks::new(Clock::start(), 1, false),
        conditions: Conditions::default(),
        payloads: Arc::new(payloads),
        run_id: "share".to_owned(),
        header_sets: vec![Vec::new()],
        topic_config: Vec::new(),
        producers: 1,
        first_producer: 0,
        places_on_topics: vec![0],
        groups: 1,
        in_flight: 1,
        timeout: Duration::from_secs(30),
    };
    KafkaNativeBroker::connect(setup).await.unwrap()
}

/// Messages by their offsets, and whether the broker announced that they come again.
type Taken = Vec<(u64, bool)>;

/// What comes next to a member, which has answered what it was given before.
async fn next(member: &mut impl Consumer) -> Taken {
    let mut taken = Taken::new();
    while taken.is_empty() {
        timeout(PATIENCE, member.ready()).await.unwrap().unwrap();
        member.take(|message| taken.push((message.offset, message.redelivered))).unwrap();
    }
    taken
}

/// Of three members, one is killed with messages that it has not answered, and another one keeps its messages until their locks expire, and
/// answers then. The third one accepts each message once, and only those that another one had are announced as repeated.
#[test]
fn real_share_group_survives_a_killed_member_and_expired_locks() {
    let name = format!("share-{}", std::process::id());
    let fill = format!(
        "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"{}\"\nkafka = {{ batch_bytes = \"2KiB\" }}\n\
         [topology]\nname = \"{name}\"\nkeep = true\n[payload]\nsize = \"100B\"\n[run]\nmessages = {MESSAGES}",
        kafka::address()
    );
    Bench::new(&fill).run(&[]).expect(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let broker = connect("[share_group]\nmax_records = 100\nlock_duration = \"2s\"").await;
        let topic = Topic { name: name.clone(), partitions: 1, replication: 1 };
        let subscription = |member| Subscription {
            group: format!("{name}-group"),
            number: 0,
            topic: topic.clone(),
            from: StartFrom::Earliest,
            members: 3,
            member,
            consumer_number: member,
            is_divided: false,
            properties: Vec::new(),
            progress: Progress::Uncommitted,
        };
        let mut killed = broker.consumer(&subscription(0)).await.unwrap();
        let of_killed = next(&mut killed).await;
        let mut late = broker.consumer(&subscription(1)).await.unwrap();
        let of_late = next(&mut late).await;
        drop(killed);
        let mut worker = broker.consumer(&subscription(2)).await.unwrap();
        let mut of_worker = Taken::new();
        while of_worker.len() < MESSAGES as usize {
            of_worker.extend(next(&mut worker).await);
        }
        let offsets = |taken: &Taken| taken.iter().map(|(offset, _)| *offset).collect::<BTreeSet<u64>>();
        assert!(of_killed.iter().chain(&of_late).all(|(_, redelivered)| !redelivered));
        assert_eq!((of_worker.len(), offsets(&of_worker)), (MESSAGES as usize, (0..MESSAGES).collect()));
        let announced: Taken = of_worker.iter().filter(|(_, redelivered)| *redelivered).copied().collect();
        assert_eq!(offsets(&announced), &offsets(&of_killed) | &offsets(&of_late));
        // The broker refuses the answers of the member that is late.
        late.close().await;
        worker.close().await;
        let answers = broker.answers().unwrap();
        let (accepted, unconfirmed, most) = (answers.accepted, answers.unconfirmed, answers.most_deliveries);
        assert_eq!((accepted, unconfirmed, most), (MESSAGES, of_late.len() as u64, 2), "{answers:#?}");
        assert!(!broker.will_redeliver(&topic).await);
        broker.delete_topic(&topic).await.unwrap();
    });
}

#[test]
fn real_share_group_refuses_what_it_cannot_do() {
    let refused = |text: &str, words: &str| Bench::new(text).run(&[]).expect(1).complains_of(&[words]);
    let pipeline = scenario("", "").replace("[consumers]\nmembers = 3", "[pipeline]\nparse = \"none\"\ninstances = 3");
    refused(&pipeline, "a pipeline commits offsets");
    let properties = scenario("", "[consumers.properties]\n\"group.protocol\" = \"consumer\"");
    refused(&properties, "`consumers.properties.\"group.protocol\"`");
    // The broker's own limit.
    refused(&scenario("lock_duration = \"10ms\"", ""), "share.record.lock.duration.ms");
}
