//! Trials that are repeated until enough is known, scenarios that run in turn, and the comparison of their records.

use brokermark::record::{Record, read_records};

use crate::harness::{Bench, Finished, execute};

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
fn a_point_is_repeated_until_its_interval_is_narrow_or_the_trials_are_used_up() {
    // At a rate that is held, trials differ by less than a hundredth.
    let narrow = trials("until = \"messages_per_second ± 90 %\"\ntrials_at_most = 20").run(&[]).expect(0).records();
    assert_eq!(narrow.len(), 3, "three trials are the fewest");
    let fewest = trials("until = \"messages_per_second ± 90 %\"\ntrials = 4").run(&[]).expect(0).records();
    assert_eq!(fewest.len(), 4);
    let never = "until = \"cpu_per_message ± 0.0000001 %\"\ntrials_at_most = 5\norder = \"interleaved\"\n\
                 [sweep.over]\n\"producers.batch\" = [1, 2]";
    let never = trials(never).run(&[]).expect(0).records();
    assert_eq!(never.len(), 10, "five of each point");
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
    assert_eq!((found["schema"].as_str(), found["paired"].as_bool()), (Some("brokermark.comparison/1"), Some(true)));
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

#[test]
fn scenarios_that_cannot_take_turns_are_refused() {
    let bench = trials("trials = 2");
    bench.run(&["--against-set", "sweep.trials=3"]).expect(2).complains_of(&["2 and 3 trials", "[sweep]"]);
    bench.run(&["--against-set", "producers.cuont=3"]).expect(2).complains_of(&["cuont"]);
    bench.run(&["--tolerance", "5%"]).expect(2).complains_of(&["--tolerance", "--against"]);
    bench.run(&["--against", "none.toml"]).expect(2).complains_of(&["none.toml"]);
    assert!(bench.run_directories().is_empty());
}
