//! The load: payloads, keys and intended times, as pure functions of a seed and a clock.
//!
//! Everything that costs time is done before the load starts ([`PayloadPool::build`]); what runs per message neither
//! allocates nor formats. A scenario with the same seeds gives the same payloads, keys and times.
//!
//! - [`PayloadPool`] holds ready-made payloads, made by the generators of `payload`; [`LiveFields`] are the
//!   parts of a template that only the moment of sending can fill in.
//! - [`KeySource`] draws the keys of one producer, and [`TombstoneSource`] its messages without a payload.
//! - [`WorkTimes`] draws how long a consumer pretends to work on each message.
//! - [`SendSchedule`] computes when one producer's messages are due, from the closed form of a
//!   [`Schedule`](crate::scenario::Schedule).

mod messages;
mod payload;
mod random;
mod schedule;
mod segments;
mod work;

use std::io;
use std::path::PathBuf;

pub use messages::{KeySource, LiveFields, PayloadPlace, PayloadPool, TombstoneSource};
pub use schedule::{SendSchedule, due_by};
pub use segments::{ScheduleSegment, SegmentKind};
pub use work::WorkTimes;

/// Why a load could not be prepared, and what to change.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("payload file '{}' cannot be read: {reason}; check `payload.file`", file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        reason: io::Error,
    },
    #[error("payload file '{}' has no line that is not empty; put one payload on each line", file.display())]
    NoLines { file: PathBuf },
    #[error(
        "the payload pool would take {bytes} bytes, more than the {limit} it may: lower `payload.pool` or the payload size"
    )]
    PoolTooLarge { bytes: u128, limit: usize },
    #[error("payload sizes cannot be drawn: {reason}; correct `payload.size`")]
    Size { reason: String },
    #[error("payloads cannot be made by the schema: {reason}; `brokermark check` reads schema and records again")]
    Schema { reason: String },
}

impl From<String> for LoadError {
    fn from(reason: String) -> Self {
        LoadError::Schema { reason }
    }
}
