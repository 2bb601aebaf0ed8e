//! Why payloads could not be made.

use std::io;
use std::path::PathBuf;

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
}
