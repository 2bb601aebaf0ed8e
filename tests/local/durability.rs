//! The files after a kill, after signals in each phase and after the crash of a consumer; and resuming such a run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use brokermark::record::{Phase, ReasonKind, Record, Status, read_records, read_series};

use crate::harness::{Bench, Finished, PATIENCE, Running, assert_balanced, eventually, execute, reasons};

/// Far more than a trial that ends at once takes on a busy machine, and less than any deadline of these scenarios.
const AT_ONCE: Duration = Duration::from_secs(30);

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\n{tables}")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn show(run: &Path) -> String {
    execute(&["show", run.to_str().unwrap()]).expect(0).stdout
}

/// The run's directory, once it is there.
fn started(bench: &Bench) -> std::path::PathBuf {
    eventually("the run has a directory", || !bench.run_directories().is_empty());
    bench.run_directory()
}

#[test]
fn seconds_and_histograms_are_on_disk_while_the_trial_runs() {
    let bench = Bench::new(&null("load.rate = \"1k/s\"\nrun.duration = \"100s\"\noutput.formats = [\"hlog\"]"));
    let running = bench.start(&["--quiet"]);
    let run = started(&bench);
    eventually("three seconds are on disk", || {
        text(&run.join("series.jsonl")).lines().count() >= 3
            && text(&run.join("latency.hlog")).lines().filter(|line| line.starts_with("Tag=response,")).count() >= 3
    });
    running.signal(libc::SIGKILL);
    assert_eq!(running.finish(PATIENCE).code, None);
    let rows = read_series(&run).unwrap();
    assert!(rows.iter().all(|row| row.phase == Phase::Measure && row.acknowledged > 0), "{rows:?}");
    let log = text(&run.join("latency.hlog"));
    assert_eq!(log.lines().filter(|line| line.starts_with("#[Histogram log")).count(), 1, "one header");
}

#[test]
fn a_trial_that_was_killed_leaves_its_last_checkpoint() {
    let bench = Bench::new(&null("load.rate = \"1k/s\"\n[run]\nwarm_up = \"300ms\"\nduration = \"6s\"\n[consumers]"));
    let running = bench.start(&["--quiet", "--checkpoint-every", "1s"]);
    let run = started(&bench);
    let checkpoint = run.join("checkpoint.json");
    eventually("a checkpoint of measured messages", || {
        serde_json::from_str::<Record>(&text(&checkpoint)).is_ok_and(|record| record.counts.acknowledged > 1000)
    });
    let shown = show(&run);
    assert!(shown.contains("still runs") && !shown.contains("killed"), "{shown}");
    running.signal(libc::SIGKILL);
    assert_eq!(running.finish(PATIENCE).code, None);

    let record: Record = serde_json::from_str(&text(&checkpoint)).unwrap();
    assert_eq!(record.status, Status::Running);
    assert_balanced(&record);
    assert_eq!(reasons(&record)[0], ReasonKind::Unfinished);
    let counts = &record.counts;
    assert!(counts.attempted >= counts.acknowledged && counts.warm_up.acknowledged > 0, "{counts:?}");
    assert_eq!(counts.warm_up.attempted, counts.warm_up.acknowledged, "{counts:?}");
    assert_eq!(record.latency.response.as_ref().unwrap().count, counts.acknowledged);
    assert_eq!(record.verification.as_ref().map(|found| found.lost), Some(0), "what is still on its way is not lost");
    let seconds: u64 = read_series(&run).unwrap().iter().map(|row| row.acknowledged).sum();
    assert!(seconds >= counts.acknowledged, "the series goes on after the checkpoint");

    let shown = show(&run);
    assert!(shown.contains("killed") && shown.contains("--resume"), "{shown}");
    let shown = execute(&["show", run.to_str().unwrap(), "--json"]).expect(0).record();
    assert_eq!(shown, record);

    let resumed = bench.resume(&run).expect(0).record();
    assert_eq!((resumed.status, &resumed.run_id), (Status::Completed, &record.run_id));
    assert!(!checkpoint.exists());
    let shown = show(&run);
    assert!(!shown.contains("killed"), "{shown}");
    assert_eq!(read_records(&run).unwrap().records, [resumed]);
}

/// Starts the scenario, sends one signal when a line on standard error contains `phase`, and waits for the end.
fn interrupted(scenario: &str, phase: &str, signal: libc::c_int) -> (Finished, Record) {
    let bench = Bench::new(scenario);
    let mut running = bench.start(&[]);
    running.await_stderr(phase);
    running.signal(signal);
    let ended = running.finish(PATIENCE).expect(130);
    let record = ended.record();
    assert_eq!(record.status, Status::Interrupted);
    assert_eq!(reasons(&record)[0], ReasonKind::Interrupted);
    assert_balanced(&record);
    assert_eq!(read_records(&bench.run_directory()).unwrap().records, std::slice::from_ref(&record));
    (ended, record)
}

#[test]
fn a_closed_terminal_ends_a_run_as_sigterm_does() {
    let (_, record) = interrupted(&null("load.rate = \"1k/s\"\nrun.duration = \"100s\""), "measuring", libc::SIGHUP);
    assert!(record.counts.acknowledged > 0, "{:?}", record.counts);
}

#[test]
#[cfg(feature = "nsq")]
fn a_signal_while_connecting_ends_the_trial() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let bench = Bench::new(&format!("broker = {{ kind = \"nsq\", address = \"{address}\" }}\nrun.messages = 1"));
    let running = bench.start(&[]);
    let _connection = silent.accept().unwrap();
    running.signal(libc::SIGINT);
    let ended = running.finish(PATIENCE).expect(130);
    let record = ended.record();
    assert_eq!((record.status, record.counts.attempted), (Status::Interrupted, 0));
    assert_eq!(reasons(&record)[0], ReasonKind::Interrupted);
}

/// A broker that leaves a tenth of the messages unanswered, so that draining lasts until its deadline.
const UNANSWERED: &str = "[broker.null]
    ignore = 0.1
    [load]
    rate = \"1k/s\"
    [run]
    drain_deadline = \"100s\"";

#[test]
fn a_signal_in_the_drain_ends_it() {
    let scenario = null(&format!("{UNANSWERED}\nduration = \"500ms\""));
    let (ended, record) = interrupted(&scenario, "draining", libc::SIGINT);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert_eq!(record.counts.attempted, 500);
    assert_eq!((record.counts.acknowledged, record.counts.unresolved), (450, 50));
}

/// A container's runtime sends no second signal before it kills.
#[test]
fn a_signal_that_is_not_from_a_terminal_ends_all_phases_by_its_deadline() {
    let scenario = null(&format!("{UNANSWERED}\nsignal_deadline = \"6s\"\nduration = \"100s\"\n[consumers]"));
    let (ended, record) = interrupted(&scenario, "measuring", libc::SIGTERM);
    ended.complains_of(&["`run.signal_deadline`", "waiting for nothing else"]);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert!(record.counts.unresolved > 0, "{:?}", record.counts);
}

#[test]
fn a_signal_in_the_verification_ends_it() {
    let scenario = null(
        "broker.null = { lose = 0.1, hide_ends = true }
        load.rate = \"1k/s\"
        run = { duration = \"500ms\", drain_deadline = \"100s\" }
        consumers = {}",
    );
    let (ended, record) = interrupted(&scenario, "verifying", libc::SIGINT);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert_eq!(record.counts.acknowledged, 500);
    let found = record.verification.unwrap();
    assert_eq!(found.lost + found.unread, 50, "{found:?}");
}

#[test]
fn a_signal_in_a_pipelines_backlog_ends_it() {
    let scenario = null(
        "broker.null.lose = 0.1
        load.rate = \"1k/s\"
        run = { duration = \"500ms\", drain_deadline = \"100s\" }
        pipeline = { parse = \"none\", commit = \"on-receipt\" }",
    );
    let (ended, record) = interrupted(&scenario, "verifying", libc::SIGINT);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert_eq!(record.pipeline.unwrap().consumed, 450);
}

#[test]
fn a_second_signal_ends_the_drain_and_keeps_the_record() {
    let bench = Bench::new(&null(&format!("{UNANSWERED}\nduration = \"100s\"\n[consumers]")));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    running.signal(libc::SIGINT);
    running.await_stderr("draining");
    running.signal(libc::SIGTERM);
    let ended = running.finish(PATIENCE).expect(130);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    let record = ended.record();
    assert_eq!(record.status, Status::Interrupted);
    assert_balanced(&record);
    assert!(record.counts.unresolved > 0, "{:?}", record.counts);
    assert_eq!(read_records(&bench.run_directory()).unwrap().records, [record]);
}

#[test]
fn a_consumer_that_crashes_leaves_the_record_of_its_trial() {
    let bench = Bench::new(&null(
        "broker.null.consumer_panics_after = 100
        load.rate = \"1k/s\"
        run = { duration = \"1s\", drain_deadline = \"1s\" }
        consumers.members = 2
        topology.partitions = 2
        producers.count = 2",
    ));
    let record = bench.run(&[]).expect(0).record();
    assert_eq!(record.status, Status::Completed);
    assert_eq!(record.counts.acknowledged, 1000);
    assert!(!record.verdict.valid);
    assert!(reasons(&record).contains(&ReasonKind::ConsumerCrashed), "{:?}", reasons(&record));
    let crash = record.receive_errors.iter().find(|error| error.first_message.contains("script")).unwrap();
    assert_eq!(crash.count, 2, "both members crashed: {:?}", record.receive_errors);
}

#[test]
fn a_producer_that_crashes_leaves_what_was_measured() {
    let bench = Bench::new(&null(
        "broker.null.producer_panics_after = 500
        load.rate = \"1k/s\"
        run = { duration = \"100s\", warm_up = \"100ms\", drain_deadline = \"1s\" }
        producers.count = 2",
    ));
    let record = bench.run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    assert!(record.error.as_ref().is_some_and(|error| error.contains("script")), "{:?}", record.error);
    assert_balanced(&record);
    let counts = &record.counts;
    assert!(counts.acknowledged > 700 && counts.warm_up.acknowledged > 50, "{counts:?}");
    assert!(counts.unresolved > 0, "what the producer had in its hand: {counts:?}");
}

#[test]
fn a_second_signal_does_not_wait_for_topics_to_be_removed() {
    let bench = Bench::new(&null("broker.null.removal_time = \"100s\"\nload.rate = \"1k/s\"\nrun.duration = \"100s\""));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    running.signal(libc::SIGINT);
    running.await_stderr("once more to wait for nothing else");
    running.signal(libc::SIGINT);
    let ended = running.finish(PATIENCE).expect(130);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    ended.complains_of(&["had removed its topics", &ended.record().run_id]);
}

#[test]
fn a_record_is_on_disk_before_its_topics_are_removed() {
    let bench = Bench::new(&null("broker.null.removal_time = \"100s\"\nrun.messages = 1000"));
    let running = bench.start(&[]);
    let run = started(&bench);
    eventually("the record is on disk", || !text(&run.join("records.jsonl")).is_empty());
    running.signal(libc::SIGKILL);
    running.finish(PATIENCE);
    let [record] = &read_records(&run).unwrap().records[..] else { panic!("one record") };
    assert_eq!((record.status, record.counts.acknowledged), (Status::Completed, 1000));
    assert!(bench.resume(&run).expect(0).records().is_empty(), "the trial counts as finished");
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let bench = Bench::new(&null("load.rate = \"1k/s\"\nrun.duration = \"3s\""));
    let mut command = Command::new("nohup");
    let run = bench.command();
    command.arg(run.get_program()).args(run.get_args());
    let mut running = Running::start(&mut command);
    running.await_stderr("measuring");
    running.signal(libc::SIGHUP);
    assert_eq!(running.finish(PATIENCE).expect(0).record().counts.acknowledged, 3000);
}

/// A sweep of two trials that was killed after the first.
fn half_a_run(tables: &str, files: &[(&str, &str)]) -> (Bench, std::path::PathBuf) {
    let bench = Bench::new(&null(&format!("run.messages = 100\nsweep.trials = 2\n{tables}")));
    for (name, contents) in files {
        bench.write(name, contents);
    }
    assert!(bench.run(&[]).code.is_some_and(|code| code == 0 || code == 3));
    let run = bench.run_directory();
    let records = run.join("records.jsonl");
    let first = text(&records).lines().next().unwrap().to_owned();
    fs::write(&records, first + "\n").unwrap();
    (bench, run)
}

/// `--resume` with another argument.
fn resume(bench: &Bench, run: &Path, argument: &str) -> Finished {
    let [scenario, run] = [bench.scenario(), run.to_owned()].map(|path| path.to_str().unwrap().to_owned());
    execute(&["run", &scenario, "--json", "--quiet", "--resume", &run, argument])
}

#[test]
fn resume_by_another_build_needs_permission() {
    let (bench, run) = half_a_run("", &[]);
    let records = run.join("records.jsonl");
    let mut kept: Record = serde_json::from_str(&text(&records)).unwrap();
    let now = kept.environment.brokermark_commit.replace("0ther".to_owned());
    fs::write(&records, kept.to_line()).unwrap();
    let refused = bench.resume(&run).expect(2);
    refused.complains_of(&["(0ther, ", now.as_deref().unwrap_or("unknown commit"), "--resume-anyway"]);
    assert_eq!((refused.stdout.as_str(), text(&records)), ("", kept.to_line()));
    let permitted = resume(&bench, &run, "--resume-anyway").expect(0);
    permitted.complains_of(&["warning", "(0ther, "]);
    assert_eq!(permitted.records().len(), 1);
    assert!(show(&run).contains("different builds of brokermark"));
}

#[test]
fn a_run_is_not_resumed_with_other_payloads() {
    for (payload, kind) in [("[payload]\nkind = \"lines\"", "lines"), ("[payload]\nkind = \"template\"", "template")] {
        let scenario = format!("{payload}\nfile = \"sent.txt\"");
        let (bench, run) = half_a_run(&scenario, &[("sent.txt", "one message\n")]);
        bench.write("sent.txt", "two message\n");
        bench.resume(&run).expect(2).complains_of(&["sent.txt", "--resume-anyway"]);
        bench.write("sent.txt", "one message\n");
        assert_eq!(bench.resume(&run).expect(0).records().len(), 1, "{kind}");
    }
}

#[test]
fn a_resumed_run_ends_as_the_whole_run_would() {
    let missed = "thresholds.require = [\"messages_per_second > 1000000000\"]";
    let (bench, run) = half_a_run(missed, &[]);
    assert_eq!(bench.resume(&run).expect(3).records().len(), 1);
    assert!(bench.resume(&run).expect(3).records().is_empty(), "nothing is left to do, and the thresholds were missed");
}

#[test]
fn another_broker_after_a_resume_is_reported() {
    let (bench, run) = half_a_run("", &[]);
    let records = run.join("records.jsonl");
    let mut kept: Record = serde_json::from_str(&text(&records)).unwrap();
    kept.environment.broker = Some("Another 1.0".to_owned());
    fs::write(&records, kept.to_line()).unwrap();
    bench.resume(&run).expect(0).complains_of(&["warning", "Another 1.0"]);
}

#[test]
fn a_sweep_pauses_between_its_trials() {
    let bench = Bench::new(&null("run.messages = 100\nsweep = { trials = 3, pause = \"1500ms\" }"));
    let begin = Instant::now();
    let records = bench.run(&[]).expect(0).records();
    assert!(begin.elapsed() >= Duration::from_secs(3), "two pauses, and none before the first or after the last");
    for pair in records.windows(2) {
        let between = pair[1].started_at.duration_since(pair[0].started_at);
        assert!(between.as_millis() >= 1500, "{between:?}");
    }
}

#[test]
fn a_signal_ends_a_pause_and_the_run() {
    let bench = Bench::new(&null("run.messages = 100\nsweep = { trials = 2, pause = \"100s\" }"));
    let mut running = bench.start(&[]);
    running.await_stderr("2/2 pausing");
    running.signal(libc::SIGINT);
    let ended = running.finish(PATIENCE).expect(130);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert_eq!(ended.record().status, Status::Completed, "the first trial; the second never began");
}
