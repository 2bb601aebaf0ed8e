//! Connections without messages, on real servers: opened at their rate, kept, replaced, refused and lost.

use crate::harness::shares::{merge, run_shares};
use crate::harness::{Bench, PATIENCE, assert_balanced};
use std::time::Duration;

use brokermark::record::{IdleConnections, ReasonKind, Record};

const LOAD: &str = "load.rate = \"200/s\"\nrun = { duration = \"8s\", warm_up = \"0s\" }\npayload.size = \"100B\"\n";

fn scenario(broker: &str, idle: &str) -> String {
    format!("{broker}\nidle_connections = {{ {idle} }}\n{LOAD}")
}

fn idle(record: &Record) -> &IdleConnections {
    record.idle_connections.as_ref().unwrap()
}

fn is_missing(record: &Record) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.kind == ReasonKind::ConnectionsMissing)
}

/// Opens 300 connections, and replaces 50 a second.
fn assert_opens_and_replaces(broker: &str) {
    let record =
        Bench::new(&scenario(broker, "count = 300, connect_rate = \"500/s\", churn = \"50/s\"")).run(&[]).record();
    assert_balanced(&record);
    let idle = idle(&record);
    assert!(idle.failed.is_empty() && idle.lost.is_empty(), "{idle:?}");
    assert!((350..=450).contains(&idle.replaced), "{idle:?}");
    assert_eq!(idle.wanted, 300);
    // Some may have been closed whose successors were not ready yet.
    assert!((250..=300).contains(&idle.open_at_end), "{idle:?}");
    assert_eq!(idle.opened, idle.open_at_end + idle.replaced);
    assert!(idle.opened_per_second < 550.0, "they are opened in an open loop: {idle:?}");
    assert!(idle.time_to_ready.as_ref().unwrap().p50_ns > 0);
    assert!(!is_missing(&record));
}

#[cfg(feature = "mqtt")]
#[test]
fn real_mosquitto_keeps_idle_connections() {
    let address = crate::harness::server::variable("BROKERMARK_MQTT");
    assert_opens_and_replaces(&format!("broker = {{ kind = \"mqtt\", address = \"{address}\" }}"));
}

#[cfg(feature = "nats")]
#[test]
fn real_nats_keeps_idle_connections() {
    let address = crate::harness::nats::address();
    assert_opens_and_replaces(&format!("broker = {{ kind = \"nats\", address = \"{address}\" }}"));
}

#[cfg(feature = "rabbitmq")]
#[test]
fn real_queues_of_rabbitmq_keep_idle_connections() {
    let address = crate::harness::rabbitmq::amqp();
    let broker =
        format!("broker = {{ kind = \"rabbitmq\", address = \"{address}\", rabbitmq = {{ heartbeat = \"2s\" }} }}");
    assert_opens_and_replaces(&broker);
}

#[cfg(feature = "redis")]
mod redis {
    use super::*;
    use crate::harness::Running;
    use crate::harness::databases::{ask_redis, redis, redis_server, text_of_redis};
    use std::process::Command;

    fn broker(address: &str) -> String {
        format!("broker = {{ kind = \"redis\", address = \"{address}\" }}")
    }

    #[test]
    fn real_redis_keeps_idle_connections() {
        assert_opens_and_replaces(&broker(&redis()));
    }

    #[test]
    fn real_connections_above_the_server_limit_are_missing() {
        let server = redis_server("redis-few", 16_399, "--maxclients 50");
        let record = Bench::new(&scenario(&broker(&server.address()), "count = 100")).run(&[]).record();
        let idle = idle(&record);
        assert!((1..50).contains(&idle.opened), "{idle:?}");
        assert_eq!(idle.failed.iter().map(|error| error.count).sum::<u64>(), 100 - idle.opened);
        assert!(idle.failed[0].first_message.contains("max number of clients"), "{idle:?}");
        assert!(is_missing(&record) && !record.verdict.valid, "{:?}", record.verdict);
    }

    #[test]
    fn real_connections_that_the_server_closes_are_lost() {
        let server = redis_server("redis-closing", 16_400, "");
        let bench = Bench::new(&scenario(&broker(&server.address()), "count = 20"));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        ask_redis(&server.address(), "CLIENT KILL TYPE normal");
        let record = running.finish(PATIENCE).records().remove(0);
        assert_balanced(&record);
        let idle = idle(&record);
        assert_eq!((idle.opened, idle.open_at_end), (20, 0));
        assert_eq!(idle.lost.iter().map(|error| error.count).sum::<u64>(), 20);
        assert!(idle.lost[0].first_message.contains(&server.address()), "{idle:?}");
        assert!(is_missing(&record));
    }

    #[test]
    fn real_lost_connections_are_not_replaced() {
        let server = redis_server("redis-lost", 16_402, "");
        let idle_keys = "count = 20, churn = \"5/s\"";
        let bench = Bench::new(&scenario(&broker(&server.address()), idle_keys));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        ask_redis(&server.address(), "CLIENT KILL TYPE normal");
        let record = running.finish(PATIENCE).records().remove(0);
        let idle = idle(&record);
        let lost = idle.lost.iter().map(|error| error.count).sum::<u64>();
        assert!(lost >= 19, "{idle:?}");
        assert_eq!(idle.opened, idle.open_at_end + idle.replaced + lost, "{idle:?}");
    }

    #[test]
    fn real_connections_come_from_the_addresses_that_are_named() {
        let server = redis_server("redis-sources", 16_403, "--protected-mode no");
        let idle_keys = "count = 20, source_addresses = [\"127.0.0.2\", \"127.0.0.3\"]";
        let bench = Bench::new(&scenario(&broker(&server.address()), idle_keys));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        let clients = text_of_redis(&server.address(), "CLIENT LIST");
        let from = |source: &str| clients.matches(&format!(" addr={source}:")).count();
        assert_eq!([from("127.0.0.2"), from("127.0.0.3")], [10, 10], "{clients}");
        running.finish(PATIENCE).expect(0);
    }

    #[test]
    fn real_source_address_that_is_not_of_this_machine_fails_by_name() {
        let bench = Bench::new(&scenario(&broker(&redis()), "count = 3, source_addresses = [\"192.0.2.1\"]"));
        let record = bench.run(&[]).records().remove(0);
        let idle = idle(&record);
        assert_eq!((idle.opened, idle.failed[0].count), (0, 3));
        assert!(idle.failed[0].first_message.contains("from 192.0.2.1"), "{idle:?}");
    }

    #[test]
    fn real_shares_open_their_parts() {
        let bench = Bench::new(&format!(
            "{}\nproducers.count = 2",
            scenario(&broker(&redis()), "count = 301, connect_rate = \"300/s\", churn = \"20/s\"")
        ));
        let shares = run_shares(&bench, 2, 6);
        let record = merge(&bench, &shares, "merged").expect(0).record();
        let idle = idle(&record);
        // One that replaces another may not be open yet when a share ends.
        assert!(idle.wanted == 301 && (299..=301).contains(&(idle.opened - idle.replaced)), "{idle:?}");
        assert!((299..=301).contains(&idle.open_at_end), "{idle:?}");
        // 20 a second in both together, for 8 s.
        assert!((140..=165).contains(&idle.replaced), "{idle:?}");
        assert!(idle.time_to_ready.is_some() && idle.memory_bytes_each.is_some());
    }

    #[test]
    fn real_server_that_stands_still_shows_in_the_time_to_ready() {
        let server = redis_server("redis-still", 16_401, "");
        let bench = Bench::new(&scenario(&broker(&server.address()), "count = 400, connect_rate = \"100/s\""));
        let mut running = bench.start(&[]);
        running.await_stderr("idle connections ready");
        server.stall(Duration::from_secs(1));
        let record = running.finish(PATIENCE).records().remove(0);
        let ready = idle(&record).time_to_ready.clone().unwrap();
        // A quarter of them were due while it stood still for a second at least.
        assert!(ready.p90_ns > 200_000_000 && ready.max_ns > 900_000_000, "{ready:?}");
        assert_eq!(idle(&record).opened, 400);
    }

    #[test]
    fn real_open_files_below_the_need_are_told() {
        let bench = Bench::new(&scenario(&broker(&redis()), "count = 5000"));
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -n 1000; exec \"$@\"", "limited", env!("CARGO_BIN_EXE_brokermark"), "run"]);
        command.arg(bench.scenario()).arg("--output").arg(bench.results());
        let ended = Running::start(&mut command).finish(PATIENCE).expect(1);
        ended.complains_of(&["5000 idle connections", "may have 1000", "ulimit -n 5256"]);
    }
}
