//! A real Kafka under `client = "native"` that does not go on as it began: topics that others replace, quotas, and sessions that end.

use brokermark::measure::{ConditionKind, SubjectKind};
use brokermark::record::{Condition, ReasonKind, Record};

use crate::harness::kafka::{self, make_topic, remove_topic, sasl, topics};
use crate::harness::server::variable;
use crate::harness::{Bench, PATIENCE, assert_balanced, assert_delivered, eventually, execute, finding, sums};

fn scenario(address: &str, tables: &str) -> String {
    format!(
        "[broker]\nkind = \"kafka\"\nclient = \"native\"\naddress = \"{address}\"\n\
         [payload]\nkind = \"random\"\nsize = \"100B\"\n{tables}"
    )
}

fn condition(record: &Record, kind: ConditionKind) -> &Condition {
    let found = record.conditions.iter().find(|condition| condition.kind == kind);
    found.unwrap_or_else(|| panic!("{:?}", record.conditions))
}

#[test]
fn real_topic_that_another_client_replaces_is_told_and_stays() {
    let (address, topic) = (kafka::address(), format!("replaced-{}", std::process::id()));
    let tables = format!(
        "[topology]\nname = \"{topic}\"\npartitions = 2\n[load]\nrate = \"1k/s\"\n[consumers]\n\
         [run]\nduration = \"8s\"\ndrain_deadline = \"5s\"\n"
    );
    let bench = Bench::new(&scenario(&address, &tables));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    remove_topic(&address, &topic);
    eventually("it is gone", || !topics(&address).contains(&topic));
    make_topic(&address, &topic, 2);
    running.await_stderr("deleted and created again");
    let ended = running.finish(PATIENCE).expect(0);
    let is_left = topics(&address).contains(&topic);
    remove_topic(&address, &topic);
    assert!(is_left, "brokermark deletes only what it has made");
    ended.complains_of(&[&topic, "not the run's"]);
    let record = ended.record();
    assert_balanced(&record);
    assert!(condition(&record, ConditionKind::TopicReplaced).end_ns.is_none());
    let found = finding(&record, ReasonKind::TopicReplaced).unwrap();
    assert!(found.evidence.contains(&topic) && !record.verdict.valid, "{found:?}");
}

/// Kafka 3.7 and newer need no more copies than a topic has: no client is told to have more.
#[test]
fn real_topic_that_has_fewer_copies_than_it_wants_is_written() {
    let config = "[topology.config]\n\"min.insync.replicas\" = 2\n[run]\nmessages = 100\n";
    let ended = Bench::new(&scenario(&kafka::address(), config)).run(&[]).expect(0);
    assert_eq!((ended.record().counts.acknowledged, ended.stderr.contains("copies")), (100, false), "{}", ended.stderr);
}

#[test]
fn real_advertised_name_that_does_not_resolve_is_told_with_who_named_it() {
    let server = kafka::server_with("named", 19922, "advertised.listeners=PLAINTEXT://kafka.invalid:19922");
    for client in ["native", "librdkafka"] {
        let text = scenario(&server.address(), "[run]\nmessages = 10\n").replace("\"native\"", &format!("{client:?}"));
        let bench = Bench::new(&text);
        bench.run(&[]).expect(1).complains_of(&["kafka.invalid:19922", "advertised.listeners"]);
        let doctor = execute(&["doctor", bench.scenario().to_str().unwrap()]).expect(1);
        doctor.says(&["kafka.invalid", "advertised.listeners"]);
        assert!(!doctor.stdout.contains("kafka-acls"), "{}", doctor.stdout);
    }
}

#[test]
fn real_write_that_is_denied_in_the_middle_is_told_while_it_is() {
    let server = kafka::server_with(
        "denied",
        19932,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true",
    );
    let (plain, user) = (server.address(), format!("User:{}", variable("BROKERMARK_KAFKA_USER")));
    for client in ["native", "librdkafka"] {
        let topic = format!("denied-{client}");
        let acl = |change: &[&str]| {
            let of_topic =
                ["--bootstrap-server", &plain, "--topic", &topic, "--operation", "Write", "--deny-principal"];
            kafka::tool("org.apache.kafka.tools.AclCommand", &[&of_topic[..], &[&user], change].concat());
        };
        let tables = format!(
            "{}[topology]\nname = \"{topic}\"\n[load]\nrate = \"200/s\"\n[run]\nduration = \"25s\"\ndrain_deadline = \"2s\"\n",
            sasl("PLAIN", "BROKERMARK_KAFKA_PASSWORD")
        );
        let text = scenario(&server.variable("BROKERMARK_KAFKA_SASL"), &tables);
        let bench = Bench::new(&text.replace("\"native\"", &format!("{client:?}")));
        let mut running = bench.start(&[]);
        running.await_stderr("measuring");
        acl(&["--add"]);
        running.await_stderr("access denied");
        acl(&["--remove", "--force"]);
        let record = running.finish(PATIENCE).record();
        assert_balanced(&record);
        let denied = condition(&record, ConditionKind::Denied);
        assert!(denied.end_ns.is_some(), "{client}: {denied:?}");
        assert!(record.counts.failed > 0 && record.counts.acknowledged > 0, "{client}: {:?}", record.counts);
        let limited_by = &record.verdict.limited_by.evidence;
        assert!(!limited_by.contains("answers take long"), "{client}: {limited_by}");
    }
}

/// Of producers, consumers, and the group.
#[test]
fn real_topic_deleted_under_librdkafka_is_told() {
    let (address, topic) = (kafka::address(), format!("deleted-{}", std::process::id()));
    let tables = format!(
        "[topology]\nname = \"{topic}\"\n[load]\nrate = \"500/s\"\n[consumers]\n\
         [run]\nduration = \"25s\"\ndrain_deadline = \"2s\"\n\
         [broker.properties]\n\"topic.metadata.propagation.max.ms\" = 2000\n\"topic.metadata.refresh.interval.ms\" = 1000\n"
    );
    let bench = Bench::new(&scenario(&address, &tables).replace("\"native\"", "\"librdkafka\""));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    remove_topic(&address, &topic);
    running.await_stderr("the topic does not exist");
    let record = running.finish(PATIENCE).record();
    assert_balanced(&record);
    let gone = record.conditions.iter().filter(|condition| condition.kind == ConditionKind::TopicGone);
    let subjects: Vec<SubjectKind> = gone.map(|condition| condition.subject).collect();
    assert!(subjects.contains(&SubjectKind::Group) && subjects.len() >= 2, "{:?}", record.conditions);
    let missing = finding(&record, ReasonKind::MissingMessages).unwrap();
    assert!(missing.evidence.contains("the topic does not exist"), "{missing:?}");
}

/// 200 partitions are created and removed; the quota lets 220 pass at once, and then 20 a second.
#[test]
fn real_quota_on_topics_is_waited_for() {
    let (plain, user) = (kafka::address(), variable("BROKERMARK_KAFKA_USER"));
    let alter = |change: &[&str]| {
        let all = ["--bootstrap-server", &plain, "--alter", "--entity-type", "users", "--entity-name", &user];
        kafka::tool("org.apache.kafka.tools.ConfigCommand", &[&all, change].concat());
    };
    let tables = format!(
        "{}[topology]\ntopics = 20\npartitions = 10\n[producers]\ncount = 20\n[run]\nmessages = 2000\n",
        sasl("PLAIN", "BROKERMARK_KAFKA_PASSWORD")
    );
    let bench = Bench::new(&format!("name = \"quota\"\n{}", scenario(&variable("BROKERMARK_KAFKA_SASL"), &tables)));
    alter(&["--add-config", "controller_mutation_rate=20"]);
    let ended = bench.run(&[]);
    alter(&["--delete-config", "controller_mutation_rate"]);
    let ended = ended.expect(0);
    assert_eq!(ended.record().counts.acknowledged, 2000);
    assert!(!ended.stderr.contains("after the trial"), "{}", ended.stderr);
    let left = || topics(&plain).into_iter().filter(|topic| topic.starts_with("brokermark-quota-")).count();
    eventually("they are gone", || left() == 0);
}

#[test]
fn real_batches_are_no_larger_than_the_topic_takes() {
    let tables = "[topology.config]\nmax.message.bytes = 20000\n[producers]\nbatch = 1000\n[consumers]\n[run]\nmessages = 20000\n";
    for client in ["native", "librdkafka"] {
        let run = |keys: &str| {
            let text = scenario(&kafka::address(), &format!("[broker.kafka]\n{keys}\n{tables}"));
            Bench::new(&text.replace("\"native\"", &format!("{client:?}"))).run(&[])
        };
        for compression in ["none", "lz4", "snappy", "gzip", "zstd"] {
            assert_delivered(&run(&format!("compression = \"{compression}\"")).record(), 20_000, 1);
        }
        // The scenario relies on compression, and the payload does not compress.
        let record = run("compression = \"lz4\"\nbatch_bytes = \"100kB\"").record();
        let error = &record.errors[0].first_message;
        assert!(error.contains("`max.message.bytes`") && error.contains("`broker.kafka.batch_bytes`"), "{error}");
        assert_delivered(&run("compression = \"lz4\"\nbatch_bytes = \"15kB\"").record(), 20_000, 1);
    }
}

/// Through librdkafka, which does not know what topics take. The native client keeps to it.
#[test]
fn real_batches_too_large_are_told_before_the_load() {
    let (address, topic) = (kafka::address(), format!("small-batches-{}", std::process::id()));
    make_topic(&address, &topic, 1);
    let name = ["--entity-type", "topics", "--entity-name", &topic, "--add-config", "max.message.bytes=20000"];
    kafka::tool(
        "org.apache.kafka.tools.ConfigCommand",
        &[&["--bootstrap-server", &address, "--alter"], &name[..]].concat(),
    );
    let tables = format!(
        "[topology]\nname = \"{topic}\"\nexisting = true\n[producers]\nbatch = 1000\n[run]\nmessages = 20000\n"
    );
    let text = scenario(&address, &tables).replace("\"native\"", "\"librdkafka\"");
    let bench = Bench::new(&text);
    let (doctor, run) = (execute(&["doctor", bench.scenario().to_str().unwrap()]), bench.run(&[]));
    let advised = run.stderr.split("set `broker.kafka.batch_bytes` to ").nth(1).and_then(|rest| rest.split(' ').next());
    let advised = advised.map(|bytes| format!("broker.kafka.batch_bytes={bytes}B"));
    let followed = bench.run(&["--set", advised.as_deref().unwrap_or_default()]);
    remove_topic(&address, &topic);
    assert!(doctor.stdout.contains("✗ messages     batches of up to 1000000 bytes"), "{}", doctor.stdout);
    run.complains_of(&["warning: batches of up to 1000000 bytes", "`broker.kafka.batch_bytes`"]);
    let followed = followed.expect(0);
    assert!(!followed.stderr.contains("batches of up to"), "{}", followed.stderr);
    assert_eq!(followed.record().counts.acknowledged, 20_000);
}

#[test]
fn real_topic_that_needs_keys_is_told_before_the_load() {
    let (address, topic) = (kafka::address(), format!("compacted-{}", std::process::id()));
    make_topic(&address, &topic, 1);
    let name = ["--entity-type", "topics", "--entity-name", &topic, "--add-config", "cleanup.policy=compact"];
    kafka::tool(
        "org.apache.kafka.tools.ConfigCommand",
        &[&["--bootstrap-server", &address, "--alter"], &name[..]].concat(),
    );
    let tables = format!("[topology]\nname = \"{topic}\"\nexisting = true\n[run]\nmessages = 10\n");
    let keys = "[producers]\nkeys = { kind = \"random\", distinct = 3 }\n";
    let bench = Bench::new(&scenario(&address, &tables));
    let (doctor, run) = (execute(&["doctor", bench.scenario().to_str().unwrap()]), bench.run(&[]));
    let with_keys = Bench::new(&scenario(&address, &format!("{keys}{tables}"))).run(&[]);
    remove_topic(&address, &topic);
    assert!(doctor.stdout.contains("without a key") && doctor.stdout.contains("`producers.keys`"), "{}", doctor.stdout);
    run.complains_of(&["warning: a compacted topic", "`producers.keys`"]);
    assert!(!with_keys.stderr.contains("compacted"), "{}", with_keys.stderr);
    assert_eq!(with_keys.record().counts.acknowledged, 10);
}

/// Without a new login, the broker cuts every connection several times, and batches are sent again.
#[test]
fn real_sessions_are_renewed_before_they_end() {
    let server = kafka::server_with("sessions", 19892, "connections.max.reauth.ms=6000");
    let address = format!("127.0.0.1:{}", server.port() + 2);
    let tables = format!(
        "{}[broker.kafka]\nassignment = \"group\"\n[topology]\npartitions = 2\n[load]\nrate = \"2k/s\"\n[consumers]\n[run]\nduration = \"20s\"\n",
        sasl("PLAIN", "BROKERMARK_KAFKA_PASSWORD")
    );
    let record = Bench::new(&scenario(&address, &tables)).run(&[]).expect(0).record();
    assert_eq!(record.wire.unwrap().retried, 0);
    assert_eq!(record.receive_errors, []);
    assert_eq!(record.conditions, []);
    assert_eq!(sums(&record).lost + sums(&record).duplicated + sums(&record).unread, 0);
}

/// The broker asks for the login again every 3 s, and the user is gone. The native client ends the load.
#[test]
fn real_credentials_that_are_withdrawn_are_told() {
    let server = kafka::server_with("withdrawn", 19942, "connections.max.reauth.ms=3000");
    let (plain, user) = (server.address(), variable("BROKERMARK_KAFKA_USER"));
    let password = variable("BROKERMARK_KAFKA_PASSWORD");
    let alter = |change: &[&str]| {
        let of_user = ["--bootstrap-server", &plain, "--alter", "--entity-type", "users", "--entity-name", &user];
        kafka::tool("org.apache.kafka.tools.ConfigCommand", &[&of_user[..], change].concat());
    };
    let given = format!("SCRAM-SHA-256=[password={password}]");
    for client in ["native", "librdkafka"] {
        let tables = format!(
            "{}[load]\nrate = \"200/s\"\n[run]\nduration = \"25s\"\ndrain_deadline = \"5s\"\n",
            sasl("SCRAM-SHA-256", "BROKERMARK_KAFKA_PASSWORD")
        );
        let text = scenario(&server.variable("BROKERMARK_KAFKA_SASL"), &tables);
        let bench = Bench::new(&text.replace("\"native\"", &format!("{client:?}")));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        alter(&["--delete-config", "SCRAM-SHA-256"]);
        running.await_stderr("credentials refused");
        alter(&["--add-config", &given]);
        let record = running.finish(PATIENCE).record();
        assert_balanced(&record);
        let refused = condition(&record, ConditionKind::Authentication);
        assert!(client == "native" || refused.end_ns.is_some(), "{client}: {refused:?}");
    }
}
