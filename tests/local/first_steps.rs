//! What a new user meets: URLs in place of files, scenarios to start from, and the errors that typical mistakes give.
//!
//! Texts are kept as snapshots. After an intended change: `INSTA_UPDATE=always cargo test --test local -- first_steps`.

use brokermark::broker::registry::descriptors;

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
        ended.stdout.contains("only as a demonstration of 2 trials"),
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
    bench.run(&["--strict"]).expect(3).complains_of(&["trial 1 is not valid (", "too-short"]);
}

#[test]
#[cfg(feature = "nats")]
fn a_run_that_meets_no_broker_leaves_no_directory() {
    let bench = Bench::new("broker = { kind = \"nats\", address = \"127.0.0.1:1\" }\nrun.messages = 10");
    let checks = bench.path().join("checks.xml");
    let ended = bench.run(&["--junit", checks.to_str().unwrap()]).expect(1);
    ended.complains_of(&["127.0.0.1:1"]);
    assert_eq!(ended.record().counts.attempted, 0, "its record is printed where it is asked for");
    assert_eq!(bench.run_directories(), [""; 0].map(std::path::PathBuf::from));
    let checks = std::fs::read_to_string(checks).unwrap();
    assert!(checks.contains("failures=\"1\"") && checks.contains("nothing was measured"), "{checks}");
}

#[test]
#[cfg(feature = "nats")]
fn a_run_that_needs_more_open_files_says_so_before_the_load() {
    let bench = Bench::new(
        "broker = { kind = \"nats\", address = \"127.0.0.1:1\", connections = 900 }\nproducers.count = 900\nrun.messages = 10",
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 400; exec \"$@\"", "limited", env!("CARGO_BIN_EXE_brokermark"), "run"]);
    command.arg(bench.scenario()).arg("--output").arg(bench.results());
    let ended = Running::start(&mut command).finish(PATIENCE).expect(1);
    ended.complains_of(&["400 files may be open, and about 1156 are needed", "`ulimit -n 2048`"]);
}

#[test]
fn a_ramp_that_begins_in_the_warm_up_is_said() {
    let ramp = "load.schedule={ kind = \"ramp\", from = \"1k/s\", to = \"10k/s\", over = \"20s\" }";
    execute(&["check", "null://", "--for", "20s", "--warm-up", "5s", "--set", ramp])
        .expect(0)
        .says(&["over 20s; the first 5s of it are warm-up"]);
    let mistake = execute(&["run", "null://", "--akcs", "all"]).expect(2);
    assert!(!mistake.stderr.contains("as a value"), "{}", mistake.stderr);
}

#[test]
fn check_tells_which_group_cannot_follow_the_load() {
    let check = |work: &str, more: &str| {
        let groups =
            format!("{more}\nconsumers.members = 2\n[[consumers.group]]\n[[consumers.group]]\nwork = \"{work}\"");
        let bench =
            Bench::new(&format!("broker.kind = \"null\"\nload.rate = \"10k/s\"\nrun.duration = \"5s\"\n{groups}"));
        execute(&["check", bench.scenario().to_str().unwrap()]).expect(0).stdout
    };
    let slow = check("500us", "");
    let found = "group 1 will fall behind: by 2 consumer(s) with 500µs of work each, it takes 4,000 messages/s at most, and 10,000/s are sent";
    assert!(slow.contains(found) && !slow.contains("group 0"), "{slow}");
    let fast = [check("100us", ""), check("500us", "topology.topics = 3\nproducers.count = 3")];
    assert!(fast.iter().all(|plan| !plan.contains("fall behind")), "{fast:?}");
}

#[test]
fn check_tells_at_which_points_of_a_sweep_a_group_cannot_follow() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nload.rate = \"5k/s\"\nrun.duration = \"5s\"\n\
         sweep.over = { \"load.rate\" = [\"1k/s\", \"10k/s\"] }\n\
         [[consumers.group]]\nwork = \"500us\"",
    );
    let plan = execute(&["check", bench.scenario().to_str().unwrap()]).expect(0).stdout;
    assert!(plan.contains("point      load.rate = \"1k/s\"; the other points"), "{plan}");
    assert!(plan.contains("! with load.rate = \"10k/s\": group 0 will fall behind"), "{plan}");
    assert_eq!(plan.matches("fall behind").count(), 1, "{plan}");
}

#[test]
#[cfg(feature = "nats")]
fn check_tells_what_is_written_in_an_hour() {
    let check = |more: &[&str]| {
        let arguments =
            [&["check", "nats://127.0.0.1:4222", "--size", "1KiB", "--set", "topology.replication=3"], more];
        execute(&arguments.concat()).expect(0).stdout
    };
    // 10,000 × 3,600 × 3 KiB.
    let open = check(&["--rate", "10k/s"]);
    assert!(open.contains("writes     103.0 GiB an hour at 10,000 messages/s"), "{open}");
    let closed = check(&[]);
    assert!(closed.contains("writes     1.0 TiB an hour for each 100,000 messages/s"), "{closed}");
}

#[test]
fn what_must_hold_is_asked_in_the_command_line() {
    let bench = Bench::new(
        "broker = { kind = \"null\", null.fail = 0.5 }\nrun.messages = 1000\nthresholds = { require = [\"failed < 1\"], when_invalid = \"ignore\" }",
    );
    let required = ["--require", "failed > 100, p50 < 1min", "--require", "failed = 0"];
    let ended = bench.run(&required).expect(3);
    ended.complains_of(&["trial 1: failed = 0 did not hold"]);
    assert!(!ended.stderr.contains("failed < 1"), "they take the place of the scenario's: {}", ended.stderr);
    bench.run(&required[..2]).expect(0);
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
        "broker = { kind = \"kafka\", address = \"embedded\" }\nrun.messages = 500\nthresholds.require = [\"failed = 0\"]",
    );
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).arg("--output").arg(bench.results());
    let ended = Running::start(&mut command).finish(PATIENCE).expect(0);
    ended.complains_of(&[
        "next:",
        "brokermark doctor kafka://HOST",
        "brokermark run kafka://HOST",
        "brokermark new kafka",
        "report.html",
    ]);
    // 500 messages are too few to be valid, which does not matter here.
    ended.says(&["! only as a demonstration  The broker ran inside", "! too-short"]);
    assert!(!ended.stdout.contains('✗'), "{}", ended.stdout);
    assert!(bench.run_directory().join("report.html").is_file());
}

#[test]
fn a_run_without_a_broker_says_so_and_what_comes_next() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 1000");
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).arg("--output").arg(bench.results());
    let ended = Running::start(&mut command).finish(PATIENCE).expect(0);
    ended.says(&["! only as a demonstration  The null broker ran inside brokermark"]);
    ended.complains_of(&["brokermark doctor kafka://HOST", "brokermark new kafka"]);
}

/// Wherever the file of a scenario may stand.
#[test]
fn every_command_about_a_scenario_takes_a_url() {
    let bench = Bench::new("");
    let run = |arguments: &[&str]| {
        let mut command = brokermark();
        command.current_dir(bench.path()).args(arguments);
        Running::start(&mut command).finish(PATIENCE)
    };
    run(&["check", "null://", "--rate", "500/s"]).expect(0);
    run(&["doctor", "null://", "--rate", "500/s"]).expect(0).says(&["✓ permissions"]);
    run(&["ceiling", "null://", "--for", "100ms"]).expect(0).says(&["messages/s"]);
    let removal = run(&["remove-topics", "null://", "--run-id", "brokermark-null-19ca8fb2a00"]).expect(1);
    removal.complains_of(&["no topic of this run exists"]);
    run(&["run", "null://", "--messages", "10", "--against", "null://?service_time=1ms", "--quiet"]).expect(0);
    run(&["search", "null://"]).expect(2).complains_of(&["what must hold?"]);
}

/// What `new` writes can be run as it is, but for the address.
#[test]
fn a_scenario_to_start_from_is_right_for_each_kind_of_broker() {
    for descriptor in descriptors() {
        let text = execute(&["new", descriptor.kind]).expect(0).stdout;
        let bench = Bench::new(&text);
        execute(&["check", bench.scenario().to_str().unwrap()]).expect(0).says(&[descriptor.kind]);
        for alias in descriptor.aliases {
            assert_eq!(execute(&["new", alias]).expect(0).stdout, text);
        }
        if descriptor.capabilities.addresses {
            // The log service has no users without keys.
            let keys = match descriptor.kind {
                "sls" => "?access_key_id=id&access_key_secret=secret",
                _ => "",
            };
            let url = format!("{}://10.0.0.5:9999{keys}", descriptor.kind);
            execute(&["check", &url]).expect(0).says(&["10.0.0.5:9999"]);
        }
    }
}

/// Each mistake, as a command line or as a line of a scenario, and what brokermark says to it.
#[test]
#[cfg(all(
    feature = "kafka",
    feature = "mqtt",
    feature = "nsq",
    feature = "pulsar",
    feature = "rabbitmq",
    feature = "rabbitmq-stream",
    feature = "sls"
))]
fn typical_mistakes() {
    let commands: &[&[&str]] = &[
        &["check", "kafka://10.0.0.5:9092", "--rate", "10000"],
        &["check", "kafka://10.0.0.5:9092", "--rate", "5", "k/s"],
        &["check", "kafka://10.0.0.5:9092", "--for", "30"],
        &["check", "kafka://10.0.0.5:9092", "--size", "1 KB of data"],
        &["check", "kafka://10.0.0.5:9092?ack=1"],
        &["check", "kafka://10.0.0.5:9092?acks=2"],
        &["check", "kafka://10.0.0.5:port"],
        &["check", "kafka://"],
        &["check", "kafak://10.0.0.5:9092"],
        &["check", "stomp://10.0.0.5:61613"],
        &["check", "nsq://me:password@10.0.0.5"],
        &["check", "pulsar://10.0.0.5/persistent://public/default/orders"],
        &["check", "pulsar://10.0.0.5/public/default/orders"],
        &["check", "kafka://10.0.0.5/orders/eu"],
        &["check", "kafka://me:hunter2@10.0.0.5:port"],
        &["check", "kafka://10.0.0.5:9092?compression.type=lz5"],
        &["check", "kafka://10.0.0.5:9092?producers.count=0&acks=1"],
        &["check", "orders.tmol"],
        &["check", "kafka"],
        &["check", "10.0.0.5:9092"],
        &["check", "kafka:10.0.0.5:9092"],
        &["check", "amqp://10.0.0.5:5552"],
        &["check", "https://10.0.0.5:9092"],
        &["check", "mongodb://10.0.0.5"],
        &["check", "kafka://10.0.0.5:9092", "--rate", "10k"],
        &["check", "kafka://10.0.0.5:9092", "--throughput", "10k msg/s"],
        &["check", "kafka://10.0.0.5:9092", "--duration", "30sec"],
        &["check", "kafka://10.0.0.5:9092", "--record-size", "1K"],
        &["check", "kafka://10.0.0.5:9092", "--producers", "-1"],
        &["check", "kafka://10.0.0.5:9092", "--set", "acks=1"],
        &["check", "null://", "--verify", "--set", "consumers.verify=yes"],
        &["search", "null://", "--require", "p99 < 20"],
        &["search", "null://", "--for", "p99 < 20ms"],
        &["run", "null://", "--for", "p99 < 20ms"],
        &["run", "kafka://10.0.0.5:9092", "--acks", "all"],
        &["check", "null://", "--set", "consumers.groups=[{ work = \"1ms\" }]"],
        &["run", "null://", "--against-set", "producers.cuont=2"],
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
        "broker = { kind = \"kafka\", address = \"a:1\", acks = 1 }",
        "broker = { kind = \"kafka\", bootstrap.servers = \"a:1\" }",
        "broker = { kind = \"null\" }\ntopology.topic = \"orders\"",
        "broker = { kind = \"null\" }\ntopology.replication_factor = 3",
        "broker = { kind = \"null\" }\nload.throughput = \"10k/s\"",
        "broker = { kind = \"null\" }\nthresholds.p99 = \"50ms\"",
        "broker = { kind = null }",
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
        "broker = { kind = \"null\" }\n[sweep.over]\nproducers.cuont = [1, 2]",
        "broker = { kind = \"kafka\", address = \"a:1\" }\nsweep.over = { \"broker.security.sasl.username\" = [\"me\", \"you\"] }",
    ];
    let other_formats = ["{ \"broker\": { \"kind\": \"kafka\" } }", "broker:\n  kind: kafka"];
    let scenarios = scenarios.map(|text| format!("run.duration = \"5s\"\n{text}"));
    assert!(commands.len() + scenarios.len() >= 30);
    let mut shown = String::new();
    for command in commands {
        let ended = execute(command).expect(2);
        assert_eq!(ended.stdout, "");
        shown.push_str(&format!("── brokermark {} ──\n{}\n\n", command.join(" "), ended.stderr.trim_end()));
    }
    for text in scenarios.iter().map(String::as_str).chain(other_formats) {
        let bench = Bench::new(text);
        let mut command = brokermark();
        command.current_dir(bench.path()).args(["check", "scenario.toml"]);
        let ended = Running::start(&mut command).finish(PATIENCE).expect(2);
        let text = text.strip_prefix("run.duration = \"5s\"\n").unwrap_or(text);
        shown.push_str(&format!("── {text} ──\n{}\n\n", ended.stderr.trim_end()));
    }
    insta::assert_snapshot!("mistakes", shown);
}
