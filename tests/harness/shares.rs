//! Several processes that run one scenario together.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use brokermark::record::{Record, read_records};

use super::{Bench, Finished, PATIENCE, Running, brokermark};

/// So many seconds from now, as `--start-at` takes it.
fn in_seconds(seconds: u64) -> String {
    let at = SystemTime::now() + Duration::from_secs(seconds);
    format!("{:.3}", at.duration_since(UNIX_EPOCH).unwrap().as_secs_f64())
}

/// Runs all `count` shares at once, each into a directory of its own; the directories.
pub fn run_shares(bench: &Bench, count: usize, seconds: u64) -> Vec<PathBuf> {
    let start_at = in_seconds(seconds);
    let shares: Vec<(PathBuf, Running)> = (1..=count)
        .map(|number| {
            let results = bench.path().join(format!("share-{number}"));
            let mut command = brokermark();
            command.arg("run").arg(bench.scenario()).arg("--output").arg(&results).arg("--quiet");
            command.args(["--share", &format!("{number}/{count}"), "--start-at", &start_at]);
            (results, Running::start(&mut command))
        })
        .collect();
    shares
        .into_iter()
        .map(|(results, share)| {
            share.finish(PATIENCE).expect(0);
            let mut runs: Vec<PathBuf> =
                std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(runs.len(), 1);
            runs.remove(0)
        })
        .collect()
}

/// Runs one message of each of four producers, in as many shares, on a topic of four partitions of the broker of these keys: they are
/// written where four producers of one process would begin.
pub fn assert_partitions_are_begun_as_by_one_process(keys: &str) {
    let load = "topology.partitions = 4\nproducers.count = 4\nrun = { messages = 4, warm_up = \"0s\" }";
    let bench = Bench::new(&format!("{keys}\n{load}"));
    let shares = run_shares(&bench, 4, 4);
    for (number, share) in shares.iter().enumerate() {
        let listed = record_at(share).partitions.unwrap().listed;
        let written: Vec<(Option<u32>, u64)> =
            listed.iter().filter(|one| one.acknowledged > 0).map(|one| (one.partition, one.acknowledged)).collect();
        assert_eq!(written, [(Some(number as u32), 1)], "share {}", number + 1);
    }
}

/// Merges them, and prints the record.
pub fn merge(bench: &Bench, shares: &[PathBuf], name: &str) -> Finished {
    let mut command = brokermark();
    command.arg("merge").args(shares).arg("--output").arg(bench.path().join(name)).arg("--json");
    Running::start(&mut command).finish(PATIENCE)
}

/// The record of a run directory.
pub fn record_at(path: &Path) -> Record {
    read_records(path).unwrap().records.remove(0)
}
