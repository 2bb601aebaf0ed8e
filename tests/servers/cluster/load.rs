//! A load at a fixed rate that goes on until it is ended, and what came of it.

use std::fs::OpenOptions;
use std::io::Write;

use brokermark::record::{Record, SeriesRow, Status};

use crate::harness::{Bench, PATIENCE, Running, assert_balanced, eventually, sums};

/// Messages per second.
pub const RATE: u64 = 1_000;

pub struct Load {
    bench: Bench,
    running: Running,
}

impl Load {
    /// Returns when messages are acknowledged. The record will have this name.
    pub fn begin(name: &str, broker: &str) -> Self {
        let bench = Bench::new(&format!(
            "name = {name:?}
            {broker}
            [producers]
            batch = 10
            in_flight = 100_000
            [load]
            rate = \"{RATE}/s\"
            [payload]
            kind = \"random\"
            size = \"200B\"
            [consumers]
            verify = true
            [run]
            duration = \"300s\"
            drain_deadline = \"60s\"
            catch_up_deadline = \"60s\"
            "
        ));
        let running = bench.start(&[]);
        let load = Load { bench, running };
        load.await_rate();
        load
    }

    /// Waits until the load is carried for two seconds from now on.
    fn await_rate(&self) {
        let before = self.rows().len();
        eventually("the load is carried", || {
            let since: Vec<SeriesRow> = self.rows().split_off(before);
            // The row that was open when the wait began may hold what was due before.
            since.iter().skip(1).filter(|row| row.acknowledged >= RATE * 9 / 10).count() >= 2
        });
    }

    fn rows(&self) -> Vec<SeriesRow> {
        let Some(directory) = self.bench.run_directories().pop() else { return Vec::new() };
        let text = std::fs::read_to_string(directory.join("series.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Ends the load once it is carried again: nothing that was acknowledged is lost, twice or damaged.
    pub fn end(self) -> Record {
        self.await_rate();
        self.running.signal(libc::SIGINT);
        let record = self.running.finish(PATIENCE).expect(130).record();
        assert_eq!(record.status, Status::Interrupted);
        assert_balanced(&record);
        let found = sums(&record);
        assert_eq!((found.lost, found.duplicated, found.corrupt), (0, 0, 0), "{found:?}");
        assert_eq!(found.unread, 0, "{found:?}");
        keep(&record);
        record
    }
}

/// Adds the record to a file, if one is wanted: `scripts/fault-table` makes a table of it.
fn keep(record: &Record) {
    let Ok(path) = std::env::var("BROKERMARK_FAULT_RECORDS") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(record.to_line().as_bytes()).unwrap();
}
