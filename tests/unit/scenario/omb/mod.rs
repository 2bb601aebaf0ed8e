//! Workloads with the keys and values of those in openmessaging/benchmark's folder `workloads` (Apache License 2.0).

use super::super::overrides::{Origin, Written};
use super::*;

/// Topics, partitions of each, bytes, subscriptions, consumers of each, producers of each topic, rate, backlog in GB, minutes.
struct Row(&'static str, [u64; 9], &'static str);

const RANDOMIZED: &str = "useRandomizedPayloads: true\nrandomBytesRatio: 0.5\nrandomizedPayloadPoolSize: 1000";
const ALIKE: &str = "useRandomizedPayloads: true";

const ACCEPTED: [Row; 12] = [
    Row("simple-workload", [1, 10, 1024, 1, 1, 1, 10_000, 0, 5], ALIKE),
    Row("1-topic-1-partition-100b", [1, 1, 100, 1, 1, 1, 50_000, 0, 15], ALIKE),
    Row("1-topic-1-partition-1kb-with-key", [1, 1, 1024, 1, 1, 1, 50, 0, 15], "keyDistributor: \"KEY_ROUND_ROBIN\""),
    Row("1-topic-16-partitions-1kb", [1, 16, 1024, 1, 1, 1, 50_000, 0, 15], ALIKE),
    Row("1-topic-100-partitions-1kb-4p-4c-1000k", [1, 100, 1024, 1, 4, 4, 1_000_000, 0, 5], RANDOMIZED),
    Row("1-topic-100-partitions-1kb-4p-4c-200k-backlog", [1, 100, 1024, 1, 4, 4, 200_000, 512, 5], RANDOMIZED),
    Row("100-topics-1-partitions-1kb", [100, 1, 1024, 3, 1, 1, 150_000, 0, 80], ALIKE),
    Row("100-topic-4-partitions-1kb-4p-4c-500k", [100, 4, 1024, 1, 4, 4, 500_000, 0, 5], RANDOMIZED),
    Row("1m-10-topics-16-partitions-100b", [10, 16, 100, 1, 1, 1, 1_000_000, 0, 15], RANDOMIZED),
    Row("1m-10-topics-3-partitions-100b-64gb-backlog", [10, 3, 100, 1, 1, 1, 1_000_000, 64, 15], RANDOMIZED),
    Row("max-rate-1-topic-1-partition-1p-1c-100b", [1, 1, 100, 1, 1, 1, 10_000_000, 0, 15], RANDOMIZED),
    Row("without consumers", [1, 3, 100, 1, 0, 3, 10_000, 0, 15], ALIKE),
];

fn workload(Row(name, values, rest): &Row) -> String {
    let [topics, partitions, bytes, subscriptions, consumers, producers, rate, backlog, minutes] = values;
    format!(
        "# a comment\nname: {name}\n\ntopics: {topics}\npartitionsPerTopic: {partitions}\nmessageSize: {bytes}\n{rest}\n\
         subscriptionsPerTopic: {subscriptions}\nconsumerPerSubscription: {consumers}\nproducersPerTopic: {producers}\n\
         producerRate: {rate}\nconsumerBacklogSizeGB: {backlog}\ntestDurationMinutes: ${{ombTestDuration:-{minutes}}}\n"
    )
}

const KAFKA: &str = "name: Kafka\ndriverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver\n\
    replicationFactor: 3\nreset: true\ntopicConfig: |\n  min.insync.replicas=2\n\ncommonConfig: |\n  \
    bootstrap.servers=a:9092,b\n  default.api.timeout.ms=600000\n\nproducerConfig: |\n  acks=all\n  linger.ms=1\n  \
    batch.size=131072\n\nconsumerConfig: |\n  auto.offset.reset=earliest\n  enable.auto.commit=false\n  \
    max.partition.fetch.bytes=10485760\n";

const PULSAR: &str = "name : Pulsar\ndriverClass: io.openmessaging.benchmark.driver.pulsar.PulsarBenchmarkDriver\n\
    client:\n    serviceUrl : pulsar://localhost:6650\n    httpUrl : http://localhost:8080\n    ioThreads : 8\n    \
    connectionsPerBroker : 8\n    namespacePrefix : benchmark/local/ns\n    topicType: persistent\n    persistence:\n      \
    ensembleSize : 3\n      writeQuorum : 3\n      ackQuorum : 2\nproducer:\n    batchingEnabled : true\n    \
    batchingMaxPublishDelayMs : 1\n    blockIfQueueFull : true\n";

const NSQ: &str = "name: Nsq\ndriverClass: io.openmessaging.benchmark.driver.nsq.NsqBenchmarkDriver\nnsqdHost: localhost\n\
    lookupHost: localhost";

const RABBITMQ: &str = "name: RabbitMQ\ndriverClass: io.openmessaging.benchmark.driver.rabbitmq.RabbitMqBenchmarkDriver\n\
    producerCreationDelay: 100\namqpUris:\n  - amqp://admin:p%40ss@a/%2F\n  - amqp://admin:p%40ss@b:5673/%2F\n\
    messagePersistence: true\nqueueType: QUORUM\n";

const NATS: &str = "name: NATS\ndriverClass: io.openmessaging.benchmark.driver.nats.NatsBenchmarkDriver\n\n\
    natsHostUrl: localhost:4222\n\nreplicationFactor: 3";

fn converted(workload: &str, driver: &str, has_rate: bool) -> Result<String, ScenarioError> {
    imported(workload, driver, has_rate).map(|imported| imported.text)
}

fn imported(workload: &str, driver: &str, has_rate: bool) -> Result<Imported, ScenarioError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    import(crate::engine::kinds(), &write("workload.yaml", workload), &write("driver.yaml", driver), has_rate)
}

/// Reads what was converted as a scenario of this build.
fn check(text: &str) {
    let parsed = super::super::parse_for(crate::engine::kinds(), text, "converted", &[], Path::new(""));
    assert!(parsed.is_ok(), "{text}\n{}", parsed.unwrap_err());
}

#[test]
#[cfg(all(feature = "kafka", feature = "pulsar", feature = "nsq"))]
fn workloads_become_scenarios_that_are_accepted() {
    for row in &ACCEPTED {
        for driver in [KAFKA, PULSAR] {
            check(&converted(&workload(row), driver, false).unwrap_or_else(|error| panic!("{}: {error}", row.0)));
        }
    }
    check(&converted(&workload(&ACCEPTED[1]), NSQ, false).unwrap());
}

#[test]
fn a_workload_and_a_driver_as_a_scenario() {
    insta::assert_snapshot!(converted(&workload(&ACCEPTED[5]), KAFKA, false).unwrap());
}

#[test]
fn a_driver_of_pulsar_as_a_scenario() {
    insta::assert_snapshot!(converted(&workload(&ACCEPTED[2]), PULSAR, false).unwrap());
}

#[test]
#[cfg(feature = "rabbitmq")]
fn a_driver_of_rabbitmq_as_a_scenario() {
    let scenario = converted(&workload(&ACCEPTED[1]), RABBITMQ, false).unwrap();
    check(&scenario);
    let expected = "kind = 'rabbitmq'\naddresses = ['a:5672', 'b:5673']\n\
        rabbitmq = { virtual_host = '/', queue = 'quorum', exchange = 'fanout', persistent = true, acknowledge = 'automatic' }\n\
        security.sasl = { mechanism = 'PLAIN', username = 'admin', password = 'p@ss' }";
    let scenario: toml::Table = scenario.parse().unwrap();
    assert_eq!(scenario["broker"].as_table(), Some(&expected.parse().unwrap()));
    assert_eq!(scenario["topology"]["replication"].as_integer(), Some(2));
}

#[test]
#[cfg(feature = "nats")]
fn a_driver_of_nats_as_a_scenario() {
    let scenario = converted(&workload(&ACCEPTED[1]), NATS, false).unwrap();
    check(&scenario);
    let scenario: toml::Table = scenario.parse().unwrap();
    let expected =
        "kind = 'nats'\naddresses = ['localhost:4222']\nnats = { consumer = 'push', max_ack_pending = 1000 }";
    assert_eq!(scenario["broker"].as_table(), Some(&expected.parse().unwrap()));
    assert_eq!(scenario["topology"]["replication"].as_integer(), Some(3));
    let encrypted = NATS.replace("localhost:4222", "tls://a,tls://b:4333");
    let scenario = converted(&workload(&ACCEPTED[1]), &encrypted, false).unwrap();
    assert!(scenario.contains("[\"a:4222\", \"b:4333\"]") && scenario.contains("tls = true"), "{scenario}");
    check(&scenario);
    for (driver, parts) in [
        (NATS.replace("localhost", "me:hunter2@localhost"), ["`natsHostUrl`", "broker.security.sasl"]),
        (NATS.replace("natsHostUrl", "clusterId"), ["`clusterId`", "`natsHostUrl`: it is missing"]),
        (NATS.replace("NatsBench", "NatsStreamingBench"), ["`driverClass`", "NATS Streaming"]),
    ] {
        let error = converted(&workload(&ACCEPTED[1]), &driver, false).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)) && !error.contains("hunter2"), "{error}");
    }
    let error = converted(&workload(&ACCEPTED[0]), NATS, false).unwrap_err().to_string();
    assert!(error.contains("no partitions"), "{error}");
}

#[test]
#[cfg(feature = "redis")]
fn a_driver_of_redis_as_a_scenario() {
    let redis = "driverClass: a.RedisBenchmarkDriver\nredisPort: 6380\nredisHost: 127.0.0.1\njedisPoolMaxTotal: 8\njedisPoolMaxIdle: 8";
    let scenario = converted(&workload(&ACCEPTED[1]), redis, false).unwrap();
    check(&scenario);
    let scenario: toml::Table = scenario.parse().unwrap();
    let expected = "kind = 'redis'\naddresses = ['127.0.0.1:6380']\nconnections = 8\nredis = { acknowledge = false }";
    assert_eq!(scenario["broker"].as_table(), Some(&expected.parse().unwrap()));
    for (driver, part) in [
        (format!("{redis}\nredisPass: hunter2"), "broker.security.sasl"),
        (redis.replace("redisHost", "redisName"), "`redisHost`: it is missing"),
        (redis.replace("6380", "65537"), "`redisPort`: 65537 is not a port"),
        (redis.replace("6380", "0"), "`redisPort`: 0 is not a port"),
    ] {
        let error = converted(&workload(&ACCEPTED[1]), &driver, false).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
    }
    assert!(converted(&workload(&ACCEPTED[0]), redis, false).unwrap_err().to_string().contains("no partitions"));
}

/// Files of its earlier versions and of forks.
#[test]
#[cfg(feature = "rabbitmq")]
fn drivers_of_rabbitmq_that_name_hosts_become_scenarios() {
    let class = "driverClass: io.openmessaging.benchmark.driver.rabbitmq.RabbitMqBenchmarkDriver\n";
    let one = converted(&workload(&ACCEPTED[1]), &format!("{class}brokerAddress: localhost"), false).unwrap();
    assert!(one.contains("addresses = [\"localhost:5672\"]") && one.contains("queue = \"classic\""), "{one}");
    check(&one);
    let fork = format!("{class}brokers:\n  - a\n  - b\nexchangeType: DIRECT\nsingleNode: false");
    let error = converted(&workload(&ACCEPTED[1]), &fork, false).unwrap_err().to_string();
    assert!(error.contains("`singleNode`") && !error.contains("`brokers`"), "{error}");
    let unlike = RABBITMQ.replace("@b:5673/%2F", "@b:5673/other");
    let error = converted(&workload(&ACCEPTED[1]), &unlike, false).unwrap_err().to_string();
    assert!(error.contains("`amqpUris`") && error.contains("one virtual host"), "{error}");
}

/// What was met in the benchmark's own files for these drivers and their forks.
#[test]
#[cfg(all(feature = "kafka", feature = "pulsar"))]
fn drivers_with_rare_settings_become_valid_scenarios() {
    let simple = workload(&ACCEPTED[0]);
    let patient = KAFKA.replace("default.api.timeout.ms=600000", "request.timeout.ms=1200000");
    let scenario = converted(&simple, &patient, false).unwrap();
    assert!(scenario.contains("\"900000\""), "{scenario}");
    check(&scenario);
    let placed = KAFKA.replace("=a:9092,b", "=${kafkaServiceUrl:-localhost:9092}") + "  group.id=replaced\n";
    let scenario = converted(&simple, &placed, false).unwrap();
    assert!(scenario.contains("[\"localhost:9092\"]") && !scenario.contains("group.id"), "{scenario}");
    check(&scenario);
    let single = KAFKA.replace("batch.size=131072", "batch.size=0");
    let scenario = converted(&simple, &single, false).unwrap();
    assert!(scenario.contains("\"batch.num.messages\" = \"1\"") && !scenario.contains("batch.size"), "{scenario}");
    check(&scenario);
    let durable = format!("{PULSAR}consumer:\n    subscriptionType: Failover\n    subscriptionMode: Durable\n");
    check(&converted(&simple, &durable, false).unwrap());
    let error = converted(&simple, &durable.replace("Durable", "NonDurable"), false).unwrap_err().to_string();
    assert!(error.contains("`subscriptionMode`"), "{error}");
}

#[test]
fn what_has_no_counterpart_is_refused_by_its_name() {
    let simple = workload(&ACCEPTED[0]);
    let refused = |workload: &str, driver: &str, parts: &[&str]| {
        let error = converted(workload, driver, false).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let highest = simple.replace("producerRate: 10000", "producerRate: 0");
    refused(&highest, KAFKA, &["workload.yaml", "`producerRate`", "brokermark search --omb"]);
    assert!(converted(&highest, KAFKA, true).is_ok(), "a search sets the rate");
    let steps = format!("{simple}producerIncrementRate: 100\n");
    refused(&steps, KAFKA, &["`producerIncrementRate`", "load.schedule"]);
    refused(
        &format!("{simple}drainProducerRate: 5\n"),
        KAFKA,
        &["yaml:14: `drainProducerRate`", "write -1", "load.schedule"],
    );
    refused(&format!("{simple}consumerOnly: true\n"), KAFKA, &["yaml:14: `consumerOnly`", "no counterpart"]);
    refused(&format!("{simple}producersPerTopicList: [1]\n"), KAFKA, &["`producersPerTopicList`", "alike"]);
    refused(&format!("{simple}keyDistributor: ONE\n"), KAFKA, &["`keyDistributor`: `ONE` is unknown", "RANDOM_NANO"]);
    let consumers = simple.replace("consumerPerSubscription: 1", "").replace("GB: 0", "GB: 100");
    refused(&consumers, KAFKA, &["consumerBacklogSizeGB", "needs consumers"]);
    refused(&simple, "driverClass: a.b.RocketMQBenchmarkDriver", &["RocketMQBenchmarkDriver"]);
    let transactions = "driverClass: a.redpanda.tx.RedpandaBenchmarkDriver\nrequestsPerTransaction: 2";
    refused(&simple, transactions, &["driver.yaml:1: `driverClass`", "broker.kafka.transactions.messages"]);
    let template = "driverClass: a.KafkaBenchmarkDriver\nname: {{ name }}";
    refused(&simple, template, &["driver.yaml:2: ", "it is a template"]);
    let selecting = "driverClass: a.b.JMSBenchmarkDriver\nproperties:\n  - name: foo\n    value: bar\nselector: x";
    refused(&simple, selecting, &["JMSBenchmarkDriver"]);
    refused(&simple, "name: nothing", &["driverClass", "missing"]);
    refused(
        &simple,
        &format!("{KAFKA}  group.instance.id=x\n"),
        &["driver.yaml:21: `group.instance.id`", "static_members"],
    );
    let kerberos = KAFKA.replace("acks=all", "security.protocol=SASL_SSL\n  sasl.mechanism=GSSAPI");
    refused(&simple, &kerberos, &["`sasl.mechanism`", "Kerberos"]);
    let two = format!("{}  security.protocol=SSL\n", KAFKA.replace("acks=all", "security.protocol=PLAINTEXT"));
    refused(&simple, &two, &["`security.protocol`", "two values"]);
    refused(&simple, NSQ, &["no partitions"]);
    let secured = PULSAR.replace("topicType: persistent", "authentication:\n      plugin: some.Plugin");
    refused(&simple, &secured, &["authentication", "broker.pulsar.token"]);
}

/// A key of a file with two values that mean different things.
type KeyRow = (&'static str, [&'static str; 2]);

const WORKLOAD_ROWS: [KeyRow; 29] = [
    ("name", ["a", "b"]),
    ("topics", ["1", "2"]),
    ("partitionsPerTopic", ["1", "2"]),
    ("keyDistributor", ["KEY_ROUND_ROBIN", "RANDOM_NANO"]),
    ("messageSize", ["100", "200"]),
    ("useRandomizedPayloads", ["true", "false"]),
    ("randomBytesRatio", ["0.1", "0.2"]),
    ("randomizedPayloadPoolSize", ["10", "20"]),
    ("payloadFile", ["a", "b"]),
    ("subscriptionsPerTopic", ["1", "2"]),
    ("producersPerTopic", ["1", "2"]),
    ("consumerPerSubscription", ["1", "2"]),
    ("producerRate", ["1000", "2000"]),
    ("producerStartRate", ["1", "2"]),
    ("acceptableBacklog", ["1", "2"]),
    ("consumerBacklogSizeGB", ["1", "2"]),
    ("backlogDrainRatio", ["0.5", "0.6"]),
    ("testDurationMinutes", ["1", "2"]),
    ("warmupDurationMinutes", ["1", "2"]),
    ("producerIncrementRate", ["0", "1"]),
    ("producerIncrementSeconds", ["1", "2"]),
    ("messageSizeDistribution", ["{\"0-256\": 1}", "{\"0-512\": 1}"]),
    ("producerRateList", ["[[0, 1000]]", "[[0, 2000]]"]),
    ("drainProducerRate", ["-1", "5"]),
    ("partitionsPerTopicList", ["[1]", "[2]"]),
    ("producersPerTopicList", ["[1]", "[2]"]),
    ("logIntervalMillis", ["1", "2"]),
    ("sampleRateMillis", ["1", "2"]),
    ("randomTopicNames", ["true", "false"]),
];

const KAFKA_ROWS: [KeyRow; 6] = [
    ("replicationFactor", ["1", "2"]),
    ("reset", ["false", "true"]),
    ("topicConfig", ["|\n  a=1", "|\n  a=2"]),
    ("commonConfig", ["|\n  bootstrap.servers=a", "|\n  bootstrap.servers=b"]),
    ("producerConfig", ["|\n  linger.ms=1", "|\n  linger.ms=2"]),
    ("consumerConfig", ["|\n  fetch.min.bytes=1", "|\n  fetch.min.bytes=2"]),
];

const PULSAR_CLIENT_ROWS: [KeyRow; 12] = [
    ("authentication", ["\n      plugin: a", "\n      plugin: b"]),
    ("clusterName", ["a", "b"]),
    ("connectionsPerBroker", ["1", "2"]),
    ("httpUrl", ["http://a:1", "http://b:1"]),
    ("ioThreads", ["1", "2"]),
    ("namespacePrefix", ["a/b", "a/c"]),
    ("persistence", ["\n      ensembleSize: 1", "\n      ensembleSize: 2"]),
    ("serviceUrl", ["pulsar://a", "pulsar://b"]),
    ("tlsAllowInsecureConnection", ["false", "true"]),
    ("tlsEnableHostnameVerification", ["false", "true"]),
    ("tlsTrustCertsFilePath", ["a", "b"]),
    ("topicType", ["persistent", "non_persistent"]),
];

const PULSAR_PRODUCER_ROWS: [KeyRow; 5] = [
    ("batchingEnabled", ["false", "true"]),
    ("batchingMaxPublishDelayMs", ["1", "2"]),
    ("batchingMaxBytes", ["1000", "2000"]),
    ("blockIfQueueFull", ["false", "true"]),
    ("pendingQueueSize", ["1", "2"]),
];

const PULSAR_CONSUMER_ROWS: [KeyRow; 3] = [
    ("subscriptionMode", ["Durable", "NonDurable"]),
    ("subscriptionType", ["Shared", "Key_Shared"]),
    ("receiverQueueSize", ["1", "2"]),
];

#[cfg(feature = "nats")]
const NATS_ROWS: [KeyRow; 2] = [("natsHostUrl", ["a", "b"]), ("replicationFactor", ["1", "2"])];

#[cfg(feature = "redis")]
const REDIS_ROWS: [KeyRow; 6] = [
    ("redisHost", ["a", "b"]),
    ("redisPort", ["1", "2"]),
    ("redisUser", ["a", "b"]),
    ("redisPass", ["a", "b"]),
    ("jedisPoolMaxTotal", ["1", "2"]),
    ("jedisPoolMaxIdle", ["1", "2"]),
];

const NSQ_ROWS: [KeyRow; 2] = [("nsqdHost", ["a", "b"]), ("lookupHost", ["a", "b"])];

#[cfg(feature = "rabbitmq")]
const RABBITMQ_ROWS: [KeyRow; 10] = [
    ("amqpUris", ["\n  - amqp://a", "\n  - amqp://b"]),
    ("brokerAddress", ["a", "b"]),
    ("brokers", ["\n  - a", "\n  - b"]),
    ("messagePersistence", ["false", "true"]),
    ("queueType", ["CLASSIC", "QUORUM"]),
    ("exchangeType", ["FANOUT", "DIRECT"]),
    ("producerCreationDelay", ["1", "2"]),
    ("producerCreationBatchSize", ["1", "2"]),
    ("consumerCreationDelay", ["1", "2"]),
    ("consumerCreationBatchSize", ["1", "2"]),
];

/// Keys of which both values give the same scenario, and neither is refused or said to be left out.
fn silent(rows: &[KeyRow], files: impl Fn(&str, &str) -> (String, String)) -> Vec<&'static str> {
    let is_silent = |(key, values): &KeyRow| {
        let of_value = |value: &str| {
            let (workload, driver) = files(key, value);
            let quoted = format!("`{key}`");
            match imported(&workload, &driver, false) {
                Err(error) if error.to_string().contains(&quoted) => None,
                Err(error) => panic!("{key}: {error}"),
                Ok(Imported { note: Some(note), text, .. }) if note.contains(&quoted) => {
                    assert!(text.contains(&format!("# - {quoted}: ")), "{text}");
                    None
                }
                Ok(Imported { text, .. }) => Some(text),
            }
        };
        matches!(values.map(of_value), [Some(one), Some(other)] if one == other)
    };
    rows.iter().filter(|row| is_silent(row)).map(|(key, _)| *key).collect()
}

/// The lines of these keys, with one more, or another value for one.
fn with_key(keys: &[(&str, &str)], key: &str, value: &str) -> String {
    let others = keys.iter().filter(|(other, _)| *other != key).copied();
    others.chain([(key, value)]).map(|(key, value)| format!("{key}: {value}\n")).collect()
}

fn names(rows: &[KeyRow]) -> Vec<&'static str> {
    rows.iter().map(|(key, _)| *key).collect()
}

#[test]
fn each_key_of_a_workload_is_mapped_refused_or_said() {
    assert_eq!(names(&WORKLOAD_ROWS), workload::KNOWN);
    let files = |key: &str, value: &str| {
        let base = [
            ("messageSize", "100"),
            ("producerRate", "1000"),
            ("testDurationMinutes", "5"),
            ("subscriptionsPerTopic", "1"),
            ("consumerPerSubscription", "1"),
            ("useRandomizedPayloads", "true"),
            ("randomBytesRatio", "0.5"),
        ];
        (with_key(&base, key, value), KAFKA.to_owned())
    };
    assert_eq!(silent(&WORKLOAD_ROWS, files), [""; 0]);
}

#[test]
fn each_key_of_a_driver_is_mapped_refused_or_said() {
    let labels = ["name", "driverClass"];
    let all_are_told = |rows: &[KeyRow], known: &[&str], topics: &Row, base: [(&str, &str); 2]| {
        assert_eq!([&labels[..], &names(rows)].concat(), known);
        let files = |key: &str, value: &str| (workload(topics), with_key(&base, key, value));
        assert_eq!(silent(rows, files), [""; 0]);
    };
    let base = [("driverClass", "a.KafkaBenchmarkDriver"), ("commonConfig", "|\n  bootstrap.servers=a")];
    all_are_told(&KAFKA_ROWS, &driver::KAFKA, &ACCEPTED[0], base);
    let base = [("driverClass", "a.NsqBenchmarkDriver"), ("nsqdHost", "a")];
    all_are_told(&NSQ_ROWS, &driver::NSQ, &ACCEPTED[1], base);
    #[cfg(feature = "nats")]
    {
        let base = [("driverClass", "a.NatsBenchmarkDriver"), ("natsHostUrl", "a")];
        all_are_told(&NATS_ROWS, &driver::NATS, &ACCEPTED[1], base);
    }
    #[cfg(feature = "redis")]
    {
        let base = [("driverClass", "a.RedisBenchmarkDriver"), ("redisHost", "a")];
        all_are_told(&REDIS_ROWS, &driver::REDIS, &ACCEPTED[1], base);
    }
    #[cfg(feature = "rabbitmq")]
    {
        let base = [("driverClass", "a.RabbitMqBenchmarkDriver"), ("amqpUris", "\n  - amqp://a")];
        all_are_told(&RABBITMQ_ROWS, &driver::RABBITMQ, &ACCEPTED[1], base);
    }

    assert_eq!([&labels[..], &["client", "producer", "consumer"]].concat(), pulsar_driver::KEYS);
    assert_eq!(names(&PULSAR_CLIENT_ROWS), pulsar_driver::CLIENT);
    assert_eq!(names(&PULSAR_PRODUCER_ROWS), pulsar_driver::PRODUCER);
    assert_eq!(names(&PULSAR_CONSUMER_ROWS), pulsar_driver::CONSUMER);
    let pulsar = |table: &'static str| {
        move |key: &str, value: &str| {
            // The values of the tables are written with their indentation.
            let own = with_key(&[], &format!("    {key}"), value);
            let [client, more] = match table {
                "client" if key == "serviceUrl" => [own, String::new()],
                "client" => [format!("    serviceUrl: pulsar+ssl://a\n{own}"), String::new()],
                table => ["    serviceUrl: pulsar+ssl://a\n".to_owned(), format!("{table}:\n{own}")],
            };
            (workload(&ACCEPTED[4]), format!("driverClass: a.PulsarBenchmarkDriver\nclient:\n{client}{more}"))
        }
    };
    assert_eq!(silent(&PULSAR_CLIENT_ROWS, pulsar("client")), [""; 0]);
    assert_eq!(silent(&PULSAR_PRODUCER_ROWS, pulsar("producer")), [""; 0]);
    assert_eq!(silent(&PULSAR_CONSUMER_ROWS, pulsar("consumer")), [""; 0]);
}

#[test]
fn tls_and_the_login_of_kafka_are_taken_over() {
    let login = "security.protocol=SASL_SSL\n  sasl.mechanism=PLAIN\n  \
                 sasl.jaas.config=a.PlainLoginModule required username=\"me\" \\\n    password=\"p\";";
    let text = converted(&workload(&ACCEPTED[0]), &KAFKA.replace("acks=all", login), false).unwrap();
    let scenario: toml::Table = text.parse().unwrap();
    let expected = "tls = true\nsasl = { mechanism = \"PLAIN\", username = \"me\", password = \"p\" }";
    assert_eq!(scenario["broker"]["security"], toml::from_str(expected).unwrap());
}

/// The driver overwrites a few of them itself.
#[test]
fn each_property_of_kafka_is_mapped_refused_or_said() {
    let with_property = |key: &str, value: &str| {
        let driver = "driverClass: a.KafkaBenchmarkDriver\ncommonConfig: |\n  bootstrap.servers=a\n  ";
        (workload(&ACCEPTED[0]), format!("{driver}{key}={value}\n"))
    };
    let keys = [
        "acks",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "batch.size",
        "client.id",
        "enable.auto.commit",
        "fetch.max.wait.ms",
        "max.request.size",
        "metadata.recovery.strategy",
        "offsetCommitLingerMs",
        "other",
        "partition.assignment.strategy",
        "request.timeout.ms",
        "sasl.mechanism",
        "security.protocol",
        "session.timeout.ms",
        "ssl.protocol",
    ];
    for key in keys {
        let values = if key == "auto.offset.reset" { ["earliest", "latest"] } else { ["1", "2"] };
        assert_eq!(silent(&[(key, values)], with_property), [""; 0]);
    }
    for key in driver::OVERWRITTEN {
        assert_eq!(silent(&[(key, ["1", "2"])], with_property), [key]);
    }
    let driver = |blocks: &str| format!("driverClass: a.KafkaBenchmarkDriver\n{blocks}");
    let twice = driver("commonConfig: |\n  bootstrap.servers=a\n  acks=1\nproducerConfig: |\n  acks=all\n");
    let error = imported(&workload(&ACCEPTED[0]), &twice, false).unwrap_err().to_string();
    assert!(error.contains("`acks`: it is `1` in one block and `all` in another"), "{error}");
}

#[test]
fn an_import_names_what_it_leaves_out() {
    let workload = format!("{}payloadFile: payload/payload-1Kb.data", workload(&ACCEPTED[0]));
    let Imported { text, note, .. } = imported(&workload, KAFKA, false).unwrap();
    assert!(text.starts_with("# Not as in the files of OpenMessaging Benchmark:\n# - `payloadFile`: "), "{text}");
    assert_eq!(
        note.unwrap(),
        "note: not as in the files of OpenMessaging Benchmark: `payloadFile`, `reset`, `default.api.timeout.ms`, \
         `enable.auto.commit` (`run --print-scenario` says why)"
    );
}

#[test]
fn yaml_of_the_files_is_read() {
    let text = "# licence\n---\nname : Kafka # a name\nquoted: \"a: b\"\nempty:\nblock: |\n  a=1\n\n  b=2\n\nclient:\n    url : \
                pulsar://h:1\n    deeper:\n      size : 3\nuris:\n  - name: amqp\n    value: a\nratio: 0.5\nlast: true";
    let read = parse(text).unwrap();
    let value = |text: &str| Value::Text(text.to_owned());
    for (key, text) in [
        ("name", "Kafka"),
        ("quoted", "a: b"),
        ("empty", ""),
        ("block", "a=1\n\nb=2\n"),
        ("ratio", "0.5"),
        ("last", "true"),
    ] {
        assert_eq!(read[key], value(text), "{key}");
    }
    let Value::List(uris) = &read["uris"] else { panic!("{read:?}") };
    assert_eq!(uris[..], [Value::Table([("name".to_owned(), value("amqp")), ("value".to_owned(), value("a"))].into())]);
    let Value::Table(client) = &read["client"] else { panic!("{read:?}") };
    assert_eq!(client["url"], value("pulsar://h:1"));
    assert_eq!(client["deeper"], Value::Table([("size".to_owned(), value("3"))].into()));
}

#[test]
fn yaml_that_is_wrong_is_refused_by_its_line() {
    for (text, line) in [("a: 1\njust words", 2), ("a: 1\na: 2", 2), ("a: 1\n   b: 2", 2), ("a: [1, 2", 1)] {
        let (found, error) = parse(text).unwrap_err();
        assert!(found == Some(line) && error.contains(&format!("line {line}")), "{text}: {error}");
    }
}

/// Drivers' files have logins.
#[test]
fn yaml_that_is_refused_shows_no_secret() {
    for text in [
        "a: 1\nsasl.jaas.config=Plain required username=\"u\" password=\"hunter2\";",
        "password: [hunter2",
        "url: {https://me:hunter2@h",
        "- https://me:hunter2@h",
        "password: *hunter2",
    ] {
        let (_, error) = parse(text).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

/// The benchmark's own files lie beside the folder of its workloads.
#[test]
fn a_payload_file_is_found_and_sent_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    for (name, text) in
        [("payload/1Kb.data", "a".repeat(1024)), ("payload/many/b", "b".repeat(10)), ("driver.yaml", KAFKA.to_owned())]
    {
        std::fs::create_dir_all(in_folder(name).parent().unwrap()).unwrap();
        std::fs::write(in_folder(name), text).unwrap();
    }
    std::fs::create_dir(in_folder("workloads")).unwrap();
    let import = |file: &str, bytes: u64| {
        let text = workload(&ACCEPTED[0]).replace(ALIKE, &format!("payloadFile: \"{file}\""));
        let path = in_folder("workloads/simple.yaml");
        std::fs::write(&path, text.replace("messageSize: 1024", &format!("messageSize: {bytes}"))).unwrap();
        import(crate::engine::kinds(), &path, &in_folder("driver.yaml"), false)
    };
    for file in ["payload/1Kb.data", "payload/many"] {
        let text = import(file, 1024).unwrap().text;
        let payload = &text.parse::<toml::Table>().unwrap()["payload"];
        assert_eq!(payload["kind"].as_str(), Some("files"), "{text}");
        let found = payload["file"].as_str().map(|found| std::fs::canonicalize(found).unwrap());
        assert_eq!(found, Some(std::fs::canonicalize(in_folder(file)).unwrap()));
        assert!(payload.get("size").is_none() && !text.contains("`payloadFile`"), "{text}");
        #[cfg(feature = "kafka")]
        check(&text);
    }
    for (file, bytes, parts) in [
        ("payload/none", 1024, ["simple.yaml:7: `payloadFile`: payload/none does not exist", "benchmark's directory"]),
        ("payload/1Kb.data", 100, ["simple.yaml:7: `payloadFile`", "has 1024 bytes, not 100: correct `messageSize`"]),
    ] {
        let error = import(file, bytes).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

/// A fork's sizes: each range stands for its middle.
#[test]
fn a_distribution_of_sizes_becomes_choices() {
    let simple = workload(&ACCEPTED[4]).replace("messageSize: 1024\n", "");
    let drawn = format!("{simple}messageSizeDistribution:\n  \"0-256\": 3\n  1KB-4KB: 1\n  \"9-9\": 0\n");
    let text = converted(&drawn, KAFKA, false).unwrap();
    let scenario: toml::Table = text.parse().unwrap();
    let expected = "choices = [['128B', 3], ['2560B', 1]]";
    assert_eq!(scenario["payload"]["size"], toml::from_str(expected).unwrap());
    assert!(text.contains("# - `randomizedPayloadPoolSize`: `messageSizeDistribution`"), "{text}");
    let zeros = converted(&drawn.replace("useRandomizedPayloads: true", ""), KAFKA, false).unwrap();
    assert!(zeros.contains("kind = \"zeros\""), "{zeros}");
    // The backlog of 512 GiB is built by messages of 736 bytes on average.
    let backlog = |sizes: &str| {
        let text = workload(&ACCEPTED[5]).replace("messageSize: 1024\n", sizes);
        converted(&text, KAFKA, false).unwrap().parse::<toml::Table>().unwrap()["run"]["duration"].to_string()
    };
    let drawn_sizes = "messageSizeDistribution: {\"0-256\": 3, 1KB-4KB: 1}\n";
    assert_eq!(backlog(drawn_sizes), backlog("messageSize: 736\n"));
    let most = "messageSizeDistribution: {\"0-4000MB\": 4294967295, \"0-4095MB\": 4294967295}\n";
    assert_eq!(backlog(most), backlog("messageSize: 2122055680\n"));
    for (wrong, place) in [
        ("{\"much\": 1}", "`much`"),
        ("{\"1-5000MB\": 1}", "`1-5000MB`"),
        ("{\"1-3\": 0}", "`messageSizeDistribution`"),
        ("5", "write ranges"),
    ] {
        let error =
            converted(&format!("{simple}messageSizeDistribution: {wrong}\n"), KAFKA, false).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
}

/// A fork's rates by the minute. The warm-up of a minute has the first one.
#[test]
fn a_list_of_rates_becomes_steps() {
    let listed = |rates: &str| format!("{}producerRateList: {rates}\n", workload(&ACCEPTED[0]));
    let text = converted(&listed("[[0, 1000], [2, 0], [4, 3000]]"), KAFKA, false).unwrap();
    let scenario: toml::Table = text.parse().unwrap();
    let expected = "schedule = { kind = 'steps', steps = [{ rate = '1000/s', for = '3min' }, { rate = '0/s', for = '2min' }, \
                    { rate = '3000/s', for = '1min' }] }";
    assert_eq!(scenario["load"], toml::from_str(expected).unwrap());
    assert!(text.contains("# - `producerRate`: `producerRateList`"), "{text}");
    for (rates, part) in [
        ("[[4, 30, 1000]]", "times of day"),
        ("[[1, 5]]", "from minute 0"),
        ("[[0, 5], [0, 6]]", "pairs"),
        ("[[]]", "pairs"),
        ("7", "pairs"),
    ] {
        let error = converted(&listed(rates), KAFKA, false).unwrap_err().to_string();
        assert!(error.contains("yaml:14: `producerRateList`") && error.contains(part), "{error}");
    }
    let backlog = listed("[[0, 5]]").replace("GB: 0", "GB: 1");
    assert!(converted(&backlog, KAFKA, false).unwrap_err().to_string().contains("built at one rate"));
}

#[test]
fn redpanda_and_kafka_on_pulsar_are_kafka() {
    let simple = workload(&ACCEPTED[0]);
    let kafka = converted(&simple, KAFKA, false).unwrap();
    for class in ["redpanda.RedpandaBenchmarkDriver", "redpanda.swarm.RedpandaBenchmarkDriver"] {
        let redpanda = KAFKA.replace("kafka.KafkaBenchmarkDriver", class);
        assert_eq!(converted(&simple, &redpanda, false).unwrap(), kafka, "{class}");
    }
    let on_pulsar = "driverClass: a.KopBenchmarkDriver\nproducerType: kafka\nconsumerType: kafka\npulsarConfig:\n  serviceUrl: pulsar://a\n\
                     kafkaConfig: |\n  ! a comment\n  bootstrap.servers : SSL://a:1,b\n  linger.ms 1\n  acks=\\\n    all\n";
    let text = converted(&simple, on_pulsar, false).unwrap();
    let scenario: toml::Table = text.parse().unwrap();
    let expected = "kind = 'kafka'\naddresses = ['a:1', 'b:9092']\nproperties = { 'linger.ms' = '1', acks = 'all' }";
    assert_eq!(scenario["broker"].as_table(), Some(&expected.parse().unwrap()));
    assert!(text.contains("# - `pulsarConfig`: "), "{text}");
    let mixed = on_pulsar.replace("consumerType: kafka", "consumerType: pulsar");
    let error = converted(&simple, &mixed, false).unwrap_err().to_string();
    assert!(error.contains("driver.yaml:3: `consumerType`"), "{error}");
}

/// What the scenario refuses is told by the key of the file.
#[test]
fn a_refusal_of_the_scenario_names_the_line_of_the_file() {
    let text = workload(&ACCEPTED[0]).replace("topics: 1\n", "topics: 20000\n");
    let driver = format!("{KAFKA}  other.property=1\n");
    let Imported { text, places, .. } = imported(&text, &driver, false).unwrap();
    let place = |made: &str| places.iter().rev().find(|(path, _)| path == made).map_or("", |(_, place)| place.as_str());
    assert!(place("broker.properties.\"other.property\"").ends_with("driver.yaml:21: `other.property`"), "{places:?}");
    let origin = Origin::Imported { workload: "w.yaml".to_owned(), places: places.clone() };
    let written = Written { text, origin, settings: Vec::new(), directory: Default::default(), note: None };
    let error = super::super::parse_written(crate::engine::kinds(), &written).unwrap_err().to_string();
    assert!(error.contains("workload.yaml:4: `topics`: `topology.topics` cannot be 20000"), "{error}");
}
