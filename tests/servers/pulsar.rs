//! Features of Pulsar alone: ways to send, to subscribe and to log in, and their failures.

#![cfg(feature = "pulsar")]

use std::process::Command;
use std::time::Duration;

use crate::harness::pulsar::{self, Namespace, admin_of, call, has_topic, make_topic, remove_topic, request};
use crate::harness::server::variable;
use crate::harness::{
    Bench, assert_acknowledged, assert_balanced, assert_delivered, eventually, execute, record_of, records_of,
};
use crate::load::Load;
use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::{Record, Status};

/// A scenario on the server of `scripts/test`: `options` of `[broker.pulsar]`, and further tables.
fn scenario(options: &str, tables: &str) -> String {
    scenario_at(&pulsar::address(), &pulsar::admin(), options, tables)
}

fn scenario_at(address: &str, admin: &str, options: &str, tables: &str) -> String {
    format!(
        "[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\n[broker.pulsar]\nadmin = \"{admin}\"\n{options}\n{tables}\n"
    )
}

/// A name that no other run of these tests uses.
fn named(name: &str) -> String {
    format!("pulsar-{name}-{}", std::process::id())
}

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// Three producers whose messages two groups receive and look at.
pub const VERIFIED: &str = "
    [producers]
    count = 3
    batch = 50
    headers = { trace = \"abc\" }
    [payload]
    kind = \"random\"
    size = \"300B\"
    compressibility = 0.5
    [consumers]
    groups = 2
    [run]
    messages = 5000";

#[test]
fn real_messages_arrive_however_they_are_packed() {
    let records = records_of(&scenario(
        "",
        &format!(
            "{VERIFIED}\n[sweep.over]\n\"broker.pulsar.batching\" = [true, false]\n\
             \"broker.pulsar.compression\" = [\"none\", \"lz4\", \"zlib\", \"zstd\", \"snappy\"]"
        ),
    ));
    assert_eq!(records.len(), 10);
    for record in &records {
        assert_delivered(record, 5000, 2);
    }
}

#[test]
fn real_every_subscription_type_reads_partitions() {
    let tables = VERIFIED.replace("batch = 50", "batch = 50\nkeys = { kind = \"round-robin\", distinct = 20 }");
    let records = records_of(&scenario(
        "",
        &format!(
            "{tables}\n[topology]\npartitions = 3\n[sweep]\ncombine = \"zipped\"\n[sweep.over]\n\
             \"broker.connections\" = [1, 2, 3, 2]\n\"consumers.members\" = [1, 2, 2, 2]\n\
             \"broker.pulsar.batch_by_key\" = [false, false, false, true]\n\
             \"broker.pulsar.subscription\" = [\"exclusive\", \"failover\", \"shared\", \"key-shared\"]"
        ),
    ));
    let [exclusive, failover, shared, key_shared] = &records[..] else { panic!("{} records", records.len()) };
    assert_delivered(exclusive, 5000, 2);
    assert_delivered(failover, 5000, 2);
    // Members who share a partition keep no order among them, and neither do entries of one key each.
    for record in [shared, key_shared] {
        assert_acknowledged(record, 5000);
        let found = record.verification.as_ref().unwrap();
        assert_eq!((found.received, record.counts.consumed), (10_000, Some(10_000)));
        let wrong = found.unread + found.lost + found.duplicated + found.corrupt + found.foreign;
        assert_eq!(wrong, 0, "{found:?}");
    }
}

#[test]
fn real_exclusive_subscription_of_two_is_refused() {
    let tables = format!("{VERIFIED}\n").replace("groups = 2", "members = 2");
    let ended = Bench::new(&scenario("subscription = \"exclusive\"", &tables)).run(&[]).expect(1);
    ended.complains_of(&["exclusive", "consumers.members", "failover"]);
}

#[test]
fn real_tls_and_a_token_let_us_in_and_wrong_ones_do_not() {
    let tls = |authority: &str| format!("{VERIFIED}\n[broker.security]\ntls = {authority}");
    let secure = |token: &str, authority: &str| {
        scenario_at(&variable("BROKERMARK_PULSAR_TLS"), &pulsar::admin(), token, &tls(authority))
    };
    let authority = format!("{{ ca = \"{}\" }}", variable("BROKERMARK_PULSAR_CA"));
    let by_file = Bench::new(&secure("token = { file = \"token\" }", &authority));
    by_file.write("token", &variable("BROKERMARK_PULSAR_TOKEN"));
    assert_delivered(&by_file.run(&[]).expect(0).record(), 5000, 2);

    let wrong = variable("BROKERMARK_PULSAR_WRONG_TOKEN");
    for token in ["token = { env = \"BROKERMARK_PULSAR_WRONG_TOKEN\" }", &format!("token = \"{wrong}\"")] {
        let bench = Bench::new(&secure(token, &authority));
        let ended = bench.run(&[]).expect(1);
        ended.complains_of(&["refused the credentials"]);
        let kept = bench.run(&["--print-scenario"]).expect(0).stdout;
        assert!(
            ![&ended.stderr, &ended.stdout, &kept].iter().any(|text| text.contains(&wrong)),
            "the token was printed"
        );
    }
    // The system's authorities have never heard of this one.
    Bench::new(&secure("", "true")).run(&[]).expect(1).complains_of(&["invalid peer certificate"]);
}

#[test]
fn real_client_certificate_authenticates() {
    let folder = variable("BROKERMARK_PULSAR_CERTIFICATES");
    let as_whom = |who: &str| {
        let tables = format!(
            "{VERIFIED}\n[broker.security.tls]\nca = \"{folder}/ca.pem\"\n\
             certificate = \"{folder}/{who}.crt\"\nkey = \"{folder}/{who}.key\""
        );
        scenario_at(&variable("BROKERMARK_PULSAR_TLS"), &pulsar::admin(), "", &tables)
    };
    assert_delivered(&record_of(&as_whom("client")), 5000, 2);
    Bench::new(&as_whom("stranger")).run(&[]).expect(1).complains_of(&["cannot be reached"]);
}

#[test]
fn real_missing_namespace_is_named() {
    let bench = Bench::new(&scenario("namespace = \"public/missing\"", "[run]\nmessages = 1"));
    bench.run(&[]).expect(1).complains_of(&["does the namespace public/missing exist?", "broker.pulsar.namespace"]);
}

#[test]
fn closed_port_is_reported_at_once_with_address() {
    let bench = Bench::new(&scenario_at("127.0.0.1:1", "http://127.0.0.1:1", "", "[run]\nduration = \"60s\""));
    let ended = bench.run(&[]).expect(1);
    ended.complains_of(&["127.0.0.1:1", "cannot be reached", "Connection refused"]);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    assert_eq!(ended.record().status, Status::Failed);
}

#[test]
fn real_wrong_ports_are_named() {
    let web = pulsar::admin().trim_start_matches("http://").to_owned();
    let ended = Bench::new(&scenario_at(&web, &pulsar::admin(), "", "[run]\nmessages = 1")).run(&[]).expect(1);
    ended.complains_of(&[&web, "cannot be reached"]);
    let tls = variable("BROKERMARK_PULSAR_TLS");
    let ended = Bench::new(&scenario_at(&tls, &pulsar::admin(), "", "[run]\nmessages = 1")).run(&[]).expect(1);
    ended.complains_of(&[&tls, "cannot be reached"]);
    let admin = "http://127.0.0.1:1";
    let ended = Bench::new(&scenario_at(&pulsar::address(), admin, "", "[run]\nmessages = 1")).run(&[]).expect(1);
    ended.complains_of(&[admin, "broker.pulsar.admin"]);
}

#[test]
fn real_too_large_messages_fail_alone() {
    let tables = "[producers]\nbatch = 10\n[payload]\nkind = \"random\"\nsize = { choices = [[\"100B\", 1], [\"6MiB\", 1]] }\n\
                  [run]\nmessages = 60";
    let record = Bench::new(&scenario("", tables)).run(&[]).expect(0).record();
    assert_balanced(&record);
    let counts = &record.counts;
    assert_eq!((counts.attempted, counts.unresolved), (60, 0));
    assert!(counts.failed > 10 && counts.acknowledged > 10, "{counts:?}");
    assert_eq!(failed(&record, FailureClass::TooLarge), counts.failed, "{:?}", record.errors);
    assert_eq!(counts.payload_bytes_acknowledged, counts.acknowledged * 100, "only the small ones");
}

#[test]
fn real_topic_of_another_shape_is_refused_and_left() {
    let base = named("shape-");
    make_topic(&format!("{base}1"));
    let topology = format!("[topology]\nname = \"{base}\"\ntopics = 2\npartitions = 2\n[producers]\ncount = 2");
    let ended = Bench::new(&scenario("", &format!("{topology}\n[run]\nmessages = 10"))).run(&[]).expect(1);
    ended.complains_of(&[&format!("{base}1"), "1 partition(s)", "2 partition(s)"]);
    assert!(has_topic(&format!("{base}1")));
    assert!(!has_topic(&format!("{base}0-partition-0")), "made for nothing");
    remove_topic(&format!("{base}1"));
}

#[test]
fn real_topics_that_were_there_stay_and_others_do_not() {
    let base = named("stays-");
    make_topic(&format!("{base}1"));
    let tables = format!(
        "[topology]\nname = \"{base}\"\ntopics = 2\n[producers]\ncount = 2\n[consumers]\n[run]\nmessages = 100"
    );
    assert_delivered(&record_of(&scenario("", &tables)), 100, 1);
    assert!(has_topic(&format!("{base}1")) && !has_topic(&format!("{base}0")));
    let statistics = call("GET", &format!("{base}1/stats")).unwrap();
    remove_topic(&format!("{base}1"));
    assert!(statistics.contains("\"subscriptions\":{}"), "a subscription is left: {statistics}");
}

#[test]
fn real_second_exclusive_producer_is_refused() {
    let tables = "[producers]\ncount = 2\n[run]\nmessages = 10";
    let ended = Bench::new(&scenario("access_mode = \"exclusive\"", tables)).run(&[]).expect(1);
    ended.complains_of(&["cannot be written to", "Producer"]);
    let tables = "[run]\nmessages = 10";
    assert_acknowledged(&record_of(&scenario("access_mode = \"exclusive\"", tables)), 10);
}

/// Runs at a steady rate on a topic that is there, with `during` after the first acknowledgements.
fn disturbed(topic: &str, options: &str, during: impl FnOnce()) -> Record {
    make_topic(topic);
    let tables = format!(
        "[topology]\nname = \"{topic}\"\n[load]\nrate = \"2k/s\"\n[producers]\nbatch = 10\nin_flight = 100\n[run]\nduration = \"15s\"\n\
         drain_deadline = \"10s\""
    );
    let bench = Bench::new(&scenario(&format!("send_timeout = \"1s\"\n{options}"), &tables));
    let mut running = bench.start(&[]);
    // A line with percentiles: messages have been acknowledged.
    running.await_stderr(" p99 ");
    during();
    // The disturbance ends the load long before its time, on a slow server too.
    let record = running.finish(Duration::from_secs(90)).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0, "{:?}", record.counts);
    assert_eq!(record.counts.unresolved, 0);
    record
}

/// But for what was under way, which the broker refuses in its own words or by closing the connection, all failed like
/// `those`.
fn assert_few_under_way(record: &Record, those: u64) {
    let others = record.errors.iter().filter(|error| error.count != those);
    let mut classes = others.map(|error| error.class);
    assert!(
        classes.all(|class| matches!(class, FailureClass::ConnectionLost | FailureClass::Refused))
            && record.counts.failed - those < 200,
        "{:?}",
        record.errors
    );
}

/// The producer can send nothing more, so the load ends at once.
fn assert_ended(record: &Record) {
    assert_eq!(record.status, Status::Failed);
    let error = record.error.as_deref().unwrap_or_default();
    assert!(error.contains("could send nothing more"), "{error}");
}

#[test]
fn real_topic_deleted_in_the_middle_fails_what_follows_by_class() {
    let topic = named("deleted");
    let record = disturbed(&topic, "", || remove_topic(&topic));
    assert_ended(&record);
    let unknown = failed(&record, FailureClass::UnknownTopic);
    assert!(unknown > 0, "{:?}", record.errors);
    assert_few_under_way(&record, unknown);
}

#[test]
fn real_terminated_topic_refuses_what_follows() {
    let topic = named("terminated");
    let record = disturbed(&topic, "", || assert!(call("POST", &format!("{topic}/terminate")).is_some()));
    remove_topic(&topic);
    // A topic that a message reached while it was being terminated stays "temporarily unavailable" for producers, so that they go
    // on trying, and what follows is refused message by message.
    if record.status != Status::Completed {
        assert_ended(&record);
    }
    let refused = failed(&record, FailureClass::Refused);
    assert!(refused > 0, "{:?}", record.errors);
    assert_few_under_way(&record, refused);
}

#[test]
fn real_fenced_producer_knows_it() {
    let topic = named("fenced");
    let record = disturbed(&topic, "access_mode = \"exclusive\"", || {
        let tables = format!("[topology]\nname = \"{topic}\"\n[run]\nmessages = 1");
        assert_acknowledged(&record_of(&scenario("access_mode = \"exclusive-with-fencing\"", &tables)), 1);
    });
    remove_topic(&topic);
    assert_ended(&record);
    let fenced = failed(&record, FailureClass::Fenced);
    assert!(fenced > 0, "{:?}", record.errors);
    assert_few_under_way(&record, fenced);
}

#[test]
fn real_server_that_dies_ends_the_run_with_a_balanced_ledger() {
    let server = pulsar::server("pulsar-dies", 16750);
    let tables = "[topology]\npartitions = 2\n[producers]\ncount = 4\nbatch = 10\n[load]\nrate = \"2k/s\"\n[consumers]\n\
                  [run]\nduration = \"8s\"\ndrain_deadline = \"10s\"\n[sweep]\ntrials = 2";
    let bench = Bench::new(&scenario_at(&server.address(), &admin_of(&server), "send_timeout = \"6s\"", tables));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.kill();
    running.await_stderr("connecting");
    // The rest of the load, the drain, and what closing and the second trial may take without a server.
    let ended = running.finish(Duration::from_secs(60)).expect(1);
    let record = &crate::harness::assert_survived(&ended, &server.address());
    let counts = &record.counts;
    assert_eq!((counts.unresolved, failed(record, FailureClass::ConnectionLost)), (0, counts.failed));
    assert!(record.conditions.iter().any(|one| one.kind == ConditionKind::Connecting), "{:?}", record.conditions);
}

#[test]
fn real_returned_server_loses_nothing_acknowledged() {
    let server = pulsar::server("pulsar-returns", 16850);
    let broker =
        scenario_at(&server.address(), &admin_of(&server), "send_timeout = \"120s\"", "[topology]\npartitions = 2");
    // A window small enough to tell what was under way from what was lost otherwise.
    let load = Load::begin("pulsar-returns", &broker, 100);
    server.kill();
    server.restart();
    let record = load.end();
    // Only what was under way when it was killed: that may have arrived, and is not sent again.
    let counts = &record.counts;
    assert_eq!((counts.unresolved, failed(&record, FailureClass::ConnectionLost)), (0, counts.failed));
    assert!(counts.failed <= 1000, "{counts:?}");
    // The outage is in the response time: it counts from when a message was due.
    assert!(record.latency.response.as_ref().unwrap().max_ns > 1_000_000_000);
}

/// The distribution's own consumer reads as many messages as were acknowledged.
#[test]
fn real_pulsar_perf_reads_exactly_what_was_acknowledged() {
    let topic = named("perf");
    make_topic(&topic);
    for (compression, batching) in [("none", true), ("lz4", true), ("zstd", true), ("snappy", false), ("zlib", true)] {
        let options = format!("compression = \"{compression}\"\nbatching = {batching}");
        let tables = format!("[topology]\nname = \"{topic}\"\n[producers]\nbatch = 100\n[run]\nmessages = 4000");
        assert_acknowledged(&record_of(&scenario(&options, &tables)), 4000);
    }
    let output = Command::new(format!("{}/bin/pulsar-perf", variable("BROKERMARK_PULSAR_HOME")))
        .args(["consume", "-u", &format!("pulsar://{}", pulsar::address())])
        .args(["-sp", "Earliest", "-time", "15", &topic])
        .output()
        .unwrap();
    remove_topic(&topic);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = printed.lines().rev().find_map(|line| {
        let (before, _) = line.split_once(" records received")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    assert_eq!(read, Some(5 * 4000), "{printed}");
}

/// The published test's first sweep, made small, and its own lines.
#[test]
fn real_throughput_test_prints_its_own_format() {
    let sweep = format!("{}/configs/published/pulsar-topics.toml", env!("CARGO_MANIFEST_DIR"));
    let bench = Bench::new(&std::fs::read_to_string(sweep).unwrap());
    let set = |key: &str, value: &str| ["--set".to_owned(), format!("{key}={value}")];
    let settings = [
        set("broker.address", &format!("\"{}\"", pulsar::address())),
        set("broker.pulsar.admin", &format!("\"{}\"", pulsar::admin())),
        set("producers.count", "16"),
        set("run.payload_bytes", "1MiB"),
        set("sweep.trials", "2"),
        set("sweep.over.\"topology.topics\"", "[1, 4, 16]"),
    ];
    let settings: Vec<&str> = settings.iter().flatten().map(String::as_str).collect();
    let records = bench.run(&settings).expect(0).records();
    assert_eq!(records.len(), 6);
    records.iter().for_each(|record| assert_acknowledged(record, 512));
    let directory = bench.run_directory().display().to_string();
    let lines = execute(&["show", &directory, "--format", "pulsar-sweep"]).expect(0).stdout;
    assert_eq!(lines.lines().count(), 6);
    assert!(lines.starts_with("{\"TopicNum\":1,\"ProducerNum\":16,\"VectorDim\":512,\"MsgLength\":512,"), "{lines}");
    let lines = execute(&["show", &directory, "--format", "pulsar-sweep-summary"]).expect(0).stdout;
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.starts_with("{\"Trials\":2,\"Mean\":{\"TopicNum\":1,"), "{lines}");

    let indivisible = [&settings[..], &["--set", "sweep.over.\"topology.topics\"=[5]"]].concat();
    let refused = bench.run(&indivisible).expect(2);
    refused.complains_of(&["16 producers cannot be placed on 5 topics in equal blocks"]);
}

/// Without storage, messages are lost that a consumer has no permits for: verification counts them, and they are no surprise.
#[test]
fn real_non_persistent_topics_pass_messages_on() {
    for partitions in [1, 2] {
        let tables = format!(
            "[topology]\npartitions = {partitions}\n[load]\nrate = \"200/s\"\n[consumers]\n[run]\nmessages = 400"
        );
        let record = record_of(&scenario("persistent = false", &tables));
        assert_acknowledged(&record, 400);
        let found = record.verification.as_ref().unwrap();
        assert!(found.received > 0 && found.received + found.lost + found.unread == 400, "{found:?}");
        assert_fields!(found, { duplicated: 0, corrupt: 0, foreign: 0 }, "{found:?}");
    }
}

#[test]
fn real_messages_acknowledged_negatively_are_delivered_again() {
    let tables = "[load]\nrate = \"500/s\"\n[consumers]\n[run]\nmessages = 1500";
    let record = record_of(&scenario("negative_acks = 0.1\nsubscription = \"shared\"", tables));
    assert_acknowledged(&record, 1500);
    let found = record.verification.as_ref().unwrap();
    // The run ends when every message has arrived once.
    assert!((1..=150).contains(&found.redelivered), "{found:?}");
    assert_fields!(found, { lost: 0, unread: 0, corrupt: 0 }, "{found:?}");
}

/// The broker may deliver a second too early, which is its tick (`delayedDeliveryTickTimeMillis`).
#[test]
fn real_delayed_messages_arrive_after_their_delay() {
    let tables = "[load]\nrate = \"100/s\"\n[consumers]\n[run]\nmessages = 100\ndrain_deadline = \"30s\"";
    let record = record_of(&scenario("deliver_after = \"4s\"\nsubscription = \"shared\"", tables));
    assert_acknowledged(&record, 100);
    assert_eq!(record.verification.as_ref().map(|found| (found.received, found.lost)), Some((100, 0)));
    let earliest_ns = record.latency.end_to_end.as_ref().unwrap().min_ns;
    assert!(earliest_ns >= 2_500_000_000, "{earliest_ns}");
}

/// A topic is unloaded several times while messages are under way. Each is stored, and with the broker's deduplication only once. The
/// broker counts: a consumer gets again what it had not acknowledged when its topic was unloaded.
#[test]
fn real_messages_are_sent_again_and_deduplicated() {
    let name = named("resent");
    let namespace = Namespace::make(&name);
    namespace.set("deduplication", "true");
    let topic = format!("persistent/{namespace}/{name}");
    assert!(request("PUT", &topic, "").is_some(), "{topic} cannot be made");
    // No consumer reads it, so that everything is kept.
    assert!(request("PUT", &format!("{topic}/subscription/keeping"), "").is_some());
    // Without a rate the window is always full. The broker may still answer all of it before it unloads the topic.
    let tables = format!(
        "[topology]\nname = \"{name}\"\n[producers]\nin_flight = 10\n[run]\nduration = \"20s\"\ndrain_deadline = \"30s\""
    );
    let options = format!("namespace = \"{namespace}\"\nresend = true\nbatching = false");
    let bench = Bench::new(&scenario(&options, &tables));
    let running = bench.start(&[]);
    for _ in 0..5 {
        // The broker counts since it loaded the topic.
        eventually("messages are written", || {
            request("GET", &format!("{topic}/stats"), "").is_some_and(|stats| !stats.contains("\"msgInCounter\":0,"))
        });
        assert!(request("PUT", &format!("{topic}/unload"), "").is_some());
    }
    running.signal(libc::SIGINT);
    let record = running.finish(Duration::from_secs(120)).record();
    let stored = request("GET", &format!("{topic}/internalStats"), "").unwrap();
    assert!(request("DELETE", &format!("{topic}?force=true"), "").is_some(), "{topic} cannot be removed");
    namespace.remove();
    assert_balanced(&record);
    assert_eq!(record.counts.acknowledged, record.counts.attempted, "{:?}", record.errors);
    assert!(record.wire.unwrap().retried > 0, "nothing was under way");
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["numberOfEntries"].as_u64(), Some(record.counts.acknowledged), "{stored}");
}
