//! Trials that are repeated until enough is known, scenarios that run in turn, and the comparison of their records.

use std::path::Path;
use std::process::Command;

use brokermark::record::{Record, read_records};

use crate::harness::{Bench, Finished, PATIENCE, Running, execute};

/// Trials of the null broker at a rate, which take 200 ms each.
fn trials(sweep: &str) -> Bench {
    Bench::new(&format!(
        "broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.messages = 200\nproducers.count = 1\n[sweep]\n{sweep}\n"
    ))
}

fn comparison(ended: &Finished) -> serde_json::Value {
    serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn point_repeats_until_interval_is_narrow_or_trials_end() {
    // At a rate that is held, trials differ by less than a hundredth.
    let narrow = trials("until = \"messages_per_second ± 90 %\"\ntrials_at_most = 20").run(&[]).expect(0).records();
    assert!((6..20).contains(&narrow.len()), "six trials are the fewest: {}", narrow.len());
    let fewest = trials("until = \"messages_per_second ± 90 %\"\ntrials = 8").run(&[]).expect(0).records();
    assert!((8..30).contains(&fewest.len()), "{}", fewest.len());
    let never = "until = \"cpu_per_message ± 0.0000001 %\"\ntrials_at_most = 6\norder = \"interleaved\"\n\
                 [sweep.over]\n\"producers.batch\" = [1, 2]";
    let bench = trials(never);
    let never = bench.start(&[]).finish(PATIENCE).expect(0);
    assert_eq!(never.records().len(), 12, "six of each point");
    assert!(never.stderr.contains("warning: point 1: `cpu_per_message ± 0.0000001 %`"), "{}", never.stderr);
}

#[test]
fn a_resumed_run_counts_the_trials_that_it_has() {
    let bench = trials("until = \"messages_per_second ± 90 %\"");
    bench.run(&[]).expect(0);
    let again = bench.resume(&bench.run_directory()).expect(0);
    assert_eq!(again.records().len(), 0, "nothing is left to run");
}

#[test]
fn scenarios_take_turns_and_are_compared_in_pairs() {
    let bench = trials("trials = 4");
    let ended = bench.run(&["--against-set", "producers.batch=2"]).expect(0);
    let found = comparison(&ended);
    assert_eq!(
        (found["schema"].as_str(), found["design"].as_str()),
        (Some("brokermark.comparison/1"), Some("in-turn"))
    );
    assert_eq!(found["differences"][0]["what"], "producers.batch");
    let runs = bench.run_directories();
    assert_eq!(runs.len(), 2, "{runs:?}");
    let mut begun: Vec<(jiff::Timestamp, bool)> = Vec::new();
    for run in &runs {
        let is_other = run.to_string_lossy().contains("-against-");
        let records: Vec<Record> = read_records(run).unwrap().records;
        begun.extend(records.iter().map(|record| (record.started_at, is_other)));
    }
    begun.sort();
    let sides: Vec<bool> = begun.into_iter().map(|(_, is_other)| is_other).collect();
    assert_eq!(sides, [false, true, true, false, false, true, true, false]);
}

#[test]
fn trials_that_take_turns_are_a_line_each() {
    let bench = trials("trials = 2");
    let (scenario, results) = (bench.scenario(), bench.results());
    let run = ["run", scenario.to_str().unwrap(), "--against-set", "producers.batch=2", "--output"];
    let ended = execute(&[&run[..], &[results.to_str().unwrap()]].concat());
    let names: Vec<&str> = ended.stdout.lines().take(4).filter_map(|line| Some(line.split_once(':')?.0)).collect();
    assert_eq!(names, ["A trial 1", "B trial 1", "B trial 2", "A trial 2"], "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("trial 1").count(), 2, "no table repeats them: {}", ended.stdout);
    assert!(ended.stderr.contains("3/4 B "), "{}", ended.stderr);
}

#[test]
fn a_regression_ends_the_run_and_the_comparison_with_3() {
    let bench = trials("trials = 6");
    let slower = bench.write(
        "slower.toml",
        &std::fs::read_to_string(bench.scenario())
            .unwrap()
            .replace("[sweep]", "broker.null.service_time = \"400ms\"\n[sweep]"),
    );
    let ended = bench.run(&["--against", slower.to_str().unwrap()]).expect(3);
    let found = comparison(&ended);
    let figures = found["points"][0]["figures"].as_array().unwrap();
    let p50 = figures.iter().find(|figure| figure["figure"] == "response-p50").unwrap();
    assert_eq!((p50["outcome"].as_str(), p50["regression"].as_bool()), (Some("worse"), Some(true)), "{p50}");
    let [b, a] = bench
        .run_directories()
        .try_into()
        .map(|runs: [std::path::PathBuf; 2]| runs.map(|run| run.to_string_lossy().into_owned()))
        .unwrap();
    let (a, b) = if a.contains("-against-") { (b, a) } else { (a, b) };
    execute(&["compare", &a, &b]).expect(3);
    execute(&["compare", &b, &a]).expect(0);
    execute(&["compare", &a, &a]).expect(0);
    execute(&["compare", &a, "none"]).expect(1).complains_of(&["none", "does not exist"]);
}

/// A scenario whose consumers verify, with six trials of 200 ms.
fn verified() -> Bench {
    Bench::new(
        "name = \"orders\"\nbroker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.messages = 200\nproducers.count = 1\n\
         [consumers]\n[sweep]\ntrials = 6\n",
    )
}

fn count<'a>(comparison: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let counts = comparison["points"][0]["counts"].as_array().unwrap();
    counts.iter().find(|count| count["count"] == name).unwrap()
}

#[test]
fn a_side_that_loses_or_fails_in_turn_is_a_regression() {
    let bench = verified();
    for (setting, name) in [
        ("broker.null.lose=0.01", "lost"),
        ("broker.null.fail=0.02", "not-acknowledged"),
        ("broker.null.fail=1.0", "not-acknowledged"),
        ("broker.null.duplicate=0.05", "duplicated"),
    ] {
        let found = comparison(&bench.run(&["--against-set", setting]).expect(3));
        assert_eq!((found["verdict"].as_str(), found["design"].as_str()), (Some("regression"), Some("in-turn")));
        assert_eq!(count(&found, name)["outcome"], "worse", "{setting}: {found}");
    }
    // A side that is better is none.
    bench.run(&["--set", "broker.null.lose=0.01", "--against-set", "broker.null.lose=0"]).expect(0);
}

/// The commands of docs/how-to/guard-a-release.md, with other versions of the "broker".
#[test]
fn the_guide_for_releases_is_true_of_slow_and_lossy_ones() {
    let bench = verified();
    let scenario = bench.scenario().to_str().unwrap().to_owned();
    let version = |name: &str, settings: &[&str]| {
        let directory = bench.path().join("runs").join(name).to_str().unwrap().to_owned();
        let run = ["run", &scenario, "--set", "sweep.trials=10", "--output", &directory, "--quiet"];
        execute(&[&run[..], &settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>()].concat());
        directory
    };
    let compare = |base: &str, version: &str| execute(&["compare", base, version, "--tolerance", "10%", "--json"]);
    let base = version("base", &["broker.null.service_time=\"20ms\""]);
    let same = version("same", &["broker.null.service_time=\"20ms\""]);
    let slow = version("slow", &["broker.null.service_time=\"60ms\""]);
    let lossy = version("lossy", &["broker.null.service_time=\"20ms\"", "broker.null.lose=0.01"]);
    let refusing = version("refusing", &["broker.null.service_time=\"20ms\"", "broker.null.fail=1.0"]);
    let same = comparison(&compare(&base, &same).expect(0));
    assert_eq!((same["verdict"].as_str(), same["design"].as_str()), (Some("no-regression-found"), Some("single-runs")));
    let found = comparison(&compare(&base, &slow).expect(3));
    let worse = |figure: &serde_json::Value| figure["regression"] == true;
    assert!(found["points"][0]["figures"].as_array().unwrap().iter().any(worse), "{found}");
    assert_eq!(count(&comparison(&compare(&base, &lossy).expect(3)), "lost")["outcome"], "worse");
    let found = comparison(&compare(&base, &refusing).expect(3));
    assert_eq!(count(&found, "not-acknowledged")["b"]["share"], 1.0);
    assert!(found["points"][0]["missing_figures"][0]["reason"].as_str().unwrap().contains("of B: in 10 of 10 trials"));
    // In the other direction, each is better.
    compare(&slow, &base).expect(0);
    compare(&lossy, &base).expect(0);
}

/// docs/how-to/guard-a-release.sh, with other versions of the "broker".
#[test]
fn the_script_that_guards_a_release_fails_for_what_is_worse() {
    let bench = verified();
    let text = std::fs::read_to_string(bench.scenario()).unwrap();
    let version = |name: &str, settings: &str| {
        let text = text.replace("[consumers]", &format!("broker.null = {{ {settings} }}\n[consumers]"));
        bench.write(&format!("{name}.toml"), &text).to_str().unwrap().to_owned()
    };
    let base = version("base", "service_time = \"20ms\"");
    let slow = version("slow", "service_time = \"60ms\"");
    let lossy = version("lossy", "service_time = \"20ms\", lose = 0.01");
    let summary = bench.path().join("summary.md");
    let ended = |old: &str, new: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/guard-a-release.sh");
        let programs = Path::new(env!("CARGO_BIN_EXE_brokermark")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(script);
        command.args([old, new, "--quiet"]).current_dir(bench.path());
        command.env("PATH", path).env("GITHUB_STEP_SUMMARY", &summary);
        Running::start(&mut command).finish(PATIENCE)
    };
    let guard = |old: &str, new: &str| {
        let ended = ended(old, new);
        let written = |name: &str| std::fs::read_to_string(bench.path().join(name)).unwrap();
        assert_eq!(written("brokermark.md"), written("summary.md"));
        std::fs::remove_file(&summary).unwrap();
        (ended, written("brokermark.xml"))
    };
    let has_failed = |xml: &str, name: &str| {
        xml.lines().any(|line| line.contains(&format!("\"B against A\" name=\"{name}\"><failure")))
    };
    let fails = |old: &str, new: &str, name: &str| {
        let (ended, xml) = guard(old, new);
        ended.expect(3);
        assert!(has_failed(&xml, name), "{xml}");
    };
    fails(&base, &slow, "response p50");
    fails(&base, &lossy, "lost");
    // In the other direction, the new version is better.
    let (_, xml) = guard(&slow, &base);
    assert!(!has_failed(&xml, "response p50"), "{xml}");
    // Beside earlier runs, which stay as they are.
    let earlier = bench.path().join("earlier");
    let kept = || std::fs::read_dir(&earlier).unwrap().count();
    execute(&["run", &base, "--quiet", "--output", earlier.to_str().unwrap()]).expect(0);
    fails(earlier.to_str().unwrap(), &slow, "response p50");
    fails(earlier.to_str().unwrap(), &lossy, "lost");
    assert_eq!(kept(), 1);
    execute(&["run", &base, "--baseline", "none"]).expect(2).complains_of(&["--baseline", "none"]);
    // One that does not begin has no files, as those of the call before it would be.
    assert_ne!(ended(&base, "none.toml").code, Some(0));
    let left = ["brokermark.xml", "brokermark.md", "summary.md"].map(|name| bench.path().join(name).exists());
    assert_eq!(left, [false; 3]);
}

/// Runs are kept in `results` by default, so a run lies beside those that it is compared with.
#[test]
fn a_run_is_not_a_part_of_the_baseline_that_it_lies_in() {
    let bench = trials("trials = 2");
    bench.run(&[]).expect(0);
    let ended = bench.run(&["--baseline", bench.results().to_str().unwrap()]);
    assert_eq!(bench.run_directories().len(), 2);
    let found = comparison(&ended);
    let trials = ["trials_of_a", "trials_of_b"].map(|side| found["points"][0][side]["trials"].as_u64());
    assert_eq!(trials, [Some(2), Some(2)], "{found}");
}

#[test]
fn a_build_server_sees_as_failed_what_fails_the_run() {
    // Too short to be valid.
    let bench = Bench::new(
        "broker.kind = \"null\"\nrun.messages = 200\nload.rate = \"1k/s\"\nthresholds.require = [\"failed = 0\"]",
    );
    let file = bench.path().join("checks.xml");
    for (when_invalid, code, found) in [("fail", 3, "failure"), ("ignore", 0, "skipped")] {
        let setting = format!("thresholds.when_invalid={when_invalid}");
        bench.run(&["--set", &setting, "--junit", file.to_str().unwrap()]).expect(code);
        let xml = std::fs::read_to_string(&file).unwrap();
        assert!(xml.contains(&format!("name=\"valid\"><{found} message=")), "{xml}");
        assert!(xml.contains("name=\"failed = 0\"><system-out>"), "{xml}");
    }
}

#[test]
fn a_build_server_sees_a_run_fail_of_which_nothing_was_acknowledged() {
    let bench = Bench::new("broker = { kind = \"null\", null.fail = 1.0 }\nrun.messages = 50");
    let file = bench.path().join("checks.xml");
    let ended = bench.run(&["--junit", file.to_str().unwrap()]).expect(1);
    let reason = "the broker acknowledged no message: refused by";
    ended.complains_of(&[reason]);
    let xml = std::fs::read_to_string(&file).unwrap();
    let failed = format!("name=\"completed\"><failure message=\"in 0 of 1 trial; trial 1: {reason}");
    assert!(xml.contains(&failed), "{xml}");
}

#[test]
fn a_side_whose_trials_stall_is_a_regression() {
    let bench = verified();
    let of_b = [
        "broker.null.stalls=[{at=\"50ms\",for=\"1h\"}]",
        // Once the window is full, nothing moves any more.
        "producers.in_flight=10",
        "run.stall_deadline=1s",
        "run.drain_deadline=1s",
    ];
    let of_b: Vec<&str> = of_b.iter().flat_map(|setting| ["--against-set", setting]).collect();
    let ended = bench.run(&[&of_b[..], &["--set", "sweep.trials=2"]].concat());
    let found = comparison(&ended.expect(3));
    assert_eq!(found["points"][0]["trials_of_b"]["stalled"], 2, "{found}");
    assert_eq!(count(&found, "unsound-trials")["outcome"], "worse");
}

#[test]
fn scenarios_that_cannot_take_turns_are_refused() {
    let bench = trials("trials = 2");
    bench.run(&["--against-set", "sweep.trials=3"]).expect(2).complains_of(&["2 and 3 trials", "[sweep]"]);
    bench.run(&["--against-set", "producers.cuont=3"]).expect(2).complains_of(&["cuont"]);
    bench.run(&["--tolerance", "5%"]).expect(2).complains_of(&["--tolerance", "--against"]);
    bench.run(&["--against", "none.toml"]).expect(2).complains_of(&["none.toml"]);
    assert!(bench.run_directories().is_empty());
}
