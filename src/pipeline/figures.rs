//! What a pipeline measures. Each instance and its writers fill one [`Figures`], which is locked once for each batch.

use std::collections::VecDeque;

use super::batch::{Batch, Messages, Unparsable};
use crate::measure::{Distribution, ErrorTally, Errors};

/// How many of the latest messages the published benchmark computes its figures from.
const WINDOW: usize = 1000;

/// The figures of one instance, or of all.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Messages received.
    pub consumed: u64,
    /// Those of them that this trial has not sent, but for the abandoned ones.
    pub foreign: u64,
    /// When the first and the last message arrived, in nanoseconds since the trial's epoch; 0: none did.
    pub first_received_ns: u64,
    pub last_received_ns: u64,
    /// Received − intended, of measured messages whose intended time is known.
    pub receipt: Distribution,
    /// Unparsable messages by class, in the order of [`Unparsable::ALL`].
    pub unparsable: [ErrorTally; Unparsable::ALL.len()],
    pub batches: u64,
    /// Waiting for messages and taking them.
    pub fetch: Stage,
    pub parse: Stage,
    /// Waiting for a writer.
    pub blocked: Stage,
    /// Between closed and taken by a writer.
    pub wait: Stage,
    pub commit: Stage,
    pub commit_errors: Errors,
    /// Rows whose partitions were revoked before they were written.
    pub abandoned: u64,
    pub sinks: Vec<SinkFigures>,
    pub latest: Latest,
}

/// The time spent in one stage.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    pub total_ns: u64,
    pub per_batch: Distribution,
}

/// The figures of one sink.
#[derive(Debug, Clone, Default)]
pub struct SinkFigures {
    pub written: u64,
    /// Rows that the database had already.
    pub duplicates: u64,
    /// Rows that it refused for good.
    pub refused: Errors,
    /// Errors of batches; each batch was tried again.
    pub errors: Errors,
    pub retries: u64,
    /// Rows with an outcome whose partitions were revoked before it could be committed: the group reads them again, so that each
    /// has a second outcome.
    pub repeated: u64,
    /// Time from the first attempt to the acknowledgement, or until the batch was given up.
    pub time: Stage,
    /// Acknowledged − intended, of measured rows whose intended time is known.
    pub latency: Distribution,
    /// Batches that had such rows: those of a batch are acknowledged together.
    pub moments: u64,
    pub last_written_ns: u64,
    /// When the last attempt ended, however it did.
    pub last_tried_ns: u64,
}

/// The published benchmark's window: the latest messages' latencies, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    latencies: VecDeque<u64>,
}

impl Latest {
    pub fn record(&mut self, latency_ns: u64) {
        if self.latencies.len() == WINDOW {
            self.latencies.pop_front();
        }
        self.latencies.push_back(latency_ns);
    }

    /// Their mean and 99th percentile, as numpy computes it (linear between neighbours).
    pub fn mean_and_p99(&self) -> Option<(f64, f64)> {
        let mut sorted: Vec<u64> = self.latencies.iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let mean = sorted.iter().map(|latency| *latency as f64).sum::<f64>() / sorted.len() as f64;
        let rank = last as f64 * 0.99;
        let (below, above) = (sorted[rank as usize] as f64, sorted[(rank as usize + 1).min(last)] as f64);
        Some((mean, below + (above - below) * rank.fract()))
    }
}

impl Stage {
    pub fn record(&mut self, ns: u64) {
        self.total_ns += ns;
        self.per_batch.record(ns);
    }

    fn merge(&mut self, other: &Stage) {
        self.total_ns += other.total_ns;
        self.per_batch.merge(&other.per_batch);
    }
}

impl Figures {
    pub fn for_sinks(sinks: usize) -> Self {
        Figures { sinks: vec![SinkFigures::default(); sinks], ..Figures::default() }
    }

    /// Records a closed batch of `messages`, which were received from `first_ns` to `last_ns`.
    pub fn record_batch(&mut self, messages: Messages, first_ns: u64, last_ns: u64, batch: &Batch) {
        self.consumed += messages.all;
        self.foreign += messages.foreign;
        self.batches += 1;
        if self.first_received_ns == 0 {
            self.first_received_ns = first_ns;
        }
        self.last_received_ns = self.last_received_ns.max(last_ns);
        self.fetch.record(batch.fetch_ns);
        for row in batch.rows.iter().filter(|row| row.measured) {
            if let Some(latency_ns) = row.latency_ns(row.received_ns) {
                self.receipt.record(latency_ns);
                self.latest.record(latency_ns);
            }
        }
    }

    /// The group reads these messages again.
    pub fn abandon(&mut self, messages: Messages) {
        self.abandoned += messages.all;
        self.foreign -= messages.foreign;
    }

    pub fn count_unparsable(&mut self, class: Unparsable, at_ns: u64, message: impl FnOnce() -> String) {
        let tally = &mut self.unparsable[class as usize];
        tally.count += 1;
        if tally.first.is_none() {
            tally.first = Some((at_ns, message()));
        }
    }

    /// Adds all of `other`, but for the latest, which are of one instance.
    pub fn merge(&mut self, other: &Figures) {
        self.consumed += other.consumed;
        self.foreign += other.foreign;
        self.first_received_ns = match (self.first_received_ns, other.first_received_ns) {
            (0, one) | (one, 0) => one,
            (one, another) => one.min(another),
        };
        self.last_received_ns = self.last_received_ns.max(other.last_received_ns);
        self.receipt.merge(&other.receipt);
        for (mine, theirs) in self.unparsable.iter_mut().zip(&other.unparsable) {
            mine.count += theirs.count;
            if mine.first.is_none() {
                mine.first.clone_from(&theirs.first);
            }
        }
        self.batches += other.batches;
        self.fetch.merge(&other.fetch);
        self.parse.merge(&other.parse);
        self.blocked.merge(&other.blocked);
        self.wait.merge(&other.wait);
        self.commit.merge(&other.commit);
        self.commit_errors.merge(&other.commit_errors);
        self.abandoned += other.abandoned;
        for (mine, theirs) in self.sinks.iter_mut().zip(&other.sinks) {
            mine.merge(theirs);
        }
    }

    pub fn unparsable_messages(&self) -> u64 {
        self.unparsable.iter().map(|tally| tally.count).sum()
    }
}

impl SinkFigures {
    fn merge(&mut self, other: &SinkFigures) {
        self.written += other.written;
        self.duplicates += other.duplicates;
        self.refused.merge(&other.refused);
        self.errors.merge(&other.errors);
        self.retries += other.retries;
        self.time.merge(&other.time);
        self.latency.merge(&other.latency);
        self.moments += other.moments;
        self.repeated += other.repeated;
        self.last_written_ns = self.last_written_ns.max(other.last_written_ns);
        self.last_tried_ns = self.last_tried_ns.max(other.last_tried_ns);
    }

    pub fn refused(&self) -> u64 {
        self.refused.iter().map(|(_, tally)| tally.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_window_is_the_last_thousand_messages() {
        let mut latest = Latest::default();
        assert_eq!(latest.mean_and_p99(), None);
        for latency in 0..5_000 {
            latest.record(latency);
        }
        // numpy.percentile(range(4000, 5000), 99) is 4989.01
        let (mean, p99) = latest.mean_and_p99().unwrap();
        assert_eq!((mean, (p99 * 100.0).round()), (4499.5, 498_901.0));
    }
}
