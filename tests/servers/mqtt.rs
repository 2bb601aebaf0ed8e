//! MQTT as brokermark meets it: the mosquitto of `scripts/test`, and some that refuse, die or allow little.
#![cfg(feature = "mqtt")]

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::harness::rabbitmq;
use crate::harness::server::{Server, certify, variable};
use crate::harness::{Bench, PATIENCE, assert_balanced, assert_delivered, eventually, execute, record_of};
use brokermark::broker::DurabilityLevel;
use brokermark::measure::{ConditionKind, FailureClass};
use brokermark::record::{Condition, Record, Status};

const LOAD: &str =
    "producers = { count = 3, batch = 20, in_flight = 300 }\npayload.size = \"100B\"\nrun.messages = \"30k\"\n";

/// At a rate, for as long as something happens to the server.
const STEADY: &str = "load.rate = \"2k/s\"\nproducers.in_flight = 500\npayload.size = \"100B\"\n\
    run = { duration = \"6s\", warm_up = \"0s\" }\nconsumers.members = 1\n";

fn mosquitto() -> String {
    variable("BROKERMARK_MQTT")
}

/// A mosquitto of a test's own, with further lines of its configuration.
fn server(instance: &str, port: u16, options: &str) -> Server {
    Server::start("mqtt", &format!("mqtt-{instance}"), port, &[("BROKERMARK_MQTT_OPTIONS", options)])
}

fn broker(address: &str) -> String {
    format!("broker.kind = \"mqtt\"\nbroker.address = \"{address}\"\n")
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// What mosquitto_sub receives of a topic, of at most `messages` and within 2 s.
fn received(address: &str, topic: &str, messages: usize) -> String {
    let (host, port) = address.split_once(':').unwrap();
    let count = messages.to_string();
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", host, "-p", port, "-t", topic, "-C", &count, "-W", "2", "-F", "%r %l %t"]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// A way to a server that can be cut.
struct Way {
    address: String,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, streams) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
        let opened: Arc<Mutex<Vec<TcpStream>>> = streams.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&server).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                opened.lock().unwrap().push(near);
            }
        });
        Way { address, streams }
    }

    /// Ends every connection. Returns how many there were.
    fn cut(&self) -> usize {
        let cut = std::mem::take(&mut *self.streams.lock().unwrap());
        cut.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap_or_default());
        cut.len()
    }
}

#[test]
fn real_every_quality_of_service_delivers_in_both_versions() {
    for version in ["5", "3.1.1"] {
        for (qos, level) in
            [(0, DurabilityLevel::Nowhere), (1, DurabilityLevel::Unknown), (2, DurabilityLevel::Unknown)]
        {
            let keys = format!("broker.mqtt = {{ version = \"{version}\", qos = {qos} }}\nconsumers.groups = 2\n");
            let record = record_of(&format!("{}{keys}{LOAD}", broker(&mosquitto())));
            assert_delivered(&record, 30_000, 2);
            let durability = &record.durability;
            assert_eq!((durability.level, &*durability.settings["qos"]), (level, &*qos.to_string()));
            assert!(record.environment.broker.as_ref().unwrap().starts_with("mosquitto version"));
        }
    }
}

/// mosquitto's default has Nagle's algorithm, whose packets wait for a delayed acknowledgement of TCP, 40 ms or longer.
#[test]
fn real_answers_do_not_wait_for_delayed_acknowledgements() {
    let window = "broker.mqtt.qos = 1\nproducers = { count = 1, batch = 10, in_flight = 20 }\nrun.messages = 2_000\n";
    let record = record_of(&format!("{}{window}", broker(&mosquitto())));
    let p50_ns = record.latency.service.unwrap().p50_ns;
    // The shortest delay of Linux (`TCP_DELACK_MIN`).
    assert!(p50_ns < 40_000_000, "half of the answers took {} ms or longer", p50_ns / 1_000_000);
}

#[test]
fn real_members_share_or_have_all() {
    let members = |keys: &str, consumers: &str| format!("{}{keys}{consumers}{LOAD}", broker(&mosquitto()));
    let record = record_of(&members("", "consumers = { groups = 2, members = 3 }\n"));
    assert_delivered(&record, 30_000, 2);
    let alone = "broker.mqtt.shared = false\n";
    assert_delivered(&record_of(&members(alone, "consumers = { groups = 3, members = 1 }\n")), 30_000, 3);
    let both = Bench::new(&members(alone, "consumers = { groups = 1, members = 2 }\n"));
    both.run(&[]).expect(2).complains_of(&["each member of a group gets all messages", "broker.mqtt.shared"]);
}

#[test]
fn real_options_of_version_5_only_are_refused_before() {
    for (keys, words) in [
        ("broker.mqtt = { version = \"3.1.1\", topic_aliases = true }", "topic_aliases"),
        ("broker.mqtt.version = \"3.1.1\"\nproducers.headers = { a = \"b\" }", "no headers"),
        ("broker.mqtt.version = \"3.1.1\"\nconsumers.members = 1\npayload.size = 8", "trace header"),
    ] {
        let scenario = format!("{}{keys}\nrun.messages = 1\n", broker("127.0.0.1:1"));
        Bench::new(&scenario).run(&[]).expect(2).complains_of(&[words]);
    }
}

#[test]
fn real_missing_server_is_reported_with_its_address() {
    let error = refused(&format!("{}{LOAD}", broker("127.0.0.1:1")));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}

#[test]
fn real_wrong_password_is_reported_as_such() {
    let bench = Bench::new("");
    let file = bench.path().join("passwords");
    let made = Command::new("mosquitto_passwd").arg("-b").arg("-c").arg(&file).args(["me", "right"]).status();
    assert!(made.unwrap().success());
    let options = format!("allow_anonymous false\npassword_file {}", file.display());
    let server = server("login", 21_910, &options);
    for version in ["5", "3.1.1"] {
        let sasl = |password: &str| {
            let sasl = format!("{{ mechanism = \"PLAIN\", username = \"me\", password = \"{password}\" }}");
            let version = format!("broker.mqtt.version = \"{version}\"\n");
            format!("{}broker.security.sasl = {sasl}\n{version}{LOAD}", broker(&server.address()))
        };
        let error = refused(&sasl("wrong"));
        assert!(error.contains("refused the credentials") && error.contains("not authorized (0x87)"), "{error}");
        assert_eq!(record_of(&sasl("right")).counts.acknowledged, 30_000);
    }
}

#[test]
fn real_denied_topic_fails_by_its_class() {
    let bench = Bench::new("");
    let rights = bench.write("rights", "topic read #\n");
    let server = server("rights", 21_911, &format!("acl_file {}", rights.display()));
    let load = LOAD.replace("30k", "60");
    let record = Bench::new(&format!("{}{load}", broker(&server.address()))).run(&[]).record();
    assert_balanced(&record);
    // mosquitto 2.0.11 closes the connection after it has refused a message.
    let (denied, lost) = (failed(&record, FailureClass::Authorisation), failed(&record, FailureClass::ConnectionLost));
    assert!(denied > 0 && denied + lost == 60, "{:?}", record.errors);
    let is_named = record.errors.iter().any(|error| error.first_message == "not authorized (0x87)");
    assert!(is_named, "{:?}", record.errors);
    let is_told = |one: &Condition| one.kind == ConditionKind::Denied;
    assert!(record.conditions.iter().any(is_told), "{:?}", record.conditions);
}

#[test]
fn real_limits_of_the_server_are_kept() {
    let server = server("limits", 21_912, "max_inflight_messages 3\nmax_packet_size 1000\nmax_topic_alias 1");
    let keys = "broker.mqtt = { topic_aliases = true }\ntopology.topics = 2\nconsumers.members = 1\n";
    let record = record_of(&format!("{}{keys}{}", broker(&server.address()), LOAD.replace("30k", "3000")));
    assert_delivered(&record, 3_000, 1);
    let large = LOAD.replace("100B", "1KiB").replace("30k", "60");
    let record = Bench::new(&format!("{}{large}", broker(&server.address()))).run(&[]).record();
    assert_eq!(failed(&record, FailureClass::TooLarge), 60, "{:?}", record.errors);
    assert!(record.errors[0].first_message.contains("packets of 1000"), "{:?}", record.errors);
}

#[test]
fn real_quality_of_service_beyond_the_server_is_refused() {
    let server = server("qos", 21_913, "max_qos 1");
    for version in ["5", "3.1.1"] {
        let keys = format!("broker.mqtt = {{ version = \"{version}\", qos = 2 }}\n");
        let error = refused(&format!("{}{keys}{LOAD}", broker(&server.address())));
        assert!(error.contains("QoS 1 at most") && error.contains("broker.mqtt.qos"), "{error}");
    }
}

/// RabbitMQ, which has neither QoS 2 nor shared subscriptions.
#[test]
fn real_rabbitmq_is_refused_what_it_does_not_have() {
    let broker = |version: &str, keys: &str| {
        format!("{}broker.mqtt = {{ version = \"{version}\", {keys} }}\n{LOAD}", rabbitmq::mqtt())
    };
    for version in ["5", "3.1.1"] {
        for consumers in ["", "consumers.members = 1\n"] {
            let error = refused(&format!("{consumers}{}", broker(version, "shared = false, qos = 2")));
            assert!(error.contains("QoS 1 at most") && error.contains("broker.mqtt.qos"), "{error}");
        }
        let error = refused(&format!("consumers.members = 1\n{}", broker(version, "shared = true")));
        assert!(error.contains("no shared subscriptions") && error.contains("broker.mqtt.shared"), "{error}");
        // Producers alone share nothing.
        assert_eq!(record_of(&broker(version, "shared = true")).counts.acknowledged, 30_000);
    }
    let kept = broker("5", "shared = false, session_expiry = \"1000h\"");
    let error = refused(&format!("consumers.members = 1\n{kept}"));
    assert!(error.contains("broker.mqtt.session_expiry"), "{error}");
}

#[test]
fn real_server_that_dies_and_returns_goes_on() {
    let server = server("dies", 21_914, "");
    let bench = Bench::new(&format!("{}{}", broker(&server.address()), STEADY.replace("6s", "10s")));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.kill();
    server.restart();
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    let is_told = |one: &Condition| one.kind == ConditionKind::Connecting && one.names == [server.address()];
    assert!(record.conditions.iter().any(is_told), "{:?}", record.conditions);
    assert!(record.counts.acknowledged > 10_000, "{:?}", record.counts);
    let found = record.verification.as_ref().unwrap();
    // What the server had acknowledged and not delivered is gone with its memory.
    assert!(found.lost < 1_000 && found.duplicated == 0, "{found:?}");
}

#[test]
fn real_cut_connections_lose_and_repeat_nothing_silently() {
    for qos in [1, 2] {
        let way = Way::to(mosquitto());
        let keys = format!("broker.mqtt.qos = {qos}\n");
        let load = STEADY.replace("duration = \"6s\"", "messages = 12000");
        let bench = Bench::new(&format!("{}{keys}{load}", broker(&way.address)));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        // Once: after a second loss, mosquitto 2.0 itself repeats messages of QoS 2 (docs/brokers/mqtt.md).
        assert!(way.cut() >= 2);
        let record = running.finish(PATIENCE).records().remove(0);
        assert_balanced(&record);
        assert_eq!(failed(&record, FailureClass::ConnectionLost), record.counts.failed, "{:?}", record.errors);
        assert_eq!(record.counts.attempted, 12_000);
        // No more than what was in flight.
        assert!((1..=500).contains(&record.counts.failed), "{:?}", record.counts);
        let found = record.verification.as_ref().unwrap();
        assert_eq!((found.lost, found.unread, found.duplicated), (0, 0, 0), "{qos}: {found:?}");
        assert!(qos == 1 || found.redelivered == 0, "exactly once: {found:?}");
    }
}

#[test]
fn real_retained_message_lasts_until_the_run_ends() {
    let topic = format!("retained-{}", std::process::id());
    let keys = format!("broker.mqtt.retain = true\ntopology.name = \"{topic}\"\n");
    let bench = Bench::new(&format!("{}{keys}{STEADY}", broker(&mosquitto())));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    assert_eq!(received(&mosquitto(), &topic, 1), format!("1 100 {topic}\n"));
    let record = running.finish(PATIENCE).expect(0).record();
    let found = record.verification.as_ref().unwrap();
    assert_eq!((record.counts.acknowledged, found.received, found.lost), (12_000, 12_000, 0), "{found:?}");
    assert_eq!(received(&mosquitto(), &topic, 1), "");
}

#[test]
fn real_will_is_published_only_for_a_client_that_is_killed() {
    let server = server("will", 21_918, "");
    let address = server.address();
    let scenario = |version: &str, will: &str, load: &str| {
        let will = format!("{{ {will}, payload = \"gone\", qos = 1, retain = true }}");
        format!("{}broker.mqtt = {{ version = \"{version}\", will = {will} }}\n{load}", broker(&address))
    };
    let kill = |scenario: &str| {
        let bench = Bench::new(scenario);
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        running.signal(libc::SIGKILL);
    };
    kill(&scenario("5", "topic = \"later\", delay = \"1h\"", STEADY));
    for version in ["5", "3.1.1"] {
        let (topic, will) = (format!("will-{version}"), format!("topic = \"will-{version}\""));
        assert_eq!(record_of(&scenario(version, &will, LOAD)).counts.acknowledged, 30_000);
        assert_eq!(received(&address, &topic, 1), "", "it has said that it ends");
        kill(&scenario(version, &will, STEADY));
        eventually("the will is there", || received(&address, &topic, 1) == format!("1 4 {topic}\n"));
    }
    assert_eq!(received(&address, "later", 1), "", "it waits for its delay");
}

#[test]
fn real_expired_messages_do_not_arrive() {
    let keys = "broker.mqtt.message_expiry = \"1s\"\n";
    let late = "load.rate = \"1k/s\"\npayload.size = \"100B\"\nrun.messages = 3000\n[consumers]\n[[consumers.group]]\n\
        start_after = \"2900ms\"\n";
    let record = Bench::new(&format!("{}{keys}{late}", broker(&mosquitto()))).run(&[]).record();
    assert_balanced(&record);
    assert_eq!(record.counts.acknowledged, 3_000);
    let found = record.verification.as_ref().unwrap();
    let missing = found.lost + found.unread;
    assert!((500..3_000).contains(&missing), "{found:?}");
}

#[test]
fn real_sessions_end_with_their_run() {
    let server = server("sessions", 21_915, "sys_interval 1");
    let record = record_of(&format!("{}consumers = {{ groups = 2, members = 2 }}\n{LOAD}", broker(&server.address())));
    assert_delivered(&record, 30_000, 2);
    let kept = || {
        let (host, port) = ("127.0.0.1", server.port().to_string());
        let topic = "$SYS/broker/clients/disconnected";
        let output = Command::new("mosquitto_sub").args(["-h", host, "-p", &port, "-t", topic, "-C", "1"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    eventually("no session is left", || kept() == "0\n");
}

#[test]
fn real_certificates_of_both_sides_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    certify(folder.path());
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let listener =
        format!("listener 21917 127.0.0.1\ncafile {cert}\ncertfile {cert}\nkeyfile {key}\nrequire_certificate true");
    let _server = server("tls", 21_916, &listener);
    let address = "localhost:21917";
    let tls = |keys: &str| format!("{}broker.security.tls = {{ ca = {cert:?}{keys} }}\n{LOAD}", broker(address));
    let record = record_of(&tls(&format!(", certificate = {cert:?}, key = {key:?}")));
    assert_eq!(record.counts.acknowledged, 30_000);
    let error = refused(&tls(""));
    assert!(error.contains("localhost:21917"), "{error}");
    let error = refused(&format!("{}{LOAD}", broker(address)));
    assert!(error.contains("localhost:21917"), "{error}");
}

#[test]
fn real_doctor_names_the_server_and_leaves_nothing() {
    let said = execute(&["doctor", &format!("mqtt://{}", mosquitto()), "--rate", "1k/s", "--verify"]).expect(0);
    said.says(&["mosquitto version 2.", "✓ topics", "✓ permissions"]);
}
