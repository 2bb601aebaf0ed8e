//! `brokermark doctor` on real servers: what it says of each, of wrong credentials, and that it leaves nothing behind.

use crate::harness::server::variable;
use crate::harness::{Bench, Finished, databases, execute, kafka, nsq, rabbitmq};

/// What is said of every broker that is ready. The servers are on this machine.
const READY: &[&str] = &[
    "✓ broker",
    "✓ topics",
    "can be made, and were removed again",
    "✓ permissions",
    "a producer and a consumer can be opened",
    "✓ results",
    "is on this machine",
];

fn doctor(url: &str, more: &[&str]) -> Finished {
    let common = ["doctor", url, "--rate", "1k/s", "--verify"];
    execute(&[&common, more].concat())
}

fn is_ready(url: &str, more: &[&str], says: &[&str]) {
    let ended = doctor(url, more).expect(0);
    ended.says(READY);
    ended.says(says);
}

#[test]
#[cfg(feature = "kafka")]
fn kafka_names_its_version_and_leaves_no_topic() {
    let url = format!("kafka://{}", kafka::address());
    is_ready(&url, &[], &["Kafka", "librdkafka"]);
    let left = kafka::topics(&kafka::address()).into_iter().filter(|topic| topic.starts_with("brokermark-doctor"));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}

#[test]
#[cfg(feature = "kafka-native")]
fn kafka_through_the_native_client() {
    is_ready(&format!("kafka://{}", kafka::address()), &["--set", "broker.client=native"], &["Kafka"]);
}

#[test]
#[cfg(feature = "kafka-native")]
fn a_wrong_password_of_kafka_is_a_login() {
    let url = format!("kafka://somebody:wrong@{}", variable("BROKERMARK_KAFKA_SASL"));
    for client in ["native", "librdkafka"] {
        let ended = doctor(&url, &["--set", &format!("broker.client={client}")]).expect(1);
        ended.says(&["✗ login", "broker.security.sasl={ mechanism = \"PLAIN\"", "BROKER_PASSWORD"]);
        assert!(!ended.stdout.contains("wrong"), "{}", ended.stdout);
    }
}

#[test]
#[cfg(feature = "nsq")]
fn nsq_names_its_version_and_leaves_no_topic() {
    is_ready(&format!("nsq://{}", nsq::addresses().join(",")), &[], &["nsqd 1."]);
    for http in nsq::http_addresses() {
        let left = nsq::topics(&http).into_iter().filter(|topic| topic.starts_with("brokermark-doctor"));
        assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
#[cfg(feature = "pulsar")]
fn pulsar_names_its_version_and_a_wrong_token_is_a_login() {
    let url = format!("pulsar://{}", crate::harness::pulsar::address());
    is_ready(&url, &[], &["Pulsar"]);
    let token = format!("broker.pulsar.token={}", variable("BROKERMARK_PULSAR_WRONG_TOKEN"));
    let ended = doctor(&url, &["--set", &token]).expect(1);
    ended.says(&["✗ login", "correct the login in [broker.pulsar]"]);
}

#[test]
#[cfg(feature = "rabbitmq-stream")]
fn rabbitmq_names_its_version_and_a_wrong_password_is_a_login() {
    let address = rabbitmq::address();
    is_ready(&format!("rabbitmq-stream://{address}"), &[], &["RabbitMQ"]);
    let ended = doctor(&format!("rabbitmq-stream://guest:wrong@{address}"), &[]).expect(1);
    ended.says(&["✗ login", "broker.security.sasl={ mechanism = \"PLAIN\""]);
}

#[test]
#[cfg(feature = "sls")]
fn the_embedded_log_service_is_a_demonstration() {
    let ended = doctor("sls://embedded", &[]).expect(0);
    ended.says(&["! broker", "demonstration", "✓ permissions"]);
}

/// A pipeline from the real Kafka, with the keys of its sinks.
#[cfg(all(feature = "kafka", feature = "redis", feature = "mongodb"))]
fn pipeline(sinks: &str) -> String {
    let address = kafka::address();
    format!(
        "broker = {{ kind = \"kafka\", address = \"{address}\" }}\nload.rate = \"1k/s\"\nrun.duration = \"30s\"\n\
         [payload]\nkind = \"template\"\ntext = '{{\"id\": \"${{random:1..9}}\"}}'\n[pipeline]\n{sinks}"
    )
}

#[test]
#[cfg(all(feature = "kafka", feature = "redis", feature = "mongodb"))]
fn sinks_are_asked_whether_they_can_be_written_to() {
    let (redis, mongodb) = (databases::redis(), databases::mongodb());
    let to_redis =
        |more: &str| format!("[[pipeline.sinks]]\nkind = \"redis\"\naddress = \"{redis}\"\nkey = \"id\"\n{more}\n");
    let to_mongodb = |address: &str| {
        format!(
            "[[pipeline.sinks]]\nkind = \"mongodb\"\naddress = \"{address}\"\ndatabase = \"tests\"\n\
             collection = \"doctor\"\nfields = [\"id\"]\n"
        )
    };
    let doctor = |sinks: String| {
        let bench = Bench::new(&pipeline(&sinks));
        execute(&["doctor", bench.scenario().to_str().unwrap()])
    };
    doctor(to_redis("") + &to_mongodb(&mongodb)).expect(0).says(&[
        &format!("✓ sink          redis at {redis} lets us in and can be written to (appendfsync"),
        &format!("✓ sink          mongodb at {mongodb} lets us in and can be written to"),
    ]);
    // This Redis has no user of that name.
    let ended = doctor(to_redis("username = \"nobody\"\npassword = \"sesame\"")).expect(1);
    ended.says(&["✗ sink", "cannot be written to", "SINK_PASSWORD"]);
    assert!(!ended.stdout.contains("sesame"), "{}", ended.stdout);
    // Bound and let go: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = doctor(to_mongodb(&format!("127.0.0.1:{port}"))).expect(1);
    ended.says(&["✗ sink", &format!("nc -vz 127.0.0.1 {port}"), "pipeline.wait_for_sinks=true"]);
}

#[test]
#[cfg(feature = "kafka")]
fn a_broker_that_is_not_there_is_not_waited_for() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = doctor(&format!("kafka://127.0.0.1:{port}"), &[]).expect(1);
    ended.says(&["✗ address", &format!("nc -vz 127.0.0.1 {port}")]);
    let ended = doctor("kafka://no-such-host.invalid:9092", &[]).expect(1);
    ended.says(&["✗ address", "does not resolve", "getent hosts no-such-host.invalid"]);
}
