//! Faults: commands that a scenario runs while the load goes on.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use brokermark::record::{Fault, FaultCommand, ReasonKind, Record, Status, read_series};

use crate::harness::{Bench, Finished, PATIENCE, brokermark, execute, finding};

/// A program that waits, until it is dropped.
struct Idle(Child);

impl Idle {
    fn begin() -> Self {
        Idle(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    /// A command that sends a signal, and tells when the program has this state.
    fn signal(&self, signal: &str, state: &str) -> String {
        let id = self.0.id();
        format!("kill -{signal} {id}; until grep -q 'State:.{state}' /proc/{id}/status; do :; done; echo state {state}")
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn scenario(more: &str) -> String {
    format!("broker.kind = \"null\"\nload.rate = \"2k/s\"\n{more}")
}

fn of_commands(record: &Record) -> Vec<&FaultCommand> {
    record.faults.iter().flat_map(Fault::commands).map(|(_, command)| command).collect()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_fault_is_run_and_undone_and_what_followed_it_is_recorded() {
    let idle = Idle::begin();
    let bench = Bench::new(&scenario(&format!(
        r#"
        run.duration = "5s"
        broker.null.stalls = [{{ at = "2s", for = "700ms" }}]
        thresholds.require = ["outage < 5s", "recovery < 4s", "outage < 500ms"]
        thresholds.when_invalid = "ignore"
        [[faults]]
        at = "1s"
        run = {:?}
        for = "3s"
        undo = {:?}
        "#,
        idle.signal("STOP", "T"),
        idle.signal("CONT", "S"),
    )));
    let ended = bench.start(&[]).finish(PATIENCE).expect(3);
    ended.complains_of(&["fault: `kill -STOP", "began at 1.0", "fault: `kill -CONT", "ended after"]);
    let record = ended.record();
    let [run, undo] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert_eq!((run.output.as_str(), undo.output.as_str()), ("state T", "state S"));
    assert_eq!((run.exit_code, undo.exit_code, &run.failure, &undo.failure), (Some(0), Some(0), &None, &None));
    assert!(run.begin_ns >= Some(SECOND) && undo.begin_ns >= Some(4 * SECOND), "{run:?} {undo:?}");
    assert_eq!((run.outages, undo.outages), (1, 0), "{:?}", record.outages);
    assert!(run.first_acknowledgement_ns > run.longest_gap_ns && run.recovered_ns.is_some(), "{run:?}");
    assert_eq!(finding(&record, ReasonKind::FaultFailed), None);
    let held: Vec<bool> = record.thresholds.iter().map(|threshold| threshold.held).collect();
    assert_eq!(held, [true, true, false], "{:?}", record.thresholds);
    let directory = bench.run_directory();
    let rows = read_series(&directory).unwrap();
    let marked: Vec<&String> = rows.iter().flat_map(|row| &row.faults).collect();
    assert_eq!(marked, [&run.command, &undo.command]);
    let shown = execute(&["show", directory.to_str().unwrap()]).expect(0);
    shown.says(&["run  `kill -STOP", "undo `kill -CONT"]);
    execute(&["report", directory.to_str().unwrap()]).expect(0);
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("fault, run: `kill -STOP") && page.contains("fault, undo: `kill -CONT"));
}

/// A run of a minute that gets a signal when a line with `part` has come.
fn interrupted(faults: &str, part: &str, signal: libc::c_int) -> (Bench, Finished) {
    let bench = Bench::new(&scenario(&format!("run.duration = \"60s\"\n{faults}")));
    let mut running = bench.start(&[]);
    running.await_stderr(part);
    running.signal(signal);
    let ended = running.finish(PATIENCE).expect(130);
    (bench, ended)
}

#[test]
fn an_interrupted_run_undoes_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let undone = folder.path().join("undone");
    let faults = format!(
        "[[faults]]\nat = \"100ms\"\nrun = \"true\"\nfor = \"50s\"\nundo = \"echo > {}\"\n[[faults]]\nat = \"55s\"\nrun = \"true\"",
        undone.display()
    );
    let (_bench, ended) = interrupted(&faults, "`true` ended", libc::SIGINT);
    assert!(undone.exists());
    let record = ended.record();
    assert_eq!(record.status, Status::Interrupted);
    let [run, undo, never] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert_eq!((run.exit_code, undo.exit_code), (Some(0), Some(0)));
    assert!(undo.begin_ns < Some(50 * SECOND), "{undo:?}");
    assert_eq!((never.begin_ns, never.failure.as_deref()), (None, Some("was not begun: the load had ended")));
}

#[test]
fn a_command_that_hangs_is_killed_with_its_group_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, undone) = (folder.path().join("begun"), folder.path().join("undone"));
    let faults = format!(
        "[[faults]]\nat = \"100ms\"\nrun = \"sleep 600 & echo $! > {}; wait\"\nfor = \"1s\"\nundo = \"echo > {}\"",
        begun.display(),
        undone.display()
    );
    let (_bench, ended) = interrupted(&faults, "began at", libc::SIGTERM);
    let record = ended.record();
    let [run, undo] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert_eq!((run.exit_code, run.failure.as_deref()), (None, Some("had not ended in time, and was killed")));
    assert!(undo.exit_code == Some(0) && undone.exists(), "{undo:?}");
    if let Ok(id) = std::fs::read_to_string(&begun) {
        let state = std::fs::read_to_string(Path::new("/proc").join(id.trim()).join("status")).unwrap_or_default();
        assert!(state.is_empty() || state.contains("State:\tZ"), "{state}");
    }
}

/// The first command still runs when the second one is due.
#[test]
fn a_fault_that_begins_late_lasts_as_long() {
    let text = "run.duration = \"6s\"\n[[faults]]\nat = \"100ms\"\nrun = \"sleep 2\"\n\
                [[faults]]\nat = \"200ms\"\nrun = \"true\"\nfor = \"1s\"\nundo = \"true\"";
    let record = Bench::new(&scenario(text)).run(&[]).expect(0).record();
    let [_, run, undo] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert!(run.begin_ns >= Some(2 * SECOND), "{run:?}");
    assert!(undo.begin_ns >= run.begin_ns.map(|begin_ns| begin_ns + SECOND), "{run:?} {undo:?}");
}

#[test]
fn a_hanging_undo_ends_with_the_run() {
    let text = "run.duration = \"1s\"\nrun.drain_deadline = \"500ms\"\n[[faults]]\nat = \"100ms\"\nrun = \"true\"\nfor = \"100ms\"\nundo = \"sleep 600\"";
    let record = Bench::new(&scenario(text)).run(&[]).expect(0).record();
    let [_, undo] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert_eq!(undo.failure.as_deref(), Some("had not ended in time, and was killed"));
    assert!(finding(&record, ReasonKind::FaultFailed).unwrap().evidence.contains("`sleep 600` had not ended"));
}

#[test]
fn a_command_that_fails_is_a_reason_and_holds_no_threshold() {
    let text = "run.duration = \"1s\"\nthresholds.require = \"outage < 5s\"\nthresholds.when_invalid = \"ignore\"\n\
                [[faults]]\nat = \"100ms\"\nrun = \"seq 5000; echo no such container >&2; exit 7\"";
    let record = Bench::new(&scenario(text)).run(&[]).expect(3).record();
    let [run] = of_commands(&record)[..] else { panic!("{:?}", record.faults) };
    assert_eq!(run.exit_code, Some(7));
    assert!(run.output.ends_with("no such container") && run.output.len() <= 4096, "{}", run.output);
    assert!(run.output.contains("\n4999\n5000\n") && !run.output.contains("\n100\n"), "{}", run.output);
    let reason = finding(&record, ReasonKind::FaultFailed).unwrap();
    assert!(reason.evidence.ends_with("exit status: 7, and said: no such container."), "{reason:?}");
    assert!(!record.verdict.valid && record.counts.acknowledged > 1000, "what was measured is kept");
    assert!(record.thresholds[0].explanation.contains("a fault failed"), "{:?}", record.thresholds);
}

#[test]
fn only_run_runs_commands_and_a_scenario_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let command = format!("echo > {}", done.display());
    let bench = Bench::new(&scenario(&format!("run.duration = \"5s\"\n[[faults]]\nat = \"1s\"\nrun = {command:?}")));
    let file = bench.scenario();
    let file = file.to_str().unwrap();
    let line = format!("at 1s: `{command}`");
    execute(&["check", file]).expect(0).says(&[&format!("fault      {line}; `check` runs no command")]);
    let printed = execute(&["run", file, "--print-scenario"]).expect(0);
    printed.says(&[&format!("# `brokermark run` runs these commands on this machine:\n#   {line}\n")]);
    let search = ["search", file, "--require", "p99 < 20ms", "--within", "60s"];
    execute(&search).expect(2).complains_of(&["a search has no faults"]);
    let set = "faults=[{ at = \"1s\", run = \"true\" }]";
    execute(&["run", "null://", "--set", set]).expect(2).complains_of(&["the scenario of a URL has no faults"]);
    let ceiling = brokermark().args(["ceiling", file, "--measure", "2s"]).current_dir(bench.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ceiling.stderr);
    assert!(ceiling.status.success() && said.contains("do not apply: `faults`"), "{said}");
    assert!(!done.exists());
}
