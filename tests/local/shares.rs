//! Several processes run one scenario together, and their records are merged.

use std::path::{Path, PathBuf};

use brokermark::record::{ReasonKind, Record, Status, read_series};
use serde_json::Value;

use crate::harness::shares::{assert_partitions_are_begun_as_by_one_process, merge, record_at, run_shares};
use crate::harness::{Bench, PATIENCE, Running, assert_acknowledged, assert_balanced, brokermark, execute};

pub const NULL: &str = "broker.kind = \"null\"
    topology = { topics = 2, partitions = 4 }
    producers = { count = 10, batch = 10, keys = { kind = \"round-robin\", distinct = 100 } }
    load.rate = \"2k/s\"
    payload = { size = \"64B\" }
    run = { messages = 2_003, warm_up = \"500ms\" }
    thresholds = { require = [\"failed = 0\", \"response.max < 10m\"], when_invalid = \"ignore\" }";

#[test]
fn three_processes_send_what_one_would_in_one_record() {
    let bench = Bench::new(NULL);
    let shares = run_shares(&bench, 3, 3);
    let parts: Vec<Record> = shares.iter().map(|share| record_at(share)).collect();
    assert!(parts.iter().all(|part| part.thresholds.is_empty()), "thresholds are about the whole");
    let producers: Vec<(usize, usize)> =
        parts.iter().map(|part| part.share.as_ref().map(|of| (of.first_producer, of.producers)).unwrap()).collect();
    assert_eq!(producers, [(0, 3), (3, 3), (6, 4)]);

    let merged = merge(&bench, &shares, "merged").expect(0).record();
    assert_acknowledged(&merged, 2_003);
    assert_eq!(merged.thresholds.iter().map(|threshold| threshold.held).collect::<Vec<_>>(), [true, true]);
    let response = |record: &Record| record.latency.response.as_ref().unwrap().decode_histogram().unwrap();
    let mut whole = response(&parts[0]);
    parts[1..].iter().for_each(|part| whole.add(response(part)).unwrap());
    assert_eq!(response(&merged), whole);
    assert_eq!(merged.latency.response.as_ref().unwrap().p95_ns, whole.value_at_quantile(0.95));
    assert_eq!((merged.shares.len(), &merged.share), (3, &None));
    assert_series(&bench, &shares, &merged);
    assert_valid(&parts[0]);
    assert_valid(&merged);

    let directory = bench.path().join("merged");
    let shown = execute(&["show", directory.to_str().unwrap()]).expect(0).stdout;
    assert!(shown.contains("shares") && shown.contains("3 of 3, on 1 machine, first messages due within"), "{shown}");
    // A record compared with itself has not changed: the exit code says so.
    execute(&["compare", directory.to_str().unwrap(), directory.to_str().unwrap()]).expect(0);
    merge(&bench, &shares, "merged").expect(1).complains_of(&["merged"]);
    let without = merge(&bench, &shares[1..], "two-of-three").expect(0).record();
    assert!(without.verdict.reasons.iter().any(|reason| reason.evidence.contains("missing: 1")), "{without:?}");
}

#[test]
fn producers_of_four_processes_begin_at_partitions_of_their_own() {
    assert_partitions_are_begun_as_by_one_process("broker.kind = \"null\"");
}

/// The schema that the program prints accepts the record.
fn assert_valid(record: &Record) {
    let mut text = Vec::new();
    brokermark::cli::record_schema(&mut text).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_slice(&text).unwrap()).unwrap();
    let document: Value = serde_json::from_str(&record.to_line()).unwrap();
    assert_eq!(validator.validate(&document).map_err(|error| error.to_string()), Ok(()));
}

/// The merged series has every message of the shares' own.
fn assert_series(bench: &Bench, shares: &[PathBuf], merged: &Record) {
    let acknowledged =
        |directory: &Path| read_series(directory).unwrap().iter().map(|row| row.acknowledged).sum::<u64>();
    let directory = bench.path().join("merged");
    let all: u64 = shares.iter().map(|share| acknowledged(share)).sum();
    assert_eq!(acknowledged(&directory), all);
    assert_eq!(all, merged.counts.acknowledged + merged.counts.warm_up.acknowledged);
    let rows = read_series(&directory).unwrap();
    assert!(rows.iter().filter(|row| row.acknowledged > 0).all(|row| row.p50_ns.is_some()), "{rows:?}");
    let kept = std::fs::read_to_string(directory.join("shares.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), shares.len());
}

#[test]
fn shares_of_unequal_scenarios_are_refused_with_what_differs() {
    let bench = Bench::new(NULL);
    let shares = run_shares(&bench, 2, 2);
    let path = shares[1].join("records.jsonl");
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    record["scenario"]["payload"]["size"] = "65B".into();
    std::fs::write(&path, format!("{record}\n")).unwrap();
    merge(&bench, &shares, "merged").expect(1).complains_of(&["differ in the scenario's `payload.size`", "64B", "65B"]);
    assert!(!bench.path().join("merged").exists());
}

#[test]
fn what_cannot_be_run_in_shares_is_refused_with_the_key() {
    let refused = |scenario: &str, arguments: &[&str], parts: &[&str]| {
        let bench = Bench::new(scenario);
        bench.run(arguments).expect(2).complains_of(parts);
        assert!(bench.run_directories().is_empty());
    };
    let at = ["--share", "1/2", "--start-at", "1"];
    let null = "broker.kind = \"null\"\nrun.messages = 10\n";
    refused(null, &at, &["producers.count"]);
    refused(null, &["--share", "1/2"], &["--start-at"]);
    refused(null, &["--share", "3/2", "--start-at", "1"], &["as in `2/3`"]);
    refused(&format!("{null}producers.count = 2"), &["--share", "1/2", "--start-at", "+5s"], &["its own now"]);
    refused(&format!("{null}producers.count = 2\nconsumers = {{}}"), &at, &["runs inside each process"]);
    refused(&format!("{null}producers.count = 2\nsweep.trials = 2"), &at, &["2 trials"]);
    let roles = format!("{null}producers.count = 4\ndistribution.writers = ");
    refused(&format!("{roles}\"0\""), &at, &["rank 1 of 2 would have nothing to do", "`distribution.readers`"]);
    refused(&format!("{roles}\"0-2\""), &at, &["`distribution.writers` names rank 2", "the last is rank 1"]);
    refused(&format!("{roles}\"2-0\""), &at, &["distribution.writers", "has no rank in it", "0-2,5"]);
    refused(&format!("{roles}\"0\"\ndistribution.readers = \"1\""), &at, &["nothing is consumed"]);
    refused(&format!("{roles}\"0-1\""), &[], &["names rank 1", "mpirun or --share"]);
    let rounds = "producers = { count = 2, round_barrier = true }";
    refused(&format!("{null}{rounds}"), &at, &["producers.round_barrier"]);
}

/// The variables that srun sets for one of four tasks.
const TASK: [(&str, &str); 4] =
    [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1")];

#[test]
fn processes_that_nothing_joins_do_not_each_run_the_whole_load() {
    let bench = Bench::new("broker.kind = \"null\"\nproducers.count = 4\nrun.messages = 40");
    let refused = Running::start(bench.command().envs(TASK)).finish(PATIENCE).expect(2);
    refused.complains_of(&[
        "SLURM_STEP_NUM_TASKS",
        "process 1 of 4",
        "--share $((SLURM_PROCID + 1))/4",
        "unset SLURM_STEP_ID",
    ]);
    for command in ["search", "ceiling"] {
        let mut alone = brokermark();
        alone.arg(command).arg(bench.scenario()).arg("--output").arg(bench.results()).envs(TASK);
        Running::start(&mut alone).finish(PATIENCE).expect(2).complains_of(&["process 1 of 4", command]);
    }
    assert!(bench.run_directories().is_empty());
    let share = ["--share", "2/4", "--start-at", "1"];
    let record = Running::start(bench.command().args(share).envs(TASK)).finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 10);
}

/// A batch script has the variables of its job, and is one process.
#[test]
fn a_batch_script_runs_the_whole_load() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 40");
    let record = Running::start(bench.command().envs(TASK.into_iter().skip(2))).finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 40);
}

#[test]
#[cfg(not(feature = "mpi"))]
fn mpirun_of_a_build_without_mpi_is_refused() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 10");
    let rank = [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")];
    let refused = Running::start(bench.command().envs(rank)).finish(PATIENCE).expect(2);
    refused.complains_of(&["process 1 of 2", "--features mpi", "--share $((OMPI_COMM_WORLD_RANK + 1))/2"]);
}

#[test]
fn a_load_begins_at_its_time_and_a_late_one_says_so() {
    let scenario = "broker.kind = \"null\"\nrun.messages = 10";
    let late = Bench::new(scenario).run(&["--start-at", "2026-03-01T12:00:00Z"]).expect(0).record();
    let start = late.start.unwrap();
    assert!(start.late_ns > 1_000_000_000 && start.began_at > start.planned_at, "{start:?}");
    let planned = Bench::new(scenario).run(&["--start-at", "+2s"]).expect(0).record();
    assert_balanced(&planned);
    let start = planned.start.unwrap();
    assert!(start.began_at >= start.planned_at, "{start:?}");
}

#[cfg(feature = "kafka")]
mod on_a_cluster {
    use super::*;

    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    use brokermark::record::{RemovalCause, RemovalRule};
    use rdkafka::consumer::{BaseConsumer, Consumer};

    use crate::harness::{assert_delivered, finding};

    /// An endpoint in a process of its own, which ends with the test.
    struct Cluster {
        child: Child,
        addresses: String,
    }

    impl Cluster {
        fn start() -> Self {
            let mut child = brokermark().args(["emulate", "kafka"]).stdout(Stdio::piped()).spawn().unwrap();
            let mut addresses = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut addresses).unwrap();
            let cluster = Cluster { child, addresses: addresses.trim().to_owned() };
            let mut configuration = rdkafka::ClientConfig::new();
            configuration.set("bootstrap.servers", &cluster.addresses).set("allow.auto.create.topics", "true");
            let client: BaseConsumer = configuration.create().unwrap();
            // The cluster makes a topic that is asked for; it does not let clients make one in another way.
            for topic in ["shared0", "shared1"] {
                client.fetch_metadata(Some(topic), PATIENCE).unwrap();
            }
            cluster
        }
    }

    impl Drop for Cluster {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn scenario(cluster: &Cluster, consumers: &str) -> String {
        let addresses: Vec<String> = cluster.addresses.split(',').map(|address| format!("{address:?}")).collect();
        format!(
            "broker = {{ kind = \"kafka\", addresses = [{}], kafka = {{ assignment = \"manual\" }} }}
            topology = {{ topics = 2, existing = true, name = \"shared\" }}
            producers = {{ count = 6, batch = 5, placement = \"round-robin\" }}
            load.rate = \"500/s\"
            consumers = {{ {consumers}, verify = true, end_to_end = true }}
            run = {{ messages = 1_000, drain_deadline = \"6s\" }}",
            addresses.join(", ")
        )
    }

    #[test]
    fn consumers_verify_the_messages_of_other_processes() {
        let cluster = Cluster::start();
        let bench = Bench::new(&scenario(&cluster, "members = 2, groups = 2"));
        let shares = run_shares(&bench, 3, 8);
        let parts: Vec<Record> = shares.iter().map(|share| record_at(share)).collect();
        let own = |part: &Record| part.counts.acknowledged;
        assert!(parts.iter().any(|part| part.counts.consumed != Some(2 * own(part))), "the messages of others as well");
        let merged = merge(&bench, &shares, "merged").expect(0).record();
        assert_delivered(&merged, 1_000, 2);
        let end_to_end = merged.latency.end_to_end.as_ref().unwrap();
        assert_eq!(end_to_end.count + end_to_end.beyond_range, 2_000);
        let rows = read_series(&bench.path().join("merged")).unwrap();
        let of_group = |group| rows.iter().flat_map(|row| &row.groups).filter(move |of| of.group == group);
        assert_eq!([0, 1].map(|group| of_group(group).map(|of| of.consumed).sum::<u64>()), [1_000; 2]);
        let lags: Vec<Option<i64>> = rows.last().unwrap().groups.iter().map(|of| of.consumer_lag).collect();
        assert_eq!(lags, [Some(0); 2]);
    }

    /// Consumers of either share take 150/s of the 250/s that are theirs, for long enough that how they begin bends none of the ten rows but
    /// the first.
    #[test]
    fn a_lag_that_grows_over_shares_is_found_without_verification() {
        let cluster = Cluster::start();
        let text = scenario(&cluster, "group = [{ rate = \"150/s\" }]");
        let text = text.replace("verify = true", "verify = false").replace("messages = 1_000", "duration = \"6s\"");
        let bench = Bench::new(&text);
        let shares = run_shares(&bench, 2, 8);
        let merged = merge(&bench, &shares, "merged").expect(0).record();
        for directory in [&shares[0], &shares[1], &bench.path().join("merged")] {
            let end_to_end = record_at(directory).latency.end_to_end.unwrap();
            assert!(end_to_end.lag_grew && end_to_end.p99_ns.is_none(), "{:#?}", read_series(directory));
        }
        assert!(finding(&merged, ReasonKind::LagGrew).is_some(), "{:?}", merged.verdict);
        assert_eq!(finding(&merged, ReasonKind::Unread), None);
    }

    #[test]
    fn unreceived_message_is_missing_in_merged_record_only() {
        let cluster = Cluster::start();
        let bench = Bench::new(&scenario(&cluster, "members = 1, timing = \"own\""));
        let shares = run_shares(&bench, 2, 8);
        // One of each topic.
        let consumers = |share: &PathBuf| record_at(share).share.map(|share| share.consumers);
        assert_eq!(shares.iter().map(consumers).collect::<Vec<_>>(), [Some(1), Some(1)]);
        let whole = merge(&bench, &shares, "merged").expect(0).record();
        assert_delivered(&whole, 1_000, 1);
        let own = whole.latency.end_to_end.as_ref().map_or(0, |latency| latency.count + latency.beyond_range);
        assert!(own < 1_000, "each share times its own messages");
        // The other has received what this one did not.
        let alone = merge(&bench, &shares[..1], "alone").expect(0).record().verification.unwrap();
        assert_eq!((alone.lost, alone.unread, alone.not_acknowledged_but_stored), (0, 0, 0));
        assert!(alone.undecided > 0);
        let path = shares[1].join("messages.json");
        let mut messages: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let received: u64 = messages["groups"][0]["arrived"].as_array().unwrap().iter().map(marked).sum();
        messages["groups"][0]["arrived"] = Vec::<Value>::new().into();
        std::fs::write(&path, messages.to_string()).unwrap();
        let found = merge(&bench, &shares, "without").expect(0).record().verification.unwrap();
        assert_eq!((found.lost + found.unread, found.not_acknowledged_but_stored), (received, 0));
        let path = shares[1].join("records.jsonl");
        let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let rule = RemovalRule::new(RemovalCause::Retention, "retention.bytes", "5");
        record["verification"]["removal_rules"] = serde_json::to_value([rule]).unwrap();
        std::fs::write(&path, format!("{record}\n")).unwrap();
        let removing = merge(&bench, &shares, "removing").expect(0).record();
        let found = removing.verification.as_ref().unwrap();
        assert_eq!((found.lost + found.unread, found.undecided), (0, received));
        let evidence = &finding(&removing, ReasonKind::Removed).unwrap().evidence;
        assert!(evidence.contains("retention (retention.bytes = 5)"), "{evidence}");
        assert!(received > 0 && !whole.verdict.reasons.iter().any(|reason| reason.evidence.contains("lost")));
    }

    /// In both loops: one whose end all shares know, and one that ends when the writers have sent their messages.
    #[test]
    fn a_share_without_producers_receives_what_the_writers_send() {
        for load in ["load.rate = \"500/s\"", ""] {
            let cluster = Cluster::start();
            let whole = scenario(&cluster, "members = 2").replace("load.rate = \"500/s\"", load);
            let bench = Bench::new(&format!("{whole}\n[distribution]\nwriters = \"0,2\"\nreaders = \"1\""));
            let shares = run_shares(&bench, 3, 8);
            let of = |share: &PathBuf| record_at(share).share.map(|share| (share.producers, share.consumers)).unwrap();
            assert_eq!(shares.iter().map(of).collect::<Vec<_>>(), [(3, 0), (0, 4), (3, 0)]);
            let reader = record_at(&shares[1]);
            assert_eq!((reader.status, reader.counts.attempted), (Status::Completed, 0));
            assert_eq!(reader.counts.consumed, Some(1_000));
            let merged = merge(&bench, &shares, "merged").expect(0).record();
            assert_delivered(&merged, 1_000, 1);
            assert!(merged.throughput.consumed_per_second.unwrap() > 0.0, "{:?}", merged.throughput);
            assert_eq!(
                merged.latency.end_to_end.as_ref().map(|latency| latency.count + latency.beyond_range),
                Some(1_000)
            );
        }
    }

    fn marked(set: &Value) -> u64 {
        set["marked"].as_u64().unwrap()
    }
}

/// The ranks that the manifest's launcher starts have a worker each, and the command that they run is one of this build.
#[test]
fn the_manifest_s_mpi_job_has_a_worker_for_each_rank() {
    use brokermark::cli::Arguments;
    use clap::Parser;

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/kubernetes/mpijob.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let (launcher, worker) = text.split_once("    Worker:").unwrap();
    let (_, arguments) = launcher.split_once("args:").unwrap();
    let (arguments, _) = arguments.split_once("resources:").unwrap();
    let words: Vec<&str> = arguments
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(|word| word.trim_matches('"'))
        .collect();
    let ranks = words[words.iter().position(|word| *word == "-n").unwrap() + 1];
    assert!(worker.contains(&format!("replicas: {ranks}\n")), "{ranks} ranks");
    let command = words.iter().position(|word| *word == "brokermark").unwrap();
    let parsed = Arguments::try_parse_from(&words[command..]);
    assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
}

/// The command in the Kubernetes manifest is one of this build, and its number of shares is that of the pods.
#[test]
fn the_manifest_s_job_runs_as_many_shares_as_it_has_pods() {
    use brokermark::cli::Arguments;
    use clap::Parser;

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/kubernetes/indexed-job.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once("exec brokermark ").unwrap();
    let (command, _) = after.split_once("resources:").unwrap();
    let command = command.replace("$((JOB_COMPLETION_INDEX + 1))", "4").replace("START_AT", "1772366400");
    let words = std::iter::once("brokermark").chain(command.split_whitespace());
    let parsed = Arguments::try_parse_from(words);
    assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
    for pods in ["completions: 4", "parallelism: 4", "4/4"] {
        assert!(text.contains(pods) || command.contains(pods), "{pods}");
    }
}
