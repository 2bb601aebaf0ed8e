//! Logs on the wire: protobuf, written straight into a batch's buffer and read without a tree.
//!
//! The service's messages, as its API reference describes them:
//!
//! ```text
//! LogGroup     { 1: repeated Log, 3: topic, 4: source, 6: repeated LogTag }
//! Log          { 1: uint32 time, 2: repeated Content, 4: fixed32 time_ns }
//! Content, LogTag { 1: key, 2: value }
//! LogGroupList { 1: repeated LogGroup }
//! ```
//!
//! - `record`: which fields a payload becomes, and back.
//! - `encode`: logs and what closes a group.
//! - `decode`: what consumers receive.

mod decode;
mod encode;
mod record;

pub use decode::{Malformed, logs, next_group};
pub use encode::{Tag, close_group, write_log};
pub use record::{Record, rebuild};

/// The key of a payload that is not a record of fields.
pub const CONTENT_KEY: &[u8] = b"content";

/// Names the stretch of logs within which order is kept, followed by `-` and the batch's number: what the service's own
/// producers write for its view of a log's surroundings.
pub const PACK_TAG: &[u8] = b"__pack_id__";
