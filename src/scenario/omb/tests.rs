//! Workloads with the keys and values of those in openmessaging/benchmark's folder `workloads` (Apache License 2.0).

use super::*;

/// Topics, partitions of each, bytes, subscriptions, consumers of each, producers of each topic, rate, backlog in GB, minutes.
struct Row(&'static str, [u64; 9], &'static str);

const RANDOMIZED: &str = "useRandomizedPayloads: true\nrandomBytesRatio: 0.5\nrandomizedPayloadPoolSize: 1000";
const FILE: &str = "payloadFile: \"payload/payload-1Kb.data\"";

const ACCEPTED: [Row; 12] = [
    Row("simple-workload", [1, 10, 1024, 1, 1, 1, 10_000, 0, 5], FILE),
    Row("1-topic-1-partition-100b", [1, 1, 100, 1, 1, 1, 50_000, 0, 15], FILE),
    Row("1-topic-1-partition-1kb-with-key", [1, 1, 1024, 1, 1, 1, 50, 0, 15], "keyDistributor: \"KEY_ROUND_ROBIN\""),
    Row("1-topic-16-partitions-1kb", [1, 16, 1024, 1, 1, 1, 50_000, 0, 15], FILE),
    Row("1-topic-100-partitions-1kb-4p-4c-1000k", [1, 100, 1024, 1, 4, 4, 1_000_000, 0, 5], RANDOMIZED),
    Row("1-topic-100-partitions-1kb-4p-4c-200k-backlog", [1, 100, 1024, 1, 4, 4, 200_000, 512, 5], RANDOMIZED),
    Row("100-topics-1-partitions-1kb", [100, 1, 1024, 3, 1, 1, 150_000, 0, 80], FILE),
    Row("100-topic-4-partitions-1kb-4p-4c-500k", [100, 4, 1024, 1, 4, 4, 500_000, 0, 5], RANDOMIZED),
    Row("1m-10-topics-16-partitions-100b", [10, 16, 100, 1, 1, 1, 1_000_000, 0, 15], RANDOMIZED),
    Row("1m-10-topics-3-partitions-100b-64gb-backlog", [10, 3, 100, 1, 1, 1, 1_000_000, 64, 15], RANDOMIZED),
    Row("max-rate-1-topic-1-partition-1p-1c-100b", [1, 1, 100, 1, 1, 1, 10_000_000, 0, 15], RANDOMIZED),
    Row("without consumers", [1, 3, 100, 1, 0, 3, 10_000, 0, 15], FILE),
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

fn converted(workload: &str, driver: &str, has_rate: bool) -> Result<String, ScenarioError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    scenario_of(&write("workload.yaml", workload), &write("driver.yaml", driver), has_rate)
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

/// What was met in the benchmark's own files for these drivers and their forks.
#[test]
#[cfg(all(feature = "kafka", feature = "pulsar"))]
fn drivers_with_rarer_settings_become_scenarios_that_are_accepted() {
    let simple = workload(&ACCEPTED[0]);
    let patient = KAFKA.replace("default.api.timeout.ms=600000", "request.timeout.ms=1200000");
    let scenario = converted(&simple, &patient, false).unwrap();
    assert!(scenario.contains("\"900000\""), "{scenario}");
    check(&scenario);
    let placed = KAFKA.replace("=a:9092,b", "=${kafkaServiceUrl:-localhost:9092}") + "  group.id=replaced\n";
    let scenario = converted(&simple, &placed, false).unwrap();
    assert!(scenario.contains("[\"localhost:9092\"]") && !scenario.contains("group.id"), "{scenario}");
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
    refused(&format!("{simple}drainProducerRate: 5\n"), KAFKA, &["`drainProducerRate`", "no counterpart"]);
    let consumers = simple.replace("consumerPerSubscription: 1", "").replace("GB: 0", "GB: 100");
    refused(&consumers, KAFKA, &["consumerBacklogSizeGB", "needs consumers"]);
    let rabbitmq = "driverClass: io.openmessaging.benchmark.driver.rabbitmq.RabbitMqBenchmarkDriver\namqpUris:\n  - amqp://localhost";
    refused(&simple, rabbitmq, &["driver.yaml", "AMQP 0.9.1"]);
    refused(&simple, "driverClass: a.b.RedisBenchmarkDriver", &["RedisBenchmarkDriver"]);
    let selecting = "driverClass: a.b.JMSBenchmarkDriver\nproperties:\n  - name: foo\n    value: bar\nselector: x";
    refused(&simple, selecting, &["JMSBenchmarkDriver"]);
    refused(&simple, "name: nothing", &["driverClass", "missing"]);
    refused(&simple, &format!("{KAFKA}  partition.assignment.strategy=x\n"), &["partition.assignment.strategy"]);
    refused(&simple, &KAFKA.replace("acks=all", "sasl.mechanism=PLAIN"), &["sasl.mechanism", "broker.security"]);
    refused(&simple, NSQ, &["no partitions"]);
    let secured = PULSAR.replace("topicType: persistent", "authentication:\n      plugin: some.Plugin");
    refused(&simple, &secured, &["authentication", "broker.pulsar.token"]);
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
    assert_eq!(read["uris"], Value::List);
    let Value::Table(client) = &read["client"] else { panic!("{read:?}") };
    assert_eq!(client["url"], value("pulsar://h:1"));
    assert_eq!(client["deeper"], Value::Table([("size".to_owned(), value("3"))].into()));
}

#[test]
fn yaml_that_is_wrong_is_refused_by_its_line() {
    for (text, line) in [("a: 1\njust words", 2), ("a: 1\na: 2", 2), ("a: 1\n   b: 2", 2), ("a: [1, 2", 1)] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(&format!("line {line}")), "{text}: {error}");
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
        let error = parse(text).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
