//! Searches, ceilings and workloads of OpenMessaging Benchmark on the null broker, from the command line.

use brokermark::record::{ProbeResult, SearchEnd, SearchRecord, read_records, read_search};

use crate::harness::{Bench, Finished, execute};

/// A broker that carries 2,000 messages/s: at twice the rate, its queue grows by 100 % of it.
const LIMITED: &str = "broker.kind = \"null\"\nbroker.null = { capacity = 2000 }\nproducers = { count = 1, in_flight = 100000 }\n\
                       payload.size = \"100B\"\nrun.duration = \"30s\"\nthresholds.require = [\"p99 < 1s\"]\n\
                       thresholds.when_invalid = \"ignore\"\n";

fn search(bench: &Bench, arguments: &[&str]) -> Finished {
    let (scenario, results) = (bench.scenario(), bench.results());
    let own = ["search", scenario.to_str().unwrap(), "--output", results.to_str().unwrap(), "--format", "json"];
    execute(&[own.as_slice(), arguments].concat())
}

#[test]
fn search_confirms_what_the_broker_carries_keeps_probes() {
    let bench = Bench::new(LIMITED);
    let ended = search(&bench, &["--between", "250/s..64k/s", "--within", "20s", "--probe", "400ms"]);
    let found: SearchRecord = serde_json::from_str(ended.stdout.trim()).unwrap();
    let run = bench.run_directory();
    assert_eq!(read_search(&run).unwrap().as_ref(), Some(&found));
    let records = read_records(&run).unwrap().records;
    assert_eq!(records.len(), found.probes.len());
    for (record, probe) in records.iter().zip(&found.probes) {
        assert_eq!((record.point_index, record.trial), (probe.point_index, probe.trial));
        assert_eq!(record.point["load.rate"], format!("{}/s", probe.rate_per_second));
        assert!(!probe.reason.is_empty() || probe.outcome == ProbeResult::Held, "{probe:?}");
    }
    // The queue of an overloaded broker grows, however slow this machine is.
    let held = found.probes.iter().filter(|probe| probe.outcome == ProbeResult::Held);
    assert!(held.clone().all(|probe| probe.rate_per_second < 2_500.0), "{found:?}");
    assert!(found.probes[0].rate_per_second == 10_000.0 && found.probes[0].outcome != ProbeResult::Held, "{found:?}");
    // On a machine that is busy with other tests, probes may miss without an overload.
    let ends = [SearchEnd::Found, SearchEnd::NothingHeld, SearchEnd::LimitedByClient, SearchEnd::OutOfTime];
    assert!(ends.contains(&found.answer.end), "{found:?}");
    ended.expect(if found.answer.rate_per_second.is_some() { 0 } else { 3 });
    execute(&["show", run.to_str().unwrap()]).expect(0).says(&["p99 < 1s"]);
}

/// What it says of the capacity is true however it ends: a machine whose time is withheld may leave it uncertain who was the limit.
#[test]
fn a_search_knows_what_the_broker_carries_within_three_percent() {
    const CAPACITY: f64 = 2_000.0;
    let bench = Bench::new(LIMITED);
    let ended = search(&bench, &["--between", "250/s..64k/s", "--within", "45s", "--probe", "1s"]);
    let found: SearchRecord = serde_json::from_str(ended.stdout.trim()).unwrap();
    let capacity = found.answer.capacity_per_second.unwrap_or_default();
    assert!((capacity / CAPACITY - 1.0).abs() <= 0.03, "{found:?}");
    let (low, high) = (found.answer.capacity_low.unwrap_or_default(), found.answer.capacity_high.unwrap_or_default());
    assert!(low <= CAPACITY && CAPACITY <= high, "{found:?}");
}

#[test]
fn a_search_in_which_nothing_holds_says_so() {
    let bench = Bench::new(LIMITED);
    let arguments =
        ["--require", "p99 < 1ns, failed = 0", "--between", "500/s..4k/s", "--within", "20s", "--probe", "200ms"];
    let ended = search(&bench, &arguments).expect(3);
    let found: SearchRecord = serde_json::from_str(ended.stdout.trim()).unwrap();
    assert!(matches!(found.answer.end, SearchEnd::NothingHeld | SearchEnd::LimitedByClient), "{found:?}");
    assert_eq!((found.answer.rate_per_second, found.answer.unconfirmed_per_second), (None, None));
    assert_eq!(found.requirements, ["p99 < 1ns", "failed = 0"]);
}

/// At the same mean rate, Poisson arrivals wait longer than regular ones: the shape is a part of what is asked.
#[test]
fn a_search_keeps_the_shape_of_the_load() {
    let poisson =
        format!("{LIMITED}load.schedule = {{ kind = \"poisson\", rate = \"500/s\", seed = 7 }}\nsweep.trials = 3\n");
    let bench = Bench::new(&poisson);
    let ended = search(&bench, &["--between", "250/s..1k/s", "--within", "10s", "--probe", "200ms"]);
    ended.complains_of(&["Poisson arrivals", "do not apply: `sweep.trials`"]);
    let run = bench.run_directory();
    let text = std::fs::read_to_string(run.join("scenario.toml")).unwrap();
    assert!(text.contains("poisson"), "{text}");
    let records = read_records(&run).unwrap().records;
    assert!(records.len() >= 3, "{records:?}");
    for (number, record) in records.iter().enumerate() {
        let schedule = &record.scenario["load"]["schedule"];
        assert_eq!((&schedule["kind"], &schedule["seed"]), (&"poisson".into(), &(7 + number).into()));
        assert_eq!(record.point["load.schedule.rate"], schedule["rate"]);
    }
    let bursts = "load.schedule = { kind = \"bursts\", base = \"100/s\", burst = \"900/s\", every = \"200ms\", for = \"100ms\" }\n";
    let bench = Bench::new(&format!("{LIMITED}{bursts}"));
    let arguments = ["--between", "250/s..1k/s", "--within", "10s", "--probe", "500ms"];
    search(&bench, &arguments).expect(2).complains_of(&["even number of bursts", "--probe 800ms"]);
    search(&bench, &["--between", "250/s..1k/s", "--within", "8s", "--probe", "400ms"]);
    for record in read_records(&bench.run_directory()).unwrap().records {
        let target = record.throughput.target_per_second.unwrap();
        let (base, burst) = (&record.point["load.schedule.base"], &record.point["load.schedule.burst"]);
        let rate = |text: &serde_json::Value| text.as_str().unwrap().trim_end_matches("/s").parse::<f64>().unwrap();
        assert!((rate(burst) / rate(base) - 9.0).abs() < 1e-6, "{base} {burst}");
        assert!((target / (5.0 * rate(base)) - 1.0).abs() < 0.05, "{target} of {base}");
    }
}

#[test]
fn a_search_that_cannot_be_made_is_refused() {
    let bench = Bench::new(LIMITED);
    search(&bench, &["--within", "10s"]).expect(2).complains_of(&["--within 10.0 s is too short", "take 2"]);
    let ramp = "load.schedule={ kind = \"ramp\", from = \"1k/s\", to = \"5k/s\", over = \"9s\" }";
    search(&bench, &["--set", ramp])
        .expect(2)
        .complains_of(&["the rate of `load.schedule` changes", "load.rate=10k/s"]);
    search(&bench, &["--require", "p99"]).expect(2).complains_of(&["compares nothing"]);
    search(&bench, &["--between", "2k/s..1k/s"]).expect(2).complains_of(&["is empty"]);
    for swept in ["\"producers.batch\" = [1, 2]", "\"load.rate\" = [\"1k/s\", \"2k/s\"]"] {
        search(&bench, &["--set", &format!("sweep.over={{ {swept} }}")]).expect(2).complains_of(&["sweep.over"]);
    }
    let open =
        Bench::new(&LIMITED.replace("thresholds.require = [\"p99 < 1s\"]\nthresholds.when_invalid = \"ignore\"\n", ""));
    search(&open, &[]).expect(2).complains_of(&["--require"]);
    assert!(bench.run_directories().is_empty());
}

#[test]
fn a_ceiling_is_kept_and_named_by_later_runs_of_the_same_shape() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 200\nload.rate = \"1k/s\"\nproducers.count = 2\n");
    let (scenario, results) = (bench.scenario(), bench.results());
    let before = bench.run(&[]).expect(0).records();
    assert!(!before[0].verdict.limited_by.evidence.contains("ceiling"));
    let results = results.to_str().unwrap();
    let measured = ["ceiling", scenario.to_str().unwrap(), "--output", results, "--measure", "300ms"];
    execute(&measured).expect(0).says(&["ceiling of the client:", "messages/s"]);
    let after = bench.run(&[]).expect(0).records();
    assert!(after[0].verdict.limited_by.evidence.contains("of the client's ceiling of"), "{:?}", after[0].verdict);
    let other = bench.run(&["--set", "producers.count=4"]).expect(0).records();
    assert!(!other[0].verdict.limited_by.evidence.contains("ceiling"), "another shape");
    let measured_first = bench.run(&["--set", "producers.count=4", "--ceiling"]).expect(0).records();
    assert!(measured_first[0].verdict.limited_by.evidence.contains("of the client's ceiling of"), "{measured_first:?}");
}

#[test]
#[cfg(feature = "kafka")]
fn omb_workload_runs_and_its_result_is_exported() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 500\nconsumers.end_to_end = true\n");
    let workload = bench.write(
        "workload.yaml",
        "name: one topic\ntopics: 1\npartitionsPerTopic: 4\nmessageSize: 100\nsubscriptionsPerTopic: 1\n\
         consumerPerSubscription: 1\nproducersPerTopic: 2\nproducerRate: 1000\ntestDurationMinutes: 5\n",
    );
    let driver = bench.write(
        "driver.yaml",
        "name: Kafka\ndriverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver\ncommonConfig: |\n  \
         bootstrap.servers=localhost:9092\nproducerConfig: |\n  acks=all\n",
    );
    let check = ["check", "--omb", workload.to_str().unwrap(), driver.to_str().unwrap()];
    execute(&check).expect(0).says(&["one-topic"]);
    let wrong = |settings: &str| {
        let text = std::fs::read_to_string(&driver).unwrap().replace("acks=all", settings);
        let driver = bench.write("wrong.yaml", &text);
        execute(&["check", "--omb", workload.to_str().unwrap(), driver.to_str().unwrap()]).expect(2)
    };
    wrong("linger.ms=soon").complains_of(&["wrong.yaml:6: `linger.ms`: "]);
    wrong("acks=1\n  enable.idempotence=true").complains_of(&["wrong.yaml:2: ", "needs `acks = \"all\"`"]);
    bench.run(&[]).expect(0);
    let shown = execute(&["show", bench.run_directory().to_str().unwrap(), "--format", "omb"]).expect(0);
    let result: serde_json::Value = serde_json::from_str(shown.stdout.trim()).unwrap();
    assert!(!result["publishRate"].as_array().unwrap().is_empty() && result["driver"] == "null", "{result}");
    assert_eq!((&result["producersPerTopic"], &result["consumersPerTopic"]), (&1.into(), &1.into()), "{result}");
}
