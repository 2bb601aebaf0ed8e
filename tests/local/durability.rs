//! What is left when a run does not end as planned: a kill in mid-trial, signals in each phase, a consumer that crashes; and
//! what a resumed run knows of the run that it goes on with.

use std::fs;
use std::path::Path;
use std::time::Duration;

use brokermark::record::{Phase, ReasonKind, Record, Status, read_records, read_series};

use crate::harness::{Bench, Finished, PATIENCE, assert_balanced, eventually, execute, reasons};

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
    assert_eq!(record.verification.map(|found| found.lost), Some(0), "what is still on its way is not lost");
    let seconds: u64 = read_series(&run).unwrap().iter().map(|row| row.acknowledged).sum();
    assert!(seconds >= counts.acknowledged, "the series goes on after the checkpoint");

    let shown = show(&run);
    assert!(shown.contains("killed") && shown.contains("--resume"), "{shown}");
    let told = execute(&["show", run.to_str().unwrap(), "--json"]).expect(0).record();
    assert_eq!(told, record);

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
    assert_eq!(read_records(&bench.run_directory()).unwrap().records, [record.clone()]);
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

#[test]
fn a_signal_in_the_verification_ends_it() {
    let scenario = null(
        "broker.null.lose = 0.1\nload.rate = \"1k/s\"\nrun = { duration = \"500ms\", drain_deadline = \"100s\" }\n[consumers]",
    );
    let (ended, record) = interrupted(&scenario, "verifying", libc::SIGINT);
    assert!(ended.took < AT_ONCE, "{:?}", ended.took);
    assert_eq!(record.counts.acknowledged, 500);
    assert_eq!(record.verification.unwrap().missing, 50);
}

#[test]
fn a_signal_in_a_pipelines_backlog_ends_it() {
    let scenario = null(
        "broker.null.lose = 0.1
        load.rate = \"1k/s\"
        run = { duration = \"500ms\", drain_deadline = \"100s\" }
        pipeline = { parse = \"none\", commit = \"on_receipt\" }",
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
    let said = record.receive_errors.iter().find(|error| error.first_message.contains("script")).unwrap();
    assert_eq!(said.count, 2, "both members crashed: {:?}", record.receive_errors);
}
