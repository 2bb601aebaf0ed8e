//! Redis as brokermark meets it: the server of `scripts/test`, and some that refuse, stand still or lack room.
#![cfg(feature = "redis")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::harness::databases::{ask_redis, redis, redis_server, text_of_redis};
use crate::harness::{Bench, PATIENCE, assert_balanced, assert_delivered, eventually, record_of};
use brokermark::record::{Record, Status};

const LOAD: &str = "producers = { count = 3, batch = 20 }\npayload.size = \"100B\"\nrun.messages = \"30k\"\n";

fn broker(address: &str) -> String {
    format!("broker.kind = \"redis\"\nbroker.address = \"{address}\"\n")
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

/// The errors of a record, as text.
fn errors(record: &Record) -> String {
    serde_json::to_string(&record.errors).unwrap()
}

#[test]
fn real_modes_deliver_what_they_acknowledge() {
    for (keys, groups, level) in [
        ("mode = \"streams\"", 2, "memory"),
        ("mode = \"streams\", acknowledge = false", 2, "memory"),
        ("mode = \"pubsub\"", 2, "nowhere"),
        ("mode = \"pubsub\", subscribe = \"pattern\"", 2, "nowhere"),
        ("mode = \"pubsub\", subscribe = \"sharded\"", 2, "nowhere"),
        ("mode = \"list\"", 1, "memory"),
        ("mode = \"list\", pop = \"blmpop\"", 1, "memory"),
        ("mode = \"list\", pop = \"blmove\"", 1, "memory"),
    ] {
        for resp in [2, 3] {
            let keys = format!(
                "broker.redis = {{ resp = {resp}, {keys} }}\nconsumers = {{ groups = {groups}, members = 1 }}\n"
            );
            let record = record_of(&format!("{}{keys}{LOAD}", broker(&redis())));
            assert_delivered(&record, 30_000, groups);
            assert_eq!(serde_json::to_value(&record.durability).unwrap()["level"], level, "{keys}");
            let broker = record.environment.broker.as_ref().unwrap();
            assert!(broker.starts_with("Redis ") || broker.starts_with("Valkey "), "{broker}: {keys}");
        }
    }
}

#[test]
fn real_run_leaves_no_key_behind() {
    let server = redis_server("redis-left", 16_390, "");
    for keys in ["mode = \"streams\"", "mode = \"list\", pop = \"blmove\""] {
        let consumers = "consumers = { groups = 1, members = 2 }\n";
        let record = record_of(&format!("{}broker.redis = {{ {keys} }}\n{consumers}{LOAD}", broker(&server.address())));
        assert_eq!(record.counts.acknowledged, 30_000);
        assert_eq!(ask_redis(&server.address(), "DBSIZE"), ":0", "{keys}");
    }
}

#[test]
fn real_missing_server_is_reported_with_its_address() {
    let error = refused(&format!("{}{LOAD}", broker("127.0.0.1:1")));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}

#[test]
fn real_wrong_password_is_reported_as_such() {
    let server = redis_server("redis-login", 16_391, "--requirepass right");
    let sasl = |password: &str| {
        let sasl = format!("{{ mechanism = \"PLAIN\", username = \"default\", password = \"{password}\" }}");
        format!("{}broker.security.sasl = {sasl}\n{LOAD}", broker(&server.address()))
    };
    let error = refused(&sasl("wrong"));
    assert!(error.contains("refused the credentials") && error.contains("WRONGPASS"), "{error}");
    assert!(refused(&format!("{}{LOAD}", broker(&server.address()))).contains("NOAUTH"));
    assert_eq!(record_of(&sasl("right")).counts.acknowledged, 30_000);
}

#[test]
fn real_cluster_node_is_refused_by_name() {
    let server = redis_server("redis-cluster", 16_392, "--cluster-enabled yes");
    let error = refused(&format!("{}{LOAD}", broker(&server.address())));
    assert!(error.contains("Redis Cluster"), "{error}");
}

/// Servers that have the command are asked before the load as well: whether they write a file that messages can be in.
#[test]
fn real_server_without_such_a_file_is_refused_before_the_load() {
    let wait = "broker.redis = { wait_local_file = true }\n";
    let error = refused(&format!("{}{wait}{LOAD}", broker(&redis())));
    assert!(error.contains("Redis 7.2 or later") && error.contains("`appendonly yes`"), "{error}");
}

#[test]
fn real_key_of_another_type_is_named() {
    let name = format!("other-{}", std::process::id());
    ask_redis(&redis(), &format!("SET {name} x"));
    let error = refused(&format!("{}topology.name = \"{name}\"\n{LOAD}", broker(&redis())));
    ask_redis(&redis(), &format!("DEL {name}"));
    assert!(error.contains("which is a string and not a stream"), "{error}");
}

#[test]
fn real_full_server_refuses_with_its_words() {
    let server = redis_server("redis-full", 16_393, "--maxmemory 6mb --maxmemory-policy noeviction");
    let record =
        Bench::new(&format!("{}{}", broker(&server.address()), LOAD.replace("100B", "1KiB"))).run(&[]).record();
    assert_balanced(&record);
    assert!(
        errors(&record).contains("\"full\"") && errors(&record).contains("OOM command not allowed"),
        "{:?}",
        record.errors
    );
    assert!(record.counts.acknowledged > 1_000 && record.counts.failed > 1_000, "{:?}", record.counts);
}

#[test]
fn real_missing_replicas_are_a_condition() {
    let wait = "broker.redis = { wait_replicas = 1, ack_timeout = \"2s\" }\n";
    let record = Bench::new(&format!("{}{wait}{}", broker(&redis()), LOAD.replace("30k", "60"))).run(&[]).record();
    assert_balanced(&record);
    assert_eq!(record.counts.failed, 60);
    assert!(errors(&record).contains("0 of 1 replicas had it in time"), "{:?}", record.errors);
    let conditions = serde_json::to_value(&record.conditions).unwrap().to_string();
    assert!(conditions.contains("not-enough-replicas"), "{conditions}");
}

#[test]
fn real_replicas_have_what_is_acknowledged() {
    let (server, replica) = (redis_server("redis-primary", 16_406, ""), redis_server("redis-copy", 16_407, ""));
    ask_redis(&replica.address(), "REPLICAOF 127.0.0.1 16406");
    eventually("the replica follows", || text_of_redis(&server.address(), "INFO replication").contains("state=online"));
    let keys = "broker.redis.wait_replicas = 1\nbroker.connections = 1\nproducers.in_flight = 100\n";
    let load = "payload.size = \"100B\"\nrun.messages = 3000\n";
    let record = Bench::new(&format!("{}{keys}{load}", broker(&server.address()))).run(&[]).expect(0).record();
    assert_eq!((record.counts.acknowledged, record.durability.copies), (3000, Some(2)));
    // A server executes nothing of a connection while it waits, so messages have a command in common.
    let statistics = text_of_redis(&server.address(), "INFO commandstats");
    let calls = statistics.split("cmdstat_wait:calls=").nth(1).and_then(|rest| rest.split(',').next());
    let calls: u32 = calls.unwrap().parse().unwrap();
    assert!((30..1000).contains(&calls), "{calls}");
}

#[test]
fn real_pause_shows_in_the_response_time() {
    let server = redis_server("redis-paused", 16_394, "");
    let load = "load.rate = \"1k/s\"\nrun = { duration = \"5s\", warm_up = \"0s\" }\npayload.size = \"100B\"\n";
    let bench = Bench::new(&format!("{}{load}", broker(&server.address())));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    ask_redis(&server.address(), "CLIENT PAUSE 1000 ALL");
    let record = running.finish(PATIENCE).expect(0).record();
    assert_balanced(&record);
    let p99_ns = record.latency.response.as_ref().and_then(|latency| latency.p99_ns).unwrap();
    // A fifth of the messages were due in this second.
    assert!(p99_ns > 700_000_000, "{p99_ns}");
}

#[test]
fn real_connections_that_are_cut_are_opened_again() {
    let server = redis_server("redis-cut", 16_395, "");
    let load = "load.rate = \"2k/s\"\nrun = { duration = \"6s\", warm_up = \"0s\" }\nproducers.in_flight = 500\n";
    let bench =
        Bench::new(&format!("{}{load}payload.size = \"100B\"\nconsumers.members = 1\n", broker(&server.address())));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    ask_redis(&server.address(), "CLIENT KILL TYPE normal");
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    let found = record.verification.as_ref().unwrap();
    assert_eq!((found.lost, found.unread), (0, 0), "{found:?}");
    assert!(record.counts.acknowledged > 10_000, "{:?}", record.counts);
}

#[test]
fn real_messages_of_a_reply_that_was_cut_are_received() {
    for (keys, command) in [("mode = \"streams\"", "XREADGROUP"), ("mode = \"list\", pop = \"blmove\"", "BLMOVE")] {
        let (address, is_cut) = cut_in_a_reply(redis(), command);
        let keys = format!("broker.redis = {{ {keys} }}\nconsumers.members = 1\n");
        let bench = Bench::new(&format!("{}{keys}{}", broker(&address), LOAD.replace("30k", "3000")));
        let record = bench.run(&[]).records().remove(0);
        assert_balanced(&record);
        assert!(is_cut.load(Ordering::SeqCst), "{command}");
        let found = record.verification.as_ref().unwrap();
        assert_eq!((found.lost, found.unread, found.duplicated), (0, 0, 0), "{command}: {found:?}");
    }
}

/// An address that leads to the server, and whether a connection over it was cut: the first one whose client has sent `command`, in the middle of
/// the first reply with a message.
fn cut_in_a_reply(server: String, command: &'static str) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = is_cut.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (asks, cut) = (Arc::new(AtomicBool::new(false)), cut.clone());
            let has_asked = asks.clone();
            thread::spawn(move || {
                pass_on(from, to, |bytes| {
                    let is_here = bytes.windows(command.len()).any(|part| part == command.as_bytes());
                    asks.fetch_or(is_here, Ordering::SeqCst);
                    bytes.len()
                });
            });
            thread::spawn(move || {
                pass_on(server, client, |bytes| {
                    // Replies without a message are shorter.
                    let has_message = has_asked.load(Ordering::SeqCst) && bytes.len() > 64;
                    if has_message && !cut.swap(true, Ordering::SeqCst) { bytes.len() / 2 } else { bytes.len() }
                });
            });
        }
    });
    (address, is_cut)
}

/// Until either end has gone, or not all bytes are `let_through`; both learn of it.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut let_through: impl FnMut(&[u8]) -> usize) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let passed = let_through(&bytes[..count]);
        if to.write_all(&bytes[..passed]).is_err() || passed < count {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

#[test]
fn real_entries_of_a_dead_member_come_again() {
    let (address, name) = (redis(), format!("claimed-{}", std::process::id()));
    let bench = Bench::new(&format!(
        "{}broker.redis.claim_after = \"1s\"\ntopology.name = \"{name}\"\nload.rate = \"500/s\"\n\
         run = {{ duration = \"5s\", warm_up = \"0s\" }}\nconsumers.members = 1\npayload.size = \"100B\"\n",
        broker(&address)
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // Another member takes some and never acknowledges them.
    let script = "local group = redis.call('XINFO', 'GROUPS', KEYS[1])[1][2]; redis.call('XADD', KEYS[1], '*', 'payload', 'foreign'); \
        return #redis.call('XREADGROUP', 'GROUP', group, 'dead', 'STREAMS', KEYS[1], '>')[1][2]";
    let taken = ask_redis(&address, &format!("EVAL \"{script}\" 1 {name}"));
    let taken: u64 = taken.trim_start_matches(':').parse().unwrap();
    let record = running.finish(PATIENCE).expect(0).record();
    let found = record.verification.as_ref().unwrap();
    assert_eq!((found.lost, found.unread, found.duplicated), (0, 0, 0), "{found:?}");
    // The foreign entry, at least, was the dead member's, and could come in no other way.
    assert!(taken > 0 && found.foreign == 1, "{taken}: {found:?}");
}

#[test]
fn real_trimmed_entries_are_removed_and_not_lost() {
    let keys = "broker.redis = { max_length = 5000, exact = true }\n";
    let consumers = "[[consumers.group]]\nwork = \"1ms\"\n";
    let record = Bench::new(&format!("{}{keys}{LOAD}{consumers}", broker(&redis()))).run(&[]).record();
    let found = record.verification.as_ref().unwrap();
    assert_eq!(found.lost, 0, "{found:?}");
    assert!(found.removed > 5_000, "{found:?}");
    assert!(serde_json::to_string(&record).unwrap().contains("MAXLEN"), "the finding names the rule");
}

#[test]
fn real_stream_deleted_in_the_middle_is_told() {
    let (address, name) = (redis(), format!("deleted-{}", std::process::id()));
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"1k/s\"\nrun = {{ duration = \"4s\", warm_up = \"0s\", drain_deadline = \"3s\" }}\n\
         consumers.members = 1\npayload.size = \"100B\"\n",
        broker(&address)
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    ask_redis(&address, &format!("DEL {name}"));
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    let errors = serde_json::to_string(&record.receive_errors).unwrap();
    assert!(errors.contains("NOGROUP"), "{errors}");
}

#[test]
fn real_server_that_became_a_replica_is_read_only() {
    let server = redis_server("redis-replica", 16_396, "");
    let bench = steady(&server.address());
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // Its new primary does not answer, so that it keeps the data that it has.
    ask_redis(&server.address(), "REPLICAOF 127.0.0.1 1");
    let record = running.finish(PATIENCE).records().remove(0);
    assert_unavailable(&record, "READONLY");
}

/// The scenario of a server that refuses for some time: 1,000 messages a second for 6 s.
fn steady(address: &str) -> Bench {
    let load = "load.rate = \"1k/s\"\nrun = { duration = \"6s\", warm_up = \"0s\" }\npayload.size = \"100B\"\n";
    Bench::new(&format!("{}{load}", broker(address)))
}

/// Asserts that messages failed because the server did not serve for the reason that its reply begins with, and that it is a condition.
fn assert_unavailable(record: &Record, reason: &str) {
    assert_balanced(record);
    assert!(record.counts.acknowledged > 100 && record.counts.failed > 100, "{:?}", record.counts);
    assert!(errors(record).contains("\"unavailable\"") && errors(record).contains(reason), "{:?}", record.errors);
    let conditions = serde_json::to_value(&record.conditions).unwrap().to_string();
    assert!(conditions.contains(reason), "{conditions}");
}

#[test]
fn real_server_that_cannot_save_refuses_writes() {
    // No snapshot can be written there.
    let server = redis_server("redis-misconf", 16_404, "--dir /sys --save 1 1");
    let record = steady(&server.address()).run(&[]).records().remove(0);
    assert_unavailable(&record, "MISCONF");
}

#[test]
fn real_server_that_loads_its_data_is_not_ready() {
    let options = "--enable-debug-command yes --loading-process-events-interval-bytes 1024 --key-load-delay 1000";
    let server = redis_server("redis-loading", 16_405, options);
    let bench = steady(&server.address());
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // 2,000 keys, each of which takes a millisecond to load.
    ask_redis(&server.address(), "DEBUG POPULATE 2000");
    ask_redis(&server.address(), "DEBUG RELOAD");
    let record = running.finish(PATIENCE).records().remove(0);
    assert_unavailable(&record, "LOADING");
}

#[test]
fn real_stream_that_the_server_evicts_is_told() {
    let server = redis_server("redis-evicting", 16_397, "--maxmemory 6mb --maxmemory-policy allkeys-lru");
    let consumers = "consumers.members = 1\nrun.drain_deadline = \"3s\"\n";
    let load = LOAD.replace("100B", "1KiB");
    let bench = Bench::new(&format!("{}{load}{consumers}", broker(&server.address())));
    let record = bench.run(&[]).records().remove(0);
    assert_balanced(&record);
    let found = record.verification.as_ref().unwrap();
    assert_eq!(found.lost, 0, "{found:?}");
    assert!(found.removed > 0, "{found:?}");
    let rules = serde_json::to_string(&found.removal_rules).unwrap();
    assert!(rules.contains("maxmemory-policy") && rules.contains("allkeys-lru"), "{rules}");
}

#[test]
fn real_subscriber_that_reads_too_slowly_is_disconnected() {
    let limit = "--client-output-buffer-limit pubsub 256kb 256kb 1";
    let server = redis_server("redis-slow", 16_398, limit);
    let consumers = "broker.redis.mode = \"pubsub\"\n[[consumers.group]]\nwork = \"100us\"\n";
    let load = LOAD.replace("100B", "4KiB");
    let record = Bench::new(&format!("{}{load}run.drain_deadline = \"3s\"\n{consumers}", broker(&server.address())))
        .run(&[])
        .records()
        .remove(0);
    assert_balanced(&record);
    let found = record.verification.as_ref().unwrap();
    assert!(found.lost + found.unread > 0, "{found:?}");
    let errors = serde_json::to_string(&record.receive_errors).unwrap();
    assert!(errors.contains("connection-lost"), "{errors}");
}
