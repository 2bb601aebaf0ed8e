//! One scenario that several processes or machines ran at once, as one record.
//!
//! - `merge`: what the shares must have in common, and the record of all of them. `client`, `conditions`, `sections`: its parts.
//! - `verdict`: what speaks against it.
//! - `series`: the seconds and the interval logs, aligned by the wall clock.
//!
//! Counts are added, histograms are added bucket by bucket, so quantiles are those of one histogram of all values; nothing is
//! averaged. A figure that cannot be put together exactly is left out, or is that of the worst share; the record's documentation
//! says which.

mod client;
mod conditions;
mod merge;
mod sections;
mod series;
mod verdict;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use merge::{Merged, merge};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::measure::MessageSets;
use crate::record::{
    DirectoryError, HLOG_FILE, RankClock, Record, SeriesRow, current_records, current_series, read_if_there,
    read_messages, read_records, read_series,
};

/// What one process kept of its share, in a form that a rank sends to rank 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptShare {
    /// Where it was kept: names it in errors.
    #[serde(skip)]
    pub origin: String,
    pub record: Record,
    pub series: Vec<SeriesRow>,
    /// The text of its interval log; empty where it has none.
    pub interval_log: String,
    #[serde(serialize_with = "serialize_shared", deserialize_with = "deserialize_shared")]
    pub messages: Option<Arc<MessageSets>>,
    /// How the clock of the process was compared with that of the first one, where that was done.
    #[serde(skip)]
    pub clock: Option<RankClock>,
}

impl KeptShare {
    /// What is in the run directory of a share.
    ///
    /// # Errors
    /// When the directory cannot be read, or has more than one record.
    pub fn read(path: &Path) -> Result<Self, ShareError> {
        let read = read_records(path)?;
        let current = current_records(&read.records);
        let [record] = current.as_slice() else {
            return Err(ShareError::NotOne { path: path.display().to_string(), records: current.len() });
        };
        Ok(Self::with_record(path, (*record).clone(), read_messages(path)?.map(Arc::new))?)
    }

    /// This record of a share and the numbers of its messages, with what else is in its directory.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn with_record(
        path: &Path,
        record: Record,
        messages: Option<Arc<MessageSets>>,
    ) -> Result<Self, DirectoryError> {
        let series = read_series(path)?;
        Ok(KeptShare {
            origin: path.display().to_string(),
            series: current_series(&series, record.point_index, record.trial),
            interval_log: read_text(&path.join(HLOG_FILE))?,
            messages,
            record,
            clock: None,
        })
    }

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

fn serialize_shared<S: Serializer>(messages: &Option<Arc<MessageSets>>, serializer: S) -> Result<S::Ok, S::Error> {
    messages.as_deref().serialize(serializer)
}

fn deserialize_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<MessageSets>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(Arc::new))
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

/// A directory is not that of a share.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{path} has {records} records: a share has one")]
    NotOne { path: String, records: usize },
}

/// A file of a share's directory: nothing where there is no such file.
///
/// # Errors
/// When there is one and it cannot be read.
pub fn read_text(path: &Path) -> Result<String, DirectoryError> {
    let text = String::from_utf8(read_if_there(path)?.unwrap_or_default());
    let unreadable = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not a text");
    text.map_err(unreadable).map_err(|source| DirectoryError::Io { action: "read", path: path.to_owned(), source })
}
