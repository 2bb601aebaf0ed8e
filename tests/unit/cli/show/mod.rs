//! Snapshots of the printed text.

use super::*;
use crate::evaluate::verdict::{Evidence, LoadShape, judge};
use crate::record::export::Format;
use crate::record::{
    Backlog, BacklogPhase, GroupDrain, GroupTask, GroupVerification, Outage, Transactions, WorkDistribution, sample,
};

const PLAIN: View = View { width: 100, colour: false, charts: false, details: false };
const CHARTS: View = View { charts: true, ..PLAIN };

#[test]
fn one_trial_in_full() {
    insta::assert_snapshot!(render(&[sample::record()], &sample::series(), PLAIN));
}

#[test]
fn one_trial_on_a_narrow_terminal() {
    insta::assert_snapshot!(render(&[sample::record()], &sample::series(), View { width: 60, ..PLAIN }));
}

#[test]
fn a_trial_that_is_not_to_be_trusted() {
    let mut record = sample::record();
    record.throughput.window_ns = 2_000_000_000;
    record.client.cores_used = 3.9;
    let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    record.verdict = judge(&Evidence { record: &record, series: &[], shape });
    insta::assert_snapshot!(summary(&record, PLAIN));
}

/// A trial on an embedded broker that was measured for 2 s only.
fn demonstration() -> Record {
    let mut record = sample::record();
    record.throughput.window_ns = 2_000_000_000;
    record.environment.embedded = true;
    let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    record.verdict = judge(&Evidence { record: &record, series: &[], shape });
    record
}

#[test]
fn an_embedded_broker_is_a_demonstration_and_no_failure() {
    let mut record = demonstration();
    let shown = summary(&record, PLAIN);
    assert!(
        shown.contains("! only as a demonstration  The broker ran inside") && shown.contains("! too-short"),
        "{shown}"
    );
    let verdict = shown.split("messages  ").next().unwrap();
    assert!(!verdict.contains('✗') && !verdict.contains("embedded"), "{shown}");
    let of_two = render(&[record.clone(), Record { trial: 2, ..record.clone() }], &[], PLAIN);
    assert!(of_two.contains("only as a demonstration of 2 trials") && !of_two.contains("not valid"), "{of_two}");
    // What broke is a fault here as well.
    record.counts.acknowledged -= 1;
    let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    record.verdict = judge(&Evidence { record: &record, series: &[], shape });
    let shown = summary(&record, PLAIN);
    assert!(shown.contains("✗ not to be trusted") && shown.contains("✗ ledger-mismatch"), "{shown}");
}

#[test]
fn the_null_broker_is_named_as_none() {
    let mut record = sample::record();
    assert!(!summary(&record, PLAIN).contains("null broker"));
    record.scenario["broker"] = serde_json::json!({ "kind": "null" });
    assert!(summary(&record, PLAIN).contains("The null broker ran inside brokermark"));
}

#[test]
fn groups_of_which_one_was_slow_and_one_lost_messages() {
    let mut record = sample::record();
    let found = record.verification.as_mut().unwrap();
    let sound = found.groups[0].clone();
    let slow = GroupVerification {
        group: 1,
        consumer_lag_at_load_end: Some(412_000),
        catch_up_ns: Some(9_100_000_000),
        ..sound.clone()
    };
    let lossy = GroupVerification {
        group: 2,
        received: 480_000,
        lost: 6,
        unread: 119_990,
        duplicated: 3,
        catch_up_ns: None,
        ..sound
    };
    (found.lost, found.unread, found.duplicated, found.order_unchecked) = (6, 119_990, 3, 17);
    found.groups.extend([slow, lossy]);
    let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    record.verdict = judge(&Evidence { record: &record, series: &sample::series(), shape });
    insta::assert_snapshot!(summary(&record, PLAIN));
}

#[test]
fn trial_whose_last_outage_had_no_recovery() {
    let mut record = sample::record();
    let outage = Outage {
        begin_ns: 2_100_000_000,
        longest_gap_ns: 1_840_000_000,
        in_window_ns: 1_840_000_000,
        first_acknowledgement_ns: Some(1_840_000_000),
        recovered_ns: Some(2_200_000_000),
        expected_per_second: 50_000.0,
        client_paused_ns: 0,
        caused_by_client: false,
    };
    let last = Outage { begin_ns: 9_000_000_000, first_acknowledgement_ns: None, recovered_ns: None, ..outage };
    record.outages = [[outage; 5].as_slice(), &[last]].concat();
    let shown = summary(&record, PLAIN);
    assert!(shown.contains("and 1 more") && !shown.contains("no acknowledgement followed"), "{shown}");
    let paused = Outage { begin_ns: 6_000_000_000, client_paused_ns: 1_800_000_000, caused_by_client: true, ..outage };
    record.outages = vec![outage, paused, last];
    insta::assert_snapshot!(summary(&record, PLAIN));
}

#[test]
fn a_backlog_and_groups_with_tasks() {
    let mut record = sample::record();
    let phase = |begin_ns, duration_ns, consumed_per_second| BacklogPhase {
        begin_ns,
        duration_ns,
        sent_per_second: 50_010.0,
        messages_per_second: 50_000.0,
        consumed_per_second,
        response: record.latency.response.clone(),
    };
    let drain = GroupDrain {
        group: 0,
        first_arrival_ns: Some(35_000_000),
        duration_ns: Some(3_000_000_000),
        received: 403_000,
        behind: 2_100,
        received_per_second: Some(134_333.0),
    };
    let slow = GroupDrain {
        group: 1,
        duration_ns: None,
        received: 400_000,
        behind: 199_996,
        received_per_second: None,
        ..drain
    };
    record.backlog = Some(Backlog {
        messages: Some(250_000),
        payload_bytes: Some(25_000_000),
        build: phase(0, 5_000_000_000, 0.0),
        drain: Some(phase(5_000_000_000, 5_000_000_000, 160_600.0)),
        after: None,
        groups: vec![drain, slow],
    });
    let found = record.verification.as_mut().unwrap();
    let task = GroupTask {
        work_mean_ns: Some(20_000),
        work_distribution: Some(WorkDistribution::Lognormal),
        rate_limit_per_second: Some(40_000.0),
        start_after_ns: None,
    };
    let slow = GroupVerification { group: 1, task: Some(task), ..found.groups[0].clone() };
    found.groups.push(slow);
    insta::assert_snapshot!(summary(&record, PLAIN));
    let task = GroupTask { start_after_ns: Some(10_000_000_000), ..GroupTask::default() };
    found_task(&mut record, task);
    (record.backlog.as_mut().unwrap().messages, record.backlog.as_mut().unwrap().payload_bytes) = (None, None);
    let shown = summary(&record, PLAIN);
    assert!(shown.contains("(from 10.0 s on)") && shown.contains("not there when the load ended"), "{shown}");
}

fn found_task(record: &mut Record, task: GroupTask) {
    record.verification.as_mut().unwrap().groups[1].task = Some(task);
}

#[test]
fn transactions_and_the_time_of_a_commit() {
    let mut record = sample::record();
    assert!(!summary(&record, PLAIN).contains("commit"));
    record.transactions = Some(Transactions { committed: 1_234, aborted: 5, commit: record.latency.service.clone() });
    let shown = summary(&record, PLAIN);
    assert!(shown.contains("1,234 committed, 5 aborted"), "{shown}");
    assert!(shown.lines().any(|line| line.trim_start().starts_with("commit ")), "{shown}");
}

#[test]
fn a_trial_that_failed() {
    let mut record = sample::record();
    record.status = Status::Failed;
    record.error = Some("kafka at 10.0.0.7:9092 cannot be reached: connection refused".to_owned());
    record.counts = Default::default();
    record.throughput = Default::default();
    record.latency = Default::default();
    record.errors.clear();
    record.verification = None;
    record.thresholds.clear();
    let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    record.verdict = judge(&Evidence { record: &record, series: &[], shape });
    insta::assert_snapshot!(render(&[record], &[], PLAIN));
}

fn sweep() -> (Vec<Record>, Vec<SeriesRow>) {
    let (mut records, mut series) = (Vec::new(), Vec::new());
    for (point_index, producers) in [8, 64, 512].into_iter().enumerate() {
        for trial in 1..=3u32 {
            let factor = [0.4, 1.0, 0.9][point_index] * (1.0 + f64::from(trial) / 50.0);
            let mut record = Record { point_index, trial, ..sample::record() };
            record.point = [("producers.count".to_owned(), producers.into())].into();
            record.throughput.messages_per_second *= factor;
            record.throughput.payload_bytes_per_second *= factor;
            record.thresholds.truncate(1);
            if (point_index, trial) == (2, 3) {
                record.client.cores_used = 3.9;
                record.thresholds[0].held = false;
                let shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
                record.verdict = judge(&Evidence { record: &record, series: &[], shape });
            }
            records.push(record);
            series.extend(sample::series().into_iter().map(|row| SeriesRow { point_index, trial, ..row }));
        }
    }
    (records, series)
}

#[test]
fn a_sweep_of_three_points_and_three_trials() {
    let (records, series) = sweep();
    insta::assert_snapshot!(render(&records, &series, PLAIN));
}

#[test]
fn a_sweep_on_a_narrow_terminal() {
    let (records, series) = sweep();
    insta::assert_snapshot!(render(&records, &series, View { width: 60, ..PLAIN }));
}

#[test]
fn a_point_of_many_trials_has_quartiles_and_one_of_few_has_none() {
    let records: Vec<Record> = (1..=5u32)
        .map(|trial| {
            let mut record = Record { trial, ..sample::record() };
            record.throughput.messages_per_second = f64::from(trial) * 1000.0;
            record
        })
        .collect();
    let shown = render(&records, &[], PLAIN);
    assert!(shown.contains("quartiles") && shown.contains("2,000 … 4,000"), "{shown}");
    assert!(!render(&records[..4], &[], PLAIN).contains("quartiles"));
}

/// Trials of one point at 1,000, 2,000, … messages/s, of which some are not valid.
fn trials(not_valid: &[u32], all: u32) -> Vec<Record> {
    let trial = |trial| {
        let mut record = Record { trial, ..sample::record() };
        record.throughput.messages_per_second = f64::from(trial) * 1000.0;
        record.verdict.valid = !not_valid.contains(&trial);
        record
    };
    (1..=all).map(trial).collect()
}

/// The row of the table of points.
fn row_of_points(records: &[Record]) -> String {
    let shown = render(records, &[], PLAIN);
    let heading = shown.lines().position(|line| line.contains("median messages/s")).expect("a table of points");
    shown.lines().nth(heading + 1).expect("a row").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_trial_that_is_not_valid_stays_visible_and_is_in_no_median() {
    let row = row_of_points(&trials(&[4, 5], 5));
    assert!(row.starts_with("2 of 5 not valid 2,000 1,000 … 3,000"), "{row}");
    let shown = render(&trials(&[4, 5], 5), &[], PLAIN);
    assert!(shown.contains("Carried 2,000 messages/s: the median of 3 trials."), "{shown}");
    let row = row_of_points(&trials(&[], 5));
    assert!(row.starts_with("5 3,000 2,000 … 4,000 1,000 … 5,000"), "{row}");
}

#[test]
fn trials_of_different_builds_or_brokers_are_marked_as_mixed() {
    let mut records = trials(&[], 3);
    assert!(!render(&records, &[], PLAIN).contains("mixed"));
    records[1].environment.brokermark_commit = Some("0ther".to_owned());
    records[2].environment.broker = Some("Kafka 9".to_owned());
    let shown = render(&records, &[], PLAIN);
    assert!(shown.contains("different builds of brokermark") && shown.contains("(0ther, "), "{shown}");
    assert!(shown.contains("different brokers") && shown.contains("Kafka 9"), "{shown}");
}

#[test]
fn clients_that_the_scenario_compares_are_no_mixture() {
    let mut records = trials(&[], 3);
    for (record, (client, library)) in
        records.iter_mut().zip([("native", "own 1"), ("other", "other 1"), ("other", "other 1")])
    {
        record.scenario["broker"]["client"] = client.into();
        record.environment.client_library = Some(library.to_owned());
    }
    assert!(!render(&records, &[], PLAIN).contains("mixed"));
    records[2].environment.client_library = Some("other 2".to_owned());
    let shown = render(&records, &[], PLAIN);
    assert!(shown.contains("different client libraries: other 1; other 2; own 1"), "{shown}");
}

#[test]
fn brokers_that_the_scenario_compares_are_no_mixture() {
    let mut records = trials(&[], 3);
    for (record, (address, broker)) in
        records.iter_mut().zip([("a:9092", "Kafka 4.1"), ("b:9092", "Kafka 4.2"), ("b:9092", "Kafka 4.2")])
    {
        record.scenario["broker"]["addresses"] = serde_json::json!([address]);
        record.environment.broker = Some(broker.to_owned());
    }
    assert!(!render(&records, &[], PLAIN).contains("mixed"));
    records[2].environment.broker = Some("Kafka 4.3".to_owned());
    let shown = render(&records, &[], PLAIN);
    assert!(shown.contains("different brokers: Kafka 4.1; Kafka 4.2; Kafka 4.3"), "{shown}");
}

#[test]
fn a_failed_trial_counts_as_one_that_is_not_valid() {
    let mut records = trials(&[3], 3);
    records[2].status = Status::Failed;
    let row = row_of_points(&records);
    assert!(row.starts_with("1 of 3 not valid 1,500 1,000 … 2,000"), "{row}");
}

#[test]
fn point_without_a_valid_trial_has_untrusted_figures() {
    let records = trials(&[1, 2, 3], 3);
    let row = row_of_points(&records);
    assert!(row.starts_with("3 of 3 not valid ✗ 2,000 ✗ 1,000 … 3,000"), "{row}");
    assert!(render(&records, &[], PLAIN).contains("No trial of this point is valid"));
}

#[test]
fn a_run_without_a_record_shows_its_seconds() {
    assert!(!render(&[], &[], PLAIN).contains("rows"));
    assert!(render(&[], &sample::series(), PLAIN).contains("13 rows"));
}

#[test]
fn json_prints_the_records_and_text_mentions_a_cut_off_one() {
    let directory = tempfile::tempdir().unwrap();
    let line = sample::record().to_line();
    std::fs::write(directory.path().join("records.jsonl"), format!("{line}{}", &line[..100])).unwrap();
    let arguments = arguments(&[directory.path()]);
    assert_eq!(shown(&ShowArguments { json: true, ..arguments }), line);
    let mut out = Vec::new();
    show_run(directory.path(), PLAIN, &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("cut off"));
}

fn arguments(paths: &[&Path]) -> ShowArguments {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    ShowArguments { paths, point: None, trial: None, json: false, format: None, charts: Charts::Auto, details: false }
}

fn shown(arguments: &ShowArguments) -> String {
    let mut out = Vec::new();
    show(arguments, PLAIN, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A directory with runs, in each of which are these records.
fn runs(runs: &[(&str, &[Record])]) -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    for (name, records) in runs {
        std::fs::create_dir(base.path().join(name)).unwrap();
        let lines: String = records.iter().map(Record::to_line).collect();
        std::fs::write(base.path().join(name).join("records.jsonl"), lines).unwrap();
    }
    base
}

fn named(name: &str) -> Record {
    Record { scenario_name: name.to_owned(), run_id: format!("run-of-{name}"), ..sample::record() }
}

#[test]
fn of_a_directory_of_runs_the_newest_is_shown_under_its_path() {
    let base = runs(&[("b-20260301T120000Z", &[named("older")]), ("a-20260302T120000Z", &[named("newer")])]);
    let text = shown(&arguments(&[base.path()]));
    let path = base.path().join("a-20260302T120000Z");
    assert!(text.starts_with(&format!("── {} ──\nnewer  ", path.display())), "{text}");
    assert!(!text.contains("older"), "{text}");
    assert!(shown(&arguments(&[&path])).starts_with("newer  "), "the user named it");
}

#[test]
fn several_runs_are_shown_one_after_another() {
    let base = runs(&[("a-20260301T120000Z", &[named("one")]), ("b-20260302T120000Z", &[named("two")])]);
    let (one, two) = (base.path().join("a-20260301T120000Z"), base.path().join("b-20260302T120000Z"));
    let text = shown(&arguments(&[&two, &one]));
    let at = |part: String| text.find(&part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(at(format!("── {} ──\ntwo  ", two.display())) < at(format!("── {} ──\none  ", one.display())));
    let csv = shown(&ShowArguments { format: Some(Format::Csv), ..arguments(&[&one, &two]) });
    assert_eq!(csv.lines().count(), 3, "a title and a row for each: {csv}");
}

#[test]
fn records_of_two_runs_in_one_file_are_shown_apart() {
    let base = runs(&[("both", &[named("one"), named("two")])]);
    let file = base.path().join("both/records.jsonl");
    let text = shown(&arguments(&[&file]));
    assert!(text.contains("\none  ") && text.contains("\ntwo  "), "{text}");
    assert_eq!(shown(&ShowArguments { format: Some(Format::Csv), ..arguments(&[&file]) }).lines().count(), 3);
}

#[test]
fn one_trial_of_a_sweep_is_shown_in_full() {
    let (records, series) = sweep();
    let base = runs(&[("sweep", &records)]);
    let rows: String = series.iter().map(SeriesRow::to_line).collect();
    std::fs::write(base.path().join("sweep/series.jsonl"), rows).unwrap();
    let sweep = base.path().join("sweep");
    let of = |point, trial| ShowArguments { point, trial, ..arguments(&[&sweep]) };
    let text = shown(&of(Some(2), Some(3)));
    assert!(text.starts_with("orders-sustained  producers.count = 512 · trial 3"), "{text}");
    assert!(text.contains("each second"), "{text}");
    let of_point = shown(&of(Some(1), None));
    assert!(of_point.contains("3 of 3 trials valid") && of_point.contains("1 point"), "{of_point}");
    let error = show(&of(Some(3), Some(1)), PLAIN, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.ends_with("has no trial 1 of point 3: its points are 0 to 2, their trials 1 to 3"), "{error}");
}

#[test]
fn charts_are_drawn_where_they_are_wanted() {
    insta::assert_snapshot!(render(&[sample::record()], &sample::series(), CHARTS));
    let charts = |text: &str| text.chars().any(|character| "▁█⠉⠒⡀⣀".contains(character));
    assert!(!charts(&render(&[sample::record()], &sample::series(), PLAIN)));
    let (records, series) = sweep();
    assert!(charts(&render(&records, &series, View { width: 120, ..CHARTS })));
    assert!(!charts(&render(&records, &series, View { width: 120, ..PLAIN })));
    assert_eq!(
        [Charts::Auto, Charts::Always, Charts::Never].map(|when| PLAIN.with_charts(when).charts),
        [false, true, false]
    );
}

#[test]
fn words_are_explained_where_they_appear() {
    let mut record = sample::record();
    let plain = summary(&record, PLAIN);
    for word in ["foreign: ", "redelivered: ", "duplicated: ", "beyond range: "] {
        assert!(!plain.contains(word), "{plain}");
    }
    assert!(plain.contains("response: from when a message was due"), "{plain}");
    let found = record.verification.as_mut().unwrap();
    (found.foreign, found.redelivered, found.duplicated) = (5, 6, 7);
    (found.groups[0].redelivered, found.groups[0].duplicated) = (6, 7);
    record.latency.response.as_mut().unwrap().beyond_range = 1;
    let explained = summary(&record, PLAIN);
    for word in
        ["foreign: not of this trial", "redelivered: received again, as", "duplicated: ", "beyond range: longer than"]
    {
        assert!(explained.contains(word), "{word}: {explained}");
    }
}

#[test]
fn a_series_of_one_second_has_one_row() {
    let text = nothing_but(&sample::series()[..1]);
    assert!(text.contains("the series has 1 row, about"), "{text}");
}
