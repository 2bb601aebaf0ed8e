//! `brokermark doctor` on real servers: what it says of each, of wrong credentials, and that it leaves nothing behind.

use crate::harness::server::variable;
use crate::harness::{Finished, execute, kafka, nsq, rabbitmq};

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

/// What is said of a scenario, without the ends of lines.
fn examined(scenario: &str, more: &[&str]) -> Finished {
    let mut ended = execute(&[&["doctor", scenario], more].concat());
    ended.stdout = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    ended
}

fn doctor(url: &str, more: &[&str]) -> Finished {
    examined(url, &[&["--rate", "1k/s", "--verify"], more].concat())
}

fn is_ready(url: &str, more: &[&str], says: &[&str]) -> Finished {
    let ended = doctor(url, more).expect(0);
    ended.says(READY);
    ended.says(says);
    assert_eq!(ended.stdout.split("cannot be removed").nth(1), None, "{}", ended.stdout);
    ended
}

/// As in `Kafka 4.1 (metadata.version 27), cluster dWcx of 1 broker(s)`.
#[cfg(feature = "kafka-native")]
fn names_its_release(url: &str, client: &str) {
    let ended = doctor(url, &["--set", &format!("broker.client={client}")]).expect(0);
    ended.says(READY);
    ended.says(&["(metadata.version ", "), cluster "]);
    let named = ended.stdout.split("✓ broker Kafka ").nth(1).unwrap_or_default();
    let release: Vec<&str> = named.split(' ').next().unwrap_or_default().split('.').collect();
    assert!(release.len() == 2 && release.iter().all(|number| number.parse::<u8>().is_ok()), "{named}");
}

#[test]
#[cfg(all(feature = "kafka", feature = "kafka-native"))]
fn kafka_names_its_version_and_leaves_no_topic() {
    let url = format!("kafka://{}", kafka::address());
    names_its_release(&url, "librdkafka");
    let left = kafka::topics(&kafka::address()).into_iter().filter(|topic| topic.starts_with("brokermark-doctor"));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}

#[test]
#[cfg(feature = "kafka-native")]
fn kafka_through_the_native_client() {
    names_its_release(&format!("kafka://{}", kafka::address()), "native");
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
#[cfg(feature = "kafka-native")]
fn a_port_with_tls_and_one_without_are_told_apart() {
    let native = ["--set", "broker.client=native"];
    let plain = doctor(&format!("kafka://{}", variable("BROKERMARK_KAFKA_TLS")), &native).expect(1);
    plain.says(&["✗ broker", "--set broker.security.tls=true"]);
    let strange = doctor(&format!("kafka+tls://{}", variable("BROKERMARK_KAFKA_TLS")), &native).expect(1);
    strange.says(&["✗ broker", "broker.security.tls={ ca ="]);
}

/// An administrator runs each command that is printed, until nothing is left to say.
#[test]
#[cfg(all(feature = "kafka", feature = "kafka-native"))]
fn rights_that_are_advised_are_enough() {
    const COMMAND: &str = "kafka-acls.sh --bootstrap-server ";
    const ACL_COMMAND: &str = "org.apache.kafka.tools.AclCommand";
    let authorizer =
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS";
    let server = kafka::server_with("rights", 19902, authorizer);
    let value = |name: &str| server.variable(&format!("BROKERMARK_KAFKA_{name}"));
    let url = format!("kafka://{}:{}@{}", value("USER"), value("PASSWORD"), value("SASL"));
    for (client, topics) in [("native", ""), ("librdkafka", "orders")] {
        let (client, name) = (format!("broker.client={client}"), format!("topology.name={topics}"));
        let named: &[&str] = if topics.is_empty() { &[] } else { &["--set", &name] };
        let more = [&["--set", &client], named].concat();
        let mut given = std::collections::BTreeSet::new();
        loop {
            let said = doctor(&url, &more).stdout;
            let ends = |command: &str| command.find(" prefixed").map(|end| command[..end].to_owned() + " prefixed");
            let commands: Vec<String> = said.split(COMMAND).skip(1).filter_map(ends).collect();
            if commands.is_empty() {
                assert!(said.contains("A run will work"), "{said}");
                break;
            }
            for command in commands {
                let arguments: Vec<&str> = command.split(' ').skip(1).collect();
                assert!(given.insert(command.clone()), "it has not helped: {said}");
                let address = server.address();
                kafka::tool(ACL_COMMAND, &[&["--bootstrap-server", &address], &arguments[..]].concat());
            }
        }
        assert!(given.len() >= 3, "{given:?}");
    }
}

/// A user who may do nothing is given what is advised.
#[test]
#[cfg(any(feature = "rabbitmq", feature = "rabbitmq-stream"))]
fn rights_that_are_advised_for_rabbitmq_are_enough() {
    let control = |arguments: &[&str]| rabbitmq::rabbitmqctl(&variable("BROKERMARK_RABBITMQ_CTL"), arguments);
    let mut urls = Vec::new();
    if cfg!(feature = "rabbitmq") {
        urls.push(format!("amqp://{{}}@{}", rabbitmq::amqp()));
    }
    if cfg!(feature = "rabbitmq-stream") {
        urls.push(format!("rabbitmq-stream://{{}}@{}", rabbitmq::address()));
    }
    for (number, url) in urls.iter().enumerate() {
        let user = format!("doctor-{}-{number}", std::process::id());
        control(&["add_user", &user, "secret"]);
        let url = url.replace("{}", &format!("{user}:secret"));
        for rights in [&[][..], &["^$", "^$", "^$"]] {
            if !rights.is_empty() {
                control(&[&["set_permissions", "-p", "/", &user], rights].concat());
            }
            let said = doctor(&url, &[]).expect(1).stdout;
            let advised = said.split("rabbitmqctl set_permissions ").nth(1).unwrap_or_else(|| panic!("{said}"));
            let arguments: Vec<&str> = advised.split(' ').take(6).map(|word| word.trim_matches(['\'', ';'])).collect();
            control(&[&["set_permissions"], &arguments[..]].concat());
            assert!(doctor(&url, &[]).stdout.contains("A run will work"), "{said}");
        }
        control(&["delete_user", &user]);
    }
}

/// A role that may do nothing is given what is advised, on a server with authorization.
#[test]
#[cfg(feature = "pulsar")]
fn rights_that_are_advised_for_pulsar_are_enough() {
    use crate::harness::pulsar;
    use crate::harness::server::Server;

    let properties = "authorizationEnabled=true\nsuperUserRoles=anonymous";
    let settings = [("BROKERMARK_PULSAR_WEB_PORT", "16952"), ("BROKERMARK_PULSAR_PROPERTIES", properties)];
    let server = Server::start("pulsar", "pulsar-rights", 16950, &settings);
    let admin = pulsar::admin_of(&server);
    let token = format!("broker.pulsar.token={}", server.variable("BROKERMARK_PULSAR_TOKEN"));
    let run = |more: &[&str]| {
        let admin = format!("broker.pulsar.admin={admin}");
        let options = ["--set", &admin, "--set", &token];
        doctor(&format!("pulsar://{}", server.address()), &[&options[..], more].concat()).stdout
    };
    let request = |path: &str, body: &str| {
        assert!(pulsar::request_at(&admin, "POST", path, body).is_some(), "{path}");
    };
    // What the commands of `pulsar-admin` ask of the interface.
    let said = run(&[]);
    assert!(said.contains("pulsar-admin tenants update public --admin-roles "), "{said}");
    request("tenants/public", r#"{"adminRoles":["brokermark"],"allowedClusters":["standalone"]}"#);
    let said = run(&[]);
    if said.contains("grant-permission") {
        assert!(said.contains("namespaces grant-permission public/default --role "), "{said}");
        request("namespaces/public/default/permissions/brokermark", r#"["produce","consume"]"#);
    }
    let said = run(&[]);
    assert!(said.contains("A run will work"), "{said}");
}

#[test]
#[cfg(feature = "nsq")]
fn nsq_names_its_version_and_leaves_no_topic() {
    let topics = || -> Vec<String> {
        let all = nsq::http_addresses().into_iter().flat_map(|http| nsq::topics(&http));
        all.filter(|topic| topic.starts_with("brokermark-doctor")).collect()
    };
    let before = topics();
    let ended = is_ready(&format!("nsq://{}", nsq::addresses().join(",")), &[], &["nsqd 1."]);
    let left: Vec<String> = topics().into_iter().filter(|topic| !before.contains(topic)).collect();
    assert_eq!(left, [""; 0], "{left:?}: {}", ended.stdout);
}

#[test]
#[cfg(feature = "pulsar")]
fn pulsar_names_its_version_and_a_wrong_token_is_a_login() {
    use crate::harness::pulsar;

    let url = format!("pulsar://{}", pulsar::address());
    let admin = format!("broker.pulsar.admin={}", pulsar::admin());
    is_ready(&url, &["--set", &admin], &["Pulsar"]);
    let token = format!("broker.pulsar.token={}", variable("BROKERMARK_PULSAR_WRONG_TOKEN"));
    let ended = doctor(&url, &["--set", &admin, "--set", &token]).expect(1);
    ended.says(&["✗ login", "correct the login in [broker.pulsar]"]);
    // Nothing listens there.
    let ended = doctor(&url, &["--set", "broker.pulsar.admin=http://127.0.0.1:1"]).expect(1);
    ended.says(&["✗ broker", "→ --set broker.pulsar.admin="]);
}

#[test]
#[cfg(feature = "nats")]
fn nats_names_its_version_and_leaves_no_stream() {
    use crate::harness::nats;

    is_ready(&format!("nats://{}", nats::address()), &[], &["nats-server 2."]);
    is_ready(&format!("nats://{}", nats::address()), &["--set", "broker.nats.mode=core"], &["nats-server 2."]);
    assert!(!nats::command(&nats::address(), &["stream", "ls", "--names"]).contains("brokermark-doctor"));
}

#[test]
#[cfg(feature = "rabbitmq")]
fn queues_of_rabbitmq_are_ready_and_a_wrong_password_is_a_login() {
    let address = rabbitmq::amqp();
    is_ready(&format!("amqp://{address}"), &[], &["RabbitMQ"]);
    let ended = doctor(&format!("amqp://guest:wrong@{address}"), &[]).expect(1);
    ended.says(&["✗ login", "broker.security.sasl={ mechanism = \"PLAIN\""]);
    assert!(!ended.stdout.contains("wrong"), "{}", ended.stdout);
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
#[cfg(feature = "sls-emulator")]
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
    use crate::harness::{Bench, databases};

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
        examined(bench.scenario().to_str().unwrap(), &[])
    };
    let ready = doctor(to_redis("") + &to_mongodb(&mongodb)).expect(0);
    // The consumer's group, which has committed nothing, is not there to be removed.
    assert!(!ready.stdout.contains("cannot be removed"), "{}", ready.stdout);
    ready.says(&[
        &format!("✓ sink redis at {redis} lets us in and can be written to (appendfsync"),
        &format!("✓ sink mongodb at {mongodb} lets us in and can be written to"),
        "✓ permissions",
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
