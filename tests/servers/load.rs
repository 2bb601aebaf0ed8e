//! A load at a fixed rate that goes on until it is ended, and what came of it.

use std::time::Duration;

use brokermark::record::{Record, SeriesRow, Status};

use crate::harness::{Bench, Running, assert_balanced, eventually, sums};

/// Messages per second.
const RATE: u64 = 1_000;

/// How long the drain, the wait for consumers and closing may take together on a busy machine.
const ENDING: Duration = Duration::from_secs(400);

pub struct Load {
    bench: Bench,
    running: Running,
}

impl Load {
    /// Returns when the load is carried. The record will have this name.
    pub fn begin(name: &str, broker: &str, in_flight: usize) -> Self {
        let bench = Bench::new(&format!(
            "name = {name:?}
            {broker}
            [producers]
            batch = 10
            in_flight = {in_flight}
            [load]
            rate = \"{RATE}/s\"
            [payload]
            kind = \"random\"
            size = \"200B\"
            [consumers]
            verify = true
            [run]
            duration = \"300s\"
            drain_deadline = \"120s\"
            catch_up_deadline = \"120s\"
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
            since.iter().skip(1).filter(|row| row.acknowledged >= RATE * 97 / 100).count() >= 2
        });
    }

    fn rows(&self) -> Vec<SeriesRow> {
        let Some(directory) = self.bench.run_directories().pop() else { return Vec::new() };
        let text = std::fs::read_to_string(directory.join("series.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Ends the load once it is carried again: nothing that consumers have passed is lost or damaged.
    pub fn end(self) -> Record {
        self.await_rate();
        self.running.signal(libc::SIGINT);
        let record = self.running.finish(ENDING).expect(130).record();
        assert_eq!(record.status, Status::Interrupted);
        assert_balanced(&record);
        let found = sums(&record);
        assert_eq!((found.lost, found.corrupt), (0, 0), "{found:?}");
        record
    }
}
