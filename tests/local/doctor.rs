//! `brokermark doctor` on brokers that answer and brokers that do not.

use std::net::TcpListener;

use crate::harness::{Bench, execute};

fn doctor(scenario: &str) -> crate::harness::Finished {
    let bench = Bench::new(scenario);
    execute(&["doctor", bench.scenario().to_str().unwrap()])
}

#[test]
fn a_broker_that_answers_is_named_and_nothing_is_kept() {
    let bench =
        Bench::new("broker.kind = \"null\"\nrun = { duration = \"30s\", warm_up = \"5s\" }\nload.rate = \"1k/s\"\n");
    let ended = execute(&["doctor", bench.scenario().to_str().unwrap()]);
    ended.expect(0).says(&[
        "✓ broker",
        "logged in through brokermark",
        "can be made, and were removed again",
        "✓ permissions",
        "a producer can be opened",
        "in the broker's memory",
    ]);
    assert!(bench.run_directories().is_empty());
}

#[test]
fn what_would_fail_or_be_invalid_has_a_remedy() {
    doctor("broker.kind = \"null\"\nrun.duration = \"1s\"\n").expect(1).says(&[
        "too short for a valid record",
        "--set run.duration=30s",
        "nothing is warmed up",
        "--set load.rate=10k/s",
    ]);
    doctor("broker.kind = \"null\"\nbroker.null.refuse_topic = 0\nrun.duration = \"9s\"\n").expect(1).says(&[
        "✗ topics",
        "cannot be created",
        "change [topology] to what the broker takes",
    ]);
}

/// The first point of this sweep could run.
#[test]
fn each_point_with_a_broker_of_its_own_is_examined() {
    let rest = "load.rate = \"1k/s\"\nrun = { duration = \"30s\", warm_up = \"5s\" }";
    let sweep = "sweep.over = { \"broker.null.refuse_topic\" = [9, 0], \"producers.batch\" = [1, 2] }";
    let mut ended = doctor(&format!("broker.kind = \"null\"\n{rest}\n{sweep}\n"));
    ended.stdout = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    ended.expect(1).says(&[
        "✓ points 2 of 4 differ in their broker, topics or pipeline: each is examined",
        "✓ topics broker.null.refuse_topic = 9, producers.batch = 1: 1 topic(s) of 1 partition(s) can be made",
        "✗ topics broker.null.refuse_topic = 0, producers.batch = 1: ",
    ]);
}

/// What is wrong with a later point is found as well.
#[test]
fn every_point_is_looked_at() {
    let sweep = "sweep.over = { \"run.duration\" = [\"30s\", \"1s\"] }";
    let ended = doctor(&format!("broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.warm_up = \"5s\"\n{sweep}\n"));
    ended.expect(1).says(&["1.00 s is too short for a valid record", "the 2 points have the same broker"]);
}

#[test]
#[cfg(feature = "nsq")]
fn an_address_that_refuses_connections_is_named_with_a_command() {
    // Bound and let go: nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scenario =
        format!("broker = {{ kind = \"nsq\", addresses = [\"127.0.0.1:{port}\"] }}\nrun.duration = \"9s\"\n");
    doctor(&scenario).expect(1).says(&["✗ address", &format!("nc -vz 127.0.0.1 {port}")]);
    // A run that meets the same says who knows more.
    Bench::new(&scenario).run(&[]).expect(1).complains_of(&["brokermark doctor"]);
}
