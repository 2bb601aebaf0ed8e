use std::fs;

use super::*;
use crate::record::{DurabilityLevel, Latency, RECORDS_FILE, Record, SERIES_FILE, Status, sample};

const VIEW: View = View { width: 120, colour: false, charts: false, details: false };

/// A run directory with trials at these rates.
fn run(base: &Path, name: &str, rates: &[f64], change: impl Fn(&mut Record)) -> PathBuf {
    let directory = base.join(name);
    fs::create_dir(&directory).unwrap();
    let lines = rates.iter().enumerate().map(|(index, rate)| {
        let mut record = sample::record();
        record.trial = index as u32 + 1;
        record.throughput.messages_per_second = *rate;
        change(&mut record);
        record.to_line()
    });
    fs::write(directory.join(RECORDS_FILE), lines.collect::<String>()).unwrap();
    fs::write(directory.join(SERIES_FILE), "").unwrap();
    directory
}

const A: [f64; 6] = [50_000.0, 50_210.0, 49_900.0, 50_100.0, 49_950.0, 50_050.0];
const SLOWER: [f64; 6] = [35_000.0, 35_200.0, 34_900.0, 35_100.0, 34_950.0, 35_050.0];

fn compared(a: &Path, b: &Path, json: bool, unequal: bool) -> (Exit, String) {
    let mut out = Vec::new();
    let options = Options { bounds: Bounds::default(), unequal, json, view: VIEW };
    let compared = judge(("before", &read_set(a).unwrap()), ("after", &read_set(b).unwrap()), options, &mut out);
    (compared.exit, String::from_utf8(out).unwrap())
}

#[test]
fn a_regression_is_printed_and_ends_with_3() {
    let base = tempfile::tempdir().unwrap();
    let a = run(base.path(), "a", &A, |_| {});
    let b = run(base.path(), "b", &SLOWER, |record| {
        record.latency.response.as_mut().unwrap().p50_ns += 7_000;
        record.environment.broker = Some("Kafka 9.9".to_owned());
        record.scenario["producers"]["batch"] = 512.into();
    });
    let (exit, text) = compared(&a, &b, false, false);
    insta::assert_snapshot!(text);
    assert_eq!(exit, Exit::ThresholdMissed);
    let (exit, text) = compared(&a, &b, true, false);
    assert_eq!(exit, Exit::ThresholdMissed);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["points"][0]["figures"][0]["outcome"], "worse");
    assert_eq!(compared(&a, &a, false, false).0, Exit::Success);
}

#[test]
fn single_trials_and_a_narrow_view() {
    let base = tempfile::tempdir().unwrap();
    let a = run(base.path(), "a", &A[..1], |_| {});
    let b = run(base.path(), "b", &SLOWER[..1], |record| record.verdict.valid = false);
    let series: String = (0..20)
        .map(|second| {
            let begin_ns = Some(second * 1_000_000_000);
            let row =
                crate::record::SeriesRow { second, begin_ns, ..sample::series()[3 + second as usize % 8].clone() };
            serde_json::to_string(&row).unwrap() + "\n"
        })
        .collect();
    fs::write(a.join(SERIES_FILE), series).unwrap();
    let (a, b) = (read_set(&a).unwrap(), read_set(&b).unwrap());
    let comparison = comparison::compare(&a, &b, Bounds::default()).unwrap();
    insta::assert_snapshot!(text(("before", &a), ("after", &b), &comparison, View { width: 80, ..VIEW }));
    let turned = comparison::compare(&b, &a, Bounds::default()).unwrap();
    let shown = text(("after", &b), ("before", &a), &turned, View { width: 400, ..VIEW });
    assert!(shown.contains("B has a single trial: its interval") && !shown.contains("A has a single"), "{shown}");
}

#[test]
fn losses_are_a_regression_and_a_figure_that_lacks_says_why() {
    let base = tempfile::tempdir().unwrap();
    let a = run(base.path(), "a", &A, |record| record.counts.failed = 0);
    let b = run(base.path(), "b", &A, |record| {
        record.counts.failed = 10_000;
        record.counts.acknowledged -= 10_000;
        record.verification.as_mut().unwrap().lost = 3;
        if record.trial == 2 {
            record.status = Status::Stalled;
        }
    });
    let (exit, text) = compared(&a, &b, false, false);
    insta::assert_snapshot!(text);
    assert_eq!(exit, Exit::ThresholdMissed);
    assert_eq!(compared(&b, &a, false, false).0, Exit::Success);
    let json: serde_json::Value = serde_json::from_str(&compared(&a, &b, true, false).1).unwrap();
    let point = &json["points"][0];
    let lost = point["counts"].as_array().unwrap().iter().find(|count| count["count"] == "lost").unwrap();
    assert_eq!((lost["b"]["number"].as_u64(), lost["outcome"].as_str()), (Some(18), Some("worse")));
    assert_eq!((point["trials_of_b"]["stalled"].as_u64(), point["trials_of_b"]["valid"].as_u64()), (Some(1), Some(5)));
    assert!(point["missing_figures"][0]["reason"].as_str().unwrap().contains("had no acknowledgement"), "{point}");
    assert_eq!((json["verdict"].as_str(), json["design"].as_str()), (Some("regression"), Some("single-runs")));
}

#[test]
fn a_regression_of_a_later_figure_is_in_the_sentence() {
    let base = tempfile::tempdir().unwrap();
    let a = run(base.path(), "a", &A, |_| {});
    let b = run(base.path(), "b", &A, |record| {
        let latency = record.latency.end_to_end.as_mut().unwrap();
        let mut slow = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        slow.record_n(9_000_000, latency.count).unwrap();
        *latency = Latency::from_histogram(&slow, 0, latency.independent).unwrap();
    });
    let (a, b) = (read_set(&a).unwrap(), read_set(&b).unwrap());
    let comparison = comparison::compare(&a, &b, Bounds { between_runs: 0.0, ..Bounds::default() }).unwrap();
    let shown = text(("before", &a), ("after", &b), &comparison, View { width: 400, ..VIEW });
    let told = "higher end-to-end p99 than A; messages/s and response p50 and response p99: no different within 5.0 %.";
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn of_trials_in_turn_only_pairs_of_valid_ones_have_figures() {
    let base = tempfile::tempdir().unwrap();
    let begun = |record: &mut Record, second: i64| {
        record.started_at =
            jiff::Timestamp::from_second(1_700_000_000 + 100 * i64::from(record.trial) + second).unwrap();
    };
    let a = run(base.path(), "a", &A, |record| begun(record, 0));
    let b = run(base.path(), "b", &A, |record| {
        begun(record, 50);
        record.verdict.valid = record.trial != 2;
    });
    let (_, text) = compared(&a, &b, false, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "Valid trials: 6 of 6 of A, 5 of 6 of B; figures are only of pairs of valid ones.";
    assert!(text.contains("trials in turn") && text.contains(told), "{text}");
}

#[test]
fn points_without_a_figure_have_no_ratio() {
    let base = tempfile::tempdir().unwrap();
    let at_two_points = |name: &str, stalled: u32| {
        run(base.path(), name, &A[..4], |record| {
            record.point_index = record.trial as usize % 2;
            record.point.insert("producers.count".to_owned(), record.point_index.into());
            if record.trial <= stalled {
                record.status = Status::Stalled;
            }
        })
    };
    let (exit, text) = compared(&at_two_points("a", 2), &at_two_points("b", 4), false, false);
    assert!(text.contains("No figure of B can be compared with A."), "{text}");
    assert_eq!(exit, Exit::ThresholdMissed, "no trial of B is valid");
}

#[test]
fn points_without_a_valid_trial_are_not_in_the_sentence() {
    let base = tempfile::tempdir().unwrap();
    let at_two_points = |name: &str, rates: &[f64]| {
        run(base.path(), name, rates, |record| {
            record.point_index = record.trial as usize % 2;
            record.point.insert("producers.count".to_owned(), record.point_index.into());
            record.verdict.valid = record.throughput.messages_per_second > 10_000.0;
        })
    };
    let (a, b) = (at_two_points("a", &A[..4]), at_two_points("b", &[A[0], 5_000.0, A[2], 5_010.0]));
    let (_, text) = compared(&a, &b, false, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "B carried 1.00 to 1.00 times as many messages per second as A, over 1 point; at 1 point, no trial of one side is valid.";
    assert!(text.contains(told), "{text}");
}

#[test]
fn unequal_durability_is_refused_unless_permitted() {
    let base = tempfile::tempdir().unwrap();
    let a = run(base.path(), "a", &A, |_| {});
    let b = run(base.path(), "b", &A, |record| record.durability.level = DurabilityLevel::Memory);
    assert_eq!(compared(&a, &b, false, false), (Exit::Failure, String::new()));
    let (exit, text) = compared(&a, &b, false, true);
    assert!(exit == Exit::Success && text.contains("✗ what an acknowledgement meant  differs: "), "{text}");
}

#[test]
fn a_set_is_all_runs_below_a_directory() {
    let base = tempfile::tempdir().unwrap();
    run(base.path(), "one", &A[..2], |_| {});
    run(base.path(), "two", &A[..3], |_| {});
    assert_eq!(read_set(base.path()).unwrap().len(), 5);
    assert!(matches!(read_set(&base.path().join("none")), Err(DirectoryError::Missing { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(read_set(empty.path()), Err(DirectoryError::NotARun { .. })));
}

#[test]
fn tolerances_are_shares() {
    assert_eq!(parse_tolerance("5%"), Ok(0.05));
    assert_eq!(parse_tolerance("0.1"), Ok(0.1));
    assert_eq!((parse_between_runs("0"), parse_between_runs("7 %")), (Ok(0.0), Ok(0.07)));
    assert!(parse_between_runs("-1%").is_err() && parse_between_runs("100%").is_err());
    for wrong in ["0", "100%", "-5%", "x", "5 percent"] {
        assert!(parse_tolerance(wrong).is_err(), "{wrong}");
    }
}

/// A result file of OpenMessaging Benchmark.
fn omb_file(directory: &Path, name: &str, rate: f64, p99_ms: f64, more: &str) {
    let text = format!(
        "{{\"workload\":\"w\",\"driver\":\"Kafka\",\"messageSize\":100,\"topics\":1,\"publishRate\":[{rate},{rate}],\"publishErrorRate\":[0.0],\
         \"aggregatedPublishLatency50pct\":1.5,\"aggregatedPublishLatency99pct\":{p99_ms}{more}}}"
    );
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(name), text).unwrap();
}

fn omb_compared(a: &Path, b: &Path) -> (Exit, String) {
    let mut out = Vec::new();
    let options = Options { bounds: Bounds::default(), unequal: false, json: false, view: VIEW };
    let compared = compare_runs(a, b, options, &mut out);
    let checks: Vec<String> = compared.checks.iter().map(|check| format!("{check:?}")).collect();
    (compared.exit, String::from_utf8(out).unwrap() + &checks.join("\n"))
}

#[test]
fn files_of_openmessaging_benchmark_are_compared_as_runs() {
    let base = tempfile::tempdir().unwrap();
    let [a, b, like_a] = ["a", "b", "c"].map(|name| base.path().join(name));
    for (index, noise) in [0.99, 1.0, 1.01, 1.0, 0.995].into_iter().enumerate() {
        let name = format!("{index}.json");
        omb_file(&a, &name, 50_000.0 * noise, 10.0 * noise, ",\"aggregatedEndToEndLatency99pct\":12.0");
        omb_file(&b, &name, 50_000.0 * noise, 20.0 * noise, "");
        omb_file(&like_a, &name, 50_050.0 / noise, 10.01 / noise, ",\"aggregatedEndToEndLatency99pct\":12.0");
    }
    let (exit, text) = omb_compared(&a, &b);
    assert_eq!(exit, Exit::ThresholdMissed, "{text}");
    for part in [
        "do not tell",
        "lost, duplicated",
        "coordinated omission",
        "service p99",
        "20.0 ms",
        "end-to-end p99: a file does not have it",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}: {text}");
    }
    assert!(!text.contains("service p99.9") && !text.contains("response"), "{text}");
    let (exit, text) = omb_compared(&a, &like_a);
    assert_eq!(exit, Exit::Success, "{text}");
    let (exit, text) = omb_compared(&a.join("0.json"), &b.join("0.json"));
    assert!(text.contains("single runs"), "{exit:?} {text}");
}

/// What `show --format omb` prints of a run.
#[test]
fn the_trials_of_one_file_are_of_one_run() {
    let base = tempfile::tempdir().unwrap();
    let [a, b] = [("a", 50_000.0), ("b", 45_000.0)].map(|(name, rate)| {
        let directory = base.path().join(name);
        omb_file(&directory, "run.json", rate, 10.0, "");
        let file = directory.join("run.json");
        fs::write(&file, (fs::read_to_string(&file).unwrap() + "\n").repeat(6)).unwrap();
        directory
    });
    let (exit, text) = omb_compared(&a, &b);
    assert_eq!(exit, Exit::Success, "runs may differ by 10 %: {text}");
    assert!(text.contains("single runs") && text.contains("runs may differ by as much"), "{text}");
}

#[test]
fn what_files_of_openmessaging_benchmark_cannot_be_compared_with_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let (a, b) = (base.path().join("a"), base.path().join("b"));
    omb_file(&a, "a.json", 50_000.0, 10.0, "");
    let ours = run(base.path(), "ours", &A, |_| {});
    let (exit, text) = omb_compared(&a, &ours);
    assert!(exit != Exit::Success && text.contains("--format omb"), "{text}");
    omb_file(&b, "b.json", 50_000.0, 10.0, "");
    let failing = fs::read_to_string(b.join("b.json")).unwrap().replace("[0.0]", "[500.0]");
    fs::write(b.join("b.json"), failing).unwrap();
    let (exit, text) = omb_compared(&a, &b);
    assert!(exit != Exit::Success && text.contains("--unequal"), "{text}");
    fs::write(b.join("b.json"), "{\"publishRate\": 5}").unwrap();
    let (_, text) = omb_compared(&a, &b);
    assert!(text.contains("b.json: "), "{text}");
}
