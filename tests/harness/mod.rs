//! Runs the program as its users do, and reads its results.
//!
//! Tests do not sleep: a test waits for a line, a file or the end of the process. After a deadline the process is killed, and
//! the test fails with its output.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

#[macro_use]
mod fields;

pub mod cluster;
pub mod databases;
#[cfg(feature = "mpi")]
pub mod hosts;
pub mod kafka;
pub mod nats;
pub mod nsq;
mod process;
#[cfg(feature = "pulsar")]
pub mod pulsar;
pub mod rabbitmq;
#[cfg(feature = "mpi")]
pub mod ranks;
pub mod reports;
pub mod scripted_issuer;
#[cfg(feature = "pulsar")]
pub mod scripted_pulsar;
pub mod scripted_rabbitmq;
pub mod scripted_redis;
pub mod scripted_registry;
pub mod server;
pub mod shares;
pub mod socks;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use brokermark::broker::registry::find;
use brokermark::record::{Reason, ReasonKind, Record, Status, Verification};
use tempfile::TempDir;

pub use process::{Finished, Running};

/// Longer than any run of these tests takes on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a scenario and, later, its results.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        Bench { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn scenario(&self) -> PathBuf {
        self.folder.path().join("scenario.toml")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The directory of the runs.
    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    /// The run's directory; there must be one, and only one.
    pub fn run_directory(&self) -> PathBuf {
        let mut runs = self.run_directories();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// The directories of all runs, in the order of their names.
    pub fn run_directories(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.results()) else { return Vec::new() };
        let mut runs: Vec<PathBuf> =
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.join("scenario.toml").exists()).collect();
        runs.sort();
        runs
    }

    /// `brokermark run` on the scenario, with its results kept here and its records on standard output.
    pub fn command(&self) -> Command {
        let mut command = brokermark();
        command.arg("run").arg(self.scenario()).arg("--json").arg("--output").arg(self.results());
        command
    }

    /// Starts the run, with progress on standard error.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command().args(arguments))
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        Running::start(self.command().arg("--quiet").args(arguments)).finish(PATIENCE)
    }

    /// Resumes the run in `directory`.
    pub fn resume(&self, directory: &Path) -> Finished {
        let mut command = brokermark();
        command.arg("run").arg(self.scenario()).arg("--json").arg("--quiet").arg("--resume").arg(directory);
        Running::start(&mut command).finish(PATIENCE)
    }
}

/// The program, without environment variables that change its output. It hears SIGHUP although the tests may run under `nohup`.
pub fn brokermark() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokermark"));
    command.env("COLUMNS", "100").env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
    let hear_hang_up = || {
        // SAFETY: a function of this kind may be called between fork and exec.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(hear_hang_up) };
    command
}

/// Runs `brokermark` with `arguments` to its end.
pub fn execute(arguments: &[&str]) -> Finished {
    Running::start(brokermark().args(arguments)).finish(PATIENCE)
}

/// Runs `scenario` to its end, expects success, and returns its records.
pub fn records_of(scenario: &str) -> Vec<Record> {
    Bench::new(scenario).run(&[]).expect(0).records()
}

/// The same for a scenario of one trial.
pub fn record_of(scenario: &str) -> Record {
    Bench::new(scenario).run(&[]).expect(0).record()
}

/// Waits until `condition` holds: for files, answers of servers and the clock.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that all of `messages` were sent and acknowledged.
pub fn assert_acknowledged(record: &Record, messages: u64) {
    assert_balanced(record);
    let counts = &record.counts;
    let found = (counts.attempted, counts.acknowledged, counts.failed, counts.unresolved);
    assert_eq!(found, (messages, messages, 0, 0), "at {:?}: {:?}", record.point, record.errors);
    let has_warm_up = record.scenario["run"].get("warm_up").is_some();
    assert_eq!(counts.warm_up.attempted > 0, has_warm_up, "{:?}", counts.warm_up);
    let service = record.latency.service.as_ref().unwrap();
    assert_eq!(service.count + service.beyond_range, messages, "every acknowledgement has a latency");
}

/// Asserts that all of `messages` were acknowledged, and received by each of `groups` exactly once, intact and, if the
/// broker keeps order, in order.
pub fn assert_delivered(record: &Record, messages: u64, groups: u64) {
    assert_acknowledged(record, messages);
    let received = messages * groups;
    assert_eq!(record.counts.consumed, Some(received), "at {:?}", record.point);
    let each = messages + record.counts.warm_up.attempted;
    let received = each * groups;
    let kind = record.scenario["broker"]["kind"].as_str().unwrap();
    let unordered = if find(kind).unwrap().capabilities.ordered { 0 } else { received };
    let expected = Verification { received, unordered, ..Default::default() };
    let found = &record.verification.as_ref().unwrap().groups;
    let (broker, wire) = (&record.scenario["broker"], &record.wire);
    assert_eq!(sums(record), expected, "at {:?} of {broker:?}: {found:#?} {wire:#?}", record.point);
    assert_eq!(found.len() as u64, groups);
    assert!(found.iter().all(|group| (group.received, group.consumed) == (each, messages)), "{found:?}");
}

/// What was verified, over all groups together.
pub fn sums(record: &Record) -> Verification {
    Verification { groups: Vec::new(), ..record.verification.clone().unwrap() }
}

/// Asserts that the first of two trials ended in order although the server at `address` died during it, and that the second
/// could not begin; the first one's record.
pub fn assert_survived(ended: &Finished, address: &str) -> Record {
    let Ok([record, second]) = <[Record; 2]>::try_from(ended.records()) else { panic!("{}", ended.stderr) };
    assert_eq!(second.status, Status::Failed, "a trial that cannot begin is recorded as well");
    assert!(second.error.as_ref().is_some_and(|error| error.contains(address)), "{:?}", second.error);
    assert_eq!(record.status, Status::Completed);
    assert_balanced(&record);
    let counts = &record.counts;
    assert!(counts.acknowledged > 0 && counts.failed > 0, "{counts:?}");
    assert!(!record.verdict.valid);
    record
}

/// Asserts that the ledgers add up.
pub fn assert_balanced(record: &Record) {
    assert!(record.counts.balances(), "{:?}", record.counts);
    let by_class: u64 = record.errors.iter().map(|error| error.count).sum();
    assert_eq!(by_class, record.counts.failed, "failures by class: {:?}", record.errors);
    assert!(!reasons(record).contains(&ReasonKind::LedgerMismatch));
}

/// The kinds of the reasons against the record.
pub fn reasons(record: &Record) -> Vec<ReasonKind> {
    record.verdict.reasons.iter().map(|reason| reason.kind).collect()
}

/// The verdict's reason or note of a kind.
pub fn finding(record: &Record, kind: ReasonKind) -> Option<&Reason> {
    record.verdict.reasons.iter().chain(&record.verdict.notes).find(|reason| reason.kind == kind)
}
