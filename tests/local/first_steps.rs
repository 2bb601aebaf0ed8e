//! What a new user meets: URLs in place of files, scenarios to start from, and the errors that typical mistakes give.
//!
//! Texts are kept as snapshots. After an intended change: `INSTA_UPDATE=always cargo test --test local -- first_steps`.

use crate::harness::{Bench, PATIENCE, Running, brokermark, execute};

#[test]
#[cfg(feature = "kafka")]
fn a_url_stands_for_a_scenario() {
    let url = "kafka://me:hunter2@10.0.0.5,[::1]:9093/orders?acks=all&topology.partitions=3";
    let arguments = ["run", url, "--print-scenario", "--rate", "10k/s", "--size", "1KiB", "--for", "10s", "--verify"];
    let printed = execute(&arguments).expect(0).stdout;
    assert!(!printed.contains("hunter2"), "{printed}");
    insta::assert_snapshot!("scenario_of_a_url", printed);
    // What was printed is a scenario, and the same one.
    let bench = Bench::new(&printed);
    let again = execute(&["run", bench.scenario().to_str().unwrap(), "--print-scenario"]).expect(0).stdout;
    assert_eq!(again, printed);
}

#[test]
fn a_url_is_run_and_checked_without_a_file() {
    let plan = execute(&["check", "null://?service_time=1ms", "--rate", "500/s", "--warm-up", "0s"]).expect(0).stdout;
    assert!(plan.contains("500 messages/s") && plan.contains("30s, after 0ns of warm-up"), "{plan}");
    let bench = Bench::new("");
    let results = bench.results();
    let arguments = ["run", "null://", "--messages", "1000", "--quiet", "--json", "--output"];
    let mut command = brokermark();
    let ended = Running::start(command.args(arguments).arg(results)).finish(PATIENCE).expect(0);
    assert_eq!(ended.record().counts.acknowledged, 1000);
    // What options set is not taken from a URL's defaults.
    assert_eq!(ended.record().scenario["run"].get("duration"), None);
}

#[test]
#[cfg(all(feature = "kafka", feature = "sls"))]
fn a_scenario_to_start_from() {
    insta::assert_snapshot!("new_kafka", execute(&["new", "kafka"]).expect(0).stdout);
    insta::assert_snapshot!("new_sls", execute(&["new", "aliyun-log"]).expect(0).stdout);
}

/// The result can be piped; progress and the way to the records do not come between.
#[test]
fn the_result_is_on_standard_output() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 1000\nsweep.trials = 2");
    let run = |arguments: &[&str]| {
        let mut command = brokermark();
        command.arg("run").arg(bench.scenario()).arg("--output").arg(bench.results()).args(arguments);
        Running::start(&mut command).finish(PATIENCE).expect(0)
    };
    let ended = run(&[]);
    assert_eq!(ended.stdout.matches("1,000 attempted = 1,000 acknowledged").count(), 2, "{}", ended.stdout);
    assert!(
        ended.stdout.contains("of 2 trials valid"),
        "a run of several trials ends with their table: {}",
        ended.stdout
    );
    assert!(!ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'), "no colours outside a terminal");
    ended.complains_of(&["records: "]);
    assert!(!ended.stderr.contains("attempted"), "{}", ended.stderr);
    // Records take its place.
    let ended = run(&["--json"]);
    assert_eq!(ended.records().len(), 2);
    ended.complains_of(&["1,000 attempted", "records: "]);
}

#[test]
fn a_strict_run_fails_where_its_figures_are_not_valid() {
    // 1,000 messages are too few to be valid.
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 1000");
    bench.run(&[]).expect(0);
    bench.run(&["--strict"]).expect(3).complains_of(&["trial 1 is not valid (too-short"]);
}

#[test]
fn a_quiet_run_says_which_threshold_was_missed() {
    let bench = Bench::new(
        "broker = { kind = \"null\", null.fail = 0.5 }\nrun.messages = 1000\nthresholds.require = [\"failed = 0\"]",
    );
    bench.run(&[]).expect(3).complains_of(&["trial 1: failed = 0 did not hold"]);
}

#[test]
#[cfg(feature = "kafka")]
fn the_embedded_broker_is_a_demonstration() {
    let bench = Bench::new(
        "broker = { kind = \"kafka\", address = \"embedded\" }\nrun.messages = 20000\nthresholds.require = [\"failed = 0\"]",
    );
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).arg("--output").arg(bench.results());
    let ended = Running::start(&mut command).finish(PATIENCE).expect(0);
    ended.complains_of(&["next:", "brokermark run kafka://HOST", "brokermark new kafka", "brokermark show"]);
}

/// Each mistake, as a command line or as a line of a scenario, and what brokermark says to it.
#[test]
#[cfg(all(feature = "kafka", feature = "nsq", feature = "pulsar", feature = "rabbitmq-stream", feature = "sls"))]
fn typical_mistakes() {
    let commands: &[&[&str]] = &[
        &["check", "kafka://10.0.0.5:9092", "--rate", "10000"],
        &["check", "kafka://10.0.0.5:9092", "--for", "30"],
        &["check", "kafka://10.0.0.5:9092", "--size", "1 KB of data"],
        &["check", "kafka://10.0.0.5:9092?ack=1"],
        &["check", "kafka://10.0.0.5:9092?acks=2"],
        &["check", "kafka://10.0.0.5:port"],
        &["check", "kafka://"],
        &["check", "kafak://10.0.0.5:9092"],
        &["check", "mqtt://10.0.0.5:1883"],
        &["check", "nsq://me:password@10.0.0.5"],
        &["check", "pulsar://10.0.0.5/persistent://public/default/orders"],
        &["check", "orders.tmol"],
        &["new", "kafak"],
        &["new", "activemq"],
    ];
    let scenarios = [
        "broker = { kind = \"rabbitmq\", address = \"127.0.0.1:5552\" }",
        "broker = { kind = \"redpanda\", address = \"127.0.0.1:9092\" }",
        "broker = { kind = \"aliyun-log\", address = \"127.0.0.1:80\" }",
        "broker = { kind = \"Kafka\", address = \"127.0.0.1:9092\" }",
        "broker = { kind = \"kafka\", address = \"10.0.0.5:9092,10.0.0.6:9092\" }",
        "broker = { kind = \"kafka\", address = \"10.0.0.5\" }",
        "broker = { kind = \"kafka\", address = \"http://10.0.0.5:9092\" }",
        "broker = { kind = \"kafka\", address = \"a:1\", kafka = { linger = 3 } }",
        "broker = { kind = \"kafka\", address = \"a:1\", kafka = { linger = \"3\" } }",
        "broker = { kind = \"kafka\", address = \"a:1\", kafka = { acks = \"leader\" } }",
        "broker = { kind = \"kafka\", address = \"a:1\", kafka = { compression = \"LZ4\" } }",
        "broker = { kind = \"kafka\", adress = \"a:1\" }",
        "broker = { kind = \"kafka\", address = \"a:1\", properties = { max.poll.records = 500 } }",
        "broker = { kind = \"kafka\", address = \"a:1\", properties = { compression.type = \"lz5\" } }",
        "broker = { kind = \"kafka\", address = \"a:1\", properties = { acks = 1 }, kafka = { acks = \"all\" } }",
        "broker = { kind = \"null\" }\nproducer.count = 4",
        "broker = { kind = \"null\" }\nproducers.count = 0",
        "broker = { kind = \"null\" }\nproducers.count = \"four\"",
        "broker = { kind = \"null\" }\nload.rate = 10000",
        "broker = { kind = \"null\" }\nload.rate = \"10k\"",
        "broker = { kind = \"null\" }\npayload.size = \"1 kilobyte\"",
        "broker = { kind = \"null\" }\nthresholds.require = [\"p99 < 50\"]",
        "broker = { kind = \"null\" }\nthresholds.require = [\"latency < 50ms\"]",
        "broker = { kind = \"null\" }\nconsumers = true",
        "broker = { kind = \"null\" }\nsweep.over = { \"producer.count\" = [1, 2] }",
    ];
    let mut shown = String::new();
    for command in commands {
        let ended = execute(command).expect(2);
        assert_eq!(ended.stdout, "");
        shown.push_str(&format!("── brokermark {} ──\n{}\n\n", command.join(" "), ended.stderr.trim_end()));
    }
    for text in scenarios {
        let bench = Bench::new(&format!("run.duration = \"5s\"\n{text}"));
        let mut command = brokermark();
        command.current_dir(bench.path()).args(["check", "scenario.toml"]);
        let ended = Running::start(&mut command).finish(PATIENCE).expect(2);
        shown.push_str(&format!("── {text} ──\n{}\n\n", ended.stderr.trim_end()));
    }
    insta::assert_snapshot!("mistakes", shown);
}
