//! One scenario that several processes or machines ran at once, as one record.
//!
//! - `merge`: what the shares must have in common, and the record of all of them. `client`, `latencies`, `sections`: its parts.
//! - `verdict`: what speaks against it. `together`: what only all shares together show.
//! - `series`: the seconds and the interval logs, aligned by the wall clock.
//!
//! Counts are added, histograms are added bucket by bucket, so quantiles are those of one histogram of all values; nothing is
//! averaged. A figure that cannot be put together exactly is left out, or is that of the worst share; the record's documentation
//! says which.

mod client;
mod latencies;
mod merge;
mod sections;
mod series;
mod together;
mod verdict;

use std::sync::Arc;

pub use merge::{Merged, merge};

use crate::measure::MessageSets;
use crate::record::{RankClock, Record, SeriesRow};

/// What one process kept of its share.
#[derive(Debug, Clone)]
pub struct KeptShare {
    /// Where it was kept: names it in errors.
    pub origin: String,
    pub record: Record,
    pub series: Vec<SeriesRow>,
    /// The text of its interval log; empty where it has none.
    pub interval_log: String,
    pub messages: Option<Arc<MessageSets>>,
    /// How the clock of the process was compared with that of the first one, where that was done.
    pub clock: Option<RankClock>,
}

impl KeptShare {
    /// As rank 0 knows its clock after the trial: its own record has what was known before.
    #[cfg(feature = "mpi")]
    pub fn with_clock(mut self, clock: Option<RankClock>) -> Self {
        self.clock = clock;
        if let Some(share) = &mut self.record.share {
            share.clock_error_ns = clock.map(|clock| clock.error_ns);
        }
        self
    }

    /// Which share it is, from 1.
    fn number(&self) -> usize {
        self.record.share.as_ref().map_or(0, |share| share.number)
    }
}

/// The sum of counts; those of a damaged record may not fit.
fn saturating_sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Shares cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{origin} is not the record of a share: only what `brokermark run --share` kept can be merged")]
    NotAShare { origin: String },
    #[error("{one} and {other} are both share {number}: give each share once")]
    Twice { number: usize, one: String, other: String },
    #[error("{one} and {other} differ in {what}: {left} and {right}. Only shares of one run can be merged")]
    Differ { one: String, other: String, what: String, left: String, right: String },
    #[error("the scenario in {origin} cannot be read: {reason}")]
    Scenario { origin: String, reason: String },
    #[error("{origin}: {reason}")]
    Damaged { origin: String, reason: String },
}
