//! The files after failures: kills, full disks, directories that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Bench, PATIENCE, Running, brokermark, eventually};
use brokermark::record::{Record, SeriesRow, Status, current_records};

/// Six short trials.
const SWEEP: &str = r#"
    [broker]
    kind = "null"
    [broker.null]
    service_time = "1ms"
    [payload]
    kind = "zeros"
    size = "100B"
    [run]
    duration = "700ms"
    [sweep]
    trials = 2
    order = "interleaved"
    [sweep.over]
    "producers.count" = [1, 2, 3]
"#;

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn records(directory: &Path) -> Vec<Record> {
    let parse = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines(&directory.join("records.jsonl")).iter().map(parse).collect()
}

#[test]
fn a_place_where_nothing_can_be_made_is_named_with_the_reason() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 10");
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).args(["--output", "/proc/x"]);
    Running::start(&mut command)
        .finish(PATIENCE)
        .expect(1)
        .complains_of(&["/proc/x cannot be written", "No such file"]);
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_stopped() {
    let bench = Bench::new(SWEEP);
    let running = bench.start(&[]);
    eventually("two trials are on disk", || {
        bench.run_directories().first().is_some_and(|run| lines(&run.join("records.jsonl")).len() >= 2)
    });
    running.signal(libc::SIGKILL);
    assert_eq!(running.finish(PATIENCE).code, None);

    let run = bench.run_directory();
    let before = records(&run);
    assert!((2..6).contains(&before.len()), "{}", before.len());
    // A crash may also cut off a line.
    let file = run.join("records.jsonl");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, [&whole[..], br#"{"schema": "brokermark.rec"#].concat()).unwrap();

    let resumed = bench.resume(&run).expect(0);
    assert_eq!(resumed.records().len(), 6 - before.len(), "only what was missing ran");
    resumed.complains_of(&["records.jsonl", "cut off"]);
    let after = records(&run);
    assert_eq!(after[..before.len()], before[..], "what was kept is untouched");
    let mut trials: Vec<_> = after.iter().map(|record| (record.point_index, record.trial)).collect();
    trials.sort_unstable();
    assert_eq!(trials, [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
    assert!(after.iter().all(|record| record.status == Status::Completed && record.run_id == after[0].run_id));
    assert!(bench.resume(&run).expect(0).records().is_empty(), "nothing is left to do");
}

#[test]
fn a_run_is_not_resumed_with_another_scenario() {
    let bench = Bench::new(SWEEP);
    bench.run(&["--set", "run.duration=100ms"]).expect(0);
    bench.resume(&bench.run_directory()).expect(2).complains_of(&["another scenario", "first difference in line"]);
}

#[test]
fn an_interrupted_trial_is_kept_and_run_again_on_resume() {
    let bench = Bench::new(&SWEEP.replace("700ms", "60s"));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    running.signal(libc::SIGINT);
    let interrupted = running.finish(PATIENCE).expect(130);
    let record = interrupted.record();
    assert_eq!(record.status, Status::Interrupted);
    assert!(record.counts.balances() && record.counts.acknowledged > 0, "{:?}", record.counts);
    let kept = records(&bench.run_directory());
    assert_eq!(kept, [record], "the rest of the sweep did not run");
}

#[test]
fn interrupted_trial_is_run_again_on_resume() {
    let bench = Bench::new(&SWEEP.replace("700ms", "2s").replace("[1, 2, 3]", "[1]"));
    let mut running = bench.start(&[]);
    running.await_stderr("measuring");
    running.signal(libc::SIGTERM);
    running.finish(PATIENCE).expect(130);
    let run = bench.run_directory();
    assert_eq!(bench.resume(&run).expect(0).records().len(), 2);
    let all = records(&run);
    let trials: Vec<_> = all.iter().map(|record| (record.trial, record.status)).collect();
    assert_eq!(trials, [(1, Status::Interrupted), (1, Status::Completed), (2, Status::Completed)]);
    let current: Vec<_> = current_records(&all).iter().map(|record| (record.trial, record.status)).collect();
    assert_eq!(current, trials[1..]);
}

/// Started together: at least two of four begin in the same second.
#[test]
fn runs_of_the_same_second_have_folders_of_their_own() {
    let bench = Bench::new(&SWEEP.replace("700ms", "50ms"));
    let runs: Vec<Running> = (0..4).map(|_| bench.start(&["--quiet"])).collect();
    let mut listed: Vec<String> = runs.into_iter().map(|run| run.finish(PATIENCE).expect(0).stdout).collect();
    let read = |run: &PathBuf| fs::read_to_string(run.join("records.jsonl")).unwrap();
    let mut kept: Vec<String> = bench.run_directories().iter().map(read).collect();
    listed.sort();
    kept.sort();
    assert_eq!(kept, listed);
}

#[test]
fn nothing_is_ever_overwritten() {
    let bench = Bench::new(&SWEEP.replace("700ms", "50ms"));
    for _ in 0..3 {
        bench.run(&["--set", "sweep.trials=1", "--set", "producers.count=1"]).expect(0);
    }
    let runs = bench.run_directories();
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| records(run).len() == 1));
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_before_any_load() {
    let bench = Bench::new(SWEEP);
    let file = bench.write("occupied", "not a folder");
    let refused = |output: &Path| {
        let mut command = brokermark();
        command.arg("run").arg(bench.scenario()).args(["--quiet", "--json", "--output"]).arg(output);
        Running::start(&mut command).finish(PATIENCE).expect(1)
    };
    let answer = refused(&file);
    answer.complains_of(&[file.to_str().unwrap()]);
    assert_eq!(answer.stdout, "", "no trial ran");
    // A folder cannot be made here, not even by root.
    refused(Path::new("/proc/brokermark")).complains_of(&["/proc/brokermark"]);
}

/// A file system of a few megabytes, for as long as the test needs it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(folder.path()).status().unwrap();
        assert!(
            mounted.success(),
            "this test mounts a small file system: run it as root, or leave it out with `--skip full_disk`"
        );
        SmallDisk(folder)
    }

    fn free(&self) -> u64 {
        let output = Command::new("df").args(["--output=avail", "-B1"]).arg(self.0.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn real_full_disk_loses_nothing_that_was_measured() {
    let disk = SmallDisk::mount();
    let bench = Bench::new(SWEEP);
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).args(["--json", "--output"]).arg(disk.0.path());
    let running = Running::start(&mut command);
    let run = || fs::read_dir(disk.0.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    eventually("one trial is on disk", || run().is_some_and(|run| !lines(&run.join("records.jsonl")).is_empty()));
    // Somebody else takes what is left.
    let filler = disk.0.path().join("filler");
    while disk.free() > 0 {
        let mut filled = fs::read(&filler).unwrap_or_default();
        filled.resize(filled.len() + disk.free() as usize, 1);
        if fs::write(&filler, &filled).is_err() {
            break;
        }
    }
    let ended = running.finish(PATIENCE).expect(1);
    ended.complains_of(&[disk.0.path().to_str().unwrap()]);
    let (kept, printed) = (records(&run().unwrap()), ended.records());
    assert!(!kept.is_empty() && kept.len() < printed.len(), "{} kept of {} printed", kept.len(), printed.len());
    assert_eq!(printed[..kept.len()], kept[..], "what is on disk is whole, and the last record was printed");

    // With room again, the run goes on.
    fs::remove_file(&filler).unwrap();
    let resumed = bench.resume(&run().unwrap()).expect(0);
    assert_eq!(resumed.records().len(), 6 - kept.len());
}

#[test]
fn real_full_disk_in_a_trial_does_not_end_its_load() {
    let disk = SmallDisk::mount();
    let bench = Bench::new(SWEEP);
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).args(["--json", "--set", "run.duration=5s", "--set", "load.rate=1k/s"]);
    command.args(["--set", "output.formats=[\"hlog\"]", "--output"]).arg(disk.0.path());
    let running = Running::start(&mut command);
    let run = || fs::read_dir(disk.0.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    eventually("a second is on disk", || run().is_some_and(|run| !lines(&run.join("series.jsonl")).is_empty()));
    let filler = disk.0.path().join("filler");
    let mut filled = Vec::new();
    while disk.free() > 0 {
        filled.resize(filled.len() + disk.free() as usize, 1);
        if fs::write(&filler, &filled).is_err() {
            break;
        }
    }
    let ended = running.finish(PATIENCE).expect(1);
    let warned = ended.stderr.lines().filter(|line| line.starts_with("warning:") && line.contains("the trial goes on"));
    assert_eq!(warned.count(), 1, "{}", ended.stderr);
    let record = ended.record();
    assert_eq!((record.status, record.counts.acknowledged), (Status::Completed, 5000));
    let seconds = lines(&run().unwrap().join("series.jsonl"));
    assert!(
        seconds.iter().all(|line| serde_json::from_str::<SeriesRow>(line).is_ok()),
        "only whole lines: {seconds:?}"
    );
}
