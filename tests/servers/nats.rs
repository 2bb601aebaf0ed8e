//! NATS as brokermark meets it: the nats-server of `scripts/test`, and some that refuse, stand still or die.
#![cfg(feature = "nats")]

use std::path::Path;
use std::time::Duration;

use crate::harness::nats;
use crate::harness::server::{Server, certify};
use crate::harness::{Bench, PATIENCE, assert_balanced, assert_delivered, record_of};
use brokermark::record::{Record, Status};

const LOAD: &str = "producers = { count = 3, batch = 20 }\npayload.size = \"100B\"\nrun.messages = \"30k\"\n";

fn broker(address: &str) -> String {
    format!("broker.kind = \"nats\"\nbroker.address = \"{address}\"\n")
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

#[test]
fn real_modes_deliver_what_they_acknowledge() {
    for (mode, level) in [("jetstream", "page-cache"), ("core", "nowhere"), ("request", "nowhere")] {
        let mode_key = format!("broker.nats.mode = \"{mode}\"\n");
        let consumers = "consumers = { groups = 2, members = 1 }\n";
        let record = record_of(&format!("{}{mode_key}{LOAD}{consumers}", broker(&nats::address())));
        assert_delivered(&record, 30_000, 2);
        assert_eq!(serde_json::to_value(&record.durability).unwrap()["level"], level, "{mode}");
        assert!(record.environment.broker.as_ref().unwrap().starts_with("nats-server 2."), "{mode}");
    }
}

#[test]
fn real_consumers_acknowledge_by_every_policy() {
    for (policy, retention) in
        [("explicit", "work_queue"), ("explicit", "interest"), ("all", "limits"), ("none", "limits")]
    {
        let limit = if policy == "none" { "" } else { ", max_ack_pending = 1000" };
        let keys = format!("broker.nats = {{ ack_policy = \"{policy}\", retention = \"{retention}\", ");
        let keys = format!("{keys}storage = \"memory\"{limit} }}\n");
        let record = record_of(&format!("{}{keys}{LOAD}consumers.members = 1\n", broker(&nats::address())));
        // Far more than may be without an acknowledgement has arrived, so acknowledgements have.
        assert_delivered(&record, 30_000, 1);
    }
}

#[test]
fn real_pushed_messages_are_shared_by_the_members_of_a_group() {
    // The limit of a group is far below what arrives, so acknowledgements have.
    for policy in ["explicit", "all"] {
        let keys =
            format!("broker.nats = {{ consumer = \"push\", ack_policy = \"{policy}\", max_ack_pending = 500 }}\n");
        let members = if policy == "all" { 1 } else { 3 };
        let consumers = format!("consumers = {{ groups = 2, members = {members} }}\n");
        let record = record_of(&format!("{}{keys}{LOAD}{consumers}", broker(&nats::address())));
        assert_balanced(&record);
        assert_eq!(record.counts.acknowledged, 30_000, "{policy}: {:?}", record.errors);
        let found = record.verification.as_ref().unwrap();
        assert_fields!(found, { received: 60_000, lost: 0, duplicated: 0, unread: 0 }, "{found:?}");
        assert!(members > 1 || found.unordered == 0, "{found:?}");
    }
}

/// As when a server dies that had sent messages to a member: no member acknowledges them, and they come again when `ack_wait` is over. The
/// group has reached the end of the stream before.
#[test]
fn real_messages_without_an_acknowledgement_are_awaited() {
    let (address, name) = (nats::address(), format!("pending-{}", std::process::id()));
    for ack_wait in ["12s", "300s"] {
        let bench = Bench::new(&format!(
            "{}broker.nats = {{ storage = \"memory\", ack_wait = \"{ack_wait}\" }}\ntopology.name = \"{name}\"\nload.rate = \"500/s\"\n\
             run = {{ duration = \"5s\", warm_up = \"0s\", drain_deadline = \"14s\" }}\nconsumers.members = 1\n",
            broker(&address)
        ));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        let consumers = nats::command(&address, &["consumer", "ls", &name, "--names"]);
        let consumer = consumers.lines().next().unwrap();
        nats::command(&address, &["consumer", "next", &name, consumer, "--count", "5", "--no-ack"]);
        let record = running.finish(PATIENCE).records().remove(0);
        assert_balanced(&record);
        let found = record.verification.as_ref().unwrap();
        // Those that would come after the end of the wait are unread: the server has them.
        let unread = if ack_wait == "12s" { 0 } else { 5 };
        assert_fields!(found, { lost: 0, unread: unread, duplicated: 0 }, "{ack_wait}: {found:?}");
    }
}

#[test]
fn real_ordered_consumer_that_is_deleted_begins_again() {
    let address = nats::address();
    let name = format!("ordered-{}", std::process::id());
    let ordered = "broker.nats = { consumer = \"ordered\", ack_policy = \"none\" }\n";
    let bench = Bench::new(&format!(
        "{}{ordered}topology.name = \"{name}\"\nload.rate = \"2k/s\"\nrun.duration = \"6s\"\nconsumers.members = 1\n",
        broker(&address)
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    let consumers = nats::command(&address, &["consumer", "ls", &name, "--names"]);
    let consumer = consumers.lines().next().unwrap();
    nats::command(&address, &["consumer", "rm", "--force", &name, consumer]);
    let record = running.finish(PATIENCE).expect(0).record();
    assert_delivered(&record, 12_000, 1);
}

#[test]
fn real_pushed_consumer_that_is_deleted_is_told() {
    let (address, name) = (nats::address(), format!("pushed-{}", std::process::id()));
    let bench = Bench::new(&format!(
        "{}broker.nats.consumer = \"push\"\ntopology.name = \"{name}\"\nload.rate = \"500/s\"\nconsumers.members = 1\n\
         run = {{ duration = \"12s\", drain_deadline = \"2s\", catch_up_deadline = \"2s\" }}\n",
        broker(&address)
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    let consumers = nats::command(&address, &["consumer", "ls", &name, "--names"]);
    nats::command(&address, &["consumer", "rm", "--force", &name, consumers.lines().next().unwrap()]);
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    let found = record.verification.as_ref().unwrap();
    assert!(found.unread > 0 && found.lost == 0, "{found:?}");
    let errors = serde_json::to_string(&record.receive_errors).unwrap();
    assert!(errors.contains("was deleted"), "{errors}");
}

#[test]
fn real_ordered_group_of_several_members_is_refused() {
    let ordered = "broker.nats = { consumer = \"ordered\", ack_policy = \"none\" }\n";
    let error = refused(&format!("{}{ordered}{LOAD}consumers.members = 2\n", broker(&nats::address())));
    assert!(error.contains("set `consumers.members = 1`"), "{error}");
}

#[test]
fn real_missing_server_is_reported_with_its_address() {
    let error = refused(&format!("{}{LOAD}", broker("127.0.0.1:1")));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}

#[test]
fn real_wrong_password_is_reported_as_such() {
    let login = [("BROKERMARK_NATS_OPTIONS", "--user me --pass right")];
    let server = Server::start("nats", "nats-login", 14232, &login);
    let sasl = |password: &str| {
        let sasl = format!("{{ mechanism = \"PLAIN\", username = \"me\", password = \"{password}\" }}");
        format!("{}broker.security.sasl = {sasl}\n{LOAD}", broker(&server.address()))
    };
    let error = refused(&sasl("wrong"));
    assert!(error.contains("refused the credentials") && !error.contains("wrong"), "{error}");
    assert_eq!(record_of(&sasl("right")).counts.acknowledged, 30_000);
}

#[test]
fn real_stream_deleted_in_the_middle_fails_what_follows() {
    let address = nats::address();
    let name = format!("deleted-{}", std::process::id());
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"500/s\"\nrun.duration = \"300s\"\nrun.drain_deadline = \"2s\"\n",
        broker(&address)
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    nats::command(&address, &["stream", "rm", "--force", &name]);
    running.await_stderr("failed");
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    let errors = serde_json::to_string(&record.errors).unwrap();
    assert!(errors.contains("unknown-topic"), "{errors}");
}

#[test]
fn real_killed_server_loses_nothing_acknowledged() {
    let server = Server::start("nats", "nats-killed", 14242, &[]);
    for consumer in ["pull\"", "push\"", "ordered\", ack_policy = \"none\""] {
        // An ordered consumer is gone with its server, which is noticed after two heartbeats.
        let bench = Bench::new(&format!(
            "{}broker.nats = {{ ack_timeout = \"2s\", consumer = \"{consumer} }}\nload.rate = \"2k/s\"\n\
             run = {{ duration = \"8s\", drain_deadline = \"60s\" }}\nconsumers.members = 1\n",
            broker(&server.address())
        ));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        server.kill();
        server.restart();
        let record = running.finish(PATIENCE).records().remove(0);
        assert_balanced(&record);
        let found = record.verification.as_ref().unwrap();
        assert_eq!((found.lost, found.unread), (0, 0), "{consumer}: {found:?}");
        // What was due while it was away waited for it. What was in flight when it died may have failed.
        assert!(record.counts.acknowledged > 8_000, "{consumer}: {:?}", record.counts);
        let longest_ns = record.latency.response.as_ref().map(|latency| latency.max_ns).unwrap();
        assert!(longest_ns > 50_000_000, "{consumer}: {longest_ns}");
    }
}

/// The scenario itself stops the server, and lets it go on.
#[test]
fn real_fault_of_a_scenario_is_felt_for_as_long_as_it_lasts() {
    let server = Server::start("nats", "nats-fault", 14312, &[]);
    let id = server.id();
    let scenario = format!(
        "{}load.rate = \"1k/s\"\nrun.duration = \"8s\"\nconsumers.verify = true\n\
         thresholds = {{ require = [\"outage > 2s\", \"recovery > 2s\", \"lost = 0\"], when_invalid = \"ignore\" }}\n\
         [[faults]]\nat = \"2s\"\nrun = \"kill -STOP {id}\"\nfor = \"3s\"\nundo = \"kill -CONT {id}\"\n",
        broker(&server.address())
    );
    let record = Bench::new(&scenario).run(&[]).expect(0).record();
    assert_balanced(&record);
    let [fault] = &record.faults[..] else { panic!("{:?}", record.faults) };
    let (run, undo) = (&fault.run, fault.undo.as_ref().unwrap());
    assert_eq!((run.exit_code, undo.exit_code, run.outages, undo.outages), (Some(0), Some(0), 1, 0), "{fault:?}");
    assert!(run.first_acknowledgement_ns >= undo.begin_ns.zip(run.begin_ns).map(|(undo, run)| undo - run), "{fault:?}");
    assert!(run.recovered_ns >= run.first_acknowledgement_ns, "{fault:?}");
}

#[test]
fn real_frozen_server_shows_in_the_response_time() {
    let server = Server::start("nats", "nats-frozen", 14252, &[]);
    let bench = Bench::new(&format!(
        "{}load.rate = \"1k/s\"\nrun = {{ warm_up = \"1s\", duration = \"6s\" }}\n",
        broker(&server.address())
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.stall(Duration::from_millis(1500));
    let record: Record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    // A quarter of the messages were due while it stood still, or waited behind those: the 99th percentile is near the whole pause.
    let p99_ns = record.latency.response.as_ref().and_then(|latency| latency.p99_ns).unwrap();
    assert!(p99_ns > 1_000_000_000, "{p99_ns}");
}

#[test]
fn real_batches_are_acknowledged_as_a_whole() {
    for batches in ["atomic", "fast"] {
        let keys =
            format!("broker.nats = {{ batches = \"{batches}\", storage = \"memory\" }}\nbroker.connections = 2\n");
        let record = record_of(&format!("{}{keys}{LOAD}consumers.members = 1\n", broker(&nats::address())));
        assert_delivered(&record, 30_000, 1);
    }
}

/// 100 bytes and what the stream keeps beside them: not all of the messages fit.
#[test]
fn real_full_stream_refuses_what_is_beyond_its_size() {
    for batches in ["single", "atomic", "fast"] {
        let keys = format!(
            "broker.nats = {{ batches = \"{batches}\", storage = \"memory\", discard = \"new\", max_bytes = \"50kB\" }}\n"
        );
        let load = "producers = { count = 2, batch = 7 }\npayload.size = \"100B\"\nrun.messages = 1_000\nconsumers.members = 1\n";
        let record = Bench::new(&format!("{}{keys}{load}", broker(&nats::address()))).run(&[]).record();
        assert_balanced(&record);
        let counts = &record.counts;
        assert!((100..900).contains(&counts.acknowledged), "{batches}: {counts:?}");
        assert_eq!((counts.acknowledged + counts.failed, counts.unresolved), (1_000, 0), "{batches}");
        let found = record.verification.as_ref().unwrap();
        assert_eq!((found.received, found.lost), (counts.acknowledged, 0), "{batches}: {found:?}");
        let errors = serde_json::to_string(&record.errors).unwrap();
        assert!(errors.contains("\"full\"") && errors.contains("maximum bytes exceeded"), "{batches}: {errors}");
        assert_eq!(record.client.unmatched_answers, 0, "{batches}");
    }
}

#[test]
fn real_existing_stream_takes_as_many_messages_as_it_may_have() {
    let (address, name) = (nats::address(), format!("limited-{}", std::process::id()));
    let limits = ["--max-msgs", "300", "--discard", "new", "--storage", "memory", "--defaults"];
    nats::command(&address, &[&["stream", "add", &name, "--subjects", &name][..], &limits].concat());
    let topology = format!("topology = {{ name = \"{name}\", existing = true }}\n");
    let load =
        "producers = { count = 2, batch = 7 }\nrun = { messages = 1_000, warm_up = \"0s\" }\nconsumers.members = 1\n";
    let record = Bench::new(&format!("{}{topology}{load}", broker(&address))).run(&[]).record();
    let left = nats::command(&address, &["consumer", "ls", &name, "--names"]);
    nats::command(&address, &["stream", "rm", "--force", &name]);
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.failed), (300, 700), "{:?}", record.errors);
    let found = record.verification.as_ref().unwrap();
    assert_eq!((found.received, found.lost), (300, 0), "{found:?}");
    let errors = serde_json::to_string(&record.errors).unwrap();
    assert!(errors.contains("\"full\"") && errors.contains("maximum messages exceeded"), "{errors}");
    assert_eq!(left.trim(), "", "the group's consumer is removed");
}

#[test]
fn real_message_above_the_server_limit_is_too_large() {
    for batches in ["single", "atomic", "fast"] {
        let keys = format!(
            "broker.nats.batches = \"{batches}\"\npayload.size = {{ choices = [[\"100B\", 1], [\"2MiB\", 1]] }}\n"
        );
        let record = record_of(&format!("{}{keys}run.messages = 40\nproducers.batch = 4\n", broker(&nats::address())));
        assert_balanced(&record);
        assert!((5..35).contains(&record.counts.acknowledged), "{batches}: {:?}", record.errors);
        let errors = serde_json::to_string(&record.errors).unwrap();
        assert!(errors.contains("too-large") && errors.contains("max_payload"), "{errors}");
    }
}

/// A server whose users and certificates are of this configuration.
fn configured(instance: &str, port: u16, folder: &Path, configuration: &str) -> Server {
    let file = folder.join("nats.conf");
    std::fs::write(&file, configuration).unwrap();
    Server::start("nats", instance, port, &[("BROKERMARK_NATS_OPTIONS", &format!("-c {}", file.display()))])
}

#[test]
fn real_subject_that_is_not_allowed_fails_each_message() {
    let folder = tempfile::tempdir().unwrap();
    let users =
        "authorization { users = [{ user: me, password: right, permissions: { publish: { deny: \"denied0\" } } }] }";
    let server = configured("nats-denied", 14262, folder.path(), users);
    let sasl = "broker.security.sasl = { mechanism = \"PLAIN\", username = \"me\", password = \"right\" }\n";
    let topics = "topology = { name = \"denied\", topics = 2 }\nproducers = { count = 2, batch = 10 }\nload.rate = \"2k/s\"\nrun.messages = 200\n";
    for mode in ["core", "jetstream"] {
        let storage = if mode == "jetstream" { "storage = \"memory\", " } else { "" };
        let keys = format!("broker.nats = {{ {storage}mode = \"{mode}\", ack_timeout = \"5s\" }}\n");
        let record = record_of(&format!("{}{sasl}{keys}{topics}", broker(&server.address())));
        assert_eq!((record.counts.acknowledged, record.counts.failed), (100, 100), "{mode}: {:?}", record.errors);
        let errors = serde_json::to_string(&record.errors).unwrap();
        assert!(errors.contains("Permissions Violation") && errors.contains("denied0"), "{errors}");
        let conditions = serde_json::to_string(&record.conditions).unwrap();
        assert!(conditions.contains("denied"), "{conditions}");
    }
}

#[test]
fn real_nkey_over_tls_publishes_and_consumes() {
    // Those of the documentation of NATS.
    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    certify(folder.path());
    let configuration = format!(
        "authorization {{ users = [{{ nkey: {PUBLIC} }}] }}\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        path("cert.pem"),
        path("key.pem")
    );
    let server = configured("nats-tls", 14272, folder.path(), &configuration);
    std::fs::write(path("user.nk"), SEED).unwrap();
    let address = format!("localhost:{}", server.port());
    let keys = format!("broker.nats.nkey = {{ file = {:?} }}\n", path("user.nk"));
    let tls = format!("broker.security.tls.ca = {:?}\n", path("cert.pem"));
    let record = record_of(&format!("{}{keys}{tls}{LOAD}consumers.members = 1\n", broker(&address)));
    assert_delivered(&record, 30_000, 1);
    let error = refused(&format!("{}{keys}{LOAD}", broker(&address)));
    assert!(error.contains("broker.security.tls"), "{error}");
}

#[test]
fn real_server_that_shuts_down_says_so_before() {
    let server = Server::start("nats", "nats-lame-duck", 14282, &[]);
    let bench = Bench::new(&format!(
        "{}load.rate = \"500/s\"\nrun = {{ duration = \"300s\", drain_deadline = \"1s\" }}\nconsumers.members = 1\n",
        broker(&server.address())
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // nats-server takes it for `--signal ldm`.
    server.signal(libc::SIGUSR2);
    running.await_stderr("connecting");
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_balanced(&record);
    let conditions = serde_json::to_string(&record.conditions).unwrap();
    assert!(conditions.contains("lame duck"), "{conditions}");
}

#[test]
fn real_account_without_jetstream_is_told_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = "accounts { WITH { jetstream: enabled, users = [{ user: with, password: right }] }\n\
        WITHOUT { users = [{ user: without, password: right }] } }";
    let server = configured("nats-accounts", 14292, folder.path(), accounts);
    let run = |user: &str, mode: &str| {
        let sasl = format!("{{ mechanism = \"PLAIN\", username = \"{user}\", password = \"right\" }}");
        format!("{}broker.security.sasl = {sasl}\nbroker.nats.mode = \"{mode}\"\n{LOAD}", broker(&server.address()))
    };
    let error = refused(&run("without", "jetstream"));
    assert!(error.contains("not enabled for account") && error.contains("`jetstream: enabled`"), "{error}");
    for (user, mode) in [("with", "jetstream"), ("without", "core")] {
        assert_eq!(record_of(&run(user, mode)).counts.acknowledged, 30_000, "{user}");
    }
}
